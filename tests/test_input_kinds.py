"""Whatever holds the rows and labels, the model is the one learned from plain arrays; names and types are kept."""

import fractions

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

import nearkin
from each import each
from printed import printed
from systems import DIFFERENT as LEARNERS

DISTANCES = tuple(cls for cls in LEARNERS if cls().measure.is_distance)
SOURCES = ("octg", "one_pass", "batch", "random")
NAMES = ["width", "height", "depth", "weight"]

every_learner = each(cls=LEARNERS)
#: Loops for single precision are compiled on their own: one kind of learner in the fast lane.
single_precision = each(cls=LEARNERS, fast={"cls": (nearkin.RobustLODML,)})


def _data(seed=0, n=30, d=4):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 3.0
    return X, y


def _same(one, other, X, Z, rtol=0):
    """Models that learned the same bits (up to rounding, if said so), asked with their own kind of rows."""
    np.testing.assert_allclose(one.plausibility_, other.plausibility_, rtol=rtol)
    np.testing.assert_allclose(one.metric_, other.metric_, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(np.asarray(one.transform(X)), np.asarray(other.transform(Z)), rtol=rtol, atol=rtol)
    assert one.metric_.dtype == other.metric_.dtype


# ---------------------------------------------------------------------------------- number types


@each(source=SOURCES)
@single_precision
def test_float32_stays_float32(cls, source):
    X, y = _data()
    X = X.astype(np.float32)
    model = cls(triplets=source, random_state=0).fit(X, y)
    for _ in range(2):
        answers = (model.metric_, model.components_, model.query_map_, model.item_map_, model.transform(X))
        assert [one.dtype for one in answers] == [np.float32] * 5
        assert model.pair_score(X, X[::-1]).dtype == np.float32
        assert model.scaling_.apply(X).dtype == np.float32
        assert model.plausibility_.dtype == np.float64
        model.partial_fit(X, y)


@each(scale=("auto", "pairs", "unit", None))
@single_precision
def test_float32_stays_float32_on_every_scale_dense_and_sparse(cls, scale):
    X, y = _data()
    X = X.astype(np.float32)
    for rows in (X, sparse.csr_array(X)):
        model = cls(scale=scale, random_state=0).fit(rows, y)
        assert model.metric_.dtype == model.components_.dtype == model.transform(rows).dtype == np.float32


@single_precision
def test_float32_stays_float32_with_triplets(cls):
    X, _ = _data()
    X = X.astype(np.float32)
    model = cls(random_state=0).fit_triplets(X[:10], X[10:20], X[20:])
    assert model.metric_.dtype == model.components_.dtype == model.transform(X).dtype == np.float32


@single_precision
def test_float32_learns_what_float64_does_up_to_rounding(cls):
    X, y = _data()
    X = X.astype(np.float32)
    narrow, wide = cls(random_state=0).fit(X, y), cls(random_state=0).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(narrow.metric_, wide.metric_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(narrow.plausibility_, wide.plausibility_, rtol=1e-3, atol=1e-3)


@single_precision
def test_model_keeps_the_number_type_of_its_first_batch(cls):
    X, y = _data()
    model = cls(random_state=0).partial_fit(X.astype(np.float32), y).partial_fit(X, y)
    assert model.metric_.dtype == model.transform(X).dtype == np.float32
    model = cls(random_state=0).partial_fit(X, y).partial_fit(X.astype(np.float32), y)
    assert model.metric_.dtype == model.transform(X.astype(np.float32)).dtype == np.float64


@each(scale=("auto", None), cls=(nearkin.RobustOASIS, nearkin.RobustLODML))
def test_triplets_of_several_number_types_are_learned_in_the_widest(cls, scale):
    X, _ = _data()
    narrow = X.astype(np.float32)
    wide = narrow.astype(np.float64)
    twin = cls(scale=scale, random_state=0).fit_triplets(wide[:10], wide[10:20], wide[20:])
    for parts in ((narrow, wide, wide), (wide, narrow, wide), (wide, wide, narrow), (wide.astype(object), wide, wide)):
        model = cls(scale=scale, random_state=0).fit_triplets(parts[0][:10], parts[1][10:20], parts[2][20:])
        assert model.metric_.dtype == np.float64
        np.testing.assert_allclose(model.metric_, twin.metric_, rtol=1e-9, atol=1e-12)


@each(dtype=(np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16, np.longdouble))
@every_learner
def test_whole_numbers_and_other_floats_are_taken_as_float64(cls, dtype):
    X, y = _data()
    X = np.abs(np.round(4 * X))
    model = cls(random_state=0).fit(X.astype(dtype), y)
    _same(model, cls(random_state=0).fit(X, y), X.astype(dtype), X)
    assert model.metric_.dtype == np.float64


@every_learner
def test_truth_values_are_taken_as_zeros_and_ones(cls):
    X, y = _data()
    flags = X > 0.5
    _same(
        cls(random_state=0).fit(flags, y), cls(random_state=0).fit(flags.astype(float), y), flags, flags.astype(float)
    )


@every_learner
def test_lists_of_lists_are_taken(cls):
    X, y = _data()
    rows = X.tolist()
    _same(cls(random_state=0).fit(rows, y.tolist()), cls(random_state=0).fit(X, y), rows, X)


def test_lists_of_tuples_and_of_arrays_are_taken():
    X, y = _data()
    for rows in ([tuple(row) for row in X.tolist()], list(X), tuple(map(tuple, X.tolist()))):
        for labels in (y.tolist(), tuple(y.tolist()), list(y)):
            _same(nearkin.ODML(random_state=0).fit(rows, labels), nearkin.ODML(random_state=0).fit(X, y), rows, X)


# ---------------------------------------------------------------------------------- frames

#: Frames hold columns, arrays hold rows; sums along them round differently.
ROUNDING = 1e-9

FRAMES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas with an odd index": lambda X: pd.DataFrame(X, columns=NAMES, index=np.arange(len(X))[::-1] * 7),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
}
COLUMNS = {
    "pandas": lambda y: pd.Series(y),
    "pandas with an odd index": lambda y: pd.Series(y, index=np.arange(len(y)) * 3 + 1),
    "polars": lambda y: pl.Series(y.tolist()),
}


@each(kind=tuple(FRAMES))
@every_learner
def test_frames_give_the_model_of_plain_arrays(cls, kind):
    X, y = _data()
    frame, column = FRAMES[kind](X), COLUMNS[kind](y)
    model, plain = cls(random_state=0).fit(frame, column), cls(random_state=0).fit(X, y)
    _same(model, plain, frame, X, ROUNDING)
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_allclose(model.plausibility(frame, column), plain.plausibility(X, y), rtol=ROUNDING)
    scores = model.pair_score(frame, frame[::-1])
    np.testing.assert_allclose(scores, plain.pair_score(X, X[::-1]), rtol=ROUNDING, atol=ROUNDING)
    _same(model.partial_fit(frame, column), plain.partial_fit(X, y), frame, X, ROUNDING)


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_triplets_give_the_model_of_plain_arrays(kind):
    X, _ = _data()
    for cls in LEARNERS:
        parts = [FRAMES[kind](X[at : at + 10]) for at in (0, 10, 20)]
        model = cls(random_state=0).fit_triplets(*parts)
        plain = cls(random_state=0).fit_triplets(X[:10], X[10:20], X[20:])
        _same(model, plain, FRAMES[kind](X), X, ROUNDING)
        assert model.feature_names_in_.tolist() == NAMES


@each(kind=tuple(FRAMES), learner=("auto", None, nearkin.RobustOASIS(random_state=0)))
def test_classifier_takes_frames(kind, learner):
    X, y = _data()
    names = np.array(["a", "b", "c"])[y]
    frame, column = FRAMES[kind](X), COLUMNS[kind](names)
    model = nearkin.RobustKNeighborsClassifier(learner, random_state=0).fit(frame, column)
    plain = nearkin.RobustKNeighborsClassifier(learner, random_state=0).fit(X, names)
    np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(X), atol=1e-6)  # single precision
    assert model.predict(frame).tolist() == plain.predict(X).tolist()
    assert model.feature_names_in_.tolist() == NAMES


