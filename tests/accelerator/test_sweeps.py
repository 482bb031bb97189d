"""Sweeps of a device against the compiled loops of the processor."""

import math

import numpy as np
import pytest

from nearkin.losses import Hinge, RescaledHinge
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.parameters import FullMatrix, LearningRule, LowRank
from nearkin.rows import Rows
from nearkin.triplets import Triplets

MEASURES = [DISTANCE, SIMILARITY]
CLOSE = {"float64": 1e-12, "float32": 2e-5}


def learn_on(parameter, device, triplets, rule):
    parameter.on(device)
    return parameter.learn(triplets, rule)


@pytest.fixture
def triplets(rng):
    def make(n, d, dtype="float64", pool=9):
        rows, centres = rng.normal(size=(n, d)) / math.sqrt(d), rng.normal(size=(pool, d)) / math.sqrt(d)
        positive = rng.integers(0, pool, n)
        negative = (positive + rng.integers(1, pool, n)) % pool
        negative[n // 2] = positive[n // 2]  # h is zero: nothing to learn
        where = np.arange(n), np.full(pool, -1)
        return Triplets(Rows(rows.astype(dtype)), Rows(centres.astype(dtype)), np.arange(n), positive, negative, *where)

    return make


def agree(kind, start, device, triplets, C, loss, n_hq=3, dtype="float64"):
    """Learn on both sides from the same start."""
    here, there = start.copy(), start.copy()
    plausibility, updates = here.learn(triplets, LearningRule(C, loss, n_hq))
    found, moved = learn_on(there, device, triplets, LearningRule(C, loss, n_hq))
    assert moved == updates
    np.testing.assert_allclose(found, plausibility, atol=CLOSE[dtype])
    np.testing.assert_allclose(getattr(there, kind), getattr(here, kind), atol=CLOSE[dtype])
    assert getattr(there, kind).dtype == dtype


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: one.name)
@pytest.mark.parametrize(("C", "loss"), [(0.1, RescaledHinge(1.0)), (0.5, Hinge()), (math.inf, RescaledHinge(2.0))])
def test_full_matrix(device, triplets, measure, C, loss):
    agree("M", FullMatrix(7, np.float64, measure), device, triplets(50, 7), C, loss)


@pytest.mark.parametrize(("measure", "wide"), [(DISTANCE, 8), (SIMILARITY, 8), (DISTANCE, 7)], ids=str)
def test_full_matrix_in_several_stages_of_several_blocks(device, triplets, measure, wide, monkeypatch):
    monkeypatch.setattr("nearkin.accelerator.matrix_sweep.BLOCK", 64 if wide > 7 else 32)  # else twice as long
    monkeypatch.setattr("nearkin.accelerator.matrix_sweep.STAGE", 2)
    monkeypatch.setattr("nearkin.accelerator.matrix_sweep._WIDE", wide)
    agree("M", FullMatrix(7, np.float64, measure), device, triplets(150, 7), 0.05, RescaledHinge(1.0))


@pytest.mark.slow
def test_full_matrix_in_single_precision(device, triplets):
    agree("M", FullMatrix(7, np.float32, SIMILARITY), device, triplets(40, 7, "float32"), 0.1, RescaledHinge(1.0),
          dtype="float32")  # fmt: skip


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: one.name)
@pytest.mark.parametrize(("C", "loss"), [(0.05, RescaledHinge(1.0)), (3.0, Hinge()), (0.0, Hinge())])
def test_low_rank(device, rng, triplets, measure, C, loss):
    start = LowRank(rng.normal(size=(3, 7)), measure)
    agree("L", start, device, triplets(40, 7), C, loss)


@pytest.mark.slow
def test_low_rank_in_single_precision(device, rng, triplets):
    start = LowRank(rng.normal(size=(3, 7)).astype("float32"), DISTANCE)
    agree("L", start, device, triplets(40, 7, "float32"), 0.05, RescaledHinge(1.0), dtype="float32")


def test_low_rank_in_several_stages_of_several_blocks(device, rng, triplets, monkeypatch):
    monkeypatch.setattr("nearkin.accelerator.factor_sweeps.STAGE", 3)
    start = LowRank(rng.normal(size=(3, 7)), DISTANCE)
    agree("L", start, device, triplets(100, 7), 0.05, RescaledHinge(1.0))


