"""Cases, and the count of those that held."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
FAILURES = HERE / "failures"
#: Failing inputs kept of one problem, and seconds between two lines of progress where there is no terminal.
KEPT, PROGRESS_S = 3, 30.0


@dataclass
class Case:
    """One attack: its number and seed say which, its folder is empty at the start."""

    number: int
    seed: int
    folder: Path

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, self.number])


@dataclass
class Failure:
    """What went wrong, and the command that shows it again."""

    kind: str
    group: str
    problem: str
    repeat: str
    saved: str | None = None


@dataclass
class Report:
    """Counts of all kinds; ``only`` limits a run to one case of the kind in hand."""

    only: int | None = None
    kind: str = ""
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    _shown: float = field(default_factory=time.monotonic)
    _case: Case | None = None

    def cases(self, seconds: float, seed: int, limit: int | None = None) -> Iterator[Case]:
        """Yield cases until the time is over, or ``limit`` of them; the first is always tried."""
        end = time.monotonic() + seconds
        number = first = 0 if self.only is None else self.only
        while (limit is None or number < limit) and (time.monotonic() < end or number == first):
            with tempfile.TemporaryDirectory(prefix="nearkin-fuzz-") as folder:
                self._case = Case(number, seed, Path(folder).resolve())
                yield self._case
            self._case = None
            if self.only is not None:
                return
            number += 1

    def count(self, case: Case, group: str, problem: str | None = None) -> None:
        """Count a case as held, or as failed if there is a problem."""
        self.tried[self.kind, group] += 1
        if problem is not None:
            self._keep(case, group, " ".join(problem.split()))
        self._show_progress()

    def broke(self, error: BaseException) -> None:
        """Count an attack that raised as a failure of the case in hand."""
        case = self._case or Case(0, 0, HERE / "nowhere")
        self.count(case, "the attack itself", f"{type(error).__name__}: {error}")

    @property
    def failed(self) -> Counter[tuple[str, str]]:
        """How many cases of each group failed."""
        return Counter((one.kind, one.group) for one in self.failures)

    def _keep(self, case: Case, group: str, problem: str) -> None:
        repeat = f"python -m fuzz --only {self.kind} --seed {case.seed} --case {case.number}"
        made = Failure(self.kind, group, problem, repeat)
        alike = sum(signature(one.problem) == signature(problem) for one in self.failures)
        if alike < KEPT and case.folder.is_dir():
            target = FAILURES / f"{self.kind}-{case.seed}-{case.number}"
            shutil.rmtree(target, ignore_errors=True)
            copy_plain(case.folder, target)
            (target / "WHY.txt").write_text(f"{group}: {problem}\nrepeat: {repeat}\n")
            made.saved = str(target.relative_to(HERE.parent))
        self.failures.append(made)
        if alike == 0:
            print(f"\rFAILED {self.kind}, {group}: {problem}\n  repeat: {repeat}", file=sys.stderr, flush=True)

    def _show_progress(self) -> None:
        now = time.monotonic()
        if now - self._shown > (0.2 if sys.stderr.isatty() else PROGRESS_S):
            self._shown = now
            line = f"{self.tried.total():,} tried, {len(self.failures):,} failed; now: {self.kind}"
            print(f"\r{line:<70}", end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    def faults(self) -> list[list[Failure]]:
        """Return the failures, those that look alike together, the most frequent first."""
        found: dict[str, list[Failure]] = {}
        for one in self.failures:
            found.setdefault(signature(one.problem), []).append(one)
        return sorted(found.values(), key=len, reverse=True)

    def rows(self) -> list[tuple[str, str, int, int, int]]:
        """Return kind, group, tried, held and failed, row by row."""
        failed = self.failed
        return [(*key, n, n - failed[key], failed[key]) for key, n in sorted(self.tried.items())]

    def table(self) -> str:
        """Return the counts as a Markdown table."""
        lines = ["| kind | group | tried | held | failed |", "|---|---|---:|---:|---:|"]
        lines += [f"| {kind} | {group} | {n:,} | {held:,} | {bad:,} |" for kind, group, n, held, bad in self.rows()]
        n, bad = self.tried.total(), len(self.failures)
        return "\n".join([*lines, f"| **all** | | **{n:,}** | **{n - bad:,}** | **{bad:,}** |"])

    def add(self, path: Path) -> float:
        """Add the counts of an earlier run, and return its seconds."""
        earlier = json.loads(path.read_text())
        for one in earlier["counts"]:
            self.tried[one["kind"], one["group"]] += one["tried"]
        self.failures += [Failure(**one) for one in earlier["failures"]]
        return earlier["seconds"]

    def write(self, path: Path, **facts: object) -> None:
        """Write the counts and the failures as JSON."""
        names = ("kind", "group", "tried", "held", "failed")
        counts = [dict(zip(names, row, strict=True)) for row in self.rows()]
        whole = {**facts, "counts": counts, "failures": [vars(one) for one in self.failures]}
        path.write_text(json.dumps(whole, indent=1) + "\n")


def signature(problem: str) -> str:
    """Return a problem without its numbers, names of files and damaged bytes, so that equal faults look alike."""
    return re.sub(r"\d+|'[^']*'|\"[^\"]*\"|/\S+|\[.*", "#", problem)[:80]


def copy_plain(source: Path, target: Path) -> None:
    """Copy regular files only: a pipe or a link to a device must not be read."""
    target.mkdir(parents=True)
    for path in source.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26:
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
