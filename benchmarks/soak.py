"""An endless stream with drift, bad batches, kills and torn files: ``make soak``; what happens is in `fuzz.streams`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

from fuzz.streams import ALIVE, LIFE, soak  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="also write the report to this file")
    options = parser.parse_args()
    found = soak(60 * options.minutes, options.seed)
    if "batches" not in found:
        print(found["problem"], file=sys.stderr)
        return 1
    lines = [
        f"minutes             {options.minutes:g} (seed {options.seed})",
        f"rows learned        {found['rows']:,} in {found['batches']:,} batches",
        f"bad rows dropped    {found['dropped']:,}",
        f"classes seen        {found['batches'] // LIFE + ALIVE:,}, centres kept {found['centres']}",
        *(f"{name:<19} {found[name]}" for name in ("drift signals", "kills", "interrupts", "damaged checkpoints")),
        f"recoveries          {found['recoveries']}",
        f"peak memory         {found['peak'] / 1024**2:.0f} MB",
        "equal to the replay " + ("yes, to the bit" if found["problem"] is None else "NO: " + found["problem"]),
    ]
    print("\n".join(lines))
    if options.report is not None:
        options.report.write_text("\n".join(lines) + "\n")
    return 0 if found["problem"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
