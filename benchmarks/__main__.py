"""Measure, write, compare: ``python -m benchmarks [--quick] [--only full,cone]``.

``python -m benchmarks NAME ...`` is the same as ``python -m benchmarks.NAME ...``.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

from threadpoolctl import threadpool_limits  # noqa: E402

from . import (  # noqa: E402
    calls,
    cone,
    end_to_end,
    full_matrix,
    growth,
    low_rank,
    machine,
    octg,
    report,
    systems,
    timing,
)
from .settings import HERE, Settings  # noqa: E402

SECTIONS = {
    module.SECTION: module for module in (full_matrix, low_rank, cone, systems, octg, end_to_end, growth, calls)
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of nearkin; see docs/speed.md."
    )
    parser.add_argument("--quick", action="store_true", help="few sizes and rounds, under three minutes")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of: {', '.join(SECTIONS)}")
    parser.add_argument("--rounds", type=int, help="rounds of every row (default 7, quick 3)")
    parser.add_argument("--data", type=Path, default=os.environ.get("NEARKIN_DATA"), help="folder with letters.npz")
    parser.add_argument("--peer-timeout", type=float, default=None, help="processor seconds before a peer is stopped")
    parser.add_argument("--name", help="name of the files in benchmarks/results (default full or quick)")
    parser.add_argument("--date", help="date to write into the results")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="print ratios to an older run")
    options = parser.parse_args()
    options.only = options.only.split(",")
    unknown = set(options.only) - set(SECTIONS)
    if unknown:
        parser.error(f"--only: no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def rows_of(section: str, settings: Settings) -> Iterator[dict]:
    """Rows of a section; if it fails, the rows so far and one that says why."""
    try:
        yield from SECTIONS[section].run(settings)
    except Exception as error:
        traceback.print_exc()
        failed = timing.skipped(section, "rest of the section", f"{type(error).__name__}: {error}")
        failed["failed"] = True
        yield failed


def main() -> None:
    options = arguments()
    old = json.loads(options.compare.read_text()) if options.compare else None
    settings = Settings(
        quick=options.quick,
        rounds=options.rounds or (3 if options.quick else 7),
        data=None if options.data is None else Path(options.data),
        peer_timeout=options.peer_timeout or (10.0 if options.quick else 120.0),
    )
    name = options.name or ("quick" if options.quick else "full")
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    begun = time.perf_counter()
    with threadpool_limits(1):
        results = {
            "name": name,
            "date": options.date,
            "options": {"quick": settings.quick, "rounds": settings.rounds, "only": options.only},
            "machine": machine.describe(),
            "rows": [],
        }
        for section in options.only:
            for one in rows_of(section, settings):
                results["rows"].append(one)
                shown = ", ".join(f"{key} {report.cell(v)}" for key, v in one["values"].items())
                print(
                    f"[{time.perf_counter() - begun:5.0f} s] {section}: {one['name']}: {shown} {one['note']}",
                    flush=True,
                )
                (folder / f"{name}.json").write_text(
                    json.dumps(results, indent=1)
                )  # keep the rows so far if the run is stopped
    results["machine"]["load_average_after"] = machine.load()
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1))
    drawn = report.draw(results, folder / f"{name}.svg")
    if not drawn:
        print("no picture: matplotlib is not installed, or nothing to draw")
    page = report.markdown(results, f"{name}.svg" if drawn else None)
    (folder / f"{name}.md").write_text(page + "\n")
    print(f"\n{page}\n")
    if old is not None:
        print(report.compare(results, old))
    if any(one.get("failed") for one in results["rows"]):
        sys.exit("a section broke: see above")


if __name__ == "__main__":
    name = sys.argv[1].replace("-", "_") if len(sys.argv) > 1 else ""
    if (HERE / f"{name}.py").is_file():
        del sys.argv[1]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    else:
        main()