@each(kind=("pandas", "polars"))
@every_learner
def test_columns_in_another_order_are_refused(cls, kind):
    X, y = _data()
    frame = FRAMES[kind](X)
    model = cls(random_state=0).fit(frame, y)
    turned = frame[NAMES[::-1]]
    calls = (
        model.transform,
        lambda Z: model.partial_fit(Z, y),
        lambda Z: model.plausibility(Z, y),
        lambda Z: model.pair_score(Z, frame),
        lambda Z: model.pair_score(frame, Z),
        lambda Z: model.partial_fit_triplets(frame, frame, Z),
    )
    before = model.metric_.copy()
    for call in calls:
        with pytest.raises(ValueError, match="same order"):
            call(turned)
    np.testing.assert_array_equal(model.metric_, before)


OTHER = {
    "text": pd.DataFrame({"n": range(8), "other": ["x", "y"] * 4}),
    "dates": pd.DataFrame({"n": range(8), "other": pd.date_range("2020", periods=8)}),
    "polars": pl.DataFrame({"n": range(8), "other": ["x", "y"] * 4}),
}


@each(X=OTHER)
def test_a_column_of_something_else_than_numbers_is_encoded_or_named(X):
    learner = nearkin.RobustLODML().fit(X, [0, 1] * 4)
    assert np.isfinite(learner.transform(X)).all()
    plain = nearkin.RobustLODML().fit(X[["n"]], [0, 1] * 4)
    with pytest.raises(ValueError, match=r"LODML: column 'other' \(.*\) holds something else than numbers"):
        plain.transform(X)


