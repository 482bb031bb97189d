"""The projection of ODML: a tracked inverse finds what a full decomposition per step finds."""

import numpy as np
import pytest
from numba import njit

import nearkin
from nearkin.kernels.machine.linalg import (
    add_outer_products,
    eigen_small,
    invert_positive_definite,
    multiply,
    smallest_of_tridiagonal,
)
from reference import full


def _symmetric(rng, d):
    M = rng.normal(size=(d, d))
    return M + M.T


def _below(M):
    """M with rubbish above the diagonal, which nobody may read."""
    return np.where(np.tri(len(M), dtype=bool), M, np.nan)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 33])
def test_symmetric_loops_read_and_write_one_triangle(d, rng):
    M, x, columns, factors = _symmetric(rng, d), rng.normal(size=d), rng.normal(size=(7, d)), rng.normal(size=7)
    y = np.empty(d)
    njit(lambda M, x, y: multiply(M, x, y))(_below(M), x, y)
    np.testing.assert_allclose(y, M @ x, atol=1e-13)
    for n in range(8):
        W = _below(M)
        njit(lambda W, c, f, n: add_outer_products(W, c, f, n))(W, columns, factors, n)
        expected = M + (columns[:n].T * factors[:n]) @ columns[:n]
        np.testing.assert_allclose(W, _below(expected), atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 9, 40])
def test_the_inverse_of_a_positive_definite_matrix(d, rng):
    invert = njit(lambda A: invert_positive_definite(A))
    root = rng.normal(size=(d, d))
    A = root @ root.T + np.eye(d)
    W = _below(A)
    assert invert(W)
    np.testing.assert_allclose(W, _below(np.linalg.inv(A)), atol=1e-11)
    assert not invert(A - (np.linalg.eigvalsh(A)[0] + 1e-6) * np.eye(d))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 12])
def test_small_eigenproblems_by_rotations(n, rng):
    decompose = njit(lambda B, n, Y: eigen_small(B, n, Y))
    for scale in (np.ones(n), 10.0 ** -np.arange(n)):
        B = _symmetric(rng, n) * np.outer(scale, scale)
        D, Y = np.pad(B, (0, 2)), np.empty((n + 2, n + 2))
        decompose(D, n, Y)
        Y = Y[:n, :n]
        np.testing.assert_allclose((Y * np.diag(D)[:n]) @ Y.T, B, atol=1e-13)
        np.testing.assert_allclose(Y.T @ Y, np.eye(n), atol=1e-13)
    decompose(np.zeros((3, 3)), 3, np.empty((3, 3)))  # ends


def test_the_smallest_eigenvalue_of_a_growing_tridiagonal_matrix(rng):
    find = njit(lambda a, b, m, above, fall: smallest_of_tridiagonal(a, b, m, above, fall))
    for trial in range(50):
        a, b = rng.normal(size=12), np.abs(rng.normal(size=12)) * 10.0 ** rng.integers(-6, 2)
        value, fall = 0.0, 1.0
        for m in range(1, 13):
            T = np.diag(a[:m]) + np.diag(b[: m - 1], 1) + np.diag(b[: m - 1], -1)
            value = find(a, b, m, value, fall)
            values, vectors = np.linalg.eigh(T)
            np.testing.assert_allclose(
                value, values[0], rtol=0, atol=1e-12 * np.abs(values).max(), err_msg=f"{trial} {m}"
            )
            if abs(vectors[-1, 0]) < 1e-6:
                break  # what comes after no longer matters to the eigenpair, and Lanczos' method would stop soon
            fall = 1.0 / vectors[-1, 0] ** 2


def _dense(rng, n, d):
    return rng.normal(size=(n, d)) / np.sqrt(d)


def _short(rng, n, d):
    return 0.4 * _dense(rng, n, d)


def _sparse(rng, n, d):
    return 3.0 * _dense(rng, n, d) * (rng.random((n, d)) < 0.15)


def _one_hot(rng, n, d):
    X = np.zeros((n, d))
    for first in range(0, d - 3, 4):
        X[np.arange(n), first + rng.integers(0, 4, n)] = 2.0 / np.sqrt(d)
    return X


