"""The machine layer: compilation, vector code, memory layouts, BLAS and LAPACK, threads. It knows no algorithm."""

#: Numbers compared at once, at most the bits of a word.
LANES = 32
