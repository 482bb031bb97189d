"""The same rows from every kind of source, and clear words about bad ones."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from nearkin import streams
from nearkin.tables import read_training
from streams import tables


@pytest.fixture(scope="module")
def data():
    return tables.rows()


def opened(folder, kind, X, y, **more):
    given = tables.write(folder, kind, X, y)
    return streams.open(given["source"], label=given["label"], **more)


def all_rows(stream, epoch=0, first=0):
    batches = list(stream.batches(epoch, first))
    return np.concatenate([one.X for one in batches]), np.concatenate([one.y for one in batches]), batches


@pytest.mark.parametrize("kind", ["parquet", "vectors", "csv", "npy"])
@pytest.mark.parametrize("batch_rows", [64, 700, 10_000])
def test_every_kind_of_file_gives_the_rows_in_order_and_in_whole_batches(kind, batch_rows, data, tmp_path):
    X, y = data
    stream = opened(tmp_path / "data", kind, X, y, batch_rows=batch_rows)
    got, labels, batches = all_rows(stream)
    np.testing.assert_array_equal(got, X.astype(got.dtype))
    np.testing.assert_array_equal(labels, y)
    assert {len(one.X) for one in batches[:-1]} <= {batch_rows}
    assert stream.n_rows == len(X)
    assert got.dtype == (np.float64 if kind == "csv" else np.float32)
    assert stream.names == {"npy": None, "vectors": [f"v[{i}]" for i in range(tables.D)]}.get(kind, tables.NAMES)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_from_any_number_on_are_those_of_the_whole_pass(kind, shuffle, data, tmp_path, monkeypatch):
    monkeypatch.setattr("nearkin.tables.numpy_files._RANGE", 300)
    monkeypatch.setattr("nearkin.tables.csv_files._BLOCK", 20_000)
    stream = opened(tmp_path / "data", kind, *data, batch_rows=170, shuffle=shuffle, seed=3)
    assert len(stream.units) > 4
    for epoch in (0, 1):
        whole = list(stream.batches(epoch))
        for first in (0, 1, 5, len(whole) - 1, len(whole)):
            later = list(stream.batches(epoch, first))
            assert len(later) == len(whole) - first
            for one, other in zip(later, whole[first:], strict=True):
                np.testing.assert_array_equal(one.X, other.X)
                np.testing.assert_array_equal(one.y, other.y)
                assert one.first == other.first


def test_a_seeded_shuffle_draws_the_row_groups_anew_for_every_pass_and_loses_none(data, tmp_path):
    X, y = data
    given = tables.write(tmp_path / "data", "parquet", X, y, group=100)
    seen = [
        all_rows(streams.open(given["source"], label="y", shuffle=True, seed=seed, batch_rows=256), epoch)[0]
        for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0))
    ]
    np.testing.assert_array_equal(seen[0], seen[1])
    for other in seen[2:]:
        assert not np.array_equal(seen[0], other)
        np.testing.assert_array_equal(np.sort(seen[0], axis=0), np.sort(other, axis=0))
    np.testing.assert_array_equal(seen[0][:50], X[np.flatnonzero((seen[0][0] == X).all(axis=1))[0] :][:50])


def test_iterators_record_batches_and_functions_give_the_same_batches(data):
    X, y = data
    whole = tables.table(X, y)

    def pairs():
        return ((X[at : at + 77], y[at : at + 77]) for at in range(0, len(X), 77))

    for source, more in ((pairs, {}), (pairs(), {}), (whole.to_reader(90), {"label": "y"}), ([whole], {"label": "y"})):
        got, labels, batches = all_rows(streams.open(source, batch_rows=500, **more))
        np.testing.assert_array_equal(got, X)
        np.testing.assert_array_equal(labels, y)
        assert [len(one.X) for one in batches] == [500, 500, 500, 500, 400]
    once = streams.open(pairs())
    all_rows(once)
    with pytest.raises(ValueError, match="used up"):
        all_rows(once)


def test_a_stream_function_never_reads_rows_before_its_start(data):
    X, y = data
    asked = []

    def pairs(first):
        asked.append(first)
        return ((X[at : at + 77], y[at : at + 77]) for at in range(first, len(X), 77))

    stream = streams.open(pairs, batch_rows=500)
    whole = list(stream.batches(0))
    later = list(stream.batches(0, 3))
    assert asked == [0, 1500]
    assert [str(one.first) for one in later] == [str(one.first) for one in whole[3:]]
    for one, other in zip(later, whole[3:], strict=True):
        np.testing.assert_array_equal(one.X, other.X)


def test_columns_are_chosen_by_name_in_the_order_given(data, tmp_path):
    X, y = data
    tables.write(tmp_path / "data", "parquet", X, y)
    stream = streams.open(tmp_path / "data", label="y", features=["f3", "f0"])
    np.testing.assert_array_equal(all_rows(stream)[0], X[:, [3, 0]])
    stream = streams.open(str(tmp_path / "data" / "*.parquet"), label="y", drop=["f1"])
    assert stream.names == ["f0", "f2", "f3", "f4", "f5"]


def test_columns_may_come_in_another_order_in_another_file(data, tmp_path):
    X, y = data
    one = tables.table(X, y)
    parquet.write_table(one, tmp_path / "a.parquet")
    parquet.write_table(one.select(one.column_names[::-1]), tmp_path / "b.parquet")
    got = all_rows(streams.open(tmp_path, label="y"))[0]
    np.testing.assert_array_equal(got[: len(X)], got[len(X) :])


@pytest.mark.parametrize("kind", ["parquet", "vectors", "csv", "npy", "pairs"])
@pytest.mark.parametrize("what", ["nan", "inf", "label"])
def test_a_row_that_lacks_something_is_named_or_dropped_and_counted(kind, what, data, tmp_path):
    X, y = data[0].copy(), data[1].astype(float)
    if what == "label":
        y[1700] = np.nan
    else:
        X[1700, 2] = np.nan if what == "nan" else np.inf

    def stream(missing):
        if kind == "pairs":
            return streams.open([(X, y)], batch_rows=512, missing=missing)
        labels = y if kind == "npy" else pa.array(y.tolist(), from_pandas=True)
        return opened(tmp_path / "data", kind, X, labels, batch_rows=512, missing=missing)

    place = {"npy": r"X.npy, data row 1,701", "pairs": "the stream, data row 1,701"}.get(kind, r"1\.\w+, data row 501")
    word = {"nan": "no value", "inf": "infinite value", "label": "no label"}[what]
    with pytest.raises(ValueError, match=rf"{place}: .*{word}.*missing='drop'"):
        all_rows(stream("error"))
    got, _, batches = all_rows(stream("drop"))
    np.testing.assert_array_equal(got, np.delete(X, 1700, axis=0).astype(got.dtype))
    assert sum(one.n_dropped for one in batches) == 1
    assert [one.n_rows for one in batches] == [512] * 4 + [352]


def test_quoted_line_breaks_empty_lines_and_odd_delimiters_in_csv(tmp_path, monkeypatch):
    monkeypatch.setattr("nearkin.tables.csv_files._BLOCK", 64)
    text = 'a;label;b\r\n1;"x\n""y""";2\r\n\r\n' + "3;z;4\r\n" * 30 + "\n5;z;6"
    (tmp_path / "t.csv").write_bytes(text.encode())
    stream = streams.open(tmp_path / "t.csv", label="label", batch_rows=7)
    got, labels, _ = all_rows(stream)
    assert stream.n_rows == 32
    np.testing.assert_array_equal(got, [[1, 2], *[[3, 4]] * 30, [5, 6]])
    assert labels[0] == 'x\n"y"'
    assert labels[-1] == "z"


