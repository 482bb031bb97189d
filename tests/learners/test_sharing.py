"""Triplets made once: the same bits as without."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

import nearkin
from each import each
from nearkin.errors import InputError
from nearkin.learners import loop, share_triplets
from nearkin.learners.sharing import Shelf
from nearkin.triplets import TripletSource

X, y = load_iris(return_X_y=True)
MAKERS = {
    "low rank": lambda C: nearkin.RobustLODML(3, C=C, random_state=0),
    "shuffled": lambda C: nearkin.RobustODML(C=C, random_state=0, init="discriminant", shuffle=True, n_epochs=2),
    "octg": lambda C: nearkin.RobustLODML(3, C=C, init="pca", triplets="octg", random_state=0),
}


@pytest.fixture
def n_made(monkeypatch):
    """How often a source was asked to number its rows, which it does where triplets are made."""
    made, number_rows = [], TripletSource.number_rows

    def count(self, n):
        made.append(n)
        return number_rows(self, n)

    monkeypatch.setattr(TripletSource, "number_rows", count)
    return made


@each(make=MAKERS)
def test_a_fit_with_shared_triplets_has_the_same_bits_and_goes_on_alike(make, n_made):
    plain = make(0.02).fit(X, y)
    alone = len(n_made)
    with share_triplets():
        make(0.01).fit(X, y)
        n_made.clear()
        shared = make(0.02).fit(X, y)
        assert len(n_made) < alone  # final scores number rows, too
    for _ in range(2):
        np.testing.assert_array_equal(shared.components_, plain.components_)
        np.testing.assert_array_equal(shared.plausibility_, plain.plausibility_)
        assert shared.n_rows_seen_ == plain.n_rows_seen_ and shared.n_updates_ == plain.n_updates_
        for one in (shared, plain):
            one.partial_fit(X[::2], y[::2])


def test_a_grid_search_finds_the_same(n_made):
    model = nearkin.RobustKNeighborsClassifier(MAKERS["low rank"](0.1), n_neighbors=3)
    search = GridSearchCV(model, {"learner__C": [0.001, 0.01, 0.1]}, cv=3, refit=False)
    plain = search.fit(X, y).cv_results_["mean_test_score"]
    alone = len(n_made)
    with share_triplets():
        shared = search.fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(shared, plain)
    assert len(n_made) - alone == alone // 3


@each(change=({"random_state": 1}, {"eta": 2.0}, {"n_epochs": 2}, {"scale": None}))
def test_what_other_settings_make_is_not_shared(change, n_made):
    with share_triplets():
        MAKERS["low rank"](0.1).fit(X, y)
        n_made.clear()
        shared = MAKERS["low rank"](0.1).set_params(**change).fit(X, y)
    assert n_made
    np.testing.assert_array_equal(
        shared.components_, MAKERS["low rank"](0.1).set_params(**change).fit(X, y).components_
    )


def test_other_rows_labels_and_too_many_folds_are_not_shared(n_made):
    other = X.copy()
    other[3, 2] += 1e-9
    with share_triplets(n_folds=2):
        for rows, labels in ((X, y), (other, y), (X, y[::-1]), (X, y)):  # the first was forgotten
            n_made.clear()
            MAKERS["low rank"](0.1).fit(rows, labels)
            assert n_made
        assert len(Shelf.current().held) == 2
    assert Shelf.current() is None
    with pytest.raises(InputError, match="n_folds"), share_triplets(0):
        pass


def test_a_fit_that_fails_leaves_nothing_behind(n_made):
    with share_triplets():
        with pytest.raises(ValueError):
            MAKERS["low rank"](0.1).fit(X, np.zeros(len(X)))
        MAKERS["low rank"](0.1).fit(X, y)
        n_made.clear()
        MAKERS["low rank"](0.2).fit(X, y)
        assert not n_made


@each(scale=("auto", None), make=(nearkin.RobustODML, nearkin.RobustLODML, nearkin.RobustOASIS, nearkin.ITML))
def test_explicit_triplets_learned_in_pieces_are_learned_in_order(scale, make, rng, monkeypatch):
    first, more = rng.normal(size=(2, 3, 150, 6))
    whole, pieces = (make(scale=scale, random_state=0).fit_triplets(*first) for _ in range(2))
    whole.partial_fit_triplets(*more)
    monkeypatch.setattr(loop, "_CACHED", 1)
    monkeypatch.setattr(loop, "_FEWEST", 32)
    pieces.partial_fit_triplets(*more)
    np.testing.assert_allclose(pieces.metric_, whole.metric_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(pieces.plausibility_, whole.plausibility_, rtol=1e-9)
    assert pieces.n_triplets_seen_ == whole.n_triplets_seen_ == 300
    if make is nearkin.RobustOASIS and scale == "auto":
        return  # which brings any row to length 1
    before = pieces.metric_.copy()
    more[1, 140, 3] = 1e308  # in the last piece
    with pytest.raises(ValueError):
        pieces.partial_fit_triplets(*more)
    np.testing.assert_array_equal(pieces.metric_, before)


def test_explicit_pairs_learned_in_pieces_are_learned_in_order(rng, monkeypatch):
    left, right = rng.normal(size=(2, 100, 5))
    similar = rng.random(100) < 0.5
    whole, pieces = (nearkin.ITML(random_state=0).fit_pairs(left, right, similar) for _ in range(2))
    whole.partial_fit_pairs(right, left, similar)
    monkeypatch.setattr(loop, "_CACHED", 1)
    monkeypatch.setattr(loop, "_FEWEST", 32)
    pieces.partial_fit_pairs(right, left, similar)
    np.testing.assert_allclose(pieces.metric_, whole.metric_, rtol=1e-9, atol=1e-12)
