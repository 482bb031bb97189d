"""What a jury costs: its steps, and about how long each of them takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nearkin import progress
from nearkin.jury.judged import MOST_MEMBERS

__all__ = ["announce_cost", "announce_page", "estimate_page_seconds", "estimate_seconds"]

#: Rows up to which all pairs are compared, and rows from which both spaces learn at most.
_EXACT = 1 << 13
_LEARNED = 1 << 14


def estimate_seconds(n: int, d: int, n_classes: int) -> dict[str, float]:
    """Estimate the seconds of every step of an audit, in their order, on one core of a usual machine.

    Beyond 49,152 rows only the last steps grow with the rows.

    Examples
    --------
    >>> [round(sum(estimate_seconds(n, 64, 10).values())) for n in (2_000, 50_000, 1_000_000)]
    [0, 9, 96]
    """
    members, wide = min(n, MOST_MEMBERS), min(d, 256)
    others = n - members
    all_pairs = members * (1.5e-9 + 2e-11 * d)
    return {
        "comparing rows": members * (all_pairs if members <= _EXACT else 35e-6 + 1.2e-7 * d),
        "making voters": 0.1 + members * (60e-6 + 3e-7 * wide + 6e-8 * n_classes),
        "learning spaces": 0.05 + min(members, _LEARNED) * (20e-6 + 2.5e-7 * wide),
        "weighing the voters": 1e-7 * min(members * n_classes, 1 << 25),
        "judging labels": members * (40e-6 + 2e-7 * n_classes) + others * (70e-6 + 1.5e-7 * d + 1e-7 * n_classes),
        "suggesting labels": 1e-5 * n,
    }


def estimate_page_seconds(n: int, d: int) -> dict[str, float]:
    """Estimate the seconds of every step of a page about an audit, in their order; see `estimate_seconds`."""
    return {
        "looking at the data": 0.05 + 1e-7 * min(n, MOST_MEMBERS) * d,
        "collecting the evidence": 0.2 + 2e-5 * n,
        "drawing the map": 0.1 + 2e-3 * min(n, 600),
    }


@contextmanager
def announce_cost(n: int, d: int, n_classes: int, *, with_page: bool = False) -> Iterator[None]:
    """Report all that is done inside the block as one task that only goes forward, named after how long it takes."""
    steps = estimate_seconds(n, d, n_classes) | (estimate_page_seconds(n, d) if with_page else {})
    with progress.planned(f"judging {n:,} rows{progress.say_seconds(sum(steps.values()))}", steps):
        yield


@contextmanager
def announce_page(n: int, d: int) -> Iterator[None]:
    """Report the steps of a page as one task, unless they are part of a larger one."""
    steps = estimate_page_seconds(n, d)
    with progress.planned(f"making the page{progress.say_seconds(sum(steps.values()))}", steps):
        yield