def _few_directions(rng, n, d):
    return rng.normal(size=(n, 3)) @ np.random.default_rng(5).normal(size=(3, d)) / np.sqrt(3 * d)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "d", "n", "C"),
    [
        (_dense, 2, 1000, 2.0),
        (_dense, 8, 3000, 2.0),
        (_dense, 34, 2000, 1.0),
        (_dense, 34, 500, 1e4),
        (_dense, 100, 300, 1.0),
        (_short, 200, 150, 100.0),
        (_sparse, 30, 1500, 1.0),
        (_one_hot, 40, 1000, 1.0),
        (_few_directions, 20, 1000, 1.0),
    ],
)
def test_projected_steps_agree_with_a_decomposition_each_where_most_steps_leave_the_cone(rows, d, n, C, rng):
    A, P, N = (rows(rng, n, d) for _ in range(3))
    expected = full.odml(zip(A, P, N, strict=True), C, 0.0, psd="project")
    model = nearkin.ODML(C=C, psd="project", scale=None).fit_triplets(A, P, N)
    size = max(1.0, np.abs(expected.parameter).max())
    np.testing.assert_allclose(model.metric_, expected.parameter, rtol=0, atol=1e-9 * size)
    assert np.linalg.eigvalsh(model.metric_)[0] > -1e-11 * size
    free = full.odml(zip(A, P, N, strict=True), C, 0.0, psd="none").parameter
    assert np.linalg.eigvalsh(free)[0] < -0.05  # without a projection it does leave


@pytest.mark.slow
def test_triplets_that_live_in_many_separate_places_make_many_null_directions(rng):
    """More than are expected at a time: slower, but the same."""
    n, d, width = 1200, 210, 3
    place = rng.integers(0, d // width, n)
    A, P, N = np.zeros((3, n, d))
    for k in range(width):
        for rows in (A, P, N):
            rows[np.arange(n), width * place + k] = rng.normal(size=n)
    expected = full.odml(zip(A, P, N, strict=True), 5.0, 0.0, psd="project").parameter
    assert (np.linalg.eigvalsh(expected) < 1e-6).sum() > 32
    model = nearkin.ODML(C=5.0, psd="project", scale=None).fit_triplets(A, P, N)
    np.testing.assert_allclose(model.metric_, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stream_fed_in_pieces_learns_the_same_to_the_bit(dtype, rng):
    A, P, N = (_dense(rng, 600, 25).astype(dtype) for _ in range(3))
    whole = nearkin.ODML(C=1.0, scale=None).fit_triplets(A, P, N)
    parts = nearkin.ODML(C=1.0, scale=None)
    for first in range(0, 600, 50):
        at = slice(first, first + 50)
        parts.partial_fit_triplets(A[at], P[at], N[at])
    np.testing.assert_array_equal(parts.metric_, whole.metric_)


def test_single_precision_projection_stays_close_to_double_precision(rng):
    triplets = [rng.normal(size=(100, 20)) / np.sqrt(20) for _ in range(3)]
    wide = nearkin.ODML(C=0.5, scale=None).fit_triplets(*triplets).metric_
    narrow = nearkin.ODML(C=0.5, scale=None).fit_triplets(*(one.astype(np.float32) for one in triplets)).metric_
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=1e-4)
    assert np.linalg.eigvalsh(narrow.astype(np.float64))[0] > -1e-5


def test_a_long_pass_is_taken_in_steps_that_can_be_interrupted(rng, monkeypatch):
    from nearkin.parameters import full

    A, P, N = (_dense(rng, 200, 12) for _ in range(3))
    whole = nearkin.ODML(C=1.0, scale=None).fit_triplets(A, P, N)
    monkeypatch.setattr(full, "steps_at_once", lambda n_features: 7)
    pieces = nearkin.ODML(C=1.0, scale=None).fit_triplets(A, P, N)
    np.testing.assert_array_equal(pieces.metric_, whole.metric_)
    np.testing.assert_array_equal(pieces.plausibility_, whole.plausibility_)
