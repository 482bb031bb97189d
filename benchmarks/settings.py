"""What the command line chose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


@dataclass(frozen=True)
class Settings:
    """How much to measure."""

    quick: bool
    rounds: int
    data: Path | None = None
    peer_timeout: float = 120.0

    @property
    def seconds(self) -> float:
        """Length of one timed call."""
        return 0.05 if self.quick else 0.2
