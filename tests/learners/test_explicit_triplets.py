"""Explicit triplets are learned from the arrays as they come, piece by piece, and looked at on the way."""

import numpy as np
import pytest
from scipy import sparse

import nearkin
from each import each
from nearkin.errors import InputError
from nearkin.labels import Labels
from nearkin.learners import loop
from systems import DIFFERENT as LEARNERS

N, D = 90, 5
MAKERS = {
    "full": lambda **more: nearkin.RobustODML(random_state=0, **more),
    "similarity": lambda **more: nearkin.RobustOASIS(random_state=0, **more),
    "low rank": lambda **more: nearkin.RobustLODML(random_state=0, **more),
    "identity": lambda **more: nearkin.RobustLOSL(3, init="identity", random_state=0, **more),
    "directions": lambda **more: nearkin.RobustLODML(3, random_state=0, **more),
    "given": lambda **more: nearkin.RobustLODML(init=np.eye(2, D), random_state=0, **more),
    "sketch": lambda **more: nearkin.LSMDML(n_projections=3, random_state=0, **more),
    "kernel": lambda **more: nearkin.OKS(random_state=0, **more),
}


@pytest.fixture
def in_pieces(monkeypatch):
    monkeypatch.setattr(loop, "_CACHED", 1)
    monkeypatch.setattr(loop, "_FEWEST", 16)


def _learned(model):
    values = {name: getattr(model.state_.parameter, name) for name in model.state_.parameter.moving}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


@each(make=MAKERS, scale=(None, "auto"))
def test_three_arrays_teach_what_one_array_of_all_rows_does(make, scale, rng, in_pieces):
    triplets, more = rng.normal(size=(2, 3, N, D))
    arrays = make(scale=scale).fit_triplets(*triplets).partial_fit_triplets(*more)
    stacked = make(scale=scale).fit_triplets(*map(sparse.csr_array, triplets))
    stacked.partial_fit_triplets(*map(sparse.csr_array, more))
    for name, value in _learned(arrays).items():
        np.testing.assert_allclose(value, _learned(stacked)[name], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(arrays.plausibility_, stacked.plausibility_, rtol=1e-9)
    assert arrays.n_triplets_seen_ == stacked.n_triplets_seen_ == 2 * N
    assert arrays.n_updates_ == stacked.n_updates_ > 0


@each(make=MAKERS, role=range(3), row=(3, 70), begun=(False, True))
def test_a_number_that_is_missing_is_named_by_its_own_row(make, role, row, begun, rng, in_pieces):
    triplets = rng.normal(size=(3, N, D))
    model = make(scale=None)
    if begun:
        model.fit_triplets(*triplets)
        before = {name: value.copy() for name, value in _learned(model).items()}
    triplets[role, row, 2] = np.nan
    learn = model.partial_fit_triplets if begun else model.fit_triplets
    with pytest.raises(InputError, match=rf"row {row} holds NaN in column 2"):
        learn(*triplets)
    if begun:
        assert all(np.array_equal(value, before[name]) for name, value in _learned(model).items())
    else:
        assert not hasattr(model, "state_") and not hasattr(model, "n_features_in_")


@each(make=MAKERS, role=range(3))
def test_a_number_that_is_too_large_is_named_by_its_own_row(make, role, rng, in_pieces):
    triplets = rng.normal(size=(3, N, D))
    model = make(scale=None).fit_triplets(*triplets)
    triplets[role, 70, 2] = 1e60
    with pytest.raises(InputError, match=r"row 70 holds a value of 1e\+60"):
        model.partial_fit_triplets(*triplets)
    assert model.n_triplets_seen_ == N


def test_learners_that_say_so_begin_alike_whatever_the_rows_hold(rng):
    alike = [cls(random_state=0, scale=None) for cls in LEARNERS] + [make(scale=None) for make in MAKERS.values()]
    alike = [model for model in alike if model._begins_alike(D)]
    assert {type(one).__name__ for one in alike} >= {"OASIS", "ODML", "LODML", "RobustLOSL"}
    for model in alike:
        draws = np.random.default_rng(0)
        one, other = (model._first_state(rng.normal(size=(20, D)), draws, Labels())[0].parameter for _ in range(2))
        for name in one.moving:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert draws.random() == np.random.default_rng(0).random()


@each(make=("full", "low rank", "given"))
def test_columns_that_vary_late_are_seen_by_a_first_call(make, rng):
    triplets = rng.normal(size=(3, N, D))
    triplets[:, :, 3] = 1.0
    model = MAKERS[make](scale=None).fit_triplets(*triplets)
    assert model.scaling_.late.columns.tolist() == [3]
    triplets[2, N - 1, 3] = 2.0  # far behind the rows that a learner begins with
    model = MAKERS[make](scale=None).fit_triplets(*triplets)
    assert model.scaling_.late is None


def test_arrays_of_the_caller_are_neither_changed_nor_kept(rng):
    triplets = [rng.normal(size=(N, D)) for _ in range(3)]
    kept = [one.copy() for one in triplets]
    for one in triplets:
        one.setflags(write=False)
    model = nearkin.RobustLODML(scale=None, random_state=0).fit_triplets(*triplets).partial_fit_triplets(*triplets)
    assert all(np.array_equal(one, other) for one, other in zip(triplets, kept, strict=True))
    other = nearkin.RobustLODML(scale=None, random_state=0).fit_triplets(*kept).partial_fit_triplets(*kept)
    np.testing.assert_array_equal(model.components_, other.components_)
