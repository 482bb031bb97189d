"""Output options that point at inputs, at files of others and at each other: no foreign byte may change."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from fuzz import data, seeds
from fuzz.child import command, command_problem
from fuzz.report import Report

WEIGHT = 2.0
#: What stood in a folder before: somebody's work.
FOREIGN = {
    ".csv": b"name,price\nale,3\n", ".tsv": b"name\tprice\n", ".txt": b"remember the milk\n", ".json": b'{"mine": 1}\n',
    ".jsonl": b'{"mine": 1}\n', ".html": b"<html>my page</html>\n", ".log": b"12:00 all well\n", ".onnx": b"onnx" * 9,
    ".nearkin": b"not a model", ".npz": b"PK", ".npy": b"\x93NUMPY", ".parquet": b"PAR1", ".pq": b"PAR1", "": b"notes",
}  # fmt: skip
#: Files that commands write beside those that are named.
BESIDE = (
    "data.html",
    "data.suspects.csv",
    "new.suspects.csv",
    "ck.previous",
    "ck.next",
    "ck.lock",
    "new.nearkin.lock",
    "data.csv.plausibility.pq",
)


def run(seconds: float, seed: int, report: Report) -> None:
    """Point one to three options of a command at random places."""
    names = list(COMMANDS)
    for case in report.cases(seconds, seed):
        name = names[case.rng.integers(len(names))]
        warm_up(name)
        problem = try_one(name, case.folder, case.rng)
        report.count(case, name, problem)


@cache
def warm_up(name: str) -> None:
    """Run a command with good outputs here, so that children find all loops compiled."""
    with tempfile.TemporaryDirectory() as folder:
        args, _, options = COMMANDS[name](Path(folder))
        named = [(one, f"{folder}/new{i}{suffix}") for i, (one, suffix) in enumerate(options.items())]
        data.warm([*map(str, args), *(word for pair in named for word in pair)], must_work=bool(options))


def try_one(name: str, folder: Path, rng: np.random.Generator) -> str | None:
    """Return what a command with odd outputs does that it must not do."""
    args, inputs, options = COMMANDS[name](folder)
    for one in BESIDE:
        if rng.random() < 0.3:
            (folder / one).write_bytes(b"mine, " + one.encode())
    for suffix, content in FOREIGN.items():
        (folder / f"foreign{suffix}").write_bytes(content)
    (folder / "sub").mkdir()
    chosen = [one for one in options if one == "-o" or rng.random() < 0.6]
    places: dict[str, Path] = {}
    for one in chosen:
        places[one] = _place(folder, options[one], inputs, list(places.values()), rng)
    before = _digests(folder)
    words = [str(word) for pair in places.items() for word in pair]
    found = command(*args, *words, folder=folder, seconds=30.0)
    said = f" [{' '.join(map(str, args[:1]))} {' '.join(words)}]".replace(str(folder) + "/", "")
    problem = command_problem(found)
    if problem is None:
        problem = _changed(before, _digests(folder), {one.name for one in places.values()})
    if problem is None and found.code == 0 and len({one.resolve() for one in places.values()}) < len(places):
        problem = "two outputs were written to one file"
    return problem and problem + said


def _place(folder: Path, suffix: str, inputs: list[Path], taken: list[Path], rng: np.random.Generator) -> Path:
    """Return where an output goes: to a new file, or somewhere it must not."""
    source = inputs[rng.integers(len(inputs))]
    number = len(taken)
    what = int(rng.integers(11))
    if what <= 2:
        return folder / (f"new{suffix}" if not number else f"new{number}{suffix}")
    if what == 3:
        return source
    if what == 4:
        return folder / f"foreign{suffix}"
    if what == 5:
        return folder / f"foreign{list(FOREIGN)[rng.integers(len(FOREIGN))]}"
    if what == 6:
        link = folder / f"link{number}{suffix}"
        link.symlink_to((source, folder / f"foreign{suffix}", folder / "nowhere")[rng.integers(3)])
        return link
    if what == 7:
        link = folder / f"hard{number}{suffix}"
        link.hardlink_to((source, folder / f"foreign{suffix}")[rng.integers(2)])
        return link
    if what == 8 and taken:
        return (taken[-1], folder / "sub" / ".." / taken[-1].name)[rng.integers(2)]
    if what == 9:
        return folder / BESIDE[rng.integers(len(BESIDE))]
    return (folder / "sub", folder / "missing" / f"new{suffix}", folder / f"new{suffix}")[rng.integers(3)]


def _digests(folder: Path) -> dict[str, str]:
    """Return a digest of every file, and where every link leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[path.name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _changed(before: dict[str, str], after: dict[str, str], wanted: set[str]) -> str | None:
    """Return which file is not as it was, or was left behind unfinished."""
    for name, digest in before.items():
        if after.get(name) != digest:
            return f"{name} was {'changed' if name in after else 'removed'}"
    left = [name for name in after.keys() - before.keys() - wanted if name.endswith((".part", ".next", ".lock"))]
    return f"{left[0]} was left behind" if left else None


# ---------------------------------------------------------------------------------- commands

Inputs = tuple[list[object], list[Path], dict[str, str]]


def fit(folder: Path) -> Inputs:
    path = data.put(folder, "csv")
    return ["fit", path, "--label", "y", "--learner", "odml"], [path], {"-o": ".nearkin", "--suspects": ".csv"}


def fit_stream(folder: Path) -> Inputs:
    path = data.put(folder, "csv")
    options = {"-o": ".nearkin", "--checkpoint": "", "--log": ".jsonl"}
    return ["fit", path, "--label", "y", "--stream", "--voters", "0", "--checkpoint-every", "0"], [path], options


def fit_and_score(folder: Path) -> Inputs:
    args, inputs, options = fit_stream(folder)
    return [*args, "--plausibility"], inputs, options


def fit_arrays(folder: Path) -> Inputs:
    path, labels = data.put(folder, "npy"), data.put(folder, "labels.npy")
    options = {"-o": ".nearkin", "--checkpoint": "", "--log": ".npy"}
    return ["fit", path, "--labels", labels, "--stream", "--voters", "0"], [path, labels], options


def audit(folder: Path) -> Inputs:
    path = data.put(folder, "csv")
    options = {"-o": ".html", "--suspects": ".csv", "--all": ".csv", "--cleaned": ".tsv"}
    return ["audit", path, "--label", "y"], [path], options


def predict(folder: Path) -> Inputs:
    path = data.put(folder, "csv")
    model = folder / "model.nearkin"
    model.write_bytes((data.models() / "odml.nearkin").read_bytes())
    return ["predict", model, path], [path, model], {"-o": ".csv"}


def transform(folder: Path) -> Inputs:
    args, inputs, _ = predict(folder)
    return ["transform", *args[1:]], inputs, {"-o": ".npz"}


def adapt(folder: Path) -> Inputs:
    for name, content in seeds.search_seeds().items():
        (folder / name).write_bytes(content)
    inputs = [folder / name for name in ("queries.npy", "items.npy", "feedback.csv")]
    args = [word for pair in zip(("--queries", "--items", "--feedback"), inputs, strict=True) for word in pair]
    return ["adapt", *args], inputs, {"-o": ".nearkin", "--numpy": ".npz", "--report": ".json"}


def reproduce(folder: Path) -> Inputs:
    for name in ("table3.json", "table3.md", "table3.html", "cells.jsonl"):
        (folder / name).write_bytes(b"mine, " + name.encode())
    return [*data.REPRODUCE, "--out", folder], [folder / "table3.json"], {}


COMMANDS: dict[str, Callable[[Path], Inputs]] = {
    "fit": fit, "fit --stream": fit_stream, "fit --plausibility": fit_and_score, "fit of arrays": fit_arrays,
    "audit": audit, "predict": predict, "transform": transform, "adapt": adapt, "reproduce": reproduce,
}  # fmt: skip
