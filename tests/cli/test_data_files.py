"""Damaged and odd data files: one line that names the file and exit code 2, or they are read; never a crash."""

import gzip
import io
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from nearkin import streams
from nearkin.cli import main
from nearkin.tables import read_training

ROWS = [(round(0.1 * i % 7, 3), round(0.3 * i % 5, 3), f"k{i % 2}") for i in range(60)]
WIDE = [("csv", "stream"), ("parquet", "whole"), ("parquet", "stream")]
CSV = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in ROWS)


def fit(path, *options):
    return CliRunner().invoke(main, ["fit", str(path), "-q", "-o", str(path.parent / "m.nearkin"), *map(str, options)])


def refuse(path, *options):
    done = fit(path, *options)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("nearkin: ") and done.stderr.count("\n") == 1
    assert path.name in done.stderr
    return done.stderr


def in_both_ways(path, *options):
    """Read whole and in batches."""
    return [refuse(path, *options), refuse(path, *options, "--stream")]


def arrays():
    X, y = np.array([row[:2] for row in ROWS]), np.array([row[2] for row in ROWS])
    return X, y


def packed(save, *args, **kwargs):
    file = io.BytesIO()
    save(file, *args, **kwargs)
    return file.getvalue()


def test_a_damaged_gz_is_refused(tmp_path):
    whole = gzip.compress(CSV.encode())
    for name, content in {
        "torn.csv.gz": whole[: len(whole) // 2],
        "flipped.csv.gz": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:],
        "text.csv.gz": b"a,b,y\n",
        "checksum.csv.gz": whole[:-6] + b"\0\0" + whole[-4:],
    }.items():
        (tmp_path / name).write_bytes(content)
        refuse(tmp_path / name, "--label", "y")


def test_damaged_arrays_are_refused(tmp_path):
    X, y = arrays()
    np.save(tmp_path / "labels.npy", y)
    npy, npz = packed(np.save, X), packed(np.savez, X=X, y=y)
    header = b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little")
    for name, content in {
        "token.npy": npy.replace(b"{'descr'", b"{'desc'("),
        "minus.npy": header + b"-" * 8999 + b"\n",
        "brackets.npy": header + b"[" * 8999 + b"\n",
        "huge.npy": npy.replace(b"(60, 2), }" + 9 * b" ", b"(60000000000000, 2)}"),
        "torn.npy": npy[:-100],
        "empty.npy": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
        in_both_ways(tmp_path / name, "--labels", tmp_path / "labels.npy")
    for at in range(0, len(npz), 7):
        path = tmp_path / "flip.npz"
        path.write_bytes(npz[:at] + bytes([npz[at] ^ 0x55]) + npz[at + 1 :])
        done = fit(path, "--label", "y")
        assert done.exit_code in (0, 2), done.output
        assert done.exit_code == 0 or ("flip.npz" in done.stderr and done.stderr.count("\n") == 1)


def test_nobody_is_advised_to_unpickle(tmp_path):
    X, y = arrays()
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "labels.txt").write_text("\n".join(y))
    (tmp_path / "text.npy").write_text("not an array")
    done = fit(tmp_path / "X.npy", "--labels", tmp_path / "labels.txt", "--stream")
    assert "labels.txt: the labels of npy files that are read in batches must be an npy file" in done.stderr
    for line in in_both_ways(tmp_path / "text.npy", "--labels", tmp_path / "X.npy"):
        assert "pickle" not in line


def test_labels_that_are_not_text_name_their_file(tmp_path):
    X, _ = arrays()
    np.save(tmp_path / "X.npy", X)
    beyond = np.full(60, 0xFFFFFFF0, np.uint32).view("U1")
    for y in (np.array([b"\xff\xfe", b"ok"] * 30), beyond, np.array(["\ud800", "a"] * 30), beyond.byteswap()):
        np.save(tmp_path / "labels.npy", y)
        for options in ([], ["--stream"]):
            done = fit(tmp_path / "X.npy", "--labels", tmp_path / "labels.npy", *options)
            assert done.exit_code == 2 and "labels.npy" in done.stderr, done.output


