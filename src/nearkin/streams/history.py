"""What a model knows about the stream it was learned from; it is saved with the model as ``history_``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearkin.labels import Labels
from nearkin.reservoir import Reservoir
from nearkin.stored import Anything, Count, Maybe, Part, Table, Text, stored
from nearkin.streams.columns import Columns
from nearkin.streams.late import Waiting
from nearkin.streams.watch import Watch

__all__ = ["History", "Ledger", "LedgerEntry", "date_of"]


@stored(path=Text(), digest=Text(), n_rows=Count(), n_dropped=Count(), time=Text(), problem=Text())
@dataclass(frozen=True)
class LedgerEntry:
    """A file that was learned, or, with a ``problem``, one that could not be."""

    path: str
    digest: str  # of its content
    n_rows: int = 0  # dropped ones included
    n_dropped: int = 0
    time: str = ""  # when it was last written; not when it was learned, so that a run that resumes gives the same bits
    problem: str = ""

    @property
    def row(self) -> int | None:
        """Row that the problem names, counted from 1.

        >>> LedgerEntry("a.csv", "1f", problem="a.csv, data row 1,204: column 'x' holds 'n-a', not a number.").row
        1204
        """
        found = re.search(r"data row ([\d,]*\d)", self.problem)
        return None if found is None else int(found[1].replace(",", ""))


@stored(entries=Table(Text(), Part(LedgerEntry)))
@dataclass
class Ledger:
    """Files by the digest of their content, in the order in which they came.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.add(LedgerEntry("/in/monday.csv", "1f", 100))
    >>> ledger.judge("/in/copy.csv", "1f"), ledger.judge("/in/monday.csv", "2e"), ledger.judge("/in/tuesday.csv", "3d")
    ('seen', 'changed', 'new')
    """

    entries: dict[str, LedgerEntry] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries.values())

    def add(self, entry: LedgerEntry) -> None:
        """Note a file; one with the same content, or a bad one of the same name, gives way."""
        self.entries = {
            digest: one for digest, one in self.entries.items() if not (one.problem and one.path == entry.path)
        }
        self.entries[entry.digest] = entry

    def judge(self, path: str, digest: str) -> str:
        """Return "seen" for content that was learned, "changed" for a learned file with other content, or "new"."""
        if digest in self.entries:
            return "bad" if self.entries[digest].problem else "seen"
        return "changed" if any(one.path == path for one in self.learned) else "new"

    @property
    def learned(self) -> list[LedgerEntry]:
        """Files that were learned."""
        return [one for one in self if not one.problem]

    @property
    def quarantined(self) -> list[LedgerEntry]:
        """Files that could not be learned."""
        return [one for one in self if one.problem]


@stored(
    ledger=Part(Ledger),
    watch=Part(Watch),
    held=Maybe(Part(Reservoir)),
    labels=Maybe(Part(Labels)),
    waiting=Maybe(Part(Waiting)),
    columns=Maybe(Part(Columns)),
    settings=Table(Text(), Anything()),
    n_decided=Count(),
)
@dataclass
class History:
    """What a model knows about its stream. Everything that changes with a row is here or in the learner.

    Parameters
    ----------
    ledger : Ledger
        Files learned, and those that could not be.
    watch : Watch
        Sums over all rows, and the monitor; calls add up.
    held : Reservoir or None
        Rows from which the voters of a classifier are made, as many of each class.
    labels : Labels or None
        Numbers of the classes in `held`.
    waiting : Waiting or None
        Rows that wait for their label.
    columns : Columns or None
        Names of the columns in the order of the features, and how labels are written.
    settings : dict
        How the stream is read: rows of a batch and the like.
    n_decided : int
        Rows offered to `held` when the decision of a classifier was made last; what decides is made again from `held`
        when this differs.

    Examples
    --------
    >>> History().watch.n_rows
    0
    """

    ledger: Ledger = field(default_factory=Ledger)
    watch: Watch = field(default_factory=Watch)
    held: Reservoir | None = None
    labels: Labels | None = None
    waiting: Waiting | None = None
    columns: Columns | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    n_decided: int = 0


def seconds_now() -> float:
    """Return the seconds since 1970 by which rows wait; ``SOURCE_DATE_EPOCH`` sets them where runs must repeat."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    return float(fixed) if fixed else time.time()


def date_of(*paths: str | os.PathLike[str]) -> str:
    """Return when the newest of some files was written, in UTC; nothing for files that are gone."""
    try:
        return as_text(max(Path(path).stat().st_mtime for path in paths))
    except OSError:
        return ""


def as_text(seconds: float) -> str:
    """Return a time in UTC as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
