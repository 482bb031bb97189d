"""What became of files: each learned, seen before, changed or bad; and of the model that they were meant for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["FileNote", "Outcome", "Wait"]


@dataclass(frozen=True)
class FileNote:
    """What became of a file: it was "learned" ("new" in a dry run), "seen" before, "changed" since, "bad", or put
    "aside" by an earlier run.
    """

    path: str
    status: str
    n_rows: int = 0
    text: str = ""
    error: Exception | None = field(default=None, compare=False)  # that was raised


@dataclass
class Wait:
    """Rows that met their label in a call, after that many seconds in all, and rows that expired."""

    n_joined: int = 0
    seconds: float = 0.0
    n_expired: int = 0


@dataclass
class Outcome:
    """The model, what became of every file, alarms of drift among the new rows, and whether the model was written."""

    model: Any
    notes: list[FileNote] = field(default_factory=list)
    waiting: Wait = field(default_factory=Wait)
    n_alarms: int = 0
    ignored: list[str] = field(default_factory=list)  # what else lies in the folders
    is_saved: bool = False

    def of(self, status: str) -> list[FileNote]:
        """Return the files with a status."""
        return [one for one in self.notes if one.status == status]
