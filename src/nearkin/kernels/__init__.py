"""Compiled loops: arrays in, arrays out. Importing this package loads numba."""
