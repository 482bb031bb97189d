"""Block-delayed sweeps give what one triplet at a time gives."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from threadpoolctl import threadpool_info, threadpool_limits

import nearkin
from compiled import Compiled
from each import each
from nearkin.kernels import full as kernels
from nearkin.kernels import one_blas_thread
from nearkin.kernels.machine import linalg, pack
from nearkin.kernels.machine.compile import COMPILES, notice_compilation
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


@pytest.mark.slow
@each(name=tuple(LEARNERS), d=[100, 256, 520])
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


@each(name=tuple(LEARNERS), d=[1, 2, 3, 4, 7, 12, 15, 16, 17, 29, 31, 32, 33, 47, 63, 65, 100], n=[12, 13, 50])
def test_blocks_agree_with_the_literal_run_for_every_shape_of_the_last_panel(name, d, n, rng, monkeypatch):
    monkeypatch.setattr("nearkin.parameters.full._IN_BLOCKS", 1)
    cls, options, literal, reading = LEARNERS[name]
    A, P, N = _triplets(rng, n, d)
    expected = literal(zip(A, P, N, strict=True), 0.1, 1.0, **reading)
    model = cls(C=0.1, scale=None, **options).fit_triplets(A, P, N)
    np.testing.assert_allclose(model.metric_, expected.parameter, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.plausibility_, expected.plausibility, rtol=0, atol=1e-11)
    assert model.n_updates_ == expected.n_updates


@pytest.mark.parametrize("name", LEARNERS)
def test_few_triplets_go_one_by_one_and_end_where_blocks_do(name, rng):
    cls, options, _, _ = LEARNERS[name]
    A, P, N = _triplets(rng, 60, 37)
    whole = cls(scale=None, **options).fit_triplets(A, P, N).metric_
    model = cls(scale=None, **options)
    for at in range(0, 60, 5):
        part = slice(at, at + 5)
        model.partial_fit_triplets(A[part], P[part], N[part])
    np.testing.assert_allclose(model.metric_, whole, rtol=0, atol=1e-12)


@pytest.mark.slow
@each(symmetric=[False, True], dtype=[np.float32, np.float64])
def test_packed_panels_hold_the_matrix_and_give_it_back(dtype, symmetric, rng):
    for d in (1, 31, 75):
        M = rng.normal(size=(d, d)).astype(dtype)
        if symmetric:
            M = M + M.T
        kept, out = Compiled(pack).pack_matrix(M, symmetric), np.empty_like(M)
        assert kept.ctypes.data % 64 == 0
        Compiled(pack).unpack_matrix(kept, out, symmetric)
        np.testing.assert_array_equal(out, M)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_do_what_their_name_says_also_on_strided_rows(dtype, rng):
    @njit
    def run(A, B, table):
        linalg.products(A, B, table, linalg.workspace(A))

    wide = rng.normal(size=(2, 5, 12)).astype(dtype)
    A, B = (one[:, :9] for one in wide)
    table = np.zeros((5, 5), dtype)
    run(A, B, table)
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(table, A @ B.T, **near)


def test_block_sizes_grow_with_the_number_of_features():
    sizes = [Compiled(kernels).block_size(d) for d in (40, 100, 256, 512, 1024, 4096)]
    assert sizes == sorted(sizes)
    assert sizes[0] >= 8


def test_a_first_call_that_compiles_long_says_so_once(caplog, monkeypatch):
    monkeypatch.setattr("nearkin.kernels.machine.compile._PATIENCE", 0.05)
    with caplog.at_level("WARNING", logger="nearkin"):
        with notice_compilation():
            time.sleep(0.3)
        assert [one.message for one in caplog.records] == [caplog.records[0].message]
        assert caplog.records[0].message == f"nearkin {COMPILES}."
        with notice_compilation():
            pass
    assert len(caplog.records) == 1


def test_the_readme_says_the_same_about_compiling():
    readme = Path(__file__).resolve().parents[2] / "README.md"
    assert COMPILES in " ".join(readme.read_text(encoding="utf-8").split())


def _blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        assert 2 in _blas_threads()
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_inside_and_as_many_as_before_outside():
    before = _blas_threads()
    with one_blas_thread():
        assert set(_blas_threads()) == {1}
        with one_blas_thread():
            assert set(_blas_threads()) == {1}
        assert set(_blas_threads()) == {1}
    assert _blas_threads() == before


@pytest.mark.usefixtures("two_blas_threads")
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
