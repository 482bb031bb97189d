"""Folds, noise and preparation: what a method may see, and what it may not."""

import numpy as np
import pytest

from nearkin.paper import METHODS, draw_splits, get_protocol, prepare
from nearkin.paper.protocol import PROTOCOLS, Protocol, Split, split_inside
from small_datasets import make_dataset


@pytest.fixture
def data():
    return make_dataset("tiny")


def test_the_paper_has_five_folds_for_its_large_sets_and_ten_for_the_others():
    assert {name for name, one in PROTOCOLS.items() if one.n_folds == 5} == {
        "letters",
        "yale",
        "covid-resnet18",
        "covid-mobilenetv2",
    }
    assert get_protocol("wine").n_folds == get_protocol("german").n_folds == 10


@pytest.mark.parametrize("kind", ["uniform", "next-class", "boundary"])
def test_every_row_is_tested_once_a_draw_with_its_right_label(data, kind):
    folds = list(draw_splits(data, 20, kind, n_draws=2))
    assert len(folds) == 20
    for draw in (folds[:10], folds[10:]):
        tested = np.concatenate([fold.raw_test for fold in draw])
        labels = np.concatenate([fold.test_labels for fold in draw])
        order, expected = np.lexsort(tested.T), np.lexsort(data.X.T)
        assert np.array_equal(tested[order], data.X[expected])
        assert np.array_equal(labels[order], data.y[expected])


@pytest.mark.parametrize("kind", ["uniform", "next-class", "boundary"])
def test_only_training_labels_are_flipped_at_the_rate_given_and_anew_in_every_fold(data, kind):
    right = {row.tobytes(): label for row, label in zip(data.X, data.y, strict=True)}
    wrong = []
    for fold in draw_splits(data, 20, kind):
        truth = np.array([right[row.tobytes()] for row in fold.raw_train])
        wrong.append({row.tobytes() for row in fold.raw_train[truth != fold.labels]})
        assert len(wrong[-1]) == round(0.2 * len(truth))
    assert len(set(map(frozenset, wrong))) == len(wrong)


def test_seeds_fix_folds_and_noise_and_draws_differ(data):
    first, again, other = (list(draw_splits(data, 10, seed=seed, n_draws=2)) for seed in (3, 3, 4))
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one.train, two.train)
        assert np.array_equal(one.labels, two.labels)
        assert one.seed == two.seed
    assert not np.array_equal(first[0].raw_test, other[0].raw_test)
    assert not np.array_equal(first[0].raw_test, first[10].raw_test)


def test_features_are_scaled_by_what_the_training_rows_say(data):
    train, test = data.X[:50], data.X[50:]
    one = prepare(data, Protocol(), train, data.y[:50], test, data.y[50:], 0)
    other = prepare(data, Protocol(), train, data.y[:50], 1000 * test, data.y[50:], 0)
    assert np.array_equal(one.train, other.train)
    np.testing.assert_allclose(one.train.mean(axis=0), 0, atol=1e-12)
    spread = one.train.std(axis=0)
    np.testing.assert_allclose(spread, spread[0])
    assert 2 * (spread**2).sum() == pytest.approx(1.0)  # the mean squared distance of two rows


def test_without_z_scores_the_shape_of_the_data_stays(data):
    raw = prepare(data, Protocol(z_score=False), data.X, data.y, data.X, data.y, 0)
    ratio = raw.train.std(axis=0) / data.X.std(axis=0)
    np.testing.assert_allclose(ratio, ratio[0])


def test_constant_and_dropped_columns_do_no_harm():
    data = make_dataset("tiny", drop_columns=(1,))
    data.X[:, 1] = 7.0
    data.X[:, 2] = 3.0
    fold = next(draw_splits(data, 0))
    assert fold.train.shape[1] == data.X.shape[1] - 1
    assert np.isfinite(fold.train).all()
    assert np.isfinite(fold.test).all()


def test_principal_components_are_white_and_learned_from_training_rows(data):
    fold = prepare(data, Protocol(n_components=3), data.X[:60], data.y[:60], data.X[60:], data.y[60:], 0)
    np.testing.assert_allclose(np.cov(fold.raw_train.T), np.eye(3), atol=1e-10)
    assert fold.raw_test.shape == (len(data.X) - 60, 3)


def test_copies_stay_on_one_side_of_grouped_folds():
    data = make_dataset("tiny", n_classes=2, groups=True)
    group = {row.tobytes(): one for row, one in zip(data.X, data.groups, strict=True)}
    for fold in draw_splits(data, 0, grouped=True):
        train = {group[row.tobytes()] for row in fold.raw_train}
        assert train.isdisjoint(group[row.tobytes()] for row in fold.raw_test)


def test_labels_that_people_gave_are_taken_as_they_are_and_judged_on_other_rows():
    data = make_dataset("tiny", human=True)
    (fold,) = draw_splits(data, "crowd", "human")
    assert np.array_equal(fold.labels, data.noisy_labels["crowd"])
    assert np.array_equal(fold.test_labels, data.extra["y_test"])


def test_inner_folds_need_not_find_every_class_in_every_part():
    labels = np.array([0] * 10 + [1])
    rows = np.arange(11.0)[:, None]
    held = [inner.test for inner in split_inside(Split(rows, labels, rows, labels, rows, rows, 0))]
    assert sorted(np.concatenate(held).ravel()) == list(range(11))


@pytest.mark.parametrize("name", METHODS)
def test_every_column_learns_and_predicts_with_any_setting_that_may_be_drawn(name, data):
    method, rng = METHODS[name], np.random.default_rng(0)
    fold = next(draw_splits(data, 20))
    train, test = (fold.raw_train, fold.raw_test) if method.raw else (fold.train, fold.test)
    for params in ({}, method.draw(train.shape[1], rng), method.draw(train.shape[1], rng)):
        given = dict(params)
        found = method.build(params, 0.2, fold.seed).fit(train, fold.labels).predict(test)
        assert params == given
        assert found.shape == fold.test_labels.shape
        assert set(found) <= set(data.y)
