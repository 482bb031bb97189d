"""Time of single calls along a stream: ``python -m benchmarks latency [--quick]``.

Learners and `StreamAudit` get 1,000 rows and then small batches. For every call the processor time of the process and
the wall time are taken; a page lists their percentiles. The processor time is what the call costs; on a machine with
other work the wall time is longer.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import nearkin

from . import machine
from .settings import HERE

FIRST = 1000
PERCENTILES = (50, 90, 99, 99.9, 100)
MAKERS: dict[str, Callable[[], Any]] = {
    "RobustLODML r=16": lambda: nearkin.RobustLODML(16, random_state=0),
    "RobustODML": lambda: nearkin.RobustODML(random_state=0),
    "RobustLODML r=16, paper's form": lambda: nearkin.RobustLODML(
        16, init="auto", triplets="octg", C=0.1, random_state=0
    ),
    "StreamAudit": lambda: nearkin.StreamAudit(random_state=0),
}
CALLS = {1: 4000, 8: 2000, 64: 600}


def draw_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Digits drawn again and again, with noise on the pixels and a fifth of the labels wrong."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    which = rng.integers(0, len(y), n)
    noisy, _ = nearkin.flip_labels(y[which], 0.2, random_state=0)
    return X[which] + 0.7 * rng.normal(size=(n, X.shape[1])), noisy


def time_calls(make: Callable[[], Any], n_rows: int, n_calls: int) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of every call, on the processor and on the wall."""
    X, y = draw_rows(FIRST + n_rows * n_calls)
    model, times = make().partial_fit(X[:FIRST], y[:FIRST]), np.empty((2, n_calls))
    for i in range(n_calls):
        batch = slice(FIRST + i * n_rows, FIRST + (i + 1) * n_rows)
        wall, cpu = time.perf_counter(), time.process_time()
        model.partial_fit(X[batch], y[batch])
        times[:, i] = time.process_time() - cpu, time.perf_counter() - wall
    return 1e3 * times[0], 1e3 * times[1]


def measure(share: float) -> Iterator[str]:
    """Lines of the table."""
    yield "| | rows a call | calls | " + " | ".join(f"p{p:g}" for p in PERCENTILES) + " | p99 / p50 | wall p50 | p99 |"
    yield "|---|" + "---|" * (len(PERCENTILES) + 5)
    for name, make in MAKERS.items():
        for n_rows, n_calls in CALLS.items():
            cpu, wall = time_calls(make, n_rows, max(20, int(share * n_calls)))
            found, on_wall = np.percentile(cpu, PERCENTILES), np.percentile(wall, (50, 99))
            cells = [name, str(n_rows), str(len(cpu)), *(f"{one:.2f}" for one in found), f"{found[2] / found[0]:.1f}"]
            yield "| " + " | ".join([*cells, *(f"{one:.2f}" for one in on_wall)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "latency.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    load = machine.load()
    with threadpool_limits(1):
        lines = []
        for line in measure(0.1 if options.quick else 1.0):
            print(line, flush=True)
            lines.append(line)
    head = (
        "# Latency of partial_fit\n\nMilliseconds of a call on the processor, and on the wall, after a first batch of "
        f"{FIRST:,} rows; 64 features, 10 classes, a fifth of the labels wrong, one thread. "
        f"Load before and after: {load}, {machine.load()}. `python -m benchmarks latency` writes this page."
    )
    options.output.write_text("\n".join([head, "", *lines]) + "\n")


if __name__ == "__main__":
    main()
