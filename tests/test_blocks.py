"""Block-delayed sweeps give what one triplet at a time gives."""

import threading
import time

import numpy as np
import pytest
from numba import njit
from threadpoolctl import threadpool_info

import nearkin
from nearkin.kernels import blas, blocks
from nearkin.kernels.announce import announcing_compilation
from nearkin.kernels.threads import one_blas_thread
from reference import full

LEARNERS = {
    "similarity": (nearkin.RobustOASIS, {}, full.oasis, {}),
    "distance": (nearkin.RobustODML, {"psd": "none"}, full.odml, {"psd": "none"}),
}


def _triplets(rng, n, d):
    return [rng.normal(size=(n, d)) / np.sqrt(d) for _ in range(3)]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("d", "n", "eta", "C"), [(48, 3000, 1.0, 0.1), (48, 700, 0.0, 0.05), (272, 150, 1.0, 0.1)])
def test_blocks_agree_with_the_literal_run(name, d, n, eta, C, rng):
    cls, options, literal, reading = LEARNERS[name]
    A, P, N = _triplets(rng, n, d)
    expected = literal(zip(A, P, N, strict=True), C, eta, **reading)
    model = cls(C=C, eta=eta, scale=None, **options).fit_triplets(A, P, N)
    np.testing.assert_allclose(model.metric_, expected.parameter, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.plausibility_, expected.plausibility, rtol=0, atol=1e-11)
    assert model.n_updates_ > n // 2


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("d", [100, 256, 520])
def test_single_precision_blocks_stay_close_to_double_precision(name, d, rng):
    cls, options, _, _ = LEARNERS[name]
    A, P, N = _triplets(rng, 120, d)
    wide = cls(scale=None, **options).fit_triplets(A, P, N).metric_
    narrow = cls(scale=None, **options).fit_triplets(*(one.astype(np.float32) for one in (A, P, N))).metric_
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_triplets_without_loss_within_a_block_move_nothing(name, rng):
    cls, options, literal, reading = LEARNERS[name]
    A, P, N = _triplets(rng, 100, 60)
    far = rng.random(100) < 0.7  # these have no loss at the identity
    A[far], P[far], N[far] = 3 * A[far], 3 * A[far], -3 * A[far]
    expected = literal(zip(A, P, N, strict=True), 0.01, 1.0, **reading)
    model = cls(C=0.01, scale=None, **options).fit_triplets(A, P, N)
    np.testing.assert_allclose(model.metric_, expected.parameter, rtol=0, atol=1e-12)
    assert model.n_updates_ == expected.n_updates < 60


def test_metric_learned_in_blocks_is_symmetric_to_the_bit(rng):
    for d in (64, 300):
        M = nearkin.RobustODML(psd="none", scale=None).fit_triplets(*_triplets(rng, 90, d)).metric_
        np.testing.assert_array_equal(M, M.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_do_what_their_names_say_also_on_strided_rows(dtype, rng):
    @njit
    def run(A, B, M, out, table, half, general, symmetric):
        work = blas.workspace(A)
        blas.multiply(A, M, out, work)
        blas.products(A, B, table, work)
        blas.gram(A, half, work)
        blas.add_outer(A, B, general, work)
        blas.add_symmetric_outer(A, B, symmetric, work)

    wide = rng.normal(size=(3, 5, 12)).astype(dtype)
    A, B, out = (one[:, :9] for one in wide)
    M = rng.normal(size=(9, 9)).astype(dtype)
    M = M + M.T
    table, half = np.zeros((5, 5), dtype), np.zeros((5, 5), dtype)
    general, symmetric = M.copy(), M.copy()
    run(A, B, M, out, table, half, general, symmetric)
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(out, A @ M, **near)
    np.testing.assert_allclose(table, A @ B.T, **near)
    np.testing.assert_allclose(np.triu(half), np.triu(A @ A.T), **near)
    np.testing.assert_allclose(general, M + A.T @ B, **near)
    np.testing.assert_allclose(np.tril(symmetric), np.tril(M + A.T @ B + B.T @ A), **near)
    assert np.triu(symmetric, 1).tolist() == np.triu(M, 1).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_symmetric_product_reads_only_the_lower_part(dtype, rng):
    @njit
    def run(A, M, out):
        blas.multiply_symmetric(A, M, out, blas.workspace(A))

    A, out = rng.normal(size=(4, 7)).astype(dtype), np.empty((4, 7), dtype)
    M = rng.normal(size=(7, 7)).astype(dtype)
    run(A, M, out)
    np.testing.assert_allclose(out, A @ (np.tril(M) + np.tril(M, -1).T), rtol=1e-4, atol=1e-5)


def test_block_sizes_grow_with_the_number_of_features():
    sizes = [blocks.block_size(d) for d in (40, 100, 256, 512, 1024, 4096)]
    assert sizes == sorted(sizes)
    assert sizes[0] >= 8


class _Slow:
    signatures = ()


def test_a_first_call_that_compiles_long_says_so_once(caplog, monkeypatch):
    monkeypatch.setattr("nearkin.kernels.announce._PATIENCE", 0.05)
    with caplog.at_level("WARNING", logger="nearkin"):
        with announcing_compilation(_Slow()):
            time.sleep(0.3)
        assert [one.message for one in caplog.records] == [caplog.records[0].message]
        assert "compiles" in caplog.records[0].message
        with announcing_compilation(_Slow()):
            pass
    assert len(caplog.records) == 1


def _blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_as_many_as_before_outside():
    before = _blas_threads()
    with one_blas_thread():
        assert set(_blas_threads()) == {1}
        with one_blas_thread():
            assert set(_blas_threads()) == {1}
        assert set(_blas_threads()) == {1}
    assert _blas_threads() == before


def test_overlapping_threads_put_the_setting_back():
    before, inside, leave = _blas_threads(), threading.Event(), threading.Event()

    def work():
        with one_blas_thread():
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=work)
    with one_blas_thread():
        other.start()
        inside.wait(10)
    assert _blas_threads() == before  # the thread that set it has left
    leave.set()
    other.join()
    assert _blas_threads() == before
