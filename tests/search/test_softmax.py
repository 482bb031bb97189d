"""Softmax and ridge maps, beside literal twins; and which clicks look wrong."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from nearkin.search import Feedback
from nearkin.search.softmax import Clicks, _softmax_gradient, click_plausibility, cut_rank, learn_map, learn_ridge
from search_worlds import mean_average_precision, turned


def log_of(rng, relevant, n, wrong, length=6):
    """Lists with one click: on a right item, or anywhere."""
    shown = rng.integers(0, relevant.shape[1], (4 * n, length))
    query = rng.integers(0, len(relevant), 4 * n)
    for at, one in enumerate(query):
        shown[at, :2] = rng.choice(np.flatnonzero(relevant[one]), 2, replace=False)
    accident = rng.random(4 * n) < wrong
    place = np.where(accident, rng.integers(0, length, 4 * n), rng.integers(0, 2, 4 * n))
    kept = [at for at in range(4 * n) if len(set(shown[at])) == length][:n]
    query, shown, place = query[kept], shown[kept], place[kept]
    clicked = (np.arange(length) == place[:, None]).ravel()
    feedback = Feedback.from_impressions(
        np.repeat(np.arange(n), length), np.repeat(query, length), shown.ravel(), clicked,
        query_ids=len(relevant), item_ids=relevant.shape[1],
    )  # fmt: skip
    return feedback, ~relevant[query, shown[np.arange(n), place]]


@pytest.fixture
def world(rng):
    queries, items, relevant = turned(rng, common=0.5)
    return queries.astype(float), items.astype(float), relevant


def test_the_gradient_is_that_of_the_loss(rng, world):
    queries, items, relevant = world
    feedback, _ = log_of(rng, relevant, 40, 0.2)
    clicks = Clicks(queries, items, feedback, queries.mean(axis=0))
    at, weight = np.arange(30), rng.random(30)
    skipped = clicks.skipped(rng)[at]
    D = 0.1 * rng.normal(size=(24, 24))

    def loss(D):
        total = 0.0
        for i in at:
            x = clicks.asked(clicks.query[[i]])[0]
            u = x + clicks.mean + D @ x
            scores, extra = [], []
            for j in at:
                same = clicks.query[i] == clicks.query[j] or clicks.item[i] == clicks.item[j]
                if i == j or not same:
                    scores.append(u @ clicks.shown(clicks.item[[j]])[0] / 0.07)
            for item in skipped[i]:
                if item >= 0:
                    extra.append(0.3 * np.exp(u @ clicks.shown(np.array([item]))[0] / 0.07))
            own = u @ clicks.shown(clicks.item[[i]])[0] / 0.07
            total -= weight[i] * (own - np.log(np.exp(scores).sum() + np.sum(extra)))
        return total / len(at)

    found = _softmax_gradient(clicks, D, at, weight, skipped, True)
    for row, column in rng.integers(0, 24, (4, 2)):
        step = np.zeros((24, 24))
        step[row, column] = 1e-5
        assert found[row, column] == pytest.approx((loss(D + step) - loss(D - step)) / 2e-5, rel=1e-4, abs=1e-7)


def test_ridge_is_the_weighted_regression(rng, world):
    queries, items, relevant = world
    feedback, _ = log_of(rng, relevant, 300, 0.0)
    clicks = Clicks(queries, items, feedback, queries.mean(axis=0))
    weight = rng.random(300)
    x, y = clicks.asked(clicks.query), clicks.shown(clicks.item)
    w, square, cross = weight / weight.mean(), 0.1 * 300 / 24 * np.eye(24), np.zeros((24, 24))
    for i in range(300):
        square += w[i] * np.outer(x[i], x[i])
        cross += w[i] * np.outer(y[i] - x[i], x[i])
    np.testing.assert_allclose(learn_ridge(clicks, weight), cross @ np.linalg.inv(square), atol=1e-10)


def test_skipped_items_are_those_of_the_own_list(rng, world):
    queries, items, relevant = world
    for length in (6, 30):
        feedback, _ = log_of(rng, relevant, 20, 0.0, length)
        clicks = Clicks(queries, items, feedback, queries.mean(axis=0))
        for at, row in enumerate(clicks.skipped(rng)):
            rows = slice(*feedback.start[clicks.of_list[at] :][:2])
            own = set(feedback.item[rows][~feedback.relevant[rows]].tolist())
            found = row[row >= 0].tolist()
            assert set(found) <= own and (length > 10 or set(found) == own)


@pytest.mark.parametrize("wrong", [0.2, 0.4])
def test_the_map_helps_and_wrong_clicks_look_wrong(rng, world, wrong):
    queries, items, relevant = world
    feedback, is_wrong = log_of(rng, relevant, 2500, wrong)
    clicks = Clicks(queries, items, feedback, queries.mean(axis=0))
    D, plausibility, _ = learn_map(clicks, rng)
    assert roc_auc_score(~is_wrong, plausibility) > 0.75
    assert ((plausibility > 0) & (plausibility < 1)).all()
    mapped = queries + (queries - queries.mean(axis=0)) @ D.T
    before, after = (mean_average_precision(one, items, relevant) for one in (queries, mapped))
    assert after > before + 0.15


@pytest.mark.parametrize(("wrong", "sign"), [(0.0, 1), (0.5, -1)])
def test_lists_contradict_other_queries_where_wrong_clicks_fall_on_wrong_items(rng, world, wrong, sign):
    queries, items, relevant = world
    right = np.array([rng.permutation(np.flatnonzero(one))[:7] for one in relevant])
    shown = np.column_stack([right, [rng.choice(np.flatnonzero(~one)) for one in relevant]])
    query = np.repeat(np.arange(300), 8)
    clicked = np.where(rng.random(2400) < wrong, 7, rng.integers(0, 7, 2400))
    order = rng.permuted(np.tile(np.arange(8), (2400, 1)), axis=1)
    feedback = Feedback.from_impressions(
        np.repeat(np.arange(2400), 8), np.repeat(query, 8), np.take_along_axis(shown[query], order, 1).ravel(),
        (order == clicked[:, None]).ravel(), query_ids=300, item_ids=600,
    )  # fmt: skip
    clicks = Clicks(queries, items, feedback, queries.mean(axis=0))
    assert sign * click_plausibility(clicks, np.zeros((24, 24)), rng)[1] > 5


def test_a_map_of_a_third_of_the_rank_is_the_nearest(rng):
    D = rng.normal(size=(6, 6))
    cut = cut_rank(D)
    assert np.linalg.matrix_rank(cut) == 2
    assert np.square(D - cut).sum() == pytest.approx(np.square(np.linalg.svd(D)[1][2:]).sum())


def test_one_click_is_enough_and_says_nothing(rng, world):
    queries, items, _ = world
    feedback = Feedback.from_triplets([0], [1], [2], query_ids=300, item_ids=600)
    clicks = Clicks(queries, items, feedback, queries.mean(axis=0))
    assert np.isfinite(learn_map(clicks, rng)[0]).all()
    assert np.isfinite(click_plausibility(clicks, np.zeros((24, 24)), rng)[0]).all()


def test_clicks_of_low_grade_count_less(rng, world):
    queries, items, relevant = world
    feedback, wrong = log_of(rng, relevant, 400, 0.4)
    worth = feedback.relevant * 1.0
    worth[feedback.relevant] = np.where(wrong, 0.05, 1.0)
    found = []
    for one in (feedback, replace(feedback, worth=worth)):
        move, plausibility, _ = learn_map(Clicks(queries, items, one, queries.mean(axis=0)), np.random.default_rng(0))
        assert ((plausibility > 0) & (plausibility < 1)).all()
        mapped = queries + (queries - queries.mean(axis=0)) @ move.T
        found.append(mean_average_precision(mapped, items, relevant))
    assert found[1] > found[0] + 0.01
