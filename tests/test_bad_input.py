"""Bad input is refused by name and changes nothing; odd input gives a right, finite model."""

import copy
import types

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import nearkin
from each import each
from printed import printed
from systems import DIFFERENT as LEARNERS

MODELS = {
    **{cls.__name__: (lambda cls=cls, **more: cls(random_state=0, **more)) for cls in LEARNERS},
    "kNN": lambda **more: nearkin.RobustKNeighborsClassifier(random_state=0, **more),
    "kNN-OASIS": lambda **more: nearkin.RobustKNeighborsClassifier(nearkin.RobustOASIS(random_state=0), **more),
}

# scikit-learn's look for infinity adds all numbers up, which may overflow both ways before it looks closer.
sum_may_overflow = pytest.mark.filterwarnings("ignore:invalid value encountered in reduce:RuntimeWarning")
SOME = (nearkin.RobustOASIS, nearkin.RobustODML, nearkin.RobustLODML, nearkin.Euclidean)
ROBUST = (nearkin.RobustOASIS, nearkin.RobustODML, nearkin.RobustLOSL, nearkin.RobustLODML)
every_learner = each(cls=LEARNERS)
every_model = each(make=MODELS)


def _data(seed=0, n=24, d=4, k=3):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y % d] += 3.0
    return X, y


def _owners(model):
    """Names under which a model may speak: its own, or that of the learner inside it."""
    names = [type(model).__name__]
    if isinstance(model, nearkin.RobustKNeighborsClassifier):
        inner = model.learner if model.learner not in ("auto", None) else nearkin.RobustLODML()
        names.append(type(inner).__name__)
    return names


#: Derived from the rest at first use.
CACHES = ("_search", "_root")


def _frozen(value):
    """Deep comparable picture of a value."""
    if isinstance(value, np.ndarray):
        inside = tuple(map(_frozen, value.ravel())) if value.dtype.hasobject else value.tobytes()
        return "array", value.dtype.str, value.shape, inside
    if sparse.issparse(value):
        return "sparse", tuple(map(_frozen, (value.data, value.indices, value.indptr))), value.shape
    if isinstance(value, np.random.Generator):
        return "generator", _frozen(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return "legacy", _frozen(value.get_state(legacy=False))
    if isinstance(value, dict):
        return "dict", tuple((_frozen(k), _frozen(v)) for k, v in value.items() if k not in CACHES)
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(_frozen, value))
    if isinstance(value, (type, types.FunctionType)) or not hasattr(value, "__dict__"):
        return repr(value)
    return type(value).__name__, _frozen(vars(value))


def _refuses(call, model, *words):
    """The call raises a ValueError that names the model; model and message stay as they should."""
    before = _frozen(model)
    with pytest.raises(ValueError) as caught:
        call()
    text = str(caught.value)
    assert any(name in text for name in _owners(model)), text
    for word in words:
        assert word in text, text
    assert _frozen(model) == before
    return text


def _learner_of(model):
    """The learner itself, or the one that a classifier fitted; None for a jury, which has no single one."""
    return getattr(model, "learner_", None) if hasattr(model, "predict") else model


def _is_sound(model, X, y):
    """Finite parts, plausibilities in (0, 1], finite answers."""
    n = X.shape[0]
    assert model.plausibility_.shape == (n,)
    assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()
    learner = _learner_of(model)
    if learner is not None:
        for part in (learner.metric_, learner.components_, learner.query_map_, learner.item_map_, learner.transform(X)):
            assert np.isfinite(part).all()
        new = learner.plausibility(X, y)
        assert ((new > 0) & (new <= 1)).all()
    if model is not learner:
        shares = model.predict_proba(X)
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0)
        assert np.isin(model.predict(X), model.classes_).all()


def _agree(one, other, X, Y, rtol=1e-6):
    """Two models that learned the same, each on its own rows."""
    np.testing.assert_allclose(one.plausibility_, other.plausibility_, rtol=rtol, atol=rtol)
    a, b = _learner_of(one), _learner_of(other)
    if a is not None:
        np.testing.assert_allclose(a.metric_, b.metric_, rtol=rtol, atol=rtol)
        mapped, expected = a.transform(X), b.transform(Y)  # equal up to a rotation
        np.testing.assert_allclose(mapped @ mapped.T, expected @ expected.T, rtol=rtol, atol=rtol)
    if one is not a:
        np.testing.assert_array_equal(one.predict(X), other.predict(Y))


# ---------------------------------------------------------------------------------- values that are no numbers

BAD_VALUES = {"NaN": np.nan, "infinity": np.inf, "minus infinity": -np.inf}


@each(kind=tuple(BAD_VALUES))
@every_model
def test_fit_refuses_values_that_are_not_finite_and_names_itself(make, kind):
    X, y = _data()
    X[3, 1] = BAD_VALUES[kind]
    for rows in (X, X.astype(np.float32), sparse.csr_array(X)):
        model = make()
        what = f"row 3 holds {'NaN' if kind == 'NaN' else 'infinity'}"
        _refuses(lambda rows=rows, model=model: model.fit(rows, y), model, what, " in column 1; fill the gaps")


@each(kind=tuple(BAD_VALUES))
@every_learner
def test_partial_fit_refuses_values_that_are_not_finite_and_learns_nothing(cls, kind):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    bad = X[:6].copy()
    bad[3, 1] = BAD_VALUES[kind]
    _refuses(lambda: model.partial_fit(bad, y[:6]), model)


@each(kind=tuple(BAD_VALUES))
@every_model
def test_answers_refuse_values_that_are_not_finite(make, kind):
    X, y = _data()
    model = make().fit(X, y)
    bad = X[:6].copy()
    bad[3, 1] = BAD_VALUES[kind]
    where = " in column 1; fill the gaps"
    if hasattr(model, "predict"):
        _refuses(lambda: model.predict(bad), model, where)
        _refuses(lambda: model.kneighbors(bad), model, where)
    else:
        _refuses(lambda: model.transform(bad), model, where)
        _refuses(lambda: model.plausibility(bad, y[:6]), model, where)
        _refuses(lambda: model.pair_score(bad, X[:6]), model, where)


def test_a_gap_where_none_was_learned_is_named_by_its_column():
    X, y = _data()
    table = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    holes = table.copy()
    holes.loc[4, "c2"] = np.nan
    where = "row 4 holds NaN in column 'c2'"
    for model in (nearkin.RobustLODML(), nearkin.RobustKNeighborsClassifier()):
        model.fit(table, y)
        ask = getattr(model, "predict", None) or model.transform
        _refuses(lambda ask=ask: ask(holes), model, where)
    with pytest.raises(nearkin.errors.InputError, match=where):
        nearkin.OCTG().build(holes, y)
    with pytest.raises(nearkin.errors.InputError, match=r"modality 'b': .*row 4 holds NaN in column 'c2'"):
        nearkin.OMDML().fit({"a": table, "b": holes}, y)


