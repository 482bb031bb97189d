"""The forest: trees that say where a row ends, and votes by trees that have not seen the row or its group."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import nearkin
from nearkin.jury import ForestVoter, Groups, Trees
from nearkin.jury import forest as forest_of


@pytest.fixture
def noisy(blobs, rng):
    """Rows of three classes that overlap, some labels wrong."""
    X, y = blobs(n=90, d=4, spread=0.9)
    return X, np.where(rng.random(90) < 0.2, rng.integers(0, 3, 90), y)


def votes_without(voter, weights, row, trees):
    """The same in words: of the trees, each leaf of the row votes with the labels of the rows the tree has seen."""
    leaves, total = voter.trees.find_leaves(voter._rows), np.zeros(voter._n_classes)
    for t in trees:
        seen = [j for j in range(len(leaves)) if (int(voter._in_bag[j]) >> t) & 1 and leaves[j, t] == leaves[row, t]]
        if seen:
            counts = np.bincount(voter._codes[seen], weights[seen], voter._n_classes)
            total += counts / counts.sum()
    return total / total.sum()


def test_only_trees_that_have_not_seen_a_row_vote_on_it(noisy, rng):
    rows, codes = noisy
    voter, weights = ForestVoter("forest", rows, codes, 3), rng.random(90)
    votes = voter.left_out(weights)
    for row in (0, 17, 61):
        trees = [t for t in range(64) if not (int(voter._in_bag[row]) >> t) & 1]
        assert 10 < len(trees) < 40
        np.testing.assert_allclose(votes(np.array([row]))[0], votes_without(voter, weights, row, trees), rtol=1e-12)
    np.testing.assert_allclose(
        voter.answers(rows[[3, 4]], weights), [votes_without(voter, weights, i, range(64)) for i in (3, 4)], rtol=1e-12
    )


def test_a_row_and_its_group_have_no_say_about_the_row(noisy):
    rows, codes = noisy
    groups = Groups(np.arange(90) // 3)
    before = ForestVoter("forest", rows, codes, 3, groups).left_out(np.ones(90))(slice(None))
    other = codes.copy()
    other[30:33] = (codes[30:33] + 1) % 3
    voter = ForestVoter("forest", rows, codes, 3, groups)
    voter._codes = other  # the trees would be others
    after = voter.left_out(np.ones(90))(slice(None))
    np.testing.assert_array_equal(after[30:33], before[30:33])
    assert np.abs(after - before).max() > 0.01
    bags = voter._is_in_bag(slice(None)).reshape(30, 3, 64)
    assert (bags == bags[:, :1]).all()


def test_rows_end_where_scikit_learn_puts_them(noisy, rng):
    rows, codes = noisy
    rows = rows.astype(np.float32)
    tree = DecisionTreeClassifier(random_state=0, min_samples_leaf=2).fit(rows, codes).tree_
    # The same tree in our order: neighbouring children after their parents.
    order, child = [0], []
    for node in order:
        is_leaf = tree.children_left[node] < 0
        child.append(0 if is_leaf else len(order))
        order += [] if is_leaf else [tree.children_left[node], tree.children_right[node]]
    ours = object.__new__(Trees)
    ours.n_trees, ours.n_features, ours.child = 1, 4, np.array(child)
    ours.feature = np.maximum(tree.feature[order], 0)
    ours.threshold = tree.threshold[order]
    ours.check_stored()
    queries = np.concatenate([rows, rng.normal(size=(50, 4)).astype(np.float32)])
    np.testing.assert_array_equal(np.array(order)[ours.find_leaves(queries)[:, 0]], tree.apply(queries))


def test_leaves_hold_three_rows_or_more_and_trees_end(noisy):
    rows, codes = noisy
    samples = [np.arange(90), np.arange(0, 90, 2), np.arange(5)]
    trees = Trees.grow(rows, codes, 3, samples, np.random.default_rng(0))
    trees.check_stored()
    for t, sample in enumerate(samples):
        ends = trees.find_leaves(rows)[sample, t]
        assert (trees.child[ends] == 0).all()
        size = np.unique(ends, return_counts=True)[1]
        assert (size >= 3).all()
    assert (trees.find_leaves(rows)[:, 2] == 2).all()  # five rows are not split
    trees.child[np.flatnonzero(trees.child)[-1]] = 1
    with pytest.raises(ValueError, match="does not end in a leaf"):
        trees.check_stored()


def test_equal_rows_and_extreme_values_are_no_obstacle(rng):
    codes = rng.integers(0, 2, 40)
    for rows in (np.ones((40, 2)), np.tile(rng.normal(size=(4, 2)), (10, 1)), rng.choice([-3e38, 3e38], (40, 3))):
        voter = ForestVoter("forest", rows, codes, 2)
        votes = voter.left_out(np.ones(40))(slice(None))
        np.testing.assert_allclose(votes.sum(axis=1), 1.0)
        assert np.isfinite(voter.trees.threshold).all()


def test_many_rows_are_seen_by_few_trees_each_and_followed_in_pieces(rng, monkeypatch):
    rows = rng.normal(size=(600, 3))
    codes = (rows[:, 0] > 0).astype(np.int64)
    monkeypatch.setattr(forest_of, "_MOST_IN_BAG", 60)
    whole = ForestVoter("forest", rows, codes, 2)
    assert whole._is_in_bag(slice(None)).sum(axis=0).tolist() == [60] * 64
    expected = whole.left_out(np.ones(600))(slice(None))
    assert (expected.argmax(axis=1) == codes).mean() > 0.85
    monkeypatch.setattr(forest_of, "_KEPT", 1000)
    monkeypatch.setattr(forest_of, "_AT_ONCE", 500)
    pieces = ForestVoter("forest", rows, codes, 2)
    np.testing.assert_allclose(pieces.left_out(np.ones(600))(slice(None)), expected, rtol=1e-12)
    assert pieces._leaves is None


def test_many_classes_share_what_cuts_tell_apart(rng):
    codes = np.repeat(np.arange(100), 6)
    rows = np.column_stack([codes, codes % 7]) + 0.1 * rng.normal(size=(600, 2))
    votes = ForestVoter("forest", rows, codes, 100).left_out(np.ones(600))(slice(None))
    assert (votes.argmax(axis=1) == codes).mean() > 0.8


def test_a_loaded_forest_says_the_same(blobs, tmp_path):
    X, y = blobs(n=120, d=4, spread=0.8)
    model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "model.nearkin")
    one, other = (m.decision_.jury.voters[-1] for m in (model, nearkin.load(tmp_path / "model.nearkin")))
    assert isinstance(other, ForestVoter)
    weights = model.plausibility_
    np.testing.assert_array_equal(one.left_out(weights)(slice(None)), other.left_out(weights)(slice(None)))
    np.testing.assert_array_equal(one.answers(X[:9], weights), other.answers(X[:9], weights))
