"""First call of a fresh process: ``python -m benchmarks first_call``.

Every line is the processor time (user and system) of a whole process, from the start of Python to its end, as a ratio
to one that imports scikit-learn and numba and does nothing. Each round runs all of them in turn; the median decides. An
"empty cache" is a folder for compiled loops that has never been used.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

from . import machine
from .settings import HERE

BASE = "import scikit-learn and numba"
AUDIT = "import numpy, nearkin; t = numpy.loadtxt({0!r}, delimiter=',', skiprows=1); "
AUDIT += "nearkin.audit_labels(t[:, :-1], t[:, -1], random_state=0)"
GOALS = {"audit_labels, empty cache": 3.0, "nearkin audit, cached": 1.5}
MANY = 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks first_call", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="Wine only")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "first_call.md")
    options = parser.parse_args()
    load = machine.load()
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(Path(folder), options.rounds, options.quick)
    lines = ["| process | CPU s | ratio | quartiles | goal |", "|---|---|---|---|---|"]
    for name, took in seconds.items():
        low, middle, high = np.percentile(np.array(took) / seconds[BASE], (25, 50, 75))
        goal = f"{GOALS[name]:g}" if name in GOALS else ""
        lines.append(f"| {name} | {np.median(took):.2f} | {middle:.2f} | {low:.2f} to {high:.2f} | {goal} |")
    head = (
        "# First call\n\nWine, 178 rows, and 1,000 rows of digits: processor time of whole processes, bytecode "
        f"compiled before, one thread of BLAS, {options.rounds} rounds. Load: {load}, {machine.load()}. "
        "`python -m benchmarks first_call` writes this page."
    )
    options.output.write_text("\n".join([head, "", *lines]) + "\n")
    print(*lines, sep="\n")


def measure(folder: Path, rounds: int, is_quick: bool) -> dict[str, list[float]]:
    """Processor seconds of every process in every round."""
    wine, digits = _tables(folder)
    page = folder / "page.html"
    run = ["-c", "from nearkin.cli import main; main()", "audit", "-q", str(wine), "--label", "class", "-o", str(page)]
    commands: dict[str, Sequence[str]] = {
        BASE: ["-c", "import sklearn, numba"],
        "audit_labels, empty cache": ["-c", AUDIT.format(str(wine))],
        "audit_labels, cached": ["-c", AUDIT.format(str(wine))],
        "nearkin audit, empty cache": run,
        "nearkin audit, cached": run,
        f"audit_labels of {MANY:,} rows, empty cache": ["-c", AUDIT.format(str(digits))],
        f"audit_labels of {MANY:,} rows, cached": ["-c", AUDIT.format(str(digits))],
    }
    if is_quick:
        commands = {name: command for name, command in commands.items() if str(MANY) not in name.replace(",", "")}
    caches = {name: folder / str(i) for i, name in enumerate(commands)}
    for name, command in commands.items():  # the first run compiles bytecode, and loops for those that find them cached
        _seconds(command, caches[name])
    found: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in list(commands.items())[:: 1 if number % 2 == 0 else -1]:
            cache = folder / f"{number}-{len(found[name])}-{name[:20]}" if "empty" in name else caches[name]
            found[name].append(_seconds(command, cache))
    return found


def _tables(folder: Path) -> list[Path]:
    from sklearn.datasets import load_digits

    paths = [folder / "wine.csv", folder / "digits.csv"]
    for path, load in zip(paths, (load_wine, load_digits), strict=True):
        X, y = load(return_X_y=True)
        names = [f"f{i}" for i in range(X.shape[1])] + ["class"]
        table = np.column_stack([X, y])[np.random.default_rng(0).permutation(len(y))[:MANY]]
        np.savetxt(path, table, fmt="%.10g", delimiter=",", header=",".join(names), comments="")
    return paths


def _seconds(command: Sequence[str], cache: Path) -> float:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command], check=True, capture_output=True,
        env={**kept, "NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
