"""Data files made by hand to do harm: every command ends with 0, or with 2 and one line that names the file.

What people open elsewhere must be inert as well: no formula in an exported cell, no control character in the terminal.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fuzz import data, seeds
from fuzz.child import Outcome, command, command_problem
from fuzz.hostile_models import DESCR, npy, pickled
from fuzz.report import Report

WEIGHT = 1.0
SECONDS, LONG, MEMORY = 20.0, 120.0, 1 << 30
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def run(seconds: float, seed: int, report: Report) -> None:
    """Try every file by some command, in an order drawn by the seed, and again until the time is over."""
    known = [name for name in FILES if find_spec("pyarrow") or not name.startswith("parquet")]
    attacks = [*known, *(name for name in JOBS)]
    order = np.random.default_rng(seed).permutation(len(attacks))
    for case in report.cases(seconds, seed, limit=3 * len(attacks)):
        name = attacks[order[case.number % len(attacks)]]
        problem = JOBS[name](case.folder) if name in JOBS else try_file(name, case.folder, case.rng)
        group = "promises about hard data" if name in JOBS else "files made by hand"
        report.count(case, group, problem and f"{name}: {problem}")


def try_file(name: str, folder: Path, rng: np.random.Generator) -> str | None:
    """Return what a file does to a command that it must not do."""
    suffix, write = FILES[name]
    inside = folder / "in"
    inside.mkdir()
    path = inside / f"data.{suffix}"
    write(path)
    labels = ["--labels", data.put(folder, "labels.npy")] if suffix == "npy" else ["--label", "y"]
    out = ["-o", folder / "out.nearkin"]
    commands: list[list[object]] = [
        ["fit", path, *labels, *out],
        ["fit", path, *labels, *out, "--stream", "--voters", "20"],
        ["audit", path, *labels, "-o", folder / "page.html"],
        ["predict", data.models() / "jury.nearkin", path, "-o", folder / "p.csv"],
        ["transform", data.models() / "odml.nearkin", path, "-o", folder / "t.csv"],
        ["fit", data.put(folder, "npy", "good"), "--labels", path, *out],
        ["fit", inside, *labels, *out],
        ["info", path],
    ]
    args = commands[rng.integers(len(commands))]
    data.warm_up("fit --stream" if "--stream" in args else str(args[0]))
    found = command(*args, folder=folder, seconds=SECONDS, memory=MEMORY)
    problem = command_problem(found, path.name, *data.PLACES, inside)
    if problem is None and (folder / "evil2").exists():
        problem = "code in the file ran"
    told = " ".join(str(one) for one in args[:1]) + (" --stream" if "--stream" in args else "")
    return problem and f"[{told}] {problem}"


# ---------------------------------------------------------------------------------- files


def text(content: str | bytes) -> Callable[[Path], None]:
    """Return a writer of text."""
    encoded = content.encode() if isinstance(content, str) else content
    return lambda path: _ignore(path.write_bytes(encoded))


def gz(content: bytes, tail: bytes = b"", cut: int | None = None) -> Callable[[Path], None]:
    """Return a writer of compressed text, with something behind it or a part missing."""
    return lambda path: _ignore(path.write_bytes(gzip.compress(content, mtime=0)[:cut] + tail))


def gz_zeros(path: Path) -> None:
    """Write two gigabytes of commas in a small file."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a,y\n")
        for _ in range(2000):
            file.write(b"0" * (1 << 20))


def npz(**members: bytes) -> Callable[[Path], None]:
    """Return a writer of an npz file from raw members."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(f"{name}.npy", content)

    return write


def npz_zeros(path: Path) -> None:
    """Write an array of four gigabytes in a small file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        with file.open("X.npy", "w", force_zip64=True) as member:
            member.write(npy(DESCR % "(125000000, 4)"))
            for _ in range(500):
                member.write(bytes(1 << 20))
        file.writestr("y.npy", npy(DESCR % "(125000000,)"))