@pytest.mark.parametrize("kind", ("pandas", "polars"))
def test_classifier_refuses_columns_in_another_order_and_unknown_ones(kind):
    X, y = _data()
    frame = FRAMES[kind](X)
    model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(frame, y)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="unseen at fit time"):
        model.predict(frame.rename({"width": "colour"}, **({"axis": 1} if kind == "pandas" else {})))


@each(kind=("pandas", "polars"))
@every_learner
def test_unknown_column_is_refused_by_name(cls, kind):
    X, y = _data()
    frame = FRAMES[kind](X)
    model = cls(random_state=0).fit(frame, y)
    other = frame.rename({"width": "colour"}, **({"axis": 1} if kind == "pandas" else {}))
    with pytest.raises(ValueError, match="colour"):
        model.transform(other)


def test_frame_of_float32_stays_float32():
    X, y = _data()
    X = X.astype(np.float32)
    for frame in (FRAMES["pandas"](X), FRAMES["polars"](X)):
        model = nearkin.RobustODML(random_state=0).fit(frame, y)
        assert model.metric_.dtype == model.transform(frame).dtype == np.float32


def test_frame_of_mixed_number_types_is_taken():
    X, y = _data()
    whole, flag = np.round(4 * X[:, 1]).astype(int), X[:, 2] > 0
    plain = np.column_stack([X[:, 0], whole, flag])
    columns = {"a": X[:, 0], "b": whole, "c": flag}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        model = nearkin.ODML(random_state=0).fit(frame, y)
        _same(model, nearkin.ODML(random_state=0).fit(plain, y), frame, plain, ROUNDING)


def test_nullable_columns_are_taken_and_holes_filled():
    X, y = _data()
    frame = pd.DataFrame(X, columns=NAMES).convert_dtypes()
    _same(nearkin.ODML(random_state=0).fit(frame, y), nearkin.ODML(random_state=0).fit(X, y), frame, X, ROUNDING)
    frame.iloc[3, 1] = pd.NA
    assert nearkin.ODML().fit(frame, y).encoder_.columns_[1].told.startswith("number; 1 gap filled")


# ---------------------------------------------------------------------------------- labels