@pytest.mark.parametrize("ends", [["\r"], ["\r", "\r\n", "\n"]], ids=["CR", "mixed"])
def test_csv_lines_end_as_they_like(tmp_path, monkeypatch, ends):
    lines = ["a,y,b", "", *(f'{i},"k\r{i % 3}",{i / 2}' for i in range(200)), "", "7,z,8"]
    text = "".join(line + ends[i % len(ends)] for i, line in enumerate(lines))
    (tmp_path / "t.csv").write_bytes(text.encode())
    whole = read_training(tmp_path / "t.csv", "y", features=["a", "b"])
    for block in (64, 65, 66, 1 << 20):
        monkeypatch.setattr("nearkin.tables.csv_files._BLOCK", block)
        X, y, _ = all_rows(streams.open(tmp_path / "t.csv", label="y", batch_rows=50))
        np.testing.assert_array_equal(X, whole.X)
        assert y.tolist() == whole.y.tolist() and len(y) == 201


def test_labels_that_differ_are_two_classes_in_every_format(tmp_path):
    names = ["A", "A ", "=a", "'=a", "01", "1", " 1"]
    for kept in (names[:2], names[2:4], names[4:6], [*names[5:], "A"]):
        table = pd.DataFrame({"x": np.arange(60.0) % 7, "y": kept * 20 if len(kept) == 3 else kept * 30})
        table.to_csv(tmp_path / "t.csv", index=False)
        table.to_parquet(tmp_path / "t.parquet")
        for name in ("t.csv", "t.parquet"):
            assert set(read_training(tmp_path / name, "y").y.tolist()) == set(kept)
            assert set(all_rows(streams.open(tmp_path / name, label="y"))[1].tolist()) == set(kept)
    quoted = pd.DataFrame({"x": [1.0, 2.0], "y": ["'=a", "'b"]})  # as nearkin writes it
    quoted.to_csv(tmp_path / "t.csv", index=False)
    assert read_training(tmp_path / "t.csv", "y").y.tolist() == ["=a", "'b"]