def parquet(**columns: object) -> Callable[[Path], None]:
    """Return a writer of a Parquet file."""
    return lambda path: _ignore(path.write_bytes(seeds.parquet(columns)))


def parquet_lies(path: Path) -> None:
    """Write a Parquet file whose footer claims to be as long as a file can be."""
    content = bytearray(seeds.data_seeds()["parquet"])
    content[-8:-4] = b"\xff\xff\xff\x7f"
    path.write_bytes(bytes(content))


def parquet_nested(path: Path) -> None:
    """Write lists of lists where numbers are expected."""
    path.write_bytes(seeds.parquet({"a": [[[1.0]], [[2.0], [3.0]]] * 20, "y": ["u", "v"] * 20}))


def parquet_wide(path: Path) -> None:
    """Write three thousand columns."""
    path.write_bytes(seeds.parquet({**{f"c{i}": [1.0, 2.0] for i in range(3000)}, "y": ["u", "v"]}))


def array(value: np.ndarray) -> bytes:
    """Return an array as an npy file."""
    file = io.BytesIO()
    np.save(file, value)
    return file.getvalue()


def _ignore(_: object) -> None:
    return None


GOOD = seeds.data_seeds()["csv"].decode()
ROWS = GOOD.split("\n")
NESTED = "{'descr': [('a', [('b', '<f8', (100000, 100000))])], 'fortran_order': False, 'shape': (1,), }"
PAIR = ["u", "v"] * 20
FILES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "nothing": ("csv", text("")),
    "a newline": ("csv", text("\n")),
    "only a header": ("csv", text(ROWS[0] + "\n")),
    "one row": ("csv", text("\n".join(ROWS[:2]))),
    "CR only": ("csv", text(GOOD.replace("\n", "\r"))),
    "CRLF and LF": ("csv", text(GOOD.replace("\n", "\r\n", 20))),
    "BOM": ("csv", text("\ufeff" + GOOD)),
    "UTF-16": ("csv", text(GOOD.encode("utf-16"))),
    "UTF-16 without BOM": ("csv", text(GOOD.encode("utf-16-le"))),
    "UTF-32": ("csv", text(GOOD.encode("utf-32"))),
    "Latin-1": ("csv", text(GOOD.replace("ale", "bière").encode("latin-1"))),
    "NUL bytes": ("csv", text(GOOD.replace("ale", "a\0le"))),
    "NUL only": ("csv", text(bytes(5000))),
    "an open quote": ("csv", text(GOOD.replace("ale", '"ale', 1))),
    "quoted newlines": ("csv", text(GOOD.replace("ale", '"a\nl\ne"'))),
    "ragged rows": ("csv", text(GOOD.replace(",ale", "", 1).replace(",bock", ",bock,1", 1))),
    "two columns of one name": ("csv", text(GOOD.replace("f1", "f0", 1))),
    "columns without names": ("csv", text(GOOD.replace("f0,f1,f2", ",,", 1))),
    "names that are braces": ("csv", text(GOOD.replace("f0", "{row}", 1).replace("ale", "{0!r:>99}"))),
    "percent signs": ("csv", text(GOOD.replace("f0", "%(x)s", 1).replace("ale", "%n%s"))),
    "one line of 20 MB": ("csv", text("a" * 20_000_000)),
    "one cell of 5 MB": ("csv", text(GOOD.replace("ale", "x" * 5_000_000, 1))),
    "20,000 columns in text": ("csv", text(",".join(["c"] * 20_000) + "\n")),
    "a million empty lines": ("csv", text(ROWS[0] + "\n" * 10**6)),
    "a number of 10,000 digits": ("csv", text(GOOD.replace(ROWS[1].split(",")[0], "9" * 10_000, 1))),
    "numbers beyond float": ("csv", text(GOOD.replace("-0.", "1e400", 3))),
    "numbers at the edge of float": ("csv", text(GOOD.replace("-0.", "-1e308", 3))),
    "subnormal numbers": ("csv", text(GOOD.replace("-0.", "-1e-310", 3))),
    "words of numbers": ("csv", text(GOOD.replace("-0.", "٣", 2))),
    "one class": ("csv", text(GOOD.replace("bock", "ale").replace("cider", "ale"))),
    "every row its class": ("csv", text("\n".join([ROWS[0], *(f"{one}{i}" for i, one in enumerate(ROWS[1:-1]))]))),
    "constant columns": ("csv", text("a,b,y\n" + "1,2,u\n1,2,v\n" * 30)),
    "a table of another format": ("csv", text(seeds.data_seeds()["npz"])),
    "gzip under another name": ("csv", text(gzip.compress(GOOD.encode()))),
    "compressed zeros": ("csv.gz", gz_zeros),
    "compressed, cut": ("csv.gz", gz(GOOD.encode(), cut=300)),
    "compressed, with a tail": ("csv.gz", gz(GOOD.encode(), b"garbage")),
    "compressed twice": ("csv.gz", gz(gzip.compress(GOOD.encode()))),
    "compressed in two parts": ("csv.gz", gz(GOOD.encode(), gzip.compress(GOOD.encode()))),
    "not compressed": ("csv.gz", text(GOOD)),
    "tabs in commas": ("tsv", text(GOOD)),
    "npy, a pickle": ("npy", text(pickled("evil2"))),
    "npy, 10^12 numbers": ("npy", text(npy(DESCR % "(1000000000000, 4)", bytes(64)))),
    "npy, negative shape": ("npy", text(npy(DESCR % "(-3, 4)", bytes(96)))),
    "npy, overflowing shape": ("npy", text(npy(DESCR % f"({2**62}, 4)", bytes(64)))),
    "npy, shape of text": ("npy", text(npy(DESCR % "('a',)", bytes(64)))),
    "npy, shape of bool": ("npy", text(npy(DESCR % "(True, 4)", bytes(64)))),
    "npy, header of brackets": ("npy", text(npy("(" * 9000))),
    "npy, header of minus": ("npy", text(npy("-" * 9000 + "1"))),
    "npy, header of 4 GB": ("npy", text(npy("{}", b"", 2**32 - 1, b"\x02\x00"))),
    "npy, header with code": ("npy", text(npy("__import__('os').system('touch evil2')"))),
    "npy, version 9": ("npy", text(npy("{}", b"", None, b"\x09\x00"))),
    "npy, a record": ("npy", text(array(np.zeros(48, dtype=[("a", "f8"), ("b", "i4")])))),
    "npy, a record of records": ("npy", text(npy(NESTED, bytes(64)))),
    "npy, times": ("npy", text(array(np.zeros((48, 4), dtype="M8[ns]")))),
    "npy, complex": ("npy", text(array(np.ones((48, 4), dtype=complex)))),
    "npy, a number": ("npy", text(array(np.float64(3.0)))),
    "npy, no columns": ("npy", text(array(np.zeros((48, 0))))),
    "npy, no rows": ("npy", text(array(np.zeros((0, 4))))),
    "npy, ten dimensions": ("npy", text(array(np.zeros((2,) * 10)))),
    "npy, NaN": ("npy", text(array(np.full((48, 4), np.nan)))),
    "npy, huge numbers": ("npy", text(array(np.full((48, 4), 1e308)))),
    "npy, Fortran order, big end": ("npy", text(array(np.arange(192, dtype=">f4").reshape(4, 48).T))),
    "npz, zeros": ("npz", npz_zeros),
    "npz, a pickle": ("npz", npz(X=pickled("evil2"), y=pickled("evil2"))),
    "npz, traversal": ("npz", npz(**{"../X": array(np.zeros((4, 4))), "X": array(np.zeros((4, 4)))})),
    "npz, no arrays": ("npz", npz()),
    "npz, not an array": ("npz", npz(X=b"hello", y=b"hello")),
    "npz, lengths differ": ("npz", npz(X=array(np.zeros((9, 4))), y=array(np.zeros(5)))),
    "parquet, a footer that lies": ("parquet", parquet_lies),
    "parquet, nested": ("parquet", parquet_nested),
    "parquet, nothing": ("parquet", parquet(y=[])),
    "parquet, only missing": ("parquet", parquet(a=[None] * 40, y=[None] * 40)),
    "parquet, odd names": ("parquet", parquet(**{"": [1.0, 2.0] * 20, "\x1b[31m": PAIR, "y": PAIR})),
    "parquet, 3,000 columns": ("parquet", parquet_wide),
    "a pipe": ("csv", lambda path: os.mkfifo(path)),
    "a pipe of arrays": ("npy", lambda path: os.mkfifo(path)),
    "a pipe of Parquet": ("parquet", lambda path: os.mkfifo(path)),
    "a link to /dev/zero": ("csv", lambda path: path.symlink_to("/dev/zero")),
    "arrays from /dev/zero": ("npy", lambda path: path.symlink_to("/dev/zero")),
    "a link to itself": ("csv", lambda path: path.symlink_to(path)),
    "a link to nowhere": ("parquet", lambda path: path.symlink_to("nowhere")),
    "a folder of that name": ("csv", lambda path: path.mkdir()),
}  # fmt: skip


