"""Rare classes and retrieval: what is thinned, what is corrected, and what the tables say."""

import numpy as np
from benchmarks import imbalance, retrieval
from sklearn.datasets import load_digits

import nearkin


def test_training_rows_have_the_share_and_test_rows_are_all_others(rng):
    is_rare = np.arange(900) % 3 == 0
    train, test = imbalance.thin(is_rare, 10, rng)
    assert (np.sum(is_rare[train]), np.sum(~is_rare[train])) == (40, 400)
    assert len(np.intersect1d(train, test)) == 0
    assert len(train) + len(test) == len(is_rare)


def test_a_run_has_every_method_with_plain_and_balanced_triplets():
    scores = imbalance.measure("wdbc", 10, 10.0, 0)["scores"]
    assert len(scores) == len(imbalance.LEARNERS) * 2 * 2
    assert scores["Euclidean, plain, 3-NN"] == scores["Euclidean, balanced, 3-NN"]
    assert all(0.0 <= value <= 100.0 for one in scores.values() for value in one.values())


def test_the_table_says_what_balance_adds():
    def run(draw, noise):
        methods = [f"{name}, {source}, Robust-kNN" for name in imbalance.LEARNERS for source in imbalance.SOURCES]
        scores = {one: {"G-mean": 70.0 + 2.0 * ("balanced" in one)} for one in methods}
        return {"dataset": "wdbc", "share": 10, "noise": noise, "draw": draw, "scores": scores}

    lines = list(imbalance.list_table([run(draw, noise) for draw in range(3) for noise in imbalance.NOISE]))
    assert len(lines) == 2 + len(imbalance.LEARNERS)
    assert lines[2] == "| Robust-LODML |" + " 70.0 ± 0.0 (+2.0 ± 0.0) |" * 3


def test_doubted_rows_get_the_label_that_others_vote_for():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400].astype(np.float32), y[:400]
    given, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    as_given, corrected, left_out = retrieval.list_lessons(X, given)
    assert len(as_given[0]) == len(corrected[0]) == 400 > len(left_out[0])
    assert np.mean(corrected[1] != y) < 0.3 * np.mean(is_wrong)
    changed = np.flatnonzero(corrected[1] != given)
    assert not np.isin(changed, left_out[0]).any()
