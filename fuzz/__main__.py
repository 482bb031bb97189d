"""Attack, count, report: ``python -m fuzz [--seconds 600] [--seed N] [--only models,data]``."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import time
from pathlib import Path
from types import ModuleType

for _library in ("OPENBLAS", "OMP", "MKL"):  # before anything loads them: a forked child must not inherit threads
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import fuzz  # noqa: E402
from fuzz.report import HERE, Report  # noqa: E402

RESULT = HERE / "last.json"
PAGE = HERE.parent / "docs" / "safety.md"
BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"


def find_kinds() -> dict[str, ModuleType]:
    """Return the modules that attack, the smallest share of time first."""
    names = [one.name for one in pkgutil.iter_modules(fuzz.__path__) if not one.name.startswith("_")]
    modules = {name: importlib.import_module(f"fuzz.{name}") for name in names}
    kinds = {name: module for name, module in modules.items() if hasattr(module, "WEIGHT")}
    return dict(sorted(kinds.items(), key=lambda one: one[1].WEIGHT))


def arguments(kinds: dict[str, ModuleType]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Attacks on nearkin; see docs/safety.md.")
    parser.add_argument("--seconds", type=float, default=600.0, help="time of all kinds together (default 600)")
    parser.add_argument("--seed", type=int, help="same seed, same cases (default: drawn, and printed)")
    parser.add_argument("--only", default=",".join(kinds), help=f"some of: {', '.join(kinds)}")
    parser.add_argument("--case", type=int, help="only the case with this number; needs --only KIND and --seed")
    parser.add_argument("--json", type=Path, default=RESULT, help="where the counts go")
    parser.add_argument("--add", type=Path, metavar="JSON", help="counts of an earlier run, to be added to these")
    parser.add_argument("--write-docs", action="store_true", help="put the counts into docs/safety.md")
    given = parser.parse_args()
    given.only = given.only.split(",")
    if unknown := set(given.only) - set(kinds):
        parser.error(f"--only: no kind {', '.join(sorted(unknown))}; there are {', '.join(kinds)}")
    if given.case is not None and (len(given.only) != 1 or given.seed is None):
        parser.error("--case needs one kind (--only) and its --seed")
    if given.seed is None:
        given.seed = int.from_bytes(os.urandom(4), "big")
    return given


def attack(kinds: dict[str, ModuleType], seconds: float, seed: int, report: Report) -> None:
    """Run every kind for its share of the time; time that a kind leaves over goes to the others."""
    end = time.monotonic() + seconds
    weights = sum(module.WEIGHT for module in kinds.values())
    for name, module in kinds.items():
        report.kind = name
        try:
            module.run((end - time.monotonic()) * module.WEIGHT / weights, seed, report)
        except Exception as error:
            report.broke(error)
        weights -= module.WEIGHT


def write_docs(report: Report, seconds: float, seed: int) -> None:
    """Put the table between its marks in the page about safety."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    said = f"{seconds / 60:.0f} minutes, seed {seed}, {report.tried.total():,} cases:"
    PAGE.write_text(f"{before}{BEGIN}\n{said}\n\n{report.table()}\n{END}{after}")


def main() -> int:
    found = find_kinds()
    given = arguments(found)
    report = Report(only=given.case)
    begun = time.monotonic()
    print(f"seed {given.seed}, {given.seconds:g} s: {', '.join(given.only)}", flush=True)
    try:
        attack({name: found[name] for name in found if name in given.only}, given.seconds, given.seed, report)
    except KeyboardInterrupt:
        print("\ninterrupted; so far:", file=sys.stderr)
    took = time.monotonic() - begun + (report.add(given.add) if given.add else 0.0)
    print(f"\n{report.table()}\n\nseed {given.seed}, {took:.0f} s")
    for alike in report.faults():
        print(f"FAILED {len(alike)} x {alike[0].kind}, {alike[0].group}: {alike[0].problem}")
        print(f"  repeat: {alike[0].repeat}")
    report.write(given.json, seed=given.seed, seconds=round(took, 1))
    if given.write_docs:
        write_docs(report, took, given.seed)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
