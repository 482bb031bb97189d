"""Rows that are dicts: river's own checks, keys that come and go, text, and what a frame at once gives."""

import numpy as np
import pytest

import nearkin
from each import each

river = pytest.importorskip("river")
from river import checks, datasets, evaluate, metrics, neighbors, stream  # noqa: E402

from nearkin.river import Classifier, Transformer  # noqa: E402

LIGHT = nearkin.RobustKNeighborsClassifier(learner=None, n_neighbors=3)
MODELS = {"classifier": Classifier(LIGHT, seed=0), "transformer": Transformer(seed=0)}
#: Checks that learn long streams; the fast ones show that the bridge holds.
FEW = ("check_emerging_features", "check_disappearing_features", "check_predict_proba_one", "check_transform_one")


def run_check(model, check):
    """River checks transformers on numeric targets; ours learn from classes, so they get a set with classes."""
    if isinstance(model, Transformer) and "dataset" in getattr(check, "keywords", {}):
        check(model.clone(), dataset=datasets.Phishing().take(200))
    else:
        check(model.clone())


@each(name=list(MODELS))
def test_it_keeps_the_rules_of_river(name):
    model = MODELS[name]
    short = [one for one in checks.yield_checks(model) if one.__name__ in FEW or not hasattr(one, "keywords")]
    assert len(short) > 10
    for check in short:
        run_check(model, check)


@pytest.mark.slow
@each(name=list(MODELS))
def test_it_passes_every_check_of_river(name):
    model = MODELS[name]
    for check in checks.yield_checks(model):
        run_check(model, check)


def rows(n, rng):
    y = rng.integers(0, 2, size=n)
    X = rng.normal(size=(n, 3)) + 4.0 * y[:, None]
    return [dict(zip("abc", one, strict=True)) for one in X.tolist()], y.tolist()


def test_a_new_key_gets_a_column_and_the_rows_before_it_have_0_there(rng):
    found, y = rows(60, rng)
    model = Classifier(LIGHT, seed=0)
    for x, label in zip(found[:40], y[:40], strict=True):
        model.learn_one(x, label)
    later = [{**x, "new": 5.0 * (i % 2)} for i, x in enumerate(found[40:])]
    for x, label in zip(later, y[40:], strict=True):
        model.learn_one(x, label)
    lessons = model._lessons
    assert lessons.columns.places == {"a": 0, "b": 1, "c": 2, "new": 3}
    assert lessons.held.rows.shape == (60, 6)  # columns double, so that not every key begins anew
    assert (lessons.held.rows[:40, 3:] == 0.0).all()
    np.testing.assert_array_equal(lessons.held.rows[41::2, 3], 5.0)
    assert model.predict_one({"a": 4.0, "b": 4.0, "c": 4.0, "other": 9.0}) == 1  # an unknown key says nothing
    assert model.predict_one({}) == 0  # keys that are not there count as 0


def test_text_is_a_key_of_its_own_and_gaps_are_left_out(rng):
    model = Classifier(LIGHT, seed=0)
    for _ in range(30):
        model.learn_one({"colour": "red", "size": None, "weight": float("nan")}, "apple")
        model.learn_one({"colour": "blue", "size": 0.1}, "plum")
    assert model._lessons.columns.places.keys() == {"colour=red", "colour=blue", "size"}
    assert model.predict_one({"colour": "red"}) == "apple"
    assert model.predict_one({"colour": "blue"}) == "plum"


@each(bad={"list": [1.0], "infinity": float("inf")})
def test_what_is_neither_number_nor_text_is_refused_and_changes_nothing(bad, rng):
    found, y = rows(20, rng)
    model = Classifier(LIGHT, seed=0)
    for x, label in zip(found, y, strict=True):
        model.learn_one(x, label)
    before = model.predict_proba_one(found[0])
    with pytest.raises(ValueError, match="feature 'z'"):
        model.learn_one({"a": 1.0, "z": bad}, 0)
    assert model.predict_proba_one(found[0]) == before
    assert len(model._lessons.held) == 20


