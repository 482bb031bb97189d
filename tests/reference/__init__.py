"""Literal twins: the paper's algorithms as slow, plain NumPy, to be read beside the paper.

Every compiled kernel of the library is compared with a function of this package. Nothing here is fast or
clever: the d x d matrix A of a triplet is formed, inverses are dense, projections are full
eigendecompositions, roots are found by bisection. "Eq." and "Alg." count in the paper (arXiv 2010.03268);
"sec." and "A1" to "A33" count in the algorithm sheet, whose notation is used throughout:

    u = x - x_plus,  v = x - x_minus,  w = x_plus - x_minus
    distance  A = v v' - u u',   similarity  A = x w',   z = <A, M>,   loss l = max(0, 1 - z)

=============  ===========================================================================
`common`       the result of a run, the matrix A of a triplet, bisection
`losses`       hinge, rescaled hinge, half-quadratic weight, plausibility
`full`         Algorithms 1 and 2: (Robust-)OASIS and (Robust-)ODML
`lowrank`      Algorithms 3 and 4: (Robust-)LOSL and (Robust-)LODML
`triplets`     OCTG, one-pass and batch triplets, weighted centre update
`knn`          Algorithm 5: Robust-kNN
`oracles`      numerical minimisers and objectives that know no closed form (needs SciPy)
=============  ===========================================================================
"""
