"""Principal directions of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.kernels import one_blas_thread
from nearkin.rows import Rows

__all__ = ["principal_directions"]

#: Numbers of the sample from which principal directions are found.
_PCA_NUMBERS = 1 << 23


def principal_directions(
    rows: Rows, r: int, rng: np.random.Generator, columns: NDArray[np.integer] | None = None
) -> Array:
    """The r leading principal directions of the rows (of a sample, if they are many), or of some of their columns.

    Orthonormal; if the rows span fewer, unit vectors made orthogonal to them fill up.
    """
    d = rows.n_features if columns is None else len(columns)
    most = max(4 * r, _PCA_NUMBERS // d)
    which = np.arange(len(rows)) if len(rows) <= most else np.sort(rng.permutation(len(rows))[:most])
    sample = rows.take(which)
    sample = (sample if columns is None else sample[:, columns]).astype(np.float64)
    sample -= sample.mean(axis=0)
    if d <= 1024:
        with one_blas_thread():  # more are many times slower where other processes want the cores too
            values, vectors = np.linalg.eigh(sample.T @ sample)
        values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]
        spread = np.sqrt(np.maximum(values, 0))
    else:
        from sklearn.utils.extmath import randomized_svd

        k = min(r, min(sample.shape))
        _, spread, found = randomized_svd(sample, k, random_state=int(rng.integers(2**31 - 1)))
        vectors = found.T
    alive = spread > 1e-10 * max(spread[0], 1e-300)
    if np.count_nonzero(alive) < r:
        filled, _ = np.linalg.qr(np.concatenate([vectors[:, alive], np.eye(d, r)], axis=1))
        filled[:, : np.count_nonzero(alive)] = vectors[:, alive]
        vectors = filled[:, :r]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(r)])
    return (vectors * np.where(signs == 0, 1, signs)).T
