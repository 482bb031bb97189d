"""Damaged data files through every command that reads them, whole and in batches.

A command ends with 0, or with 2 and one line that names the file.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from fuzz import seeds
from fuzz.child import command, command_problem
from fuzz.mutate import mutate_bytes
from fuzz.report import Report

WEIGHT = 4.0
Arguments = list[str]
#: Words by which a message names a place in the data, in place of the file.
PLACES = ("data row ", "rows of X", "column ")


def run(seconds: float, seed: int, report: Report) -> None:
    """Damage one input of a command drawn at random."""
    kinds = list(SCENARIOS)
    for case in report.cases(seconds, seed):
        kind = kinds[case.rng.integers(len(kinds))]
        warm_up(kind)
        args, damaged = SCENARIOS[kind](case.folder, case.rng)
        other = list(seeds.data_seeds().values())
        content = damaged.read_bytes()
        damaged.write_bytes(mutate_bytes(content, case.rng, other[case.rng.integers(len(other))]))
        found = command(*args, seconds=30.0)
        problem = command_problem(found, *(one.name for one in case.folder.rglob("*")), *PLACES)
        report.count(case, kind, problem and f"{damaged.name}: {problem}")


@cache
def models() -> Path:
    """Return a folder with two good models."""
    folder = Path(tempfile.mkdtemp(prefix="nearkin-fuzz-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    data = str(put(folder, "csv"))
    warm(["fit", data, "--label", "y", "-o", str(folder / "jury.nearkin")], must_work=True)
    second = ["fit", data, "--label", "y", "-o", str(folder / "odml.nearkin"), "--learner", "odml"]
    warm(second, must_work=True)
    return folder


@cache
def warm_up(kind: str) -> None:
    """Run a command on good files here, so that children find all loops compiled."""
    rng = np.random.default_rng(0)
    for _ in range(2):
        with tempfile.TemporaryDirectory() as name:
            warm(SCENARIOS[kind](Path(name), rng)[0])


def warm(args: Arguments, *, must_work: bool = False) -> None:
    """Run a command in this process."""
    from nearkin.cli import main

    said = io.TextIOWrapper(io.BytesIO())
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main.main(args, prog_name="nearkin")
    except SystemExit as end:
        if must_work and end.code:  # else every attack would seem to be refused
            said.flush()
            told = said.buffer.getvalue().decode()
            raise RuntimeError(f"the good command fails: nearkin {' '.join(args)}: {told}") from None


def put(folder: Path, suffix: str, name: str = "data") -> Path:
    """Write a good file and return its path."""
    path = folder / f"{name}.{suffix}"
    path.write_bytes(seeds.data_seeds()[suffix])
    return path


def labelled(folder: Path, rng: np.random.Generator, *suffixes: str) -> tuple[Arguments, Path]:
    """Return the arguments that name a labelled table, and the file to damage."""
    known = [one for one in suffixes or TABLES if one in seeds.data_seeds()]
    path = put(folder, known[rng.integers(len(known))])
    if path.suffix != ".npy":
        return [str(path), "--label", "y"], path
    labels = put(folder, ("labels.npy", "labels.txt")[rng.integers(2)])
    return [str(path), "--labels", str(labels)], (path, labels)[rng.integers(2)]


def fit(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    args, damaged = labelled(folder, rng)
    more = [[], ["--learner", "odml"], ["--suspects", str(folder / "s.csv")], ["--noise-rate", "0.1"]][rng.integers(4)]
    return ["fit", *args, "-o", str(folder / "m.nearkin"), *more], damaged


def fit_stream(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    args, damaged = labelled(folder, rng, "csv", "tsv", "npy", "parquet", "csv", "npy", "parquet", "csv.gz", "npz")
    more = [
        [], ["--checkpoint", str(folder / "ck"), "--checkpoint-every", "0"], ["--plausibility"],
        ["--missing", "drop"], ["--shuffle"], ["--log", str(folder / "log.jsonl")], ["--text-labels"],
    ][rng.integers(7)]  # fmt: skip
    rows = str(rng.choice([2, 16, 4096]))
    voters = str(rng.choice([0, 20]))
    return [
        "fit", *args, "--stream", "--batch-rows", rows, "--voters", voters, "-o", str(folder / "m.nearkin"), *more
    ], damaged  # fmt: skip


def fit_many(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    known = [one for one in ("csv", "tsv", "parquet") if one in seeds.data_seeds()]
    suffix = known[rng.integers(len(known))]
    inside = folder / "in"
    inside.mkdir()
    paths = [put(inside, suffix, name) for name in "abc"]
    given = [[str(inside)], [str(inside / f"*.{suffix}")], [str(one) for one in paths]][rng.integers(3)]
    out = str(folder / "m.nearkin")
    return ["fit", *given, "--label", "y", "-o", out, "--batch-rows", "16", "--voters", "20"], paths[rng.integers(3)]


def audit(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    args, damaged = labelled(folder, rng)
    more = [[], ["--cleaned", str(folder / "c.csv"), "--how", "relabel"], ["--all", str(folder / "a.parquet")]]
    return ["audit", *args, "-o", str(folder / "page.html"), *more[rng.integers(3)]], damaged


def predict(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    _, damaged = labelled(folder, rng)
    damaged = folder / "data.npy" if (folder / "data.npy").exists() else damaged
    model = models() / ("jury.nearkin", "odml.nearkin")[rng.integers(2)]
    out = folder / ("p.csv", "p.tsv", "p.parquet")[rng.integers(3)]
    return ["predict", str(model), str(damaged), "-o", str(out)], damaged


def transform(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    args, damaged = predict(folder, rng)
    out = folder / ("t.csv", "t.npy", "t.npz", "t.parquet")[rng.integers(4)]
    return ["transform", args[1], args[2], "-o", str(out)], damaged


def adapt(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    for name, content in seeds.search_seeds().items():
        (folder / name).write_bytes(content)
    feedback = sorted(folder.glob("feedback.*"))
    chosen = feedback[rng.integers(len(feedback))]
    roles = {"--queries": folder / "queries.npy", "--items": folder / "items.npy", "--feedback": chosen}
    if rng.random() < 0.3:
        roles["--query-ids"] = folder / "query_ids.txt"
    more = [[], ["--strict"], ["--report", str(folder / "r.json"), "--numpy", str(folder / "map.npz")]]
    args = [str(word) for pair in roles.items() for word in pair]
    files = list(roles.values())
    return ["adapt", *args, "-o", str(folder / "a.nearkin"), *more[rng.integers(3)]], files[rng.integers(len(files))]


def info(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    _, damaged = labelled(folder, rng)
    return ["info", str(damaged)], damaged


def reproduce(folder: Path, rng: np.random.Generator) -> tuple[Arguments, Path]:
    out = folder / "results"
    out.mkdir()
    for name, content in results().items():
        (out / name).write_bytes(content)
    files = sorted(out.glob("*.json*"))
    return [*REPRODUCE, "--out", str(out)], files[rng.integers(len(files))]


@cache
def results() -> dict[str, bytes]:
    """Return the files of a finished table of one cell."""
    with tempfile.TemporaryDirectory() as name:
        warm([*REPRODUCE, "--out", name])
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


REPRODUCE = ["reproduce", "table3", "--datasets", "wine", "--noise", "0", "--methods", "Euclidean", "--quick"]
TABLES = ("csv", "csv.gz", "tsv", "npy", "npz", "parquet")
SCENARIOS: dict[str, Callable[[Path, np.random.Generator], tuple[Arguments, Path]]] = {
    "fit": fit, "fit --stream": fit_stream, "fit of many": fit_many, "audit": audit, "predict": predict,
    "transform": transform, "adapt": adapt, "info": info, "reproduce": reproduce,
}  # fmt: skip