def test_csv_labels_that_change_their_kind_are_named_and_text_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr("nearkin.tables.csv_files._BLOCK", 100)
    (tmp_path / "t.csv").write_text("a,y\n" + "1,7\n" * 80 + "2,seven\n")
    with pytest.raises(ValueError, match=r"t.csv, data row 81: column .y. holds the label .seven..*text_labels=True"):
        all_rows(streams.open(tmp_path / "t.csv", label="y", batch_rows=10))
    labels = all_rows(streams.open(tmp_path / "t.csv", label="y", batch_rows=10, text_labels=True))[1]
    assert labels.tolist() == ["7"] * 80 + ["seven"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: streams.open(f / "none.parquet", label="y"), "No such file"),
        (lambda f: streams.open(f / "*.tsv", label="y"), "no Parquet, CSV or npy files"),
        (lambda f: streams.open(f / "data"), r"label=.*It holds 'f0'"),
        (lambda f: streams.open(f / "data", label="Y"), r"no column 'Y'. Did you mean 'y'\?"),
        (lambda f: streams.open(f / "data", label="y", features=["f0", "g"]), "no column 'g'"),
        (lambda f: streams.open(f / "data", label="y", features=["y"]), "cannot be a feature too"),
        (lambda f: streams.open(f / "data", label="y", drop=tables.NAMES), "no feature columns left"),
        (lambda f: streams.open(f / "data", label="f0"), "a label names a class, not a quantity"),
        (lambda f: streams.open(f / "data", label="y", batch_rows=1), "`batch_rows` must be"),
        (lambda f: streams.open(f / "data", label="y", missing="skip"), "`missing` must be"),
        (lambda f: streams.open([f / "data", f / "a.npy"], label="y"), "files of one kind"),
        (lambda f: streams.open(f / "a.npy"), "need label="),
        (lambda f: streams.open(f / "a.npy", label=f / "b.npy"), r"b.npy holds labels of shape"),
        (lambda f: streams.open(f / "a.npz", label="y"), "cannot be read in pieces"),
        (lambda f: streams.open(f / "bad.parquet", label="y"), "not a Parquet file"),
        (lambda f: streams.open([1, 2]), "a pair"),
        (lambda f: streams.open([("a", "b")]), "X must be numbers"),
        (lambda f: streams.open(7), "an iterable of chunks"),
        (lambda f: streams.open([(np.eye(2), [0])]), "2 rows but y has 1"),
    ],
)
def test_a_bad_source_is_refused_in_words_that_help(call, message, data, tmp_path):
    tables.write(tmp_path / "data", "parquet", *data)
    np.save(tmp_path / "a.npy", data[0])
    np.save(tmp_path / "b.npy", data[1][:5])
    np.savez(tmp_path / "a.npz", data[0])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        all_rows(call(tmp_path))


def test_files_that_differ_are_refused_by_name(data, tmp_path):
    X, y = data
    tables.write(tmp_path, "parquet", X, y)
    parquet.write_table(tables.table(X, y).drop(["f2"]), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2.parquet has no column 'f2'"):
        streams.open(tmp_path, label="y")
    parquet.write_table(tables.table(X, np.array(list("abcd"))[y]), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2.parquet: label column 'y' holds .*string"):
        all_rows(streams.open(tmp_path, label="y"))


def test_a_damaged_row_group_is_named(data, tmp_path):
    given = tables.write(tmp_path / "data", "parquet", *data)
    path = tmp_path / "data" / "1.parquet"
    stream = streams.open(given["source"], label="y", batch_rows=100)
    whole = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    at = column.dictionary_page_offset or column.data_page_offset
    whole[at : at + 200] = b"\xff" * 200
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"1.parquet, row group 1 cannot be read"):
        all_rows(stream)


def test_a_sample_is_spread_over_the_files_and_the_same_for_the_same_seed(data, tmp_path):
    stream = opened(tmp_path / "data", "parquet", *data, batch_rows=100)
    X, y = streams.sample_rows(stream, 240, seed=1)
    assert X.shape == (240, tables.D)
    np.testing.assert_array_equal(X, streams.sample_rows(stream, 240, seed=1)[0])
    at = [int(np.flatnonzero((data[0] == row).all(axis=1))[0]) for row in X]
    assert at == sorted(set(at))
    np.testing.assert_array_equal(y, data[1][at])
    assert np.histogram(at, 4, (0, tables.N))[0].min() > 30
    assert len(streams.sample_rows(stream, 10_000)[0]) == tables.N
