"""The machine: what it is, and the two rates that bound everything, matrix products and memory traffic."""

from __future__ import annotations

import functools
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .timing import Task, clock

GEMM_SHAPE = (1024, 2048, 2048)
GEMM_FLOPS = 2.0 * GEMM_SHAPE[0] * GEMM_SHAPE[1] * GEMM_SHAPE[2]
_TRIAD_NUMBERS = 1 << 22


@functools.cache
def _operands(dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, k, n = GEMM_SHAPE
    rng = np.random.default_rng(0)
    # Rows a little longer than a power of two, so that they do not compete for the same cache lines.
    left = np.empty((m, k + 16), dtype)[:, :k]
    right = np.empty((k, n + 16), dtype)[:, :n]
    left[:], right[:] = rng.random((m, k)), rng.random((k, n))
    return left, right, np.empty((m, n), dtype)


def gemm(dtype: str) -> Task:
    """A large matrix product; its rate is the ceiling of every kernel."""
    left, right, out = _operands(dtype)
    return Task("gemm", GEMM_FLOPS, lambda _: np.matmul(left, right, out=out))


@functools.cache
def _triad():
    from numba import njit

    @njit(fastmath=True)
    def triad(a, b, c, factor):
        for i in range(a.shape[0]):
            a[i] = b[i] + factor * c[i]

    a, b, c = np.zeros(_TRIAD_NUMBERS), np.ones(_TRIAD_NUMBERS), np.ones(_TRIAD_NUMBERS)
    triad(a, b, c, 2.0)
    return triad, a, b, c


def stream() -> Task:
    """Stream triad over arrays beyond the caches; work is bytes, counted as STREAM does (two reads, one write)."""
    triad, a, b, c = _triad()
    return Task("stream", 4 * 3.0 * a.nbytes, lambda _: [triad(a, b, c, 2.0) for _ in range(4)])


def describe() -> dict:
    """What the machine is, in words and numbers; no names of hosts, users or folders."""
    import scipy.linalg.cython_blas  # noqa: F401  so that its BLAS is listed
    from threadpoolctl import threadpool_info

    rates = {}
    for dtype in ("float32", "float64"):
        task = gemm(dtype)
        task.call(None)
        rates[f"gemm_{dtype}_gflops"] = round(
            GEMM_FLOPS / min(clock(lambda t=task: t.call(None))[0] for _ in range(3)) / 1e9, 1
        )
    triad = stream()
    rates["stream_triad_gbytes"] = round(
        triad.work / min(clock(lambda: triad.call(None))[0] for _ in range(3)) / 1e9, 1
    )
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {
            name: _version(name) for name in ("nearkin", "numpy", "scipy", "numba", "scikit-learn", "llvmlite")
        },
        "thread_pools": [
            {
                k: v
                for k, v in pool.items()
                if k in ("user_api", "internal_api", "version", "architecture", "num_threads")
            }
            for pool in threadpool_info()
        ],
        "load_average_before": _load(),
        **rates,
    }


def load() -> list[float] | None:
    """Load average now."""
    return _load()


def _load() -> list[float] | None:
    return [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _caches() -> dict[str, str]:
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = (index / "type").read_text().strip()
        letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
        found[f"L{(index / 'level').read_text().strip()}{letter}"] = (index / "size").read_text().strip()
    return found


def _memory() -> float | None:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    return None
