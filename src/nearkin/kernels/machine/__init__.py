"""The machine layer: compilation, vector code, memory layouts, BLAS and LAPACK, threads. It knows no algorithm."""