def test_what_is_not_a_row_is_refused():
    pd = pytest.importorskip("pandas")
    model = Classifier(LIGHT, seed=0)
    with pytest.raises(ValueError, match="a row must be a dict from features to values; got list"):
        model.learn_one([1.0, 2.0], 1)
    with pytest.raises(ValueError, match="feature 'a' is infinite"):
        model.learn_one({"a": 10**400}, 1)
    with pytest.raises(ValueError, match="X has 3 rows and y has 2 labels"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), pd.Series([0, 1]))
    assert not len(model._lessons.held)


@each(name=list(MODELS))
def test_a_stream_may_begin_with_rows_that_hold_nothing(name, rng):
    model = MODELS[name].clone()
    for label in (0, 1) * 30:
        model.learn_one({"a": None}, label)
    found, y = rows(60, rng)
    for x, label in zip(found, y, strict=True):
        model.learn_one(x, label)
    if isinstance(model, Classifier):
        assert model.predict_one({"a": 4.0, "b": 4.0, "c": 4.0}) == 1
    else:
        assert all(np.isfinite(one) for one in model.transform_one(found[0]).values())


def test_a_frame_at_once_is_the_same_as_its_rows(rng):
    pd = pytest.importorskip("pandas")
    found, y = rows(80, rng)
    frame, labels = pd.DataFrame(found), pd.Series(y)
    by_rows, at_once = Classifier(LIGHT, seed=0), Classifier(LIGHT, seed=0)
    for x, label in zip(found, y, strict=True):
        by_rows.learn_one(x, label)
    for part in (slice(0, 7), slice(7, 60), slice(60, 80)):
        at_once.learn_many(frame[part], labels[part])
    shares = at_once.predict_proba_many(frame)
    assert shares.columns.tolist() == [0, 1]
    for i, x in enumerate(found):
        assert by_rows.predict_proba_one(x) == pytest.approx(shares.iloc[i].to_dict())
    assert by_rows.predict_many(frame[:0]).empty


def test_before_the_first_rows_there_is_nothing_to_say():
    assert Classifier().predict_proba_one({"a": 1.0}) == {}
    assert Classifier().predict_one({"a": 1.0}) is None
    assert Transformer().transform_one({"a": 1, "b": "x"}) == {"a": 1.0, "b=x": 1.0}  # as it is


def test_a_transformer_helps_neighbours_of_river_with_features_that_say_nothing(rng):
    y = rng.integers(0, 2, size=400)
    X = np.column_stack([y + 0.4 * rng.normal(size=400), 3.0 * rng.normal(size=(400, 9))])

    transformer, n_right = Transformer(seed=0), [0, 0]
    plain, learned = neighbors.KNNClassifier(), neighbors.KNNClassifier()
    for i, (x, label) in enumerate(stream.iter_array(X, y)):
        mapped = transformer.transform_one(x)
        if i > 60:
            n_right[0] += plain.predict_one(x) == label
            n_right[1] += learned.predict_one(mapped) == label
        if i >= 50:  # the space is there
            learned.learn_one(mapped, label)
        plain.learn_one(x, label)
        transformer.learn_one(x, label)
    assert n_right[1] > n_right[0] + 0.15 * 340


def test_a_pipeline_hands_mapped_rows_on(rng):
    y = rng.integers(0, 2, size=400)
    X = np.column_stack([y + 0.4 * rng.normal(size=400), 3.0 * rng.normal(size=(400, 9))])

    def measure(model):
        return evaluate.progressive_val_score(stream.iter_array(X, y), model, metrics.Accuracy()).get()

    plain, learned = measure(neighbors.KNNClassifier()), measure(Transformer(seed=0) | neighbors.KNNClassifier())
    assert learned > plain + 0.15


def test_the_module_offers_its_own_names_alone():
    import nearkin.river as bridge

    assert dir(bridge) == ["Classifier", "Transformer"]
    assert not hasattr(bridge, "RobustKNeighborsClassifier") and not hasattr(bridge, "RobustLODML")