def _object(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _named(names):
    return lambda y: [names[code] for code in y.tolist()]


LABELS = {
    "list of int": _named((3, -1, 7)),
    "list of negative int": _named((-3, -2, -1)),
    "list of str": _named(("b", "a", "ü")),
    "list of bool": lambda y: [bool(code == 0) for code in y],
    "list of tuple": _named((("a", 1), ("a", 2), ("b", 1))),
    "list of tuples of several lengths": _named(((), ("a",), ("a", "b"))),
    "list of int and str": _named((1, "1", "a")),
    "list of int, str and tuple": _named((1, "1", ("a", 2))),
    "list of int and float": _named((1, 2.0, 3)),
    "list of int and bool": _named((True, 0, 5)),
    "list of bytes": _named((b"a", b"b", b"c")),
    "list of frozenset": _named((frozenset("a"), frozenset("ab"), frozenset("c"))),
    "list of fractions": _named((fractions.Fraction(1, 3), fractions.Fraction(1, 2), fractions.Fraction(2, 3))),
    "list of numpy str": _named(tuple(np.array(["x", "y", "z"]))),
    "array of int8": lambda y: y.astype(np.int8),
    "array of uint64": lambda y: y.astype(np.uint64) + np.uint64(2**63),
    "array of whole float": lambda y: y.astype(float),
    "array of str": lambda y: np.array(["b", "a", "longer"])[y],
    "array of object": lambda y: _object(_named(("b", "a", "c"))(y)),
    "array of object, mixed": lambda y: _object(_named((1, "1", ("a", 2)))(y)),
    "array of dates": lambda y: np.array(["2020-01-01", "2021-01-01", "2022-01-01"], dtype="datetime64[D]")[y],
    "column vector as series": lambda y: pd.Series(y, name="y"),
    "pandas str": lambda y: pd.Series(_named(("b", "a", "c"))(y)),
    "pandas string": lambda y: pd.Series(_named(("b", "a", "c"))(y), dtype="string"),
    "pandas Int64": lambda y: pd.Series(y, dtype="Int64"),
    "pandas boolean": lambda y: pd.Series(y == 0, dtype="boolean"),
    "pandas categorical series": lambda y: pd.Series(pd.Categorical(_named(("b", "a", "c"))(y))),
    "pandas Categorical": lambda y: pd.Categorical(_named(("b", "a", "c"))(y)),
    "pandas Categorical with an unused class": lambda y: pd.Categorical(
        _named(("b", "a", "c"))(y), categories=["z", "c", "b", "a"]
    ),
    "pandas Index": lambda y: pd.Index(_named(("b", "a", "c"))(y)),
    "polars int": lambda y: pl.Series(y),
    "polars str": lambda y: pl.Series(_named(("b", "a", "c"))(y)),
    "polars categorical": lambda y: pl.Series(_named(("b", "a", "c"))(y), dtype=pl.Categorical),
    "polars enum": lambda y: pl.Series(_named(("b", "a", "c"))(y), dtype=pl.Enum(["a", "b", "c"])),
}


@each(kind=tuple(LABELS), source=SOURCES)
def test_kind_of_the_labels_does_not_matter(kind, source):
    X, y = _data()
    labels = LABELS[kind](y)
    codes = y if len(set(labels)) == 3 else (y == 0).astype(int)
    for cls in (nearkin.RobustOASIS, nearkin.RobustLODML):
        model = cls(triplets=source, random_state=0).fit(X, labels)
        plain = cls(triplets=source, random_state=0).fit(X, codes)
        _same(model, plain, X, X)
        np.testing.assert_array_equal(model.plausibility(X, labels), plain.plausibility(X, codes))
        _same(model.partial_fit(X, labels), plain.partial_fit(X, codes), X, X)


@each(kind=[kind for kind in LABELS if kind.startswith(("list", "array", "pandas", "polars"))])
def test_classes_are_the_labels_that_were_given(kind):
    X, y = _data()
    labels = LABELS[kind](y)
    given = set(labels)
    model = nearkin.RobustODML(random_state=0).fit(X, labels)
    assert set(model.classes_) == given
    assert len(model.classes_) == len(given)


@each(kind=tuple(LABELS), learner=("auto", nearkin.RobustOASIS(random_state=0)))
def test_classifier_predicts_labels_of_the_kind_it_was_given(kind, learner):
    X, y = _data()
    labels = LABELS[kind](y)
    given = list(labels)
    codes = y if len(set(given)) == 3 else (y == 0).astype(int)
    model = nearkin.RobustKNeighborsClassifier(learner, random_state=0).fit(X, labels)
    plain = nearkin.RobustKNeighborsClassifier(learner, random_state=0).fit(X, codes)
    # Classes may stand in another order, and sums over them with them.
    np.testing.assert_allclose(model.plausibility_, plain.plausibility_, rtol=1e-12)
    np.testing.assert_array_equal(model.kept_, plain.kept_)
    name_of = dict(zip(codes.tolist(), given, strict=True))
    predicted = list(model.predict(X))
    assert predicted == [name_of[code] for code in plain.predict(X).tolist()]
    assert model.predict_proba(X).shape == (len(X), len(set(given)))


@each(kind=tuple(LABELS))
def test_flipped_labels_are_of_the_kind_that_was_given(kind):
    _, y = _data()
    given = list(LABELS[kind](y))
    noisy, is_wrong = nearkin.flip_labels(LABELS[kind](y), 0.3, random_state=0)
    assert is_wrong.sum() == 9
    assert set(noisy) <= set(given)
    assert [one != other for one, other in zip(list(noisy), given, strict=True)] == is_wrong.tolist()


@each(kind=tuple(LABELS))
def test_declared_classes_may_be_of_any_kind(kind):
    X, y = _data()
    labels = LABELS[kind](y)
    distinct = list(dict.fromkeys(labels))
    for classes in (distinct, distinct[::-1]):
        model = nearkin.RobustODML(random_state=0).partial_fit(X, labels, classes=classes)
        plain = nearkin.RobustODML(random_state=0).partial_fit(X, labels)
        _same(model, plain, X, X)
        assert len(model.classes_) == len(distinct)
        _same(model.partial_fit(X, labels, classes=classes), plain.partial_fit(X, labels), X, X)


def test_classes_declared_twice_count_once():
    X, y = _data()
    model = nearkin.RobustODML(random_state=0).partial_fit(X, y, classes=[0, 1, 2, 1, 0])
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="at least two classes"):
        nearkin.RobustODML().partial_fit(X[y == 0], y[y == 0], classes=[0, 0])


