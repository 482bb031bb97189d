"""Few rows go without compiled code; what they find is what the compiled loops find."""

import subprocess
import sys

import numpy as np
import pytest

import nearkin
from each import each
from nearkin.jury import LocalNeighbours, forest, learned_spaces, local_scaling
from nearkin.kernels import StepRule, TripletRows, few_trees, few_triplets, lowrank, trees
from nearkin.losses import Hinge, RescaledHinge
from nearkin.measures import DISTANCE, SIMILARITY


@each(
    solver=("exact", "published", "subgradient"), measure=(DISTANCE, SIMILARITY), dtype=(np.float64, np.float32),
    fast={"solver": ("exact",)},
)  # fmt: skip
def test_steps_of_few_triplets_are_those_of_the_compiled_sweep(solver, measure, dtype, rng):
    rows = 0.4 * rng.normal(size=(60, 9)).astype(dtype)
    rows[3] = rows[4]  # no direction between these
    rows[5] = 0.0
    triplets = TripletRows(rows, rows, rows, *(rng.integers(0, 60, 200) for _ in range(3)))
    # The published step goes on beyond the kink; with more it would leave for infinity, where runs part.
    for loss, C in ((RescaledHinge(1.5), 0.02), (Hinge(), 0.05)):
        rule = StepRule(np.full(200, 0.1 * C if solver == "published" else C), loss.params, 3)
        plain, fast = (np.eye(7, 9, dtype=dtype) for _ in range(2))
        found, expected = np.ones((2, 200))
        more = (loss.weight_of_hinge, solver, (0.7, 2), found)
        n = few_triplets.learn_factor(plain, triplets, rule, measure, *more)
        run = getattr(lowrank, solver).run
        assert n == run(loss, fast, triplets, rule, measure.is_distance, (0.7, 2), expected) > 100
        tolerance = 1e-11 if dtype == np.float64 else 1e-4
        np.testing.assert_allclose(plain, fast, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_a_triplet_that_cannot_be_satisfied_raises_nothing():
    """Compiled code divides by zero without a word, and so do few triplets."""
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1e-200, 0.0], [1e200, 1.0]])
    at = np.array([(a, b, c) for a in range(4) for b in range(4) for c in range(4)]).T.copy()
    rule, found = StepRule(np.full(64, np.inf), (1.0, 0.0), 3), np.ones(64)
    triplets, weight = TripletRows(rows, rows, rows, *at), Hinge().weight_of_hinge
    few_triplets.learn_factor(np.array([[1.0, 0.0]]), triplets, rule, DISTANCE, weight, "exact", (1.0, 1), found)
    assert ((found > 0.0) & (found <= 1.0)).all()


@each(n=(30, 250), d=(1, 6), n_classes=(2, 5))
def test_trees_of_few_rows_are_the_same_to_the_bit(n, d, n_classes, rng, monkeypatch):
    rows, codes = rng.normal(size=(n, d)).astype(np.float32), rng.integers(0, n_classes, n)
    rows[:, 0] = rng.integers(0, 3, n)  # ties
    samples, found = [rng.permutation(n)[: n // 2] for _ in range(5)], []
    seen = rng.integers(0, 2**5, n).astype(np.uint64)
    queries = np.concatenate([rows, [[np.nan] * d, [np.inf] * d]]).astype(np.float32)
    for loops in (few_trees, trees):
        monkeypatch.setattr(forest, "_loops", lambda is_few, loops=loops: loops)
        grown = forest.Trees.grow(rows, codes, n_classes, samples, np.random.default_rng(1))
        leaves, votes = grown.find_leaves(queries), np.zeros((n, n_classes))
        first = np.minimum(2 * np.arange(len(grown.child) + 1), 40)
        loops.add_votes(leaves[:n], seen, first, np.arange(40) % n_classes, np.arange(40) / 7.0, votes)
        found.append((grown.feature, grown.threshold, grown.child, leaves, votes))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(found[0][0]) > len(samples)  # some node was split


@each(n=(2, 9, 200), d=(2, 70))
def test_neighbours_of_few_rows_are_those_of_many(n, d, rng, monkeypatch):
    rows = rng.normal(size=(n, d)).astype(np.float32)
    queries, found, scales = rng.normal(size=(5, d)).astype(np.float32), [], []
    for most in (1000, 0):
        monkeypatch.setattr(local_scaling, "FEW_ROWS", most)
        near = LocalNeighbours(rows)
        found.append((near.candidates(), near.among(3, np.arange(n)[::2]), near.query(queries, 50)))
        scales.append(near.scale)
    np.testing.assert_allclose(*scales, rtol=1e-5)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_candidates_are_ranked_as_many(rng):
    rows, queries = rng.integers(0, 3, (40, 4)).astype(np.float32), rng.integers(0, 3, (6, 4)).astype(np.float32)
    candidates = np.stack([rng.permutation(40)[:30] for _ in queries]).astype(np.int32)
    few, many = np.empty((2, 6, 12), np.int32)
    learned_spaces._rank_few(candidates, queries, rows, few)
    learned_spaces._rank_many(candidates, queries, rows, many)
    np.testing.assert_array_equal(few, many)


def test_an_audit_finds_the_same_either_way(rng, monkeypatch):
    from nearkin.kernels import neighbours
    from nearkin.triplets import source

    centres = 2.5 * rng.normal(size=(3, 6))
    y = rng.integers(0, 3, 150)
    X = centres[y] + rng.normal(size=(150, 6))
    y, wrong = nearkin.flip_labels(y, 0.1, random_state=0)
    few = nearkin.audit_labels(X, y, random_state=0)
    for module in (local_scaling, learned_spaces, forest):
        monkeypatch.setattr(module, "FEW_ROWS", 0)
    for module in (neighbours, source):
        monkeypatch.setattr(module, "FEW", 0)
    many = nearkin.audit_labels(X, y, random_state=0)
    np.testing.assert_allclose(few.plausibility, many.plausibility, atol=1e-3)
    np.testing.assert_array_equal(few.is_suspect, many.is_suspect)
    assert few.is_suspect[wrong].mean() > 0.5


_AUDIT = """
import sys
import numpy as np
import nearkin
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 178)
audit = nearkin.audit_labels(3.0 * rng.normal(size=(3, 13))[y] + rng.normal(size=(178, 13)), y, random_state=0)
audit.to_html(sys.argv[1])
print("numba" in sys.modules)
"""


@pytest.mark.slow
def test_an_audit_of_few_rows_loads_no_compiler(tmp_path):
    done = subprocess.run([sys.executable, "-c", _AUDIT, tmp_path / "page.html"], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr
