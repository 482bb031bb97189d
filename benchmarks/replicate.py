"""Every record in results/ and the command that makes it.

    make replicate JOBS=16                                  # all of them
    python -m benchmarks.replicate --list                   # the commands
    python -m benchmarks.replicate --jobs 16 why imbalance  # some folders

Every process runs on one thread. A run that was stopped goes on where it was: finished cells are lines of a file beside
the record. Cells of older code are forgotten with ``--fresh``; where `benchmarks.units` keeps the log, it notices by
itself. Several commands run at once, so that the slow last cells of one do not leave processors idle.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMALL = "wine,ionosphere,wdbc,australian,german"
LARGE = "letters,yale"
OURS = ("--methods", "Robust-LODML", "--methods", "Robust-ODML")
LARGE_COLUMNS = (*OURS, "--methods", "Euclidean", "--methods", "nearkin")
LEARNED = (*OURS, "--methods", "LPA-ODML", "--methods", "ODML", "--methods", "OPML")
GIVEN = ("--settings", "results/settings.json")


def _reproduce(table: str, *options: str) -> tuple[str, ...]:
    return ("nearkin", "reproduce", table, *options)


def _table3(selection: str, datasets: str, *options: str) -> tuple[str, ...]:
    return _reproduce("table3", "--selection", selection, "--datasets", datasets, *options)


def _rivals(*options: str) -> tuple[str, ...]:
    return ("benchmarks.rivals", "rivals", *options)


#: Module and options by folder, the longest first; --out and --jobs are added.
COMMANDS: dict[str, tuple[str, ...]] = {
    "table3-nested": _table3("nested", SMALL, *LEARNED, "--noise", "0,10,20", "--budget", "12", "--draws", "5"),
    "retrieval": ("benchmarks.retrieval",),
    "table3-nested-large": _table3("nested", LARGE, *OURS, "--noise", "0,10,20", "--budget", "15"),
    "table3-folds-draws": _table3("folds", SMALL, *OURS, *GIVEN, "--budget", "16", "--draws", "5"),
    "table3-folds-large": _table3("folds", LARGE, *OURS, *GIVEN, "--budget", "20"),
    "table3-default-large": _table3("default", LARGE, *LARGE_COLUMNS),
    "rivals-large": _rivals("--datasets", "letters,yale,covid-resnet18"),
    "table4-mobilenet": _reproduce("table4", "--datasets", "covid-mobilenetv2", "--noise", "20"),
    "table4": _reproduce("table4", "--datasets", "covid-resnet18"),
    "why": ("benchmarks.why",),
    "table3-folds": _table3("folds", SMALL, *OURS, *GIVEN, "--budget", "16"),
    "table3-default": _table3("default", SMALL, "--draws", "5"),
    "imbalance": ("benchmarks.imbalance",),
    "rivals": _rivals("--datasets", SMALL, "--draws", "5"),
    "grid": _reproduce("grid", "--datasets", SMALL, "--noise", "0,20", "--draws", "5"),
    "retrieval-steps": ("benchmarks.retrieval_steps",),
    "half_quadratic": ("benchmarks.half_quadratic",),
    "rivals-boundary": _rivals("--datasets", SMALL, "--noise", "20", "--kind", "boundary"),
    "rivals-next-class": _rivals("--datasets", SMALL, "--noise", "20", "--kind", "next-class"),
    "human": ("benchmarks.rivals", "human"),
    "table5": _reproduce("table5", "--datasets", "covid-resnet18"),
    "table3-folds-more": _table3(
        "folds", "ionosphere,australian,german", "--methods", "Robust-ODML", "--noise", "5,10,15", "--budget", "40"
    ),
    "unseen": ("benchmarks.unseen",),
    "table1": _reproduce("table1"),
    "figures": _reproduce("figures"),
}

#: Commands that know neither --jobs nor --fresh.
PLAIN = ("figures",)
#: Experiments that need the records of others, and so come after them.
LAST = ("unseen",)
#: Experiments that notice older code by themselves.
WATCHFUL = ("retrieval", "retrieval-steps", "why", "imbalance", "unseen", "half_quadratic")


def make_command(folder: str, jobs: int, *, fresh: bool) -> list[str]:
    """Command line that makes the record of a folder."""
    module, *options = COMMANDS[folder]
    more = [] if folder in PLAIN else ["--jobs", str(jobs)]
    if fresh and folder not in (*PLAIN, *WATCHFUL):
        more.append("--fresh")
    return [sys.executable, "-m", module, *options, "--out", f"results/{folder}", *more]


def run(folder: str, jobs: int, *, fresh: bool) -> int:
    """Make one record with one thread for each process; what it says goes to a file beside the record."""
    (ROOT / "results" / folder).mkdir(parents=True, exist_ok=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with (ROOT / "results" / folder / "progress.log").open("w") as file:
        command = make_command(folder, jobs, fresh=fresh)
        done = subprocess.run(command, cwd=ROOT, env=os.environ | threads, stdout=file, stderr=file, check=False)
    print(f"{folder}: {'done' if done.returncode == 0 else f'failed ({done.returncode})'}", flush=True)
    return done.returncode


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="folders of results/; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of each command")
    parser.add_argument("--at-once", type=int, default=3, help="commands at once")
    parser.add_argument("--fresh", action="store_true", help="measure finished cells again")
    parser.add_argument("--list", action="store_true", help="only print the commands")
    given = parser.parse_args(arguments)
    if unknown := [one for one in given.folders if one not in COMMANDS]:
        parser.error(f"no command makes {unknown[0]!r}; there are {', '.join(COMMANDS)}.")
    folders = given.folders or list(COMMANDS)
    if given.list:
        for folder in folders:
            print("python", *make_command(folder, given.jobs, fresh=given.fresh)[1:])
        return
    codes = []
    for some in ([one for one in folders if one not in LAST], [one for one in folders if one in LAST]):
        with ThreadPoolExecutor(given.at_once) as pool:
            codes += pool.map(lambda folder: run(folder, given.jobs, fresh=given.fresh), some)
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