# ---------------------------------------------------------------------------------- promises


def wide(folder: Path) -> str | None:
    """A CSV of 20,000 columns is read."""
    path = folder / "wide.csv"
    rng = np.random.default_rng(0)
    rows = [",".join([f"{one:.3f}" for one in rng.normal(size=20_000)] + ["uv"[i % 2]]) for i in range(12)]
    path.write_text("\n".join([",".join([f"feature {i}" for i in range(20_000)] + ["y"]), *rows]) + "\n")
    args = ["fit", path, "--label", "y", "-o", folder / "m.nearkin", "--learner", "euclidean"]
    return _must_work(command(*args, seconds=LONG, memory=2 * MEMORY))


def wide_stream(folder: Path) -> str | None:
    """The same in batches."""
    wide(folder)
    args = ["fit", folder / "wide.csv", "--label", "y", "-o", folder / "s.nearkin", "--stream", "--voters", "0"]
    return _must_work(command(*args, "--components", "2", seconds=LONG, memory=2 * MEMORY))


def formulas(folder: Path) -> str | None:
    """Labels and ids that begin a formula are inert in every table, and control characters in the terminal."""
    X, y = seeds.rows()
    names = ['=cmd|"/c calc"!A1', "@SUM(A1:A9)", "+1+1\x1b]0;title\x07"]
    path = folder / "data.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "f0", "f1", "f2", "f3", "y"])
        writer.writerows(
            [f"=HYPERLINK({i})", *row, names[code]] for i, (row, code) in enumerate(zip(X, y, strict=True))
        )
    model, tables = folder / "m.nearkin", [folder / f"{name}.csv" for name in ("s", "a", "c", "p", "t")]
    jobs = (
        ["audit", path, "--label", "y", "--id", "id", "-o", folder / "r.html", "--suspects", tables[0],
         "--all", tables[1], "--cleaned", tables[2]],
        ["fit", path, "--label", "y", "--drop", "id", "-o", model],
        ["info", model],
        ["predict", model, path, "--id", "id", "-o", tables[3]],
        ["transform", model, path, "--id", "id", "-o", tables[4]],
    )  # fmt: skip
    for args in jobs:
        found = command(*args, folder=folder, seconds=SECONDS)
        if problem := _must_work(found):
            return f"[{args[0]}] {problem}"
        if any(mark in found.out + found.err for mark in ("\x1b]", "\x07")):
            return f"[{args[0]}] a control character of a label reached the terminal"
    for table in tables:
        with table.open(newline="") as file:
            for row in csv.reader(file):
                bad = [one for one in row if one.startswith(FORMULAS) and not _is_number(one)]
                if bad:
                    return f"a formula reached {table.name}: {bad[0]!r}"
    return None


