"""Cost of the label audit side by side with an earlier commit and with cleanlab's 10-NN, one thread each.

``python -m benchmarks.audit_growth --before FOLDER`` where FOLDER is a checkout of the earlier commit (``git worktree
add FOLDER 72a5764``). Every run is a process of its own; runs of one size follow each other, so that all of them meet
the same machine. Writes benchmarks/results/audit_growth.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

from .end_to_end import ONE_THREAD
from .settings import HERE, ROOT

#: Rows, features and classes; the largest that the earlier commit is given.
SIZES = (
    (500, 20, 3), (4000, 512, 10), (20_000, 16, 26), (50_000, 64, 10), (200_000, 64, 10), (1_000_000, 64, 10),
    (20_000, 32, 5000),
)  # fmt: skip
MOST_BEFORE = 200_000
MOST_CLEANLAB = 20_000
MANY_CLASSES = 1000

#: Rows between which the exponent of the growth is taken.
FROM, TO = 50_000, 1_000_000


def measure(what: str, n: int, d: int, classes: int, source: Path, rounds: int) -> dict:
    """The quickest of some runs."""
    job = json.dumps({"what": what, "n": n, "d": d, "classes": classes})
    found = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, str(HERE / "audit_growth_child.py"), job],
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(source / "src")}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return min(found, key=lambda one: one["cpu"])


def describe(one: dict | None) -> str:
    if one is None:
        return "-"
    memory = "" if one["memory"] is None else f", {one['memory'] / 1e6:.0f} MB"
    return f"{one['cpu']:.2f} s{memory}, {100 * one['auroc']:.1f}"


def exponent(seconds: dict[int, float]) -> float | None:
    """Power of the rows with which the time grows."""
    if FROM not in seconds or TO not in seconds:
        return None
    return math.log(seconds[TO] / seconds[FROM]) / math.log(TO / FROM)


def main(arguments: list[str] | None = None) -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="checkout of the earlier commit")
    parser.add_argument("--most", type=int, default=1_000_000, help="most rows")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "audit_growth.md")
    options = parser.parse_args(arguments)
    lines, seconds = [], {}
    for n, d, classes in SIZES:
        if n > options.most:
            continue
        rounds = 3 if n <= 4000 else 1
        now = measure("audit", n, d, classes, ROOT, rounds)
        before = lab = None
        if options.before is not None and n <= MOST_BEFORE and classes < MANY_CLASSES:
            before = measure("audit", n, d, classes, options.before, rounds)
        if n <= MOST_CLEANLAB and classes < MANY_CLASSES:
            lab = measure("cleanlab", n, d, classes, ROOT, rounds)
        if d == 64:
            seconds[n] = now["cpu"]
        row = f"| {n:,} x {d}, {classes:,} | " + " | ".join(map(describe, (before, now, lab))) + " |"
        print(row, file=sys.stderr, flush=True)
        lines.append(row)
        write(options.output, lines, exponent(seconds))


def write(path: Path, lines: list[str], power: float | None) -> None:
    """Write what was measured so far."""
    grows = (
        ""
        if power is None
        else (f"\nFrom {FROM:,} to {TO:,} rows of 64 features the time grows with the power {power:.2f} of the rows.\n")
    )
    text = f"""# Cost of the label audit

Made by `python -m benchmarks.audit_growth`. Processor seconds on one thread, memory beyond the data, and AUROC in % of
finding the flipped tenth of the labels in a mixture of six clusters a class. *Before* is commit 72a5764. The
machine was busy with other work, so compare times of one row only.

<!-- figures: begin -->
| rows x features, classes | before | now | cleanlab, 10-NN |
|---|---|---|---|
{chr(10).join(lines)}
{grows}
<!-- figures: end -->
"""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
