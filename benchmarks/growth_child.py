"""Feeds a stream to RobustLODML in a fresh process and prints the cost: ``python -m benchmarks.growth_child JSON``."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import nearkin

from .timing import clock

N_CLASSES = 10


def chunks(n: int, d: int, size: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of ten overlapping classes, always in the same memory, so that one chunk is all the stream holds."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((N_CLASSES, d), dtype=np.float32) * np.float32(2 / np.sqrt(d))
    X = np.empty((size, d), np.float32)
    for start in range(0, n, size):
        here = X[: min(size, n - start)]
        y = rng.integers(0, N_CLASSES, len(here))
        rng.standard_normal(out=here, dtype=np.float32)
        for k in range(0, len(here), 64):
            here[k : k + 64] += means[y[k : k + 64]]
        yield here, y


def memory(field: str) -> int:
    """Bytes from the process's status: VmRSS now, VmHWM at most.

    `ru_maxrss`, the fallback, begins at the size of the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """Reset the peak if the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    job = json.loads(sys.argv[1])
    n, d, size, r = job["n"], job["d"], job["chunk"], job["r"]
    with threadpool_limits(1):
        for X, y in chunks(400, 8, 200):  # compile, load libraries
            nearkin.RobustLODML(4, random_state=0).fit(X, y).partial_fit(X, y)
        before = memory("VmRSS")
        forget_peak()
        model = nearkin.RobustLODML(r, random_state=0)
        cpu, wall = [], []
        for X, y in chunks(n, d, size):
            one = clock(lambda X=X, y=y: model.partial_fit(X, y))
            cpu.append(one[0])
            wall.append(one[1])
    report = {
        "cpu": sum(cpu), "wall": sum(wall), "first_cpu": cpu[0], "before": before, "peak": memory("VmHWM"),
        "triplets": model.n_triplets_seen_, "updates": model.n_updates_,
        "chunk_bytes": size * d * 4, "model_bytes": model.components_.nbytes,
    }  # fmt: skip
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
