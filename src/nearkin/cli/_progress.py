"""A progress bar on stderr, for those who look."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nearkin.cli._interrupts import not_now
from nearkin.progress import listening

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[None]:
    """Draw what the library reports inside the block, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    with _bars():
        yield


@contextmanager
def _bars() -> Iterator[None]:
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def draw(task: str, done: int, total: int) -> None:
        with not_now():  # a bar that is interrupted while it is drawn complains later
            if task not in bars:
                # A size of our own: a terminal that says it has no rows would hide the bar.
                shape = {"ncols": 78, "nrows": 20}
                bars[task] = tqdm(total=total, desc=task, unit_scale=True, leave=False, file=sys.stderr, **shape)
            bars[task].update(done - bars[task].n)

    try:
        with listening(draw):
            yield
    finally:
        for one in bars.values():
            one.close()
