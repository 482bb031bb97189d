"""A log of how a stream goes, one JSON object a line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nearkin.saving import replacing

__all__ = ["Journal"]


class Journal:
    """JSON lines that are appended; after a kill, those that belong to lost work are taken back.

    Parameters
    ----------
    path : path-like
        The file.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def begin(self, n_batches: int) -> None:
        """Keep the lines up to this batch of an earlier run; 0 for none. A torn line is dropped."""
        kept = []
        if n_batches and self.path.exists():
            for line in self.path.read_bytes().splitlines():
                try:
                    if json.loads(line)["batch"] <= n_batches:
                        kept.append(line + b"\n")
                except (ValueError, KeyError, TypeError):
                    continue
        with replacing(self.path) as file:
            file.writelines(kept)

    def append(self, record: dict[str, Any]) -> None:
        """One more line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