@pytest.mark.parametrize("content", [
    CSV.encode("utf-16"), CSV.replace("k1", "kö").encode("latin-1"), CSV.replace("k1", "k\0").encode(), b"\0" * 500,
    b"", b"\n\n\n", b"a,b,y\n", b'a,b,y\n1,2,"never closed\n' + CSV.encode()[6:], CSV.replace("\n", "\r").encode(),
], ids=["utf-16", "latin-1", "nul", "zeros", "empty", "blank", "header", "quote", "cr"])  # fmt: skip
def test_text_that_is_not_such_a_csv_is_one_line(tmp_path, content):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    for options in ([], ["--stream"]):
        done = fit(path, "--label", "y", *options)
        assert done.exit_code in (0, 2), done.output
        if done.exit_code == 2:
            assert done.stderr.count("\n") == 1 and "rows.csv" in done.stderr


def test_huge_fields_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("note,a,b,y\n" + "".join(f"{'x' * 150_000},{a},{b},{y}\n" for a, b, y in ROWS))
    for options in ([], ["--stream"]):
        assert fit(path, "--label", "y", "--drop", "note", *options).exit_code == 0
        (tmp_path / "m.nearkin").unlink()


def test_a_long_text_is_not_a_label(tmp_path):
    rows = [*ROWS, (1, 2, "x" * 2_000_000)]
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    pq.write_table(pa.table(dict(zip("aby", zip(*rows, strict=True), strict=True))), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        for line in in_both_ways(tmp_path / name, "--label", "y"):
            assert "data row 61: column 'y' holds a text of 2,000,000 characters" in line


def test_what_does_not_fit_into_memory_is_named(tmp_path, monkeypatch):
    def fill(*args, **kwargs):
        raise MemoryError

    (tmp_path / "large.csv").write_text(CSV)
    monkeypatch.setattr("nearkin.learners.base.OnlineLearner.fit", fill)
    assert "too large for the memory" in refuse(tmp_path / "large.csv", "--label", "y", "--learner", "robust-lodml")


def test_pipes_and_devices_are_not_read(tmp_path):
    for name in ("rows.csv", "rows.npy", "rows.parquet"):
        os.mkfifo(tmp_path / name)
        in_both_ways(tmp_path / name, "--label", "y")


@pytest.mark.parametrize(
    ("kind", "way"),
    [("csv", "whole"), *(pytest.param(*one, marks=pytest.mark.slow) for one in WIDE)],
)
def test_twenty_thousand_columns_are_read_quickly(tmp_path, kind, way):
    names = [f"a_rather_long_name_{i}" for i in range(20_000)]
    X = np.random.default_rng(0).normal(size=(12, 20_000)).round(3)
    y, path = ["k0", "k1"] * 6, tmp_path / f"wide.{kind}"
    if kind == "csv":
        lines = [",".join([*names, "y"]), *(",".join([*map(str, row), k]) for row, k in zip(X, y, strict=True))]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table({**dict(zip(names, X.T, strict=True)), "y": y}), path)
    begun = time.process_time()
    (found,) = [read_training(path, "y")] if way == "whole" else streams.open(path, label="y").batches(0)
    assert time.process_time() - begun < 10
    np.testing.assert_array_equal(found.X, X)


FLIPS = """
import sys
from nearkin import streams
from nearkin.errors import InputError
whole, path = open(sys.argv[1], "rb").read(), sys.argv[1] + ".flipped.parquet"
for at in range(len(whole) - int(sys.argv[2]), len(whole), 7):
    for bit in (1, 16, 128):
        open(path, "wb").write(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1:])
        try:
            list(streams.open(path, label="y", batch_rows=32).batches(0))
        except InputError as error:
            assert "flipped.parquet" in str(error), error
"""


@pytest.mark.slow
def test_no_flipped_bit_in_the_footer_of_a_parquet_file_ends_the_process(tmp_path):
    path = tmp_path / "rows.parquet"
    X, y = arrays()
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "v": pa.array(list(np.eye(60, 3))), "y": y})
    pq.write_table(table, path, row_group_size=30)
    footer = 8 + int.from_bytes(path.read_bytes()[-8:-4], "little")
    done = subprocess.run([sys.executable, "-c", FLIPS, path, str(footer)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
