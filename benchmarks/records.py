"""Are the records in results/ of today's code? Compares the digest in every record with that of the sources.

    make records
    python -m benchmarks.records

A record is *current*, of *older code*, or has *no digest* (made before digests were kept). The command fails unless all
are current; words, comments and blank lines of the sources do not count.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearkin.paper import METHODS
from nearkin.paper.sources import digest_sources

RESULTS = Path(__file__).parents[1] / "results"


def list_records(path: Path) -> list[dict[str, Any]]:
    """Records of a file, which holds a list or several by name."""
    held = json.loads(path.read_text("utf-8"))
    if isinstance(held, list):
        return held
    return [one for some in held.values() if isinstance(some, list) for one in some]


def what_of(path: Path, record: dict[str, Any]) -> str:
    """Which sources a record follows from."""
    if path.stem == "table1":
        return "wine"
    if path.stem == "retrieval":
        return "nearkin"
    method = METHODS.get(record.get("method", ""))
    return "nearkin" if method is not None and method.raw else "paper"


def count_states(path: Path) -> Counter[str]:
    """How many records of a file are current, of older code, or without a digest."""
    return Counter(
        "no digest" if not one.get("sources")
        else "current" if one["sources"] == digest_sources(what_of(path, one)) else "older code"
        for one in list_records(path)
    )  # fmt: skip


def describe() -> Iterator[tuple[str, Counter[str]]]:
    """Every file of results/ and the states of its records."""
    for path in sorted(RESULTS.glob("*/*.json")):
        yield f"{path.parent.name}/{path.name}", count_states(path)


if __name__ == "__main__":
    total: Counter[str] = Counter()
    for name, states in describe():
        print(f"{name:40s} {', '.join(f'{n} {state}' for state, n in states.items())}")
        total += states
    sys.exit(0 if set(total) == {"current"} else 1)