def test_labels_that_are_only_partly_ordered_are_told_apart():
    X, y = _data()
    sets = [(frozenset("a"), frozenset("ab"), frozenset("c"))[code] for code in y]
    model = nearkin.RobustODML(triplets="octg", random_state=0).fit(X, _object(sets))
    assert len(set(model.triplet_source_.center_codes_.tolist())) == 3


@each(kind=("list of int", "list of str", "list of tuple", "list of int, str and tuple"))
def test_given_centres_may_have_labels_of_any_kind(kind):
    X, y = _data()
    labels = LABELS[kind](y)
    means = [X[y == code].mean(axis=0) for code in range(3)]
    names = [labels[y.tolist().index(code)] for code in range(3)]
    source = nearkin.OCTG(centers=means, center_labels=names)
    given = printed(nearkin.RobustODML, triplets=source, random_state=0).fit(X, labels)
    found = printed(nearkin.RobustODML, random_state=0).fit(X, labels)
    np.testing.assert_allclose(given.metric_, found.metric_, rtol=1e-9, atol=1e-12)


def test_order_of_first_appearance_and_names_do_not_matter_to_centres():
    X, y = _data()
    for names in (("a", "b", "c"), ("c", "b", "a"), (9, 4, 2)):
        labels = [names[code] for code in y]
        model = nearkin.RobustODML(random_state=0).fit(X, labels)
        np.testing.assert_array_equal(model.metric_, nearkin.RobustODML(random_state=0).fit(X, y).metric_)


def test_labels_in_a_column_are_taken_with_a_warning():
    X, y = _data()
    with pytest.warns(DataConversionWarning):
        model = nearkin.RobustODML(random_state=0).fit(X, y[:, None])
    _same(model, nearkin.RobustODML(random_state=0).fit(X, y), X, X)


def test_equal_labels_of_several_types_are_one_class():
    X, y = _data()
    labels = _object([(0, False, 0.0)[i % 3] if code == 0 else int(code) for i, code in enumerate(y)])
    model = nearkin.RobustODML(random_state=0).fit(X, labels)
    assert len(model.classes_) == 3
    _same(model, nearkin.RobustODML(random_state=0).fit(X, y), X, X)


# ---------------------------------------------------------------------------------- names of the output


