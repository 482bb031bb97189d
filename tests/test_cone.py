"""The projection of ODML: one eigenpair is enough, and gives what a full decomposition gives."""

import numpy as np
import pytest
from numba import njit

import nearkin
from nearkin.kernels.lapack import exceeds, smallest_eigenpair, workspace
from reference import full


@njit
def _smallest(M):
    work = workspace(M.shape[0])
    value, found = smallest_eigenpair(M, work)
    return value, found, work[1]


@njit
def _exceeds(M, level):
    return exceeds(M, level, workspace(M.shape[0]))


def test_a_matrix_exceeds_what_lies_below_its_smallest_eigenvalue(rng):
    for d in (1, 2, 9, 40):
        M = rng.normal(size=(d, d))
        M = M + M.T
        smallest = np.linalg.eigvalsh(M)[0]
        before = M.copy()
        assert _exceeds(M, smallest - 1e-6)
        assert not _exceeds(M, smallest + 1e-6)
        np.testing.assert_array_equal(M, before)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 65])
def test_the_smallest_eigenpair_is_that_of_the_full_decomposition(d, rng):
    for _ in range(5):
        M = rng.normal(size=(d, d))
        M = M + M.T
        value, found, vector = _smallest(M)
        assert found
        np.testing.assert_allclose(value, np.linalg.eigvalsh(M)[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(M @ vector, value * vector, rtol=0, atol=1e-11)
        np.testing.assert_allclose(np.linalg.norm(vector), 1.0, rtol=1e-12)


def test_the_matrix_is_left_as_it_was(rng):
    M = rng.normal(size=(6, 6))
    M = M + M.T
    before = M.copy()
    _smallest(M)
    np.testing.assert_array_equal(M, before)


def test_equal_eigenvalues_are_no_obstacle():
    value, found, vector = _smallest(2.0 * np.eye(7))
    assert found
    assert value == 2.0
    np.testing.assert_allclose(np.linalg.norm(vector), 1.0)


@pytest.mark.parametrize(("d", "n", "C"), [(8, 2000, 2.0), (34, 400, 1.0), (60, 150, 0.5)])
def test_projected_steps_agree_with_a_decomposition_each_where_most_steps_leave_the_cone(d, n, C, rng):
    A, P, N = (rng.normal(size=(n, d)) / np.sqrt(d) for _ in range(3))
    free = full.odml(zip(A, P, N, strict=True), C, 0.0, psd="none").parameter
    assert np.linalg.eigvalsh(free)[0] < -0.1  # without a projection it does leave
    expected = full.odml(zip(A, P, N, strict=True), C, 0.0, psd="project")
    model = nearkin.ODML(C=C, psd="project", scale=None).fit_triplets(A, P, N)
    np.testing.assert_allclose(model.metric_, expected.parameter, rtol=0, atol=1e-8)
    assert np.linalg.eigvalsh(model.metric_)[0] > -1e-12


def test_single_precision_projection_stays_close_to_double_precision(rng):
    triplets = [rng.normal(size=(100, 20)) / np.sqrt(20) for _ in range(3)]
    wide = nearkin.ODML(C=0.5, scale=None).fit_triplets(*triplets).metric_
    narrow = nearkin.ODML(C=0.5, scale=None).fit_triplets(*(one.astype(np.float32) for one in triplets)).metric_
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=1e-4)
    assert np.linalg.eigvalsh(narrow.astype(np.float64))[0] > -1e-5
