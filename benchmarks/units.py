"""Experiments of many independent units, measured by several processes at once and kept line by line.

A unit is what one process measures at a time; its measurement is one record. Every record is on disk before the next
one begins, with a digest of the code behind it, so that a stopped run goes on where it was and measures again what
older code had measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from nearkin.paper.sources import digest_sources

Record = dict[str, Any]
Unit = dict[str, Any]


def measure_all(
    units: Sequence[Unit], measure: Callable[..., Record], log: Path, *, what: str = "paper", n_jobs: int = 1
) -> list[Record]:
    """Records of all units in their order: ``unit | measure(**unit)`` with seconds and a digest of the sources.

    Those in ``log`` that today's code has measured are not measured again.
    """
    digest = digest_sources(what)
    log.parent.mkdir(parents=True, exist_ok=True)
    known = {_key(one, units[0]): one for one in _read(log) if one.get("sources") == digest}
    missing = [unit for unit in units if _key(unit, unit) not in known]
    begun = time.perf_counter()
    with log.open("a") as file:
        file.write("\n" if file.tell() else "")  # a line cut off by a kill must not swallow the next one
        for done, record in enumerate(_run(missing, measure, n_jobs), 1):
            record |= {"sources": digest}
            file.write(json.dumps(record) + "\n")
            file.flush()
            known[_key(record, units[0])] = record
            took = time.perf_counter() - begun
            print(
                f"[{done}/{len(missing)}] {took:.0f} s, {took * (len(missing) / done - 1):.0f} s left", file=sys.stderr
            )
    return [known[_key(unit, unit)] for unit in units]


def _run(units: Sequence[Unit], measure: Callable[..., Record], n_jobs: int) -> Iterable[Record]:
    if n_jobs == 1 or len(units) < 2:
        return (_measure_one(measure, unit) for unit in units)
    jobs = (delayed(_measure_one)(measure, unit) for unit in units)
    found: Iterable[Record] = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")(jobs)
    return found


def _measure_one(measure: Callable[..., Record], unit: Unit) -> Record:
    begun = time.perf_counter()
    with threadpool_limits(1):
        found = measure(**unit)
    return unit | found | {"seconds": round(time.perf_counter() - begun, 2)}


def _key(record: Record, unit: Unit) -> str:
    return json.dumps({name: record.get(name) for name in unit}, sort_keys=True)


def _read(log: Path) -> list[Record]:
    """Records of a log; a line that a kill has cut off does not count."""
    found = []
    for line in filter(None, log.read_text("utf-8").splitlines() if log.is_file() else ()):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of every such experiment."""
    parser.add_argument("--out", type=Path, required=True, help="folder for the record")
    parser.add_argument("--data", type=Path, dest="folder", help="folder with data files; NEARKIN_DATA by default")
    parser.add_argument("--jobs", type=int, default=1, help="units to measure at once, each in a process of its own")
    parser.add_argument("--quick", action="store_true", help="a look: few units")