def many_classes(folder: Path) -> str | None:
    """Six hundred classes of four rows are audited."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(600), 4)
    X = rng.normal(size=(600, 6))[y] * 5 + 0.1 * rng.normal(size=(2400, 6))
    np.savez(folder / "many.npz", X=X, y=y)
    return _must_work(command("audit", folder / "many.npz", "--label", "y", "-o", folder / "r.html", seconds=LONG))


def far_queries(folder: Path) -> str | None:
    """Rows far from everything are predicted or refused by name."""
    X, _ = seeds.rows()
    for factor in (1e3, 1e10, 1e30, 1e45, 1e100, 1e300):
        for width in (5, 48):
            path = folder / "far.npy"
            np.save(path, X[:width] * factor + 1)
            args = ["predict", data.models() / "jury.nearkin", path, "-o", folder / "p.csv"]
            if problem := command_problem(command(*args, seconds=SECONDS), path.name, *data.PLACES):
                return f"{width} rows at {factor:g}: {problem}"
            (folder / "p.csv").unlink(missing_ok=True)
    return None


def odd_names(folder: Path) -> str | None:
    """Names of files that break messages or terminals."""
    for name in ("{row}.csv", "%s%n.csv", "a\nb.csv", "\x1b[2J.csv", "-o.csv", "é" * 100 + ".csv", "\u202egpj.csv"):
        path = folder / name
        path.write_text(GOOD)
        args = ["fit", path, "--label", "y", "-o", folder / "m.nearkin", "--learner", "odml"]
        found = command(*args, seconds=SECONDS)
        if problem := _must_work(found):
            return f"{name!r}: {problem}"
        path.write_text("a,y\n1,\n")
        found = command(*args, seconds=SECONDS)
        if problem := command_problem(found):
            return f"{name!r}, damaged: {problem}"
        if "\x1b" in found.err:
            return f"{name!r}: a control character reached the terminal"
    return None


def full_disk(folder: Path) -> str | None:
    """A full disk is an error that names the file."""
    path = data.put(folder, "csv")
    model = data.models() / "odml.nearkin"
    (folder / "full.csv").symlink_to("/dev/full")
    for args in (
        ["predict", model, path, "-o", folder / "full.csv"],
        ["transform", model, path, "-o", folder / "full.csv"],
    ):
        found = command(*args, seconds=SECONDS)
        problem = command_problem(found, "full")
        if problem or found.code == 0:
            return f"[{args[0]}] {problem or 'a full disk was not noticed'}"
    return None


def odd_data_sets(folder: Path) -> str | None:
    """A folder of data sets may hold anything."""
    os.mkfifo(folder / "wine.npz")
    (folder / "letters.npz").symlink_to("/dev/zero")
    (folder / "german.npz").mkdir()
    (folder / "ionosphere.npz").write_bytes(b"PK")
    for args in (["list"], ["info", "wine"], ["info", "german"], ["info", "ionosphere"]):
        if problem := command_problem(command("datasets", *args, "--data", folder, seconds=SECONDS, memory=MEMORY)):
            return f"[{' '.join(args)}] {problem}"
    return None


def _must_work(found: Outcome) -> str | None:
    return command_problem(found) or (None if found.code == 0 else f"refused: {found.err.strip()[-200:]}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


JOBS: dict[str, Callable[[Path], str | None]] = {
    "20,000 columns": wide, "20,000 columns in batches": wide_stream, "formulas and control characters": formulas,
    "600 classes of 4 rows": many_classes, "far queries": far_queries, "odd names": odd_names, "a full disk": full_disk,
    "odd data sets": odd_data_sets,
}  # fmt: skip
