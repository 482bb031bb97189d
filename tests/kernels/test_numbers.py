"""Odd rows and extreme settings: every learner is its literal twin where that is finite, and finite elsewhere."""

import warnings

import numpy as np
import pytest
from fuzz import numerics

from each import each
from systems import ALL


def tried(attempt, name, seeds):
    """Problems of some draws."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        return [found for seed in seeds if (found := attempt(name, np.random.default_rng([11, seed])))]


@each(name=tuple(numerics.TWINS))
def test_every_learner_is_its_twin_on_odd_rows(name):
    assert tried(numerics.compare, name, range(12)) == []


@pytest.mark.slow
@each(name=tuple(numerics.TWINS))
def test_every_learner_is_its_twin_on_many_odd_rows(name):
    assert tried(numerics.compare, name, range(12, 90)) == []


@each(name=["RobustODML", "RobustLODML"])
def test_extreme_rows_are_refused_or_learned(name):
    assert tried(numerics.strain, name, range(25)) == []


@pytest.mark.slow
@each(name=[cls.__name__ for cls in ALL])
def test_many_extreme_rows_are_refused_or_learned(name):
    assert tried(numerics.strain, name, range(100)) == []


def test_extreme_rows_are_classified_or_refused():
    assert tried(numerics.strain_classifier, "RobustKNeighborsClassifier", range(12)) == []


def test_an_exact_step_on_the_cone_may_be_longer_than_a_million_passive_aggressive_ones():
    """With a finite C the cap alone ends the search for the step that removes the loss."""
    rng = np.random.default_rng([5, 95])
    rng.integers(len(numerics.TWINS))
    with np.errstate(all="ignore"):
        assert [found for _ in range(20) if (found := numerics.compare("RobustODML exact", rng))] == []