@every_learner
def test_features_that_come_out_are_named_after_the_learner(cls):
    X, y = _data()
    model = cls(random_state=0).fit(pd.DataFrame(X, columns=NAMES), y)
    assert model.get_feature_names_out().tolist() == [f"{cls.__name__.lower()}{i}" for i in range(4)]


@each(cls=(nearkin.LOSL, nearkin.LODML, nearkin.RobustLOSL, nearkin.RobustLODML))
def test_as_many_names_come_out_as_the_map_has_rows(cls):
    X, y = _data()
    model = cls(n_components=2, random_state=0).fit(X, y)
    assert model.get_feature_names_out().tolist() == [f"{cls.__name__.lower()}{i}" for i in range(2)]
    assert model.transform(X).shape == (30, 2)
    assert model.metric_.shape == ((4, 4) if model.measure.is_distance else (2, 2))  # of rows of one length


@each(kind=("pandas", "polars"))
@every_learner
def test_transform_gives_the_kind_of_frame_set_by_set_output(cls, kind):
    X, y = _data()
    frame = FRAMES[kind](X)
    model = cls(random_state=0).fit(frame, y)
    plain = model.transform(frame)
    assert isinstance(plain, np.ndarray)
    mapped = model.set_output(transform=kind).transform(frame)
    assert isinstance(mapped, pd.DataFrame if kind == "pandas" else pl.DataFrame)
    assert list(mapped.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(np.asarray(mapped), plain)
    assert isinstance(model.set_output(transform="default").transform(frame), np.ndarray)


def test_mapped_frame_keeps_the_index_of_the_rows():
    X, y = _data()
    frame = FRAMES["pandas with an odd index"](X)
    mapped = nearkin.RobustODML(random_state=0).set_output(transform="pandas").fit(frame, y).transform(frame)
    assert mapped.index.equals(frame.index)


@each(kind=("pandas", "polars"))
@every_learner
def test_pairs_are_scored_alike_whatever_transform_gives(cls, kind):
    X, y = _data()
    left, right = FRAMES[kind](X[:10]), FRAMES[kind](X[10:20])
    if kind == "pandas":
        right.index = np.arange(100, 110)
    model = cls(random_state=0).fit(FRAMES[kind](X), y)
    expected = model.pair_score(left, right)
    queries, items = model.map_queries(left), model.map_items(right)
    model.set_output(transform=kind)
    for got, wanted in (
        (model.pair_score(left, right), expected),
        (model.map_queries(left), queries),
        (model.map_items(right), items),
    ):
        assert isinstance(got, np.ndarray)
        np.testing.assert_array_equal(got, wanted)


@each(kind=("pandas", "polars"), cls=DISTANCES)
def test_distances_are_alike_whatever_transform_gives(cls, kind):
    X, y = _data()
    model = cls(random_state=0).fit(X, y)
    expected = model.pair_distance(X[:10], X[10:20])
    got = model.set_output(transform=kind).pair_distance(X[:10], X[10:20])
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, expected)


@each(kind=("pandas", "polars"), learner=("auto", None, nearkin.RobustOASIS(random_state=0)))
def test_classifier_works_whatever_output_is_configured(kind, learner):
    X, y = _data()
    plain = nearkin.RobustKNeighborsClassifier(learner, random_state=0).fit(X, y)
    expected = plain.predict_proba(X)
    with sklearn.config_context(transform_output=kind):
        np.testing.assert_array_equal(plain.predict_proba(X), expected)
        model = nearkin.RobustKNeighborsClassifier(learner, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize("kind", ("pandas", "polars"))
def test_classifier_takes_a_learner_that_gives_frames(kind):
    X, y = _data()
    learner = nearkin.RobustODML(random_state=0).set_output(transform=kind)
    expected = nearkin.RobustKNeighborsClassifier(nearkin.RobustODML(random_state=0)).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(nearkin.RobustKNeighborsClassifier(learner).fit(X, y).predict_proba(X), expected)
    fitted = nearkin.RobustODML(random_state=0).fit(X, y).set_output(transform=kind)
    np.testing.assert_array_equal(nearkin.RobustKNeighborsClassifier(fitted).fit(X, y).predict_proba(X), expected)