@pytest.mark.slow
@pytest.mark.parametrize(("r", "together"), [(7, 8), (40, 8), (70, 4)])
def test_low_rank_in_a_block_of_which_far_rows_are_kept_by_others(device, rng, triplets, monkeypatch, r, together):
    from nearkin.accelerator.factor_sweeps import walk_of

    monkeypatch.setattr("nearkin.accelerator.factor_sweeps.BLOCK", 64)
    walk = walk_of(r, 4, 1 << 18, 64)
    assert (walk.size, walk.together) == (64, together)
    assert walk.keepers > 0
    start = LowRank((rng.normal(size=(r, 75)) / 8).astype("float32"), DISTANCE)
    given = triplets(130, 75, "float32")
    agree("L", start, device, given, 0.05, RescaledHinge(1.0), dtype="float32")


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("d", "r", "dtype"),
    [(1, 1, "float64"), (7, 3, "float64"), (70, 40, "float32"), (128, 100, "float64"), (512, 64, "float32")],
)
def test_many_worker_pool_are_as_each_by_itself(device, rng, triplets, measure, d, r, dtype):
    """Learners with their own settings and as many triplets as they have, one of them none."""
    import torch

    from nearkin.accelerator.device import step_settings
    from nearkin.accelerator.factor_sweeps import ManyFactors, held

    assert held(d, r, np.dtype(dtype).itemsize).fits(227 << 10)
    starts = (rng.normal(size=(3, r, d)) / math.sqrt(d)).astype(dtype)
    given, counts, steps, loss = triplets(30, d, dtype), (19, 0, 11), (0.05, 0.1, 2.0), RescaledHinge(1.0)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    index = np.stack([given.anchor, given.positive, given.negative])
    settings = np.stack([step_settings(C, loss.params) for C in steps]).astype(dtype)
    many = ManyFactors(starts, measure.is_distance, device)
    share, moved = many.learn(
        *map(torch.from_numpy, (given.rows.dense, given.pool.dense, index.astype(np.int32), bounds, settings)), 3
    )
    for start, found, C, begin, end in zip(starts, many.result, steps, bounds, bounds[1:], strict=False):
        alone, own = LowRank(start.copy(), measure), slice(begin, end)
        if begin < end:
            where = given.row_origin, given.pool_origin
            plausibility, updates = alone.learn(
                Triplets(given.rows, given.pool, *index[:, own], *where), LearningRule(C, loss, 3)
            )
            np.testing.assert_allclose(share[own].numpy(), plausibility, atol=CLOSE[dtype])
            assert moved[own].sum() == updates
        np.testing.assert_allclose(found, alone.L, atol=CLOSE[dtype])


@pytest.mark.parametrize(("d", "r", "itemsize"), [(1024, 64, 4), (512, 64, 8), (2048, 16, 4), (200, 200, 4)])
def test_maps_too_large_for_registers_or_memory_are_not_learned_worker_pool(d, r, itemsize):
    from nearkin.accelerator.factor_sweeps import held

    assert not held(d, r, itemsize).fits(227 << 10)


def test_rows_of_large_arrays_are_sent_as_they_are_needed(device, rng, triplets, monkeypatch):
    monkeypatch.setattr("nearkin.accelerator.pipeline._WHOLE", 0)
    there = triplets(50, 7)
    agree("M", FullMatrix(7, np.float64, DISTANCE), device, there, 0.1, RescaledHinge(1.0))
    mixed = Triplets(there.rows, there.rows, *rng.integers(0, 50, (3, 20)), there.row_origin, there.row_origin)
    agree("M", FullMatrix(7, np.float64, DISTANCE), device, mixed, 0.1, RescaledHinge(1.0))


def test_what_a_device_learned_comes_home_when_it_is_read(device, triplets):
    parameter = FullMatrix(5, np.float64, SIMILARITY)
    learn_on(parameter, device, triplets(10, 5), LearningRule(0.1, Hinge(), 1))
    learn_on(parameter, device, triplets(10, 5), LearningRule(0.1, Hinge(), 1))
    assert parameter._sweep is not None
    assert not np.array_equal(parameter.M, np.eye(5))
    assert parameter._sweep is None


def test_no_triplets_move_nothing(device, triplets):
    parameter = LowRank(np.eye(2, 5), DISTANCE)
    none = np.empty(0, np.int64)
    rows = Rows(np.zeros((3, 5)))
    found, moved = learn_on(
        parameter, device, Triplets(rows, rows, none, none, none, none, none), LearningRule(0.1, Hinge(), 1)
    )
    assert (len(found), moved) == (0, 0)
    assert np.array_equal(parameter.L, np.eye(2, 5))


def test_a_step_without_a_cap(device, rng, triplets):
    start = LowRank(rng.normal(size=(3, 7)), SIMILARITY)
    agree("L", start, device, triplets(9, 7), math.inf, RescaledHinge(1.0))


@pytest.mark.parametrize(("r", "itemsize", "memory", "size"), [(1024, 8, 99 << 10, 4), (1024, 4, 227 << 10, 16)])
def test_a_walk_fits_into_memory(r, itemsize, memory, size):
    from nearkin.accelerator.factor_sweeps import walk_of

    walk = walk_of(r, itemsize, memory, 128)
    assert (walk.size, walk.together) == (size, 1)
    assert walk.shared <= memory


def test_many_components_in_short_blocks(device, rng, triplets):
    start = LowRank(rng.normal(size=(300, 310)) / 18, DISTANCE)
    agree("L", start, device, triplets(20, 310), 0.05, RescaledHinge(1.0))


def test_too_many_components_are_refused(device):
    from nearkin.accelerator.factor_sweeps import FactorSweep

    with pytest.raises(ValueError, match="at most 1024 components; got 1030"):
        FactorSweep(np.eye(1030, 1040), True, device)


@pytest.mark.parametrize("number", [-1, 9, 2**40])
def test_a_device_reads_no_row_that_does_not_exist(device, triplets, number):
    given = triplets(12, 5)
    given.negative[3] = number
    for parameter in (FullMatrix(5, np.float64, DISTANCE), LowRank(np.eye(2, 5), DISTANCE)):
        with pytest.raises(ValueError, match="does not fit the rows"):
            learn_on(parameter, device, given, LearningRule(0.1, Hinge(), 1))


def test_a_device_learns_rows_of_its_own_width(device, triplets):
    for parameter in (FullMatrix(6, np.float64, DISTANCE), LowRank(np.eye(2, 6), DISTANCE)):
        with pytest.raises(ValueError, match="does not fit the rows"):
            learn_on(parameter, device, triplets(12, 5), LearningRule(0.1, Hinge(), 1))
