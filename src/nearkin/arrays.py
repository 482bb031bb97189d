"""Kinds of arrays, named once, and the memory that there is for them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.errors import InputError

__all__ = ["SMALLEST", "Array", "Codes", "Index", "Mask", "check_memory", "machine_memory"]

#: Numbers of either precision.
Array = NDArray[np.floating]

#: Positions of rows.
Index = NDArray[np.int64]

#: Classes by number, in order of first appearance.
Codes = NDArray[np.int64]

#: Rows that count.
Mask = NDArray[np.bool_]

#: Smallest positive normal number: what a plausibility that underflows becomes.
SMALLEST = float(np.finfo(np.float64).tiny)


def machine_memory() -> float:
    """Bytes that this process may have at most: the memory of the machine, or of its container; infinite if unknown."""
    try:
        found = [float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        found = []
    limit = Path("/sys/fs/cgroup/memory.max")
    with contextlib.suppress(OSError, ValueError):  # it says "max" where there is none
        found.append(float(limit.read_text()))
    return min(found, default=np.inf)


def check_memory(n_bytes: float, what: str, remedy: str, owner: object = None) -> None:
    """Refuse what would not fit into the memory of the machine, before any of it is taken.

    Examples
    --------
    >>> check_memory(1e18, "a matrix of 353,553,390 features", "Use fewer.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nearkin.errors.InputError: a matrix of 353,553,390 features needs 931,322,574.6 GiB of memory; ... Use fewer.
    """
    there = machine_memory()
    if n_bytes > there:
        raise InputError(
            f"{what} needs {n_bytes / 2**30:,.1f} GiB of memory; this machine has {there / 2**30:,.1f} GiB. {remedy}",
            owner=owner,
        )
