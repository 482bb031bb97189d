"""Memory: how much there is, and a refusal before a job that needs more of it begins."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from nearkin.errors import InputError

__all__ = ["available_memory", "check_memory"]

#: Files that hold limits of a control group and what it uses, in versions 2 and 1.
_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory() -> int | None:
    """Return the bytes that this process may still take: of the machine and of its control group; None if unknown."""
    found: list[int] = []
    with suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    for limit, used in _GROUPS:
        with suppress(OSError, ValueError):  # "max" means without limit
            allowed, taken = (int(Path(one).read_text(encoding="ascii")) for one in (limit, used))
            found.append(max(0, allowed - taken))
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)


def check_memory(needed: float, job: str, advice: str, owner: object) -> None:
    """Refuse a job that needs more bytes than there are, and say what to do instead.

    Examples
    --------
    >>> check_memory(
    ...     1e18, "a matrix of 350 million features", "Use a low-rank learner.", "RobustODML"
    ... )  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nearkin.errors.InputError: RobustODML: a matrix of 350 million features needs about 1e+09 GB of memory and ...
    """
    available = available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"{job} needs about {needed / 1e9:,.3g} GB of memory and {available / 1e9:,.3g} GB are free. {advice}",
            owner=owner,
        )