@every_learner
def test_triplets_with_values_that_are_not_finite_are_refused(cls):
    X, _ = _data()
    for where in range(3):
        parts = [X[:6].copy(), X[6:12].copy(), X[12:18].copy()]
        parts[where][2, 0] = np.nan
        model = cls(random_state=0)
        _refuses(lambda model=model, parts=parts: model.fit_triplets(*parts), model)
        model.fit_triplets(X[:6], X[6:12], X[12:18])
        _refuses(lambda model=model, parts=parts: model.fit_triplets(*parts), model)
        _refuses(lambda model=model, parts=parts: model.partial_fit_triplets(*parts), model)


@every_model
def test_text_in_the_rows_is_refused(make):
    model = make()
    _refuses(lambda: model.fit([["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]], [0, 1, 0, 1]), model)
    mixed = np.array([[1.0, "b"], [2.0, 3.0], [1.0, 1.0], [2.0, 2.0]], dtype=object)
    _refuses(lambda: model.fit(mixed, [0, 1, 0, 1]), model)


@every_model
def test_numbers_in_an_object_array_are_taken_as_numbers(make):
    X, y = _data()
    _agree(make().fit(X.astype(object), y), make().fit(X, y), X, X)


@every_model
def test_complex_rows_are_refused(make):
    X, y = _data()
    model = make()
    with pytest.raises(ValueError, match=r"[Cc]omplex"):
        model.fit(X + 1j, y)
    assert _frozen(model) == _frozen(make())


# ---------------------------------------------------------------------------------- too few classes or rows


@every_model
def test_one_class_is_refused_and_the_message_says_what_to_do(make):
    X, _ = _data()
    model = make()
    hint = ["Pass `classes=`"] if hasattr(model, "partial_fit_triplets") else []
    _refuses(lambda: model.fit(X, np.zeros(len(X))), model, "at least two classes", *hint)


@every_learner
def test_first_batch_of_one_class_is_refused_unless_the_classes_are_declared(cls):
    X, y = _data()
    model = cls(random_state=0)
    one = y == 0
    _refuses(lambda: model.partial_fit(X[one], y[one]), model, "at least two classes")
    _refuses(lambda: model.partial_fit(X[one], y[one], classes=[0]), model, "at least two classes")
    model.partial_fit(X[one], y[one], classes=[0, 1, 2])
    model.partial_fit(X, y)
    _is_sound(model, X, y)


@every_model
def test_zero_rows_are_refused(make):
    X, y = _data()
    model = make()
    _refuses(lambda: model.fit(X[:0], y[:0]), model, "0 sample")
    _refuses(lambda: model.fit(X[:, :0], y), model, "0 feature")
    model.fit(X, y)
    if hasattr(model, "predict"):
        _refuses(lambda: model.predict(X[:0]), model, "0 sample")
    else:
        _refuses(lambda: model.partial_fit(X[:0], y[:0]), model, "0 sample")
        _refuses(lambda: model.partial_fit_triplets(X[:0], X[:0], X[:0]), model, "0 sample")
        _refuses(lambda: model.transform(X[:0]), model, "0 sample")


@every_model
def test_a_single_row_is_refused_at_fit(make):
    X, y = _data()
    model = make()
    _refuses(lambda: model.fit(X[:1], y[:1]), model)


@every_learner
def test_a_single_row_is_learned_in_mid_stream(cls):
    X, y = _data()
    model = cls(random_state=0).partial_fit(X[:12], y[:12])
    for row in range(12, 24):
        model.partial_fit(X[row : row + 1], y[row : row + 1])
    whole = cls(random_state=0).partial_fit(X[:12], y[:12]).partial_fit(X[12:], y[12:])
    np.testing.assert_allclose(model.metric_, whole.metric_, rtol=1e-9, atol=1e-9)
    assert model.n_rows_seen_ == 24


@each(source=("octg", "one_pass", "batch", "random"))
@every_learner
def test_two_rows_of_two_classes_are_enough_to_begin(cls, source):
    X, y = _data(n=2, k=2)
    model = cls(triplets=source, random_state=0).fit(X, y)
    _is_sound(model, X, y)


@each(source=("octg", "one_pass", "batch", "random"))
@every_learner
def test_two_rows_per_class_give_a_sound_model(cls, source):
    X, y = _data(n=6, k=3)
    _is_sound(cls(triplets=source, random_state=0).fit(X, y), X, y)


@each(source=("octg", "one_pass", "batch", "random"))
@every_learner
def test_class_with_one_row_gives_a_sound_model(cls, source):
    X, y = _data()
    y = y.copy()
    y[7] = 9
    model = cls(triplets=source, random_state=0).fit(X, y)
    assert 9 in model.classes_
    _is_sound(model, X, y)


@every_learner
def test_more_centres_than_rows_of_a_class_give_a_sound_model(cls):
    X, y = _data(n=9)
    _is_sound(cls(triplets=nearkin.OCTG(n_centers=7), random_state=0).fit(X, y), X, y)


@each(source=("one_pass", "random"))
@every_learner
def test_thousands_of_classes_with_two_rows_each(cls, source):
    X, y = _many_classes(2000)
    model = cls(triplets=source, random_state=0).fit(X, y)
    assert len(model.classes_) == 2000
    assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()
    assert np.isfinite(model.metric_).all()


@each(source=("octg", "neighbours"))
def test_thousands_of_classes_with_two_rows_each_and_centres_or_neighbours(source):
    X, y = _many_classes(2000)
    model = nearkin.RobustLODML(triplets=source, random_state=0).fit(X, y)
    assert len(model.classes_) == 2000
    if source == "octg":
        assert len(model.triplet_source_.centers_) == 2000
    assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()
    assert np.isfinite(model.metric_).all()


def test_classifier_with_a_thousand_classes_of_two_rows_finds_the_other_row():
    X, y = _many_classes(1000)
    model = nearkin.RobustKNeighborsClassifier(n_neighbors=2, noise_rate=0.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95


def _many_classes(k):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(k), 2)
    return rng.normal(size=(k, 4))[y] + 0.01 * rng.normal(size=(2 * k, 4)), y


# ---------------------------------------------------------------------------------- shapes


@every_model
def test_rows_of_another_width_are_refused(make):
    X, y = _data()
    model = make().fit(X, y)
    for bad in (X[:, :3], np.hstack([X, X]), sparse.csr_array(X[:, :3])):
        calls = (
            [model.predict, model.predict_proba, model.kneighbors]
            if hasattr(model, "predict")
            else [
                lambda Z, model=model: model.partial_fit(Z, y),
                model.transform,
                model.map_queries,
                model.map_items,
                lambda Z, model=model: model.plausibility(Z, y),
                lambda Z, model=model: model.pair_score(X, Z),
                lambda Z, model=model: model.pair_score(Z, X),
                lambda Z, model=model: model.partial_fit_triplets(Z, Z, Z),
                lambda Z, model=model: model.partial_fit_triplets(X, X, Z),
            ]
        )
        for call in calls:
            _refuses(lambda call=call, bad=bad: call(bad), model, f"{bad.shape[1]} features", "4 features")


@every_learner
def test_triplets_whose_parts_differ_in_width_or_number_are_refused(cls):
    X, _ = _data()
    model = cls(random_state=0)
    _refuses(lambda: model.fit_triplets(X[:4], X[:4, :2], X[:4]), model, "features")
    _refuses(lambda: model.fit_triplets(X[:4], X[:5], X[:4]), model, "[4, 5, 4]")
    _refuses(lambda: model.fit_triplets(X[:4], X[:4], X[:3]), model, "[4, 4, 3]")


@every_learner
def test_pairs_whose_sides_differ_in_number_are_refused(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    _refuses(lambda: model.pair_score(X[:4], X[:5]), model, "4", "5")


@every_model
def test_flat_rows_are_refused(make):
    X, y = _data()
    model = make()
    _refuses_quietly(lambda: model.fit(X[:, 0], y), "2D array")
    model.fit(X, y)
    _refuses_quietly(lambda: (model.predict if hasattr(model, "predict") else model.transform)(X[0]), "2D array")


def _refuses_quietly(call, *words):
    with pytest.raises(ValueError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@every_model
def test_labels_of_another_number_are_refused(make):
    X, y = _data()
    model = make()
    _refuses(lambda: model.fit(X, y[:-1]), model, "24", "23")
    _refuses(lambda: model.fit(X[:-1], y), model, "24", "23")
    model.fit(X, y)
    _refuses(lambda: model.fit(X, y[:-1]), model, "24", "23")
    if not hasattr(model, "predict"):
        _refuses(lambda: model.partial_fit(X, y[:-1]), model, "24", "23")
        _refuses(lambda: model.plausibility(X, y[:-1]), model, "24", "23")


@every_model
def test_labels_with_two_columns_are_refused(make):
    X, y = _data()
    model = make()
    with pytest.raises(ValueError, match="1d array"):
        model.fit(X, np.column_stack([y, y]))
    assert _frozen(model) == _frozen(make())


@every_model
def test_missing_labels_argument_is_refused(make):
    X, _ = _data()
    model = make()
    _refuses(lambda: model.fit(X, None), model, "requires y")


# ---------------------------------------------------------------------------------- labels


def _object(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


MISSING = {
    "NaN among floats": np.array([0.0, np.nan, 1.0, 0.0]),
    "infinity among floats": np.array([0.0, np.inf, 1.0, 0.0]),
    "NaN among objects": _object(["a", float("nan"), "b", "a"]),
    "NaN in a list of text": ["a", float("nan"), "b", "a"],
    "NaN in a list of numbers": [0, float("nan"), 1, 0],
    "None among objects": _object(["a", None, "b", "a"]),
    "None in a list of text": ["a", None, "b", "a"],
    "None in a list of numbers": [0, None, 1, 0],
    "None in a list of tuples": [("a",), None, ("b",), ("a",)],
    "NaN in a list of tuples": [("a",), float("nan"), ("b",), ("a",)],
    "NA among objects": _object(["a", pd.NA, "b", "a"]),
    "NA in text": pd.Series(["a", None, "b", "a"], dtype="string"),
    "missing text": pd.Series(["a", None, "b", "a"]),
    "NA among integers": pd.Series([0, None, 1, 0], dtype="Int64"),
    "missing category": pd.Series(pd.Categorical(["a", None, "b", "a"])),
    "NaT among objects": _object(["a", pd.NaT, "b", "a"]),
    "NaT among dates": np.array(["2020-01-01", "NaT", "2021-01-01", "2020-01-01"], dtype="datetime64[D]"),
}


@each(kind=tuple(MISSING), name=("RobustOASIS", "RobustLODML", "Euclidean", "kNN"))
def test_missing_label_is_refused(name, kind):
    X, _ = _data(n=4, k=2)
    model = MODELS[name]()
    _refuses(lambda: model.fit(X, MISSING[kind]), model, "row 1", "Drop such rows")


@every_learner
def test_missing_label_in_mid_stream_is_refused_and_nothing_is_learned(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X, y.astype(float))
    bad = y[:6].astype(float)
    bad[2] = np.nan
    _refuses(lambda: model.partial_fit(X[:6], bad), model, "row 2")
    _refuses(lambda: model.plausibility(X[:6], bad), model, "row 2")


@every_model
def test_continuous_labels_are_refused(make):
    X, _ = _data()
    model = make()
    _refuses(lambda: model.fit(X, np.linspace(0, 1, len(X))), model, "continuous")


@every_model
def test_labels_that_cannot_be_hashed_are_refused(make):
    X, _ = _data(n=4, k=2)
    model = make()
    _refuses(lambda: model.fit(X, _object([{"a": 1}, {"b": 1}, {"a": 1}, {"b": 1}])), model)


@every_learner
def test_label_outside_the_declared_classes_is_refused(cls):
    X, y = _data()
    model = cls(random_state=0)
    _refuses(lambda: model.partial_fit(X, y, classes=[0, 1]), model, "[2]", "declared classes", "`classes`")
    model.partial_fit(X, y, classes=[0, 1, 2])
    strange = y[:6].copy()
    strange[4] = 7
    _refuses(lambda: model.partial_fit(X[:6], strange), model, "[7]", "declared classes")


@every_learner
def test_classes_that_differ_from_the_first_call_are_refused(cls):
    X, y = _data()
    model = cls(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    _refuses(lambda: model.partial_fit(X, y, classes=[0, 1, 2, 3]), model, "classes")
    model.partial_fit(X, y, classes=[2, 1, 0])


@every_learner
def test_new_class_may_appear_in_mid_stream_when_none_were_declared(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    model.partial_fit(X[:6], np.full(6, 7))
    assert model.classes_.tolist() == [0, 1, 2, 7]
    model.partial_fit(X, y)
    _is_sound(model, X, y)


@every_learner
def test_plausibility_of_an_unknown_label_is_refused(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    strange = y.copy()
    strange[5] = 7
    _refuses(lambda: model.plausibility(X, strange), model, "[7]", "not in training", "partial_fit")


@every_learner
def test_plausibility_of_a_class_declared_but_never_seen_is_refused(cls):
    X, y = _data()
    model = cls(random_state=0).partial_fit(X, y, classes=[0, 1, 2, 3])
    _refuses(lambda: model.plausibility(X[:2], [0, 3]), model, "[3]", "not in training")


@every_learner
def test_plausibility_after_triplets_alone_is_refused(cls):
    X, y = _data()
    model = cls(random_state=0).fit_triplets(X[:8], X[8:16], X[16:])
    _refuses(lambda: model.plausibility(X, y), model, "partial_fit")


def test_fitted_learner_inside_the_classifier_must_know_the_labels():
    X, y = _data()
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustLODML(random_state=0).fit(X, y))
    _refuses(lambda: model.fit(X, np.where(y == 0, 7, y)), model, "[7]")


# ---------------------------------------------------------------------------------- parameters

NUMBERS = (-1, float("nan"), "1", None, True, np.True_, [0.1], 1j)
COUNTS = (0, -1, 1.5, "3", None, True, np.True_, [2])
SWITCHES = (1, 0, None, "yes", 1.0)

WRONG = {
    "C": NUMBERS,
    "loss": ("squared", None, 1, True, nearkin.RescaledHinge, nearkin.Hinge, nearkin.OCTG()),
    "eta": (*NUMBERS, float("inf")),
    "max_hq_iter": COUNTS,
    "hq": ("both", None, 1, True),
    "n_epochs": COUNTS,
    "shuffle": SWITCHES,
    "rescore": SWITCHES,
    "scale": ("standard", "Auto", 1, True, False, 0.5, nearkin.MovingScale),
    "device": ("gpu", "CUDA", 0, True, None, ""),
    "triplets": ("all", "OCTG", None, 3, True, nearkin.OCTG, nearkin.RescaledHinge()),
    "random_state": ("0", -1, 1.5, True, [1, 2]),
    "psd": ("yes", None, True, "Project"),
    "n_components": (0, -1, 1.5, "2", True, 99),
    "init": ("random", None, 3, True, [["a", "b", "c", "d"]], object(), [[1.0, 2.0], [3.0]], {}),
    "solver": ("newton", None, True),
    "step_size": (*NUMBERS, 0, float("inf")),
    "n_steps": COUNTS,
    "mu": (*NUMBERS, 0),
    "modalities": ("text", 3, 2.5, True, [], {}, [4, 4], [3, 0, 1], [[0, 1], [1, 2, 3]], [[0], [1, 99]], {"a": ["b"]}),
    "beta": (*NUMBERS, 0, 1, 2.0),
    "margin": (*NUMBERS, float("inf")),
    "n_projections": COUNTS,
    "rank": (0, -1, 1.5, "3", True),
    "buffer": COUNTS,
    "C_weights": NUMBERS,
    "simplex": SWITCHES,
    "exact": SWITCHES,
    "cold_start": SWITCHES,
    "step": ("pairs", None, True),
    "bounds": ("Auto", None, 1.0, (1.0,), (0.0, 1.0), (2.0, 1.0), (1.0, float("inf")), ("a", "b"), True),
}
WRONG_OF_CLASSIFIER = {
    "learner": ("lodml", 3, True, nearkin.RobustLODML, nearkin.OCTG(), object()),
    "n_neighbors": COUNTS,
    "weights": ("Uniform", "distance", None, 1, True),
    "noise_rate": (-0.1, 1.0, 1.5, float("nan"), "Auto", None, True),
    "random_state": ("0", -1, 1.5, True, [1, 2]),
    "voters": ("forest", 3, True, nearkin.RobustLODML(), [3], [object()], [nearkin.RobustLODML]),
    "device": ("gpu", "CUDA", 0, True, None, ""),
}
WRONG_OF_SOURCES = {
    nearkin.OCTG: {
        "n_centers": COUNTS,
        "margin": (*NUMBERS, float("inf")),
        "metric": ("cosine", None, True),
        "max_impostors": (0, -1, 1.5, "3", True),
        "update_centers": SWITCHES,
        "balance": SWITCHES,
        "refresh": COUNTS,
        "n_init": (0, 1, 1.5, "3", True),
        "max_centers": (1, 0, -1, 2.5, "3", True),
        "forget_after": (0.5, -1.0, float("inf"), float("nan"), "3", True),
    },
    nearkin.BatchTriplets: {
        "n_targets": COUNTS,
        "margin": (*NUMBERS, float("inf")),
        "max_impostors": (0, -1, 1.5, "3", True),
    },
    nearkin.RandomTriplets: {"n_per_row": COUNTS},
    nearkin.OnePassTriplets: {"cold_start": SWITCHES},
}


def test_every_parameter_has_wrong_values_here():
    known = set().union(*(cls().get_params(deep=False) for cls in LEARNERS))
    assert known == set(WRONG)
    assert set(nearkin.RobustKNeighborsClassifier().get_params(deep=False)) == set(WRONG_OF_CLASSIFIER)
    for cls, wrong in WRONG_OF_SOURCES.items():
        assert set(cls().get_params()) - {"centers", "center_labels"} == set(wrong)


def _refuses_value(call, model, owner, name, value):
    before = _frozen(model)
    with pytest.raises(ValueError) as caught:
        call()
    text = str(caught.value)
    for word in (owner, name, "must be" if value != 99 else "at most", repr(value)):
        assert word in text, f"{word!r} is not in: {text}"
    assert _frozen(model) == before


@every_learner
def test_wrong_value_of_a_parameter_is_refused_with_owner_name_rule_and_value(cls):
    X, y = _data()
    for name, value in [(one, value) for one in cls().get_params(deep=False) for value in WRONG[one]]:
        model = cls(**{name: value})
        _refuses_value(lambda model=model: model.fit(X, y), model, cls.__name__, name, value)
        _refuses_value(lambda model=model: model.partial_fit(X, y), model, cls.__name__, name, value)
        if name not in ("random_state", "init", "n_components"):
            _refuses_value(lambda model=model: model.fit_triplets(X, X, X), model, cls.__name__, name, value)


@each(name=tuple(WRONG_OF_CLASSIFIER), learner=("auto", None, nearkin.RobustOASIS()))
def test_wrong_value_of_a_parameter_of_the_classifier_is_refused(name, learner):
    X, y = _data()
    for value in WRONG_OF_CLASSIFIER[name]:
        model = nearkin.RobustKNeighborsClassifier(**{"learner": learner, name: value})
        _refuses_value(lambda model=model: model.fit(X, y), model, "RobustKNeighborsClassifier", name, value)


def test_wrong_number_of_neighbours_is_refused_when_asked():
    X, y = _data()
    model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
    for value in (0, -1, 1.5, "3", True):
        _refuses_value(
            lambda value=value: model.kneighbors(X, value), model, type(model).__name__, "n_neighbors", value
        )
    assert model.kneighbors(X, 10_000)[1].shape == (len(X), len(model.kept_))


@each(cls=tuple(WRONG_OF_SOURCES))
def test_wrong_value_of_a_parameter_of_a_source_is_refused(cls):
    X, y = _data()
    for name, value in ((name, value) for name, values in WRONG_OF_SOURCES[cls].items() for value in values):
        source = cls(**{name: value})
        _refuses_value(lambda source=source: source.build(X, y), source, cls.__name__, name, value)
        model = nearkin.RobustLODML(triplets=source)
        _refuses_value(lambda model=model: model.fit(X, y), model, cls.__name__, name, value)


@each(
    init=(np.eye(3), np.eye(5, 4), np.full((2, 4), np.nan), np.eye(4)[0], np.eye(4)[None]),
    cls=(nearkin.LOSL, nearkin.LODML),
)
def test_start_of_a_wrong_shape_or_with_holes_is_refused(cls, init):
    X, y = _data()
    model = cls(2, init=init, random_state=0)
    _refuses(lambda: model.fit(X, y), model, "`init`", "shape")


@pytest.mark.parametrize(
    ("centers", "labels", "word"),
    (
        ([[0.0, 1.0]], [0], "centers"),
        ([0.0, 1.0, 2.0, 3.0], [0], "centers"),
        ([[0.0, 1.0, 2.0, np.nan]], [0], "centers"),
        ([["a", "b", "c", "d"]], [0], "centers"),
        (np.eye(4)[:2], None, "center_labels"),
        (np.eye(4)[:2], [0], "center_labels"),
        (np.eye(4)[:2], [0, None], "y holds None"),
    ),
)
def test_given_centres_that_do_not_fit_are_refused(centers, labels, word):
    X, y = _data()
    model = nearkin.RobustLODML(triplets=nearkin.OCTG(centers=centers, center_labels=labels), random_state=0)
    before = _frozen(model)
    with pytest.raises(ValueError, match="OCTG") as caught:
        model.fit(X, y)
    assert word in str(caught.value)
    assert _frozen(model) == before


def test_learned_matrix_that_is_not_a_distance_has_no_map_and_says_so():
    rng = np.random.default_rng(0)
    X, positives, negatives = rng.normal(size=(3, 60, 3))
    model = nearkin.ODML(C=5.0, psd="none", scale=None).fit_triplets(X, positives, negatives)
    assert np.linalg.eigvalsh(model.metric_)[0] < -1e-3
    _refuses(lambda: model.transform(X), model, "negative eigenvalue", "psd='project'")


def test_steps_that_explode_are_refused():
    X, y = _data()
    for solver in ({"step_size": 1e200, "n_steps": 3}, {"C": 1e300, "n_steps": 3}):
        model = nearkin.LODML(solver="subgradient", random_state=0, **solver)
        _refuses(lambda model=model: model.fit(X, y), model, "Lower `C`")


@each(C=(0, 1e-300, 1e300, np.inf), eta=(0, 5e-324, 1e3, 1e308), cls=ROBUST)
def test_extreme_numbers_that_the_rules_allow_give_a_sound_model_or_a_clear_error(cls, C, eta):
    X, y = _data()
    model = cls(C=C, eta=eta, random_state=0)
    try:
        model.fit(X, y)
    except ValueError as error:
        assert cls.__name__ in str(error)
    else:
        _is_sound(model, X, y)


SOLVERS = (
    nearkin.ODML(psd="exact"),
    nearkin.RobustODML(psd="exact"),
    nearkin.ODML(psd="project"),
    nearkin.ODML(psd="end"),
    nearkin.LOSL(solver="subgradient"),
    nearkin.LODML(solver="subgradient"),
    nearkin.RobustLODML(2, solver="subgradient", n_steps=3),
)


@each(dtype=(np.float32, np.float64), C=(1.0, 1e3, 1e9, 1e300, np.inf), model=SOLVERS, fast={"dtype": (np.float64,)})
def test_steps_without_a_bound_give_a_sound_model_or_a_clear_error(model, C, dtype):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)).astype(dtype), rng.integers(0, 2, 30)
    model = clone(model).set_params(C=C, random_state=0)
    try:
        model.fit(X, y)
    except ValueError as error:
        assert type(model).__name__ in str(error)
    else:
        _is_sound(model, X, y)


@each(scale=("auto", None), solver=("exact", "subgradient"), cls=(nearkin.LOSL, nearkin.LODML))
def test_factor_whose_square_overflows_is_refused(cls, solver, scale):
    for X, y in (
        ([[0.0], [-1.0], [1e-9]], [0, 1, 2]),
        ([[2.0], [0.5], [-1.0], [0.0], [0.5], [1.0]], [0, 2, 2, 1, 0, 2]),
    ):
        for C in (1e150, 1e200, 1e300, np.inf):
            model = cls(C=C, solver=solver, scale=scale, random_state=0)
            try:
                model.fit(X, y)
            except ValueError as error:
                assert cls.__name__ in str(error)
            else:
                _is_sound(model, np.array(X), y)


# ---------------------------------------------------------------------------------- degenerate rows


@every_model
def test_constant_columns_change_nothing(make):
    X, y = _data()
    wide = np.insert(X, (0, 2, 4), (7.0, 0.0, -1e6), axis=1)
    model, plain = make().fit(wide, y), make().fit(X, y)
    _is_sound(model, wide, y)
    # The jury reckons in single precision.
    least = 1e-9 if _learner_of(model) is not None else 1e-4
    np.testing.assert_allclose(model.plausibility_, plain.plausibility_, rtol=least)


@each(value=(0.0, 1.0, 0.1, -1e9, 1e150, 1e-150))
@every_model
def test_rows_that_are_all_equal_teach_nothing(make, value):
    y = _data()[1]
    X = np.full((len(y), 3), value)
    model = make().fit(X, y)
    _is_sound(model, X, y)
    if (learner := _learner_of(model)) is not None:
        assert learner.n_updates_ == 0
        np.testing.assert_array_equal(learner.metric_, np.eye(3))


@each(scale=("auto", None))
@every_learner
def test_rows_that_are_all_zero_teach_nothing(cls, scale):
    y = _data()[1]
    X = np.zeros((len(y), 3))
    model = cls(scale=scale, random_state=0).fit(X, y)
    _is_sound(model, X, y)
    assert model.n_updates_ == 0


@every_learner
def test_duplicated_rows_give_a_sound_model(cls):
    X, y = _data(n=6)
    X, y = np.repeat(X, 5, axis=0), np.repeat(y, 5)
    for source in ("octg", "one_pass", "batch", "random", nearkin.OCTG(n_centers=3)):
        _is_sound(cls(triplets=source, random_state=0).fit(X, y), X, y)


@every_learner
def test_same_rows_with_every_label_give_a_sound_model(cls):
    X, _ = _data(n=6)
    X, y = np.repeat(X, 3, axis=0), np.tile([0, 1, 2], 6)
    for source in ("octg", "one_pass", "batch", "random"):
        _is_sound(cls(triplets=source, random_state=0).fit(X, y), X, y)


@every_model
def test_one_feature_is_enough(make):
    X, y = _data()
    _is_sound(make().fit(X[:, :1], y), X[:, :1], y)


@every_model
def test_more_features_than_rows_give_a_sound_model(make):
    X, y = _data(n=8, d=40, k=2)
    _is_sound(make().fit(X, y), X, y)


# ---------------------------------------------------------------------------------- huge and tiny numbers

FACTORS = {
    "huge": 1e150,
    "tiny": 1e-150,
    "largest": 1e307,
    "smallest": 1e-300,
    "mixed": np.array([1e150, 1e-150, 1.0, 1e-9]),
    "widest": np.array([1e300, 1e-300, 1e200, 1.0]),
}
FACTORS_32 = {
    "huge": 1e30,
    "tiny": 1e-30,
    "largest": 3e37,
    "smallest": 1e-37,
    "mixed": np.array([1e30, 1e-30, 1.0, 1e-9]),
}


@each(factor=tuple(FACTORS))
@every_model
def test_scale_of_the_features_does_not_matter_by_default(make, factor):
    X, y = _data()
    Z = X * FACTORS[factor]
    model = make().fit(Z, y)
    _is_sound(model, Z, y)
    _agree(model, make().fit(X, y), Z, X)


@each(factor=tuple(FACTORS_32), make=MODELS, fast={"make": [MODELS["RobustLODML"], MODELS["kNN"]]})
def test_scale_of_float32_features_does_not_matter_by_default(make, factor):
    X, y = _data()
    Z = (X * FACTORS_32[factor]).astype(np.float32)
    X = X.astype(np.float32)
    model = make().fit(Z, y)
    _is_sound(model, Z, y)
    _agree(model, make().fit(X, y), Z, X, rtol=2e-3)


@sum_may_overflow
@each(dtype=(np.float32, np.float64), fast={"dtype": (np.float64,)})
@every_model
def test_extremes_of_the_number_type_give_a_sound_model_or_a_clear_error(make, dtype):
    info = np.finfo(dtype)
    _, y = _data()
    rng = np.random.default_rng(1)
    choices = np.array([info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal, 0, 1], dtype=dtype)
    for draw in range(5):
        X = choices[rng.integers(0, len(choices) if draw % 2 else 2, size=(len(y), 3))]
        model = make()
        try:
            model.fit(X, y)
        except ValueError as error:
            assert any(name in str(error) for name in _owners(model)), error
        else:
            _is_sound(model, X, y)


@each(factor={"1e150": 1e150, "1e200": 1e200, "mixed": np.array([1e150, 1e-150, 1.0, 1e-9])})
@every_learner
def test_huge_features_without_scaling_are_refused_and_the_message_says_what_to_do(cls, factor):
    X, y = _data()
    model = cls(scale=None, random_state=0)
    _refuses(lambda: model.fit(X * factor, y), model, "scale='auto'")
    model.fit(X, y)
    _refuses(lambda: model.partial_fit(X * factor, y), model, "scale='auto'")
    _refuses(lambda: model.partial_fit_triplets(X, X * factor, X), model, "scale='auto'")


@each(factor=(1e30, 3e37), fast={"cls": (nearkin.RobustLODML,)})
@every_learner
def test_huge_float32_features_without_scaling_are_refused(cls, factor):
    X, y = _data()
    model = cls(scale=None, random_state=0)
    _refuses(lambda: model.fit((X * factor).astype(np.float32), y), model, "scale='auto'")


@each(C=(0.1, np.inf), factor=(1e60, 1e30, 1e-30, 1e-75, 1e-100, 1e-150, 1e-300))
@every_learner
def test_any_size_below_the_limit_without_scaling_gives_a_sound_model_or_a_clear_error(cls, factor, C):
    X, y = _data()
    Z = X * factor
    model = cls(scale=None, random_state=0)
    if "C" in model.get_params():
        model.set_params(C=C)
    try:
        model.fit(Z, y)
    except ValueError as error:
        assert cls.__name__ in str(error)
    else:
        try:
            _is_sound(model, Z, y)
        except ValueError as error:  # a map of rows as small as that may be too large for a metric
            assert cls.__name__ in str(error)


@every_learner
def test_huge_row_in_mid_stream_is_refused_or_harmless(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    before = _frozen(model)
    bad = X[:6].copy()
    bad[2] *= 1e200
    try:
        model.partial_fit(bad, y[:6])
    except ValueError as error:
        assert cls.__name__ in str(error)
        assert "row 2" in str(error)
        assert _frozen(model) == before
    else:
        _is_sound(model, bad, y[:6])


@each(cls=LEARNERS, fast={"cls": (nearkin.RobustLODML,)})
def test_double_too_large_for_a_float32_model_is_refused(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X.astype(np.float32), y)
    _refuses(lambda: model.partial_fit(X[:6] * 1e300, y[:6]), model)
    _refuses(lambda: model.transform(X[:6] * 1e300), model)


@every_learner
def test_answers_about_huge_rows_are_right_or_refused(cls):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    for answer in (model.transform, lambda Z: model.pair_score(Z, X), lambda Z: model.plausibility(Z, y)):
        for factor in (1e100, 1e200, 1e300):
            try:
                values = answer(X * factor)
            except ValueError as error:
                assert cls.__name__ in str(error)
            else:
                assert np.isfinite(values).all()


@pytest.mark.parametrize("make", (MODELS["kNN"], MODELS["kNN-OASIS"]), ids=("kNN", "kNN-OASIS"))
def test_neighbours_of_huge_rows_are_right_or_refused(make):
    X, y = _data()
    model = make().fit(X, y)
    for factor in (1e100, 1e200, 1e300):
        try:
            values, index = model.kneighbors(X * factor)
        except ValueError as error:
            assert any(name in str(error) for name in _owners(model))
        else:
            assert np.isfinite(values).all()
            assert all(len(set(row)) == len(row) for row in index.tolist())


# ---------------------------------------------------------------------------------- sparse rows


@every_model
def test_explicit_zeros_in_sparse_rows_change_nothing(make):
    X, y = _data()
    X[np.abs(X) < 0.7] = 0.0
    clean = sparse.csr_array(X)
    explicit = sparse.csr_array((X.ravel(), np.tile(np.arange(4), len(X)), np.arange(0, X.size + 1, 4)), shape=X.shape)
    assert explicit.nnz > clean.nnz
    _agree(make().fit(explicit, y), make().fit(clean, y), explicit, clean, rtol=1e-12)


@each(scale=("auto", "pairs", "unit", None))
@every_learner
def test_empty_sparse_rows_and_columns_are_zeros(cls, scale):
    X, y = _data()
    X[np.abs(X) < 0.7] = 0.0
    X[[2, 5]] = 0.0
    X[:, 1] = 0.0
    rows = sparse.csr_array(X)
    model, dense = cls(scale=scale, random_state=0).fit(rows, y), cls(scale=scale, random_state=0).fit(X, y)
    _is_sound(model, rows, y)
    _agree(model, dense, rows, X, rtol=1e-9)


@every_model
def test_sparse_matrix_without_a_single_entry_teaches_nothing(make):
    y = _data()[1]
    X = sparse.csr_array((len(y), 3))
    model = make().fit(X, y)
    _is_sound(model, X, y)
    learner = _learner_of(model)
    assert learner is None or learner.n_updates_ == 0


@each(factor=("huge", "tiny", "mixed"))
@every_learner
def test_scale_of_sparse_features_does_not_matter_by_default(cls, factor):
    X, y = _data()
    X[np.abs(X) < 0.7] = 0.0
    Z = sparse.csr_array(X * FACTORS[factor])
    _agree(cls(random_state=0).fit(Z, y), cls(random_state=0).fit(X, y), Z, X)


@each(kind=(sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_array))
def test_other_sparse_formats_are_taken(kind):
    X, y = _data()
    X[np.abs(X) < 0.7] = 0.0
    one, other = nearkin.RobustLODML(random_state=0).fit(kind(X), y), nearkin.RobustLODML(random_state=0).fit(X, y)
    _agree(one, other, kind(X), X, rtol=1e-9)


def test_sparse_rows_with_unsorted_and_repeated_entries_are_their_sum():
    X, y = _data(n=6, d=2, k=2)
    data = np.column_stack([X[:, 1], 0.5 * X[:, 0], 0.5 * X[:, 0]]).ravel()
    odd = sparse.csr_array((data, np.tile([1, 0, 0], 6), np.arange(0, 19, 3)), shape=(6, 2))
    one, other = nearkin.RobustODML(random_state=0).fit(odd, y), nearkin.RobustODML(random_state=0).fit(X, y)
    _agree(one, other, odd, X, rtol=1e-9)


# ---------------------------------------------------------------------------------- memory layouts


def _readonly(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "read-only": _readonly,
    "Fortran": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "swapped bytes": lambda X: X.astype(X.dtype.newbyteorder()),
    "unaligned": lambda X: np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape),
}


@each(layout=tuple(LAYOUTS), scale=("auto", None))
@every_learner
def test_layout_in_memory_does_not_matter(cls, scale, layout):
    X, y = _data()
    Z = LAYOUTS[layout](X)
    np.testing.assert_array_equal(Z, X)
    one, other = cls(scale=scale, random_state=0).fit(Z, y), cls(scale=scale, random_state=0).fit(X, y)
    _agree(one, other, Z, X, rtol=1e-9)
    one.partial_fit(Z, LAYOUTS["read-only"](y))
    other.partial_fit(X, y)
    _agree(one, other, Z, X, rtol=1e-9)
    triplets = [LAYOUTS[layout](part) for part in (X[:8], X[8:16], X[16:])]
    one.fit_triplets(*triplets)
    other.fit_triplets(X[:8], X[8:16], X[16:])
    _agree(one, other, Z, X, rtol=1e-9)


@every_model
def test_input_is_left_as_it_was(make):
    X, y = _data()
    rows, labels = X.copy(), y.copy()
    model = make().fit(rows, labels)
    (model.predict if hasattr(model, "predict") else model.transform)(rows)
    if hasattr(model, "partial_fit_triplets"):
        model.partial_fit(rows, labels)
        model.partial_fit_triplets(rows, rows[::-1], rows)
    elif hasattr(model, "partial_fit"):
        make().partial_fit(rows, labels).partial_fit(rows, labels)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(labels, y)


@each(source=("octg", "one_pass", "batch", "random"))
@every_learner
def test_model_does_not_hold_on_to_the_array_it_was_given(cls, source):
    X, y = _data()
    rows, labels = X.copy(), y.copy()
    model = cls(scale=None, triplets=source, random_state=0).fit(rows, labels)
    rows[:] = np.nan
    labels[:] = -5
    twin = cls(scale=None, triplets=source, random_state=0).fit(X, y)
    _agree(model.partial_fit(X, y), twin.partial_fit(X, y), X, X, rtol=0)


# ---------------------------------------------------------------------------------- rejected batches change nothing


def _bad_batches(X, y):
    holes = X.copy()
    holes[2, 1] = np.nan
    no_label = y.astype(float)
    no_label[1] = np.nan
    return {
        "NaN": (holes, y),
        "number": (X, y[:-1]),
        "no rows": (X[:0], y[:0]),
        "no label": (X, no_label),
        "continuous": (X, np.linspace(0, 1, len(y))),
        "text": (np.full(X.shape, "a"), y),
    }


BATCHES = tuple(_bad_batches(*_data()))
STREAMING = ("octg", "one_pass", "random", nearkin.OCTG(update_centers=True, refresh=3))


@each(source=STREAMING, batch=BATCHES, cls=SOME)
def test_stream_with_a_rejected_batch_ends_where_the_stream_without_it_does(cls, batch, source):
    X, y = _data()
    bad = (X[:9, :2], y[:9]) if batch == "width" else _bad_batches(X[:9], y[:9])[batch]
    model, twin = (cls(triplets=source, random_state=0).partial_fit(X, y) for _ in range(2))
    for method in (model.partial_fit,) if batch == "width" else (model.partial_fit, model.fit):
        before = _frozen(model)
        with pytest.raises(ValueError):
            method(*bad)
        assert _frozen(model) == before
    _agree(model.partial_fit(X[::-1], y[::-1]), twin.partial_fit(X[::-1], y[::-1]), X, X, rtol=0)


@each(batch=BATCHES)
@every_model
def test_rejected_fit_keeps_the_model_of_the_fit_before(make, batch):
    X, y = _data()
    model = make().fit(X, y)
    before = _frozen(model)
    with pytest.raises(ValueError):
        model.fit(*_bad_batches(X, y)[batch])
    assert _frozen(model) == before
    with pytest.raises(ValueError):
        model.fit(X[:, :3], np.zeros(len(y)))  # another width and one class: found out late
    assert _frozen(model) == before
    assert model.n_features_in_ == 4
    _is_sound(model, X, y)


@each(batch=BATCHES)
@every_model
def test_rejected_first_batch_leaves_the_model_unfitted(make, batch):
    X, y = _data()
    model = make()
    with pytest.raises(ValueError):
        model.fit(*_bad_batches(X, y)[batch])
    assert _frozen(model) == _frozen(make())
    assert not hasattr(model, "n_features_in_")


@each(seed=(np.random.default_rng, np.random.RandomState), batch=[*BATCHES, "one class", "explosion"])
def test_rejected_batch_does_not_use_up_the_seed(batch, seed):
    X, y = _data()
    model = printed(nearkin.LODML, solver="subgradient", triplets="random", random_state=seed(0))
    if batch == "explosion":
        model.set_params(step_size=1e200, n_steps=3)
        bad = X, y
    elif batch == "one class":
        bad = X, np.zeros(len(y))
    else:
        bad = _bad_batches(X, y)[batch]
    for method in (model.fit, model.partial_fit):
        before = _frozen(model)
        with pytest.raises(ValueError):
            method(*bad)
        assert _frozen(model) == before


class Interrupting(nearkin.OCTG):
    """Gives the triplets of OCTG and is interrupted after the second piece, when it is told to be."""

    fuse = None

    def generate(self, rows, codes, view):
        for i, piece in enumerate(super().generate(rows, codes, view)):
            yield piece
            if i == 1 and Interrupting.fuse is not None:
                raise Interrupting.fuse


class InterruptedStart(nearkin.OCTG):
    """Is interrupted when a stream begins, after the first time."""

    fuse = None

    def start(self, rows, codes, view, rng):
        super().start(rows, codes, view, rng)
        rng.random(100)
        if InterruptedStart.fuse is not None:
            raise InterruptedStart.fuse


@each(error=(KeyboardInterrupt(), SystemExit(), MemoryError(), RuntimeError("own")))
@every_learner
def test_interrupt_in_the_middle_of_a_batch_changes_nothing(cls, error, monkeypatch):
    X, y = _data()
    source = Interrupting(update_centers=True, metric="learned", refresh=4)
    model, twin = (printed(cls, triplets=source, random_state=0).partial_fit(X, y) for _ in range(2))
    before = _frozen(model)
    learned = _frozen(model.metric_)
    monkeypatch.setattr(Interrupting, "fuse", error)
    for method in (model.partial_fit, model.fit):
        with pytest.raises(type(error)):
            method(X, y)
        assert _frozen(model) == before
    monkeypatch.setattr(Interrupting, "fuse", None)
    model.partial_fit(X, y)
    twin.partial_fit(X, y)
    assert _frozen(model) == _frozen(twin)
    assert cls is nearkin.Euclidean or _frozen(model.metric_) != learned


@every_learner
def test_interrupt_in_the_first_batch_leaves_the_model_unfitted(cls, monkeypatch):
    X, y = _data()
    monkeypatch.setattr(Interrupting, "fuse", KeyboardInterrupt())
    model = cls(triplets=Interrupting(update_centers=True, refresh=4), random_state=0)
    before = _frozen(model)
    for method in (model.partial_fit, model.fit):
        with pytest.raises(KeyboardInterrupt):
            method(X, y)
        assert _frozen(model) == before
        assert not hasattr(model, "metric_")


def test_interrupt_while_a_stream_begins_does_not_use_up_the_seed(monkeypatch):
    X, y = _data()
    model = nearkin.RobustLODML(triplets=InterruptedStart(), random_state=np.random.default_rng(0))
    before = _frozen(model)
    monkeypatch.setattr(InterruptedStart, "fuse", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    assert _frozen(model) == before


def test_interrupt_inside_the_classifier_keeps_the_model_of_the_fit_before(monkeypatch):
    X, y = _data()
    learner = nearkin.RobustLODML(triplets=Interrupting(update_centers=True, refresh=4), random_state=0)
    model = nearkin.RobustKNeighborsClassifier(learner).fit(X, y)
    before, answers = _frozen(model), model.predict_proba(X)
    monkeypatch.setattr(Interrupting, "fuse", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[::-1], y)
    assert _frozen(model) == before
    np.testing.assert_array_equal(model.predict_proba(X), answers)


def test_answers_do_not_change_the_model():
    X, y = _data()
    for name, make in MODELS.items():
        model = make().fit(X, y)
        learner = _learner_of(model)
        _ = learner and learner.components_  # kept once it was read
        before = _frozen(model)
        if learner is not None:
            learner.transform(X)
            learner.plausibility(X, y)
            learner.pair_score(X, X)
        if model is not learner:
            model.predict(X)
        if hasattr(model, "score_"):
            model.votes(X)
        assert _frozen(model) == before, name


def test_copy_of_a_model_learns_on_its_own():
    X, y = _data()
    for cls in LEARNERS:
        model = cls(triplets="random", random_state=0).fit(X, y)
        before = _frozen(model)
        copy.deepcopy(model).partial_fit(X, y)
        copy.copy(model).partial_fit(X, y)
        assert _frozen(model) == before


# ---------------------------------------------------------------------------------- anything at all

# Examples are small as they come: the time to make them smaller is better spent on more of them.
FUZZ = settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
VALUES = st.sampled_from(
    (0.0, 1.0, -1.0, 0.5, 2.0, 1e-9, 1e9, 1e-30, 1e30, 1e-150, 1e150, -1e150, 1e-300, 1e300, 1.7e308, -1.7e308, 5e-324)
)
KINDS = st.sampled_from((np.float64, np.float64, np.float32, np.int64, np.int8, np.bool_))
SETTINGS = st.fixed_dictionaries(
    {
        "triplets": st.sampled_from(("octg", "one_pass", "batch", "random")),
        "scale": st.sampled_from(("auto", "auto", "pairs", "unit", None)),
        "loss": st.sampled_from(("hinge", "rescaled_hinge")),
        "eta": st.sampled_from((0.0, 0.1, 1.0, 50.0)),
    }
)


def _batch(draw, d):
    n = draw(st.integers(1, 8))
    kind = draw(KINDS)
    values = np.array(draw(st.lists(VALUES, min_size=n * d, max_size=n * d))).reshape(n, d)
    labels = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    if kind is np.float32:
        values = np.clip(values, -3e38, 3e38)
    elif kind is not np.float64:
        values = np.clip(values, -100, 100)
    return values.astype(kind), np.array(labels)


@st.composite
def _streams(draw):
    d = draw(st.integers(1, 3))
    return [_batch(draw, d) for _ in range(draw(st.integers(1, 3)))]


@sum_may_overflow
@settings(FUZZ, max_examples=300)
@given(
    st.sampled_from(LEARNERS),
    SETTINGS,
    st.sampled_from((0.0, 0.1, 1.0, 1e9, np.inf)),
    _streams(),
)
@example(nearkin.RobustODML, {"scale": None}, np.inf, [(np.array([[1e-75], [2e-75], [1e-75]]), np.array([0, 1, 1]))])
def test_any_stream_of_numbers_gives_a_sound_model_or_a_clear_error_that_changes_nothing(cls, more, C, stream):
    model = cls(random_state=0, **more)
    if "C" in model.get_params():
        model.set_params(C=C)
    for X, y in stream:
        before = _frozen(model)
        try:
            model.partial_fit(X, y)
        except ValueError as error:
            assert cls.__name__ in str(error)
            assert _frozen(model) == before
        else:
            assert np.isfinite(model.metric_).all()
            assert np.isfinite(model.components_).all()
            assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()


LABELS = st.one_of(st.integers(-2, 2), st.sampled_from(("a", "b", "1")), st.booleans(), st.tuples(st.integers(0, 1)))


@settings(FUZZ, max_examples=150)
@given(st.lists(st.one_of(LABELS, LABELS, LABELS, st.none(), st.just(float("nan"))), min_size=2, max_size=10))
def test_any_labels_are_told_apart_as_python_does_or_refused(labels):
    X = np.random.default_rng(len(labels)).normal(size=(len(labels), 2))
    model = nearkin.RobustODML(random_state=0)
    missing = any(label is None or label != label for label in labels)
    distinct = set(labels)
    if missing or len(distinct) < 2:
        _refuses(lambda: model.fit(X, labels), model)
        return
    model.fit(X, labels)
    assert set(model.classes_.tolist()) == distinct
    assert len(model.classes_) == len(distinct)
    np.testing.assert_array_equal(model.plausibility(X, labels), model.plausibility_)
