"""Rows to predict may lie anywhere: their neighbours are the right ones however far away they are."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from each import each
from nearkin import Euclidean, RobustKNeighborsClassifier, RobustLODML, audit_labels
from nearkin.jury import LeadingDirections, LocalNeighbours, RidgeVoter
from nearkin.measures import DISTANCE
from nearkin.neighbors import NeighbourSearch

FAR = [1e3, 1e7, 1e12, 1e19, 1e30, 1e45]


def exactly(query, rows, factors, k):
    """The k rows with the smallest scaled distance, in fractions, which round nothing."""
    x = [Fraction(float(one)) for one in query]
    values = []
    for j, (row, factor) in enumerate(zip(rows, factors, strict=True)):
        squares = sum((a - Fraction(float(b))) ** 2 for a, b in zip(x, row, strict=True))
        values.append((squares * Fraction(float(factor)), j))
    return [j for _, j in sorted(values)[:k]]


@each(size=FAR, dtype=["float32", "float64"], equal=[False, True])
def test_neighbours_of_far_queries_are_those_of_exact_arithmetic(size, dtype, equal, rng):
    rows = rng.normal(size=(40, 3)).astype(dtype)
    near = LocalNeighbours(rows)
    if equal:  # only the direction tells the rows apart
        near._factors = np.full_like(near._factors, 0.3)
    queries = size * rng.normal(size=(5, 3))
    shifted = queries - near._center
    expected = [exactly(one, near._rows, near._factors, 12) for one in shifted]
    assert near.query(queries, 12).tolist() == expected


@each(size=[3.0, 30.0, 90.0])
def test_neighbours_of_queries_at_the_edge_are_right_up_to_rounding(size, rng):
    rows = rng.normal(size=(60, 4)).astype(np.float32)
    near, queries = LocalNeighbours(rows), size * rng.normal(size=(20, 4))
    wide = near._rows.astype(np.float64)
    values = (((queries - near._center)[:, None] - wide) ** 2).sum(axis=2) * near._factors
    found = np.take_along_axis(values, near.query(queries, 10), axis=1)
    np.testing.assert_allclose(found, np.sort(values, axis=1)[:, :10], rtol=1e-5)


def test_near_and_far_queries_do_not_disturb_each_other(rng):
    near = LocalNeighbours(rng.normal(size=(50, 3)))
    queries = rng.normal(size=(9, 3)) * np.array([1.0, 1e20, 1e5] * 3)[:, None]
    together = near.query(queries, 7)
    for query, found in zip(queries, together, strict=True):
        np.testing.assert_array_equal(near.query(query[None], 7)[0], found)


def test_equal_rows_are_neighbours_of_far_queries_by_their_number():
    near = LocalNeighbours(np.ones((5, 2)))
    assert near.query(np.full((1, 2), 1e40), 3).tolist() == [[0, 1, 2]]


@each(size=[1e5, 1e20, 1e38, 1e45])
def test_ridge_votes_on_far_rows_are_those_of_long_arithmetic(size, rng):
    rows = rng.normal(size=(90, 4))
    codes = (rows[:, 0] > 0).astype(np.int64)
    voter = RidgeVoter("ridge", rows, codes, 2, [LeadingDirections(rows)])
    queries, ones = size * rng.normal(size=(6, 4)), np.ones(90)
    _, coefficients = voter._solution(ones)
    long = np.longdouble
    features = np.column_stack([(queries.astype(long) - voter._shift) * long(voter._factor), np.full(6, 3.0, long)])
    votes = np.maximum(features @ coefficients.astype(long), 0.0) + 1e-3
    expected = (votes / votes.sum(axis=1, keepdims=True)).astype(np.float64)
    np.testing.assert_allclose(voter.answers(queries, ones), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.filterwarnings("error")
@each(load=[load_iris, load_wine])
def test_predictions_far_out_settle_and_stay(load):
    X, y = load(return_X_y=True)
    model = RobustKNeighborsClassifier(random_state=0).fit(X, y)
    reference = model.predict_proba(X[::10] * 1e14)
    for size in (1e19, 1e25, 1e38, 1e45):
        np.testing.assert_allclose(model.predict_proba(X[::10] * size), reference, atol=1e-6)
        assert np.isfinite(model.kneighbors(X[::10] * size)[0]).all()
        assert np.isfinite(model.votes(X[::10] * size).votes).all()


@pytest.mark.filterwarnings("error")
def test_five_rows_and_queries_a_thousand_times_as_large():
    X, y = load_wine(return_X_y=True)
    some = [0, 70, 140, 1, 71]
    model = RobustKNeighborsClassifier(random_state=0).fit(X[some], y[some])
    for queries in (X * 1000 + 1, X * 1e45, -X * 1e45):
        shares = model.predict_proba(queries)
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)


@each(size=FAR)
def test_algorithm_5_finds_the_neighbours_of_far_queries(size, rng):
    items = rng.normal(size=(50, 3))
    search, queries = NeighbourSearch(items, DISTANCE), size * rng.normal(size=(4, 3))
    values, index = search.query(queries, 6)
    assert index.tolist() == [exactly(one, items, np.ones(50), 6) for one in queries]
    np.testing.assert_allclose(values, np.linalg.norm(queries[:, None] - items[index], axis=2), rtol=1e-12)


@pytest.mark.filterwarnings("error")
@each(learner=["auto", None])
def test_the_paper_s_classifier_answers_alike_however_far_the_row(learner):
    X, y = load_wine(return_X_y=True)
    model = RobustKNeighborsClassifier(learner, n_neighbors=3, random_state=0).fit(X, y)
    expected = model.predict(X * 1e6)
    for size in (1e12, 1e20, 1e45):
        np.testing.assert_array_equal(model.predict(X * size), expected)


@pytest.mark.filterwarnings("error")
@each(size=[1e19, 1e30, 1e45, 1e60, 1e200])
def test_rows_too_far_for_a_fitted_learner_are_refused_by_name(size):
    X, y = load_wine(return_X_y=True)
    learner = RobustLODML(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"(RobustKNeighborsClassifier|RobustLODML): .*right\?"):
        RobustKNeighborsClassifier(learner, random_state=0).fit(X * size, y)
    with pytest.raises(ValueError, match=r"(audit_labels|RobustLODML): .*right\?"):
        audit_labels(X * size, y, learner)


@each(size=[1e60, 1e300])
def test_queries_beyond_arithmetic_are_refused_by_name(size):
    X, y = load_iris(return_X_y=True)
    for model in (RobustKNeighborsClassifier(random_state=0), RobustKNeighborsClassifier(Euclidean(), n_neighbors=3)):
        with pytest.raises(ValueError, match="largest that float64 arithmetic allows"):
            model.fit(X, y).predict(X * size)
