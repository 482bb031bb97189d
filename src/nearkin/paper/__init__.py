"""Comparisons as data and functions: each returns a result object, and the command line formats it."""
