"""Columns are matched by name wherever a model and a stream know names; never by their place."""

import numpy as np
import pandas as pd
import pytest

import nearkin
from nearkin import streams

N = 400


def frame(seed=0, n=N):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    made = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2], columns=["a", "b", "c"])
    made["a"] += 3.0 * y
    return made.assign(y=np.array(["no", "yes"])[y])


def write(path, table):
    table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path, row_group_size=100)
    return path


def opened(path, **more):
    return streams.open(path, label="y", **{"batch_rows": 100, **more})


@pytest.fixture(params=["csv", "parquet"])
def kind(request):
    return request.param


def begin(tmp_path, kind):
    first = write(tmp_path / f"first.{kind}", frame())
    return streams.fit_stream(nearkin.RobustLODML(random_state=0), opened(first)), first


def test_reordered_columns_are_matched(tmp_path, kind):
    model, _ = begin(tmp_path, kind)
    other = write(tmp_path / f"other.{kind}", frame(1))
    turned = write(tmp_path / f"turned.{kind}", frame(1)[["y", "c", "a", "b"]])
    plain, seen = (nearkin.streams.fit_stream(begin(tmp_path, kind)[0], opened(one)) for one in (other, turned))
    assert np.array_equal(plain.components_, seen.components_)
    scores = [pd.read_parquet(streams.score_stream(model, opened(one))[0])["plausibility"] for one in (other, turned)]
    assert scores[0].equals(scores[1])


def test_missing_columns_and_other_types_are_refused_by_name(tmp_path, kind):
    model, _ = begin(tmp_path, kind)
    before = model.components_.copy()
    for change, words in (
        (lambda one: one.drop(columns="b"), "has no column 'b', which the model needs; it holds 'a', 'c'"),
        (lambda one: one.assign(b="n-a"), "column 'b' holds"),
        (lambda one: one.assign(y=np.arange(N) % 2), "label column 'y'"),
    ):
        path = write(tmp_path / f"bad.{kind}", change(frame(1)))
        with pytest.raises(ValueError, match=words) as caught:
            streams.fit_stream(model, opened(path))
        assert str(path) in str(caught.value)
    assert np.array_equal(model.components_, before)


def test_new_columns_are_reported_and_left_out(tmp_path, kind):
    model, _ = begin(tmp_path, kind)
    path = write(tmp_path / f"more.{kind}", frame(1).assign(extra=1.5))
    with pytest.warns(UserWarning, match=r"more\.\w+ has columns that the model has not learned.*'extra'"):
        streams.fit_stream(model, opened(path))
    assert model.n_features_in_ == 3


def test_labels_that_look_like_numbers_are_text_only_where_some_did_before(tmp_path):
    digits = write(tmp_path / "digits.csv", frame(1).assign(y=np.arange(N) % 2))
    model, _ = begin(tmp_path, "csv")
    with pytest.raises(ValueError, match=r"digits\.csv: label column 'y' holds numbers; the model has learned text"):
        streams.fit_stream(model, opened(digits))
    mixed = write(tmp_path / "mixed.csv", frame().assign(y=np.array(["0", "none-"])[np.arange(N) % 2]))
    model = streams.fit_stream(nearkin.RobustLODML(random_state=0), opened(mixed))
    streams.fit_stream(model, opened(digits))
    assert model.classes_.tolist() == ["0", "1", "none-"]


def test_an_error_in_a_row_names_file_and_row(tmp_path, kind):
    model, _ = begin(tmp_path, kind)
    table = frame(1)
    table.loc[[7, 333], "b"] = [np.nan, 1e300]
    path = write(tmp_path / f"big.{kind}", table)
    with pytest.raises(ValueError, match=r"data row 334: RobustLODML: it holds a value of"):
        streams.fit_stream(model, opened(path, missing="drop"))


def test_frames_and_record_batches_are_matched_too():
    pa = pytest.importorskip("pyarrow")
    turned = frame(1)[["y", "c", "b", "a"]]
    chunks = {
        "batches": lambda one: streams.open([pa.RecordBatch.from_pandas(one)], label="y"),
        "frames": lambda one: streams.open([(one.drop(columns="y"), one["y"].to_numpy())]),
    }
    for make in chunks.values():
        ends = []
        for second in (frame(1), turned):
            model = streams.fit_stream(nearkin.RobustLODML(random_state=0), make(frame()))
            ends.append(streams.fit_stream(model, make(second)).components_)
        assert np.array_equal(*ends)
        with pytest.raises(ValueError, match="no column 'b'"):
            streams.fit_stream(model, make(turned.drop(columns="b")))


def test_names_of_the_model_count_as_those_of_its_history(tmp_path):
    table = frame()
    model = nearkin.RobustLODML(random_state=0).fit(table[["a", "b", "c"]], table["y"])
    path = write(tmp_path / "turned.csv", frame(1)[["y", "c", "a", "b"]])
    streams.fit_stream(model, opened(path))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    for names, word in ((["c", "b", "a"], "order"), (["a", "b"], "- c"), (["a", "b", "c", "y"], "- y|'y'")):
        with pytest.raises(ValueError, match=word):
            model.transform(frame(1)[names])


def test_columns_that_the_first_file_does_not_have_are_reported(tmp_path, kind):
    for name, table in (("a", frame()), ("b", frame(1)[["y", "c", "b", "a"]].assign(extra=1.0))):
        write(tmp_path / f"{name}.{kind}", table)
    paths = [tmp_path / f"{name}.{kind}" for name in "ab"]
    with pytest.warns(UserWarning, match=r"b\.\w+ has columns that \S+a\.\w+ does not have, .*: 'extra'"):
        stream = opened(paths)
    assert stream.names == ["a", "b", "c"]
    opened(paths, features=["b", "a"])
