"""Bars of progress: one for each task, with the step that is under way; in a notebook they come by themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from nearkin.progress import current_step, hold_interrupts, listening

__all__ = ["drawing_bars", "in_notebook", "notebook_bars"]

#: Seconds of work after which a bar appears in a notebook.
_PATIENCE = 2.0


@contextmanager
def drawing_bars(file: TextIO, delay: float = 0.0) -> Iterator[None]:
    """Draw what the library reports inside the block to a terminal, after ``delay`` seconds of a task."""
    from tqdm import tqdm

    bars: dict[str, Any] = {}

    def draw(task: str, done: int, total: int) -> None:
        with hold_interrupts():  # a bar that is interrupted while it is drawn complains later
            if task not in bars:
                # A size of our own: a terminal that says it has no rows would hide the bar.
                shape = {"ncols": 100, "nrows": 20, "delay": delay}
                bars[task] = tqdm(total=total, desc=task, unit_scale=True, leave=False, file=file, **shape)
            bars[task].set_postfix_str(current_step(), refresh=False)
            bars[task].update(done - bars[task].n)

    try:
        with listening(draw):
            yield
    finally:
        for one in bars.values():
            one.close()


def in_notebook() -> bool:
    """Whether the code runs in a notebook, whose cells show what they return."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    return found is not None and hasattr(found, "kernel")


@contextmanager
def notebook_bars() -> Iterator[None]:
    """Draw bars for work of more than two seconds, if this is a notebook."""
    if not in_notebook():
        yield
        return
    with drawing_bars(sys.stderr, _PATIENCE):
        yield
