"""Finished cells on disk, one line each, so that a run that was killed goes on where it stopped."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nearkin.paper.cells import Cell, Outcome

__all__ = ["Log"]


class Log:
    """File of outcomes as JSON lines.

    Parameters
    ----------
    path : Path
        The file; it appears with the first outcome.
    kind : type
        Class of the outcomes: with a ``cell``, ``as_line`` and ``from_line``.
    """

    def __init__(self, path: Path, kind: type = Outcome):
        self.path = path
        self.kind: Any = kind

    def read(self) -> dict[str, Any]:
        """Outcomes by the key of their cell. A line that a kill left incomplete is not one."""
        if not self.path.is_file():
            return {}
        found = {}
        for line in self.path.read_text("utf-8", errors="replace").splitlines():
            try:
                outcome = self.kind.from_line(line)
            except (json.JSONDecodeError, TypeError, KeyError):
                continue
            found[outcome.cell.key] = outcome
        return found

    def append(self, outcome: Any) -> None:
        """Write one line at once and wait until it is on disk."""
        line = (outcome.as_line() + "\n").encode()
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":  # a line cut off by a kill must not swallow this one
                line = b"\n" + line
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def forget(self, cells: list[Cell]) -> None:
        """Take some cells out; the others stay."""
        keys = {cell.key for cell in cells}
        kept = [outcome.as_line() + "\n" for key, outcome in self.read().items() if key not in keys]
        part = self.path.with_suffix(".part")
        part.write_text("".join(kept), encoding="utf-8")
        part.replace(self.path)

    def missing(self, cells: list[Cell]) -> list[Cell]:
        """Cells that have no outcome yet."""
        known = self.read()
        return [cell for cell in cells if cell.key not in known]
