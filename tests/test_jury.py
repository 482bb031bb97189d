"""Neighbours in several spaces that vote together, and what their votes say about labels."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearkin
from nearkin import RobustKNeighborsClassifier, RobustODML
from nearkin.neighbors import Jury, LocalNeighbours, rank_votes
from nearkin.neighbors import _local as local
from nearkin.neighbors._whitening import whitening
from nearkin.noise import flip_labels, own_share, posterior


def _literal(queries, rows, scale, k, own=None):
    """All distances, one at a time."""
    found = []
    for i, query in enumerate(queries):
        ranked = sorted(
            (((query - row) @ (query - row)) / scale[j], j) for j, row in enumerate(rows) if own is None or j != own[i]
        )
        found.append([j for _, j in ranked[:k]])
    return np.array(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "d", "k"), [(2, 1, 1), (9, 3, 8), (40, 5, 12), (150, 2, 60)])
def test_local_neighbours_are_those_of_all_distances(n, d, k, dtype, rng, monkeypatch):
    monkeypatch.setattr(local, "_QUERIES", 16)  # several tiles
    monkeypatch.setattr(local, "_ITEMS", 11)
    rows, queries = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(7, d)).astype(dtype)
    near = LocalNeighbours(rows)
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    expected = np.sort(distances, axis=1)[:, min(7, n - 1)]
    np.testing.assert_allclose(near.scale, expected, rtol=1e-5 if dtype == "float32" else 1e-12)
    for who, found, literal in (
        (rows, near.among(k), _literal(rows, rows, near.scale, k, np.arange(n))),
        (queries, near.query(queries, k), _literal(queries, rows, near.scale, k)),
    ):
        if dtype == "float64":
            np.testing.assert_array_equal(found, literal)
        else:  # neighbours that are equally near up to rounding may change places
            far = [((who[:, None] - rows[one]) ** 2).sum(axis=2) / near.scale[one] for one in (found, literal)]
            np.testing.assert_allclose(far[0], far[1], rtol=1e-4, atol=1e-6)


def test_rows_with_many_equals_do_not_become_neighbours_of_everything(rng):
    rows = np.concatenate([np.zeros((20, 2)), 5.0 + rng.normal(size=(40, 2))])
    near = LocalNeighbours(rows)
    assert near.scale[:20].max() == 0.0
    assert (near.among(10)[20:] >= 20).all()
    assert np.isfinite(near._factors).all()
    equal = LocalNeighbours(np.ones((5, 3)))
    assert sorted(equal.among(4)[2].tolist()) == [0, 1, 3, 4]


def test_a_common_offset_costs_no_digits(rng):
    rows = rng.normal(size=(60, 4))
    np.testing.assert_array_equal(LocalNeighbours(rows + 1e6).among(9), LocalNeighbours(rows).among(9))


def test_votes_fall_by_rank_and_sum_to_one(rng):
    index, codes, weights = rng.integers(0, 30, size=(8, 5)), rng.integers(0, 3, 30), rng.random(30)
    votes = rank_votes(index, codes, weights, 3, 2.0)
    for i in range(8):
        expected = np.zeros(3)
        for rank, j in enumerate(index[i]):
            expected[codes[j]] += weights[j] * np.exp(-rank / 2.0)
        np.testing.assert_allclose(votes[i], expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(rank_votes(index, codes, np.zeros(30), 3, 2.0), 1 / 3)


def test_the_posterior_is_bayes_rule(rng):
    """Against the probability worked out class by class, for votes that are the noisy posterior itself."""
    rate, n_classes, n = 0.3, 4, 50
    truth = rng.dirichlet(np.ones(n_classes), n)
    b = rate / (n_classes - 1)
    noisy = (1 - rate) * truth + b * (1 - truth)
    codes = rng.integers(0, n_classes, n)
    own = truth[np.arange(n), codes]
    seen = []

    def votes(weights):
        seen.append(weights)
        return noisy if len(seen) == 1 else truth - 1e-3

    found = posterior(votes, codes, rate)
    expected = (1 - rate) * own / ((1 - rate) * own + b * (1 - own))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    clipped = np.maximum(truth, 1e-3)
    clipped /= clipped.sum(axis=1, keepdims=True)
    first = clipped[np.arange(n), codes]
    np.testing.assert_allclose(seen[1], (1 - rate) * first / ((1 - rate) * first + b * (1 - first)), rtol=1e-9)
    np.testing.assert_array_equal(posterior(votes, codes, 0.0), 1.0)


def test_whitened_classes_are_round_and_wrong_labels_hardly_matter(rng):
    codes = rng.integers(0, 2, 4000)
    rows = rng.normal(size=(4000, 3)) @ np.diag([1.0, 4.0, 0.2]) + 6.0 * codes[:, None]
    weights = np.where(rng.random(4000) < 0.2, 1e-6, 1.0)
    given = np.where(weights < 0.5, 1 - codes, codes)
    white = whitening(rows, given, weights)
    spread = np.array([(rows @ white.T)[codes == one].std(axis=0) for one in (0, 1)])
    assert spread.max() / spread.min() < 1.15
    mapped = rows @ white.T
    np.testing.assert_allclose(2 * mapped.var(axis=0).sum(), 1.0, rtol=1e-9)


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_many_neighbours_in_several_spaces_beat_three_and_find_wrong_labels(load):
    X, y = load(return_X_y=True)
    accuracy, areas = {"auto": [], 3: [], "plain": []}, []
    for fold, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=1).split(X, y)):
        noisy, is_wrong = flip_labels(y[train], 0.25, random_state=fold)
        plain = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(X[train], noisy)
        accuracy["plain"].append(plain.score(X[test], y[test]))
        for k in ("auto", 3):
            model = RobustKNeighborsClassifier(n_neighbors=k, random_state=0).fit(X[train], noisy)
            accuracy[k].append(model.score(X[test], y[test]))
            if k == "auto":
                areas.append(roc_auc_score(is_wrong, -model.score_))
                assert abs(model.noise_rate_ - 0.25) < 0.08
    assert np.mean(accuracy["auto"]) > 0.94
    assert np.mean(accuracy["auto"]) >= np.mean(accuracy[3]) - 0.005
    assert np.mean(accuracy["auto"]) > np.mean(accuracy["plain"]) + 0.08
    assert np.mean(areas) > 0.98


def test_auto_works_with_a_learner_of_ones_own_and_survives_a_file(blobs, tmp_path):
    X, y = blobs(n=120, d=4, spread=0.8)
    for learner in (RobustODML(random_state=0), None, "auto"):
        model = RobustKNeighborsClassifier(learner, n_neighbors="auto", random_state=0).fit(X, y)
        shares = model.predict_proba(X[:20])
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert model.score(X, y) > 0.8
        nearkin.save(model, tmp_path / "model.nearkin")
        again = nearkin.load(tmp_path / "model.nearkin")
        np.testing.assert_array_equal(again.predict_proba(X[:20]), shares)
        np.testing.assert_array_equal(again._jury.votes(np.ones(120)), model._jury.votes(np.ones(120)))
        assert model.kneighbors(X[:3])[1].shape == (3, int(model._jury.bandwidth))


def test_auto_refuses_what_it_cannot_do_and_says_so(blobs):
    from scipy import sparse

    X, y = blobs(n=60, d=4)
    for learner, rows in ((nearkin.RobustOASIS(), X), ("auto", sparse.csr_array(X)), (nearkin.OKS(), X)):
        with pytest.raises(ValueError, match="n_neighbors='auto' needs dense rows and a learner of a distance"):
            RobustKNeighborsClassifier(learner, n_neighbors="auto").fit(rows, y)


def test_scores_are_half_where_nobody_votes():
    np.testing.assert_array_equal(own_share(lambda weights: np.zeros((3, 2)), np.array([0, 1, 0])), 0.5)
    jury = Jury([LocalNeighbours(np.arange(4.0)[:, None])], np.array([0, 0, 1, 1]), 2)
    assert jury.bandwidth in (2.0, 4.0, 8.0, 16.0, 32.0)


def test_auto_takes_several_matrices_and_equal_rows(blobs):
    X, y = blobs(n=60, d=5)
    parts = {"a": X[:, :2], "b": X[:, 2:]}
    model = RobustKNeighborsClassifier(nearkin.OMDML(random_state=0), n_neighbors="auto").fit(parts, y)
    assert model.score(parts, y) > 0.8
    same = RobustKNeighborsClassifier(n_neighbors="auto", random_state=0).fit(np.ones((10, 3)), np.arange(10) % 2)
    assert np.isfinite(same.predict_proba(np.ones((2, 3)))).all()
