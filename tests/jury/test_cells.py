"""Neighbours among many rows: cells, what a search of all cells finds, and what one of a few cells misses."""

import numpy as np
import pytest

from nearkin.jury import LocalNeighbours, cells
from nearkin.jury import local_scaling as local


@pytest.fixture
def small(monkeypatch):
    """Cells of about 20 rows for more than 100."""
    for where, name, value in (
        (cells, "_SIZE", 20), (cells, "_LARGEST", 40), (local, "_EXACT", 100), (local, "_ASKED", 64),
        (local, "_PROBES", 6),
    ):  # fmt: skip
        monkeypatch.setattr(where, name, value)


@pytest.fixture
def rows(rng):
    return (rng.normal(size=(12, 5))[rng.integers(0, 12, 700)] + 0.7 * rng.normal(size=(700, 5))).astype(np.float32)


def test_a_search_of_all_cells_is_exact(small, rows, rng, monkeypatch):
    monkeypatch.setattr(local, "_PROBES", 1000)
    monkeypatch.setattr(local, "_SCALE_PROBES", 1000)
    queries = rng.normal(size=(130, 5)).astype(np.float32)
    near = LocalNeighbours(rows)
    assert near._cells is not None
    monkeypatch.setattr(local, "_EXACT", 1000)
    exact = LocalNeighbours(rows)
    np.testing.assert_allclose(near.scale, exact.scale, rtol=1e-5)
    some = np.array([3, 698, 40])
    assert np.mean(near.among(30) == exact.among(30)) > 0.99  # equals up to rounding may change places
    assert np.mean(near.query(queries, 30) == exact.query(queries, 30)) > 0.99
    np.testing.assert_array_equal(near.among(30, some), near.among(30)[some])


def test_a_search_of_a_few_cells_misses_little(small, rows):
    near = LocalNeighbours(rows)
    every = near._items
    position = np.argsort(near._numbers)
    exact = local._search_blocks(every.at(position), every, 20)
    found = near.among(20)
    recall = np.mean([len(set(one) & set(other)) for one, other in zip(found.tolist(), exact.tolist(), strict=True)])
    assert recall / 20 > 0.93
    assert not (found == np.arange(700)[:, None]).any()


def test_cells_hold_every_row_once_and_none_is_crowded(small, rng):
    rows = np.concatenate([np.zeros((300, 3)), rng.normal(size=(100, 3))]).astype(np.float32)
    found, order = cells.group_rows(rows)
    assert sorted(order.tolist()) == list(range(400)) and found.sizes.max() <= 40
    for centre, part in zip(found.centres, found.parts, strict=True):
        np.testing.assert_allclose(centre, rows[order[part]].mean(axis=0), atol=1e-5)
    near = LocalNeighbours(rows)
    assert np.isfinite(near.scale).all() and near.among(60).shape == (400, 60)


def test_neighbours_in_cells_do_not_depend_on_the_number_of_threads(small, rows):
    from threadpoolctl import threadpool_limits

    found = []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            near = LocalNeighbours(rows)
            found.append((near.scale, near.among(30), near.query(rows[:200], 9)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
