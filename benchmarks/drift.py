"""Alarms of a stream: how soon after a change, and how many without one, beside river's detectors on the same signals.

``python -m benchmarks drift [--quick]`` writes ``results/drift.md``. River's ADWIN and PageHinkley watch the same
numbers row by row: right or wrong, plausibility, one detector for each class (does a row belong to it) and one for each
feature. The settings of river's are its own, and those at which it raises about as few false alarms as nearkin.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nearkin
from nearkin.streams.batch import Batch, Place
from nearkin.streams.monitor import Monitor, SeenRows
from nearkin.streams.watch import learn_batch

from .settings import HERE

FEATURES, CLASSES, NOISE = 8, 4, 0.05
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
BEFORE, AFTER, BATCH = 20_000, 10_000, 1_000
#: What changes, and by how much.
CHANGES = {
    "10 % of labels redrawn": ("labels", 0.1),
    "40 % of labels redrawn": ("labels", 0.4),
    "a new class, 2 %": ("class", 0.02),
    "a new class, 10 %": ("class", 0.1),
    "one feature + 0.25 sd": ("shift", 0.25),
    "one feature + 1 sd": ("shift", 1.0),
    "one feature 1.5 x as wide": ("spread", 1.5),
    "balance: 5 % from first to last class": ("balance", 0.05),
    "balance: 20 % from first to last class": ("balance", 0.2),
}


def make_rows(rng: np.random.Generator, n: int, what: str = "", size: float = 0.0) -> tuple[Any, Any]:
    """Rows of Gaussian classes with some wrong labels, changed in one way."""
    shares = SHARES.copy()
    if what == "balance":
        shares += np.array([-size, 0.0, 0.0, size])
    y = rng.choice(CLASSES, n, p=shares)
    if what == "class":
        y[rng.random(n) < size] = CLASSES
    centers = 1.5 * np.random.default_rng(1).normal(size=(CLASSES + 1, FEATURES))
    X = centers[y] + rng.normal(size=(n, FEATURES))
    if what in ("shift", "spread"):
        sd = np.sqrt((SHARES @ centers[:-1, 0] ** 2) - (SHARES @ centers[:-1, 0]) ** 2 + 1.0)
        X[:, 0] = X[:, 0] + size * sd if what == "shift" else X[:, 0] * size
    noise = NOISE + (size if what == "labels" else 0.0)
    flipped = rng.random(n) < noise
    y[flipped] = rng.integers(0, CLASSES, int(flipped.sum()))
    return X, y


def watch_learner(parts: Iterator[tuple[Any, Any]]) -> Iterator[SeenRows]:
    """What a learner shows of each batch before and while it learns it."""
    learner = nearkin.RobustLODML(random_state=0)
    for X, y in parts:
        seen = learn_batch(learner, Batch(X, y, np.ones(len(X), bool), Place("rows", 0)), None, test=True)
        assert seen.rows is not None
        yield seen.rows


class River:
    """River's detectors on each number of a row; its alarm is the first of any, and the one that alarms begins anew."""

    def __init__(self, make: Callable[[], Any], make_falling: Callable[[], Any] | None = None):
        n = FEATURES + CLASSES + 1
        falling = make_falling or make
        self.make = [falling, falling, *[make] * n]
        self.detectors = [one() for one in self.make]
        self.n_rows = 0

    def see(self, rows: SeenRows) -> list[int]:
        right = np.ones(len(rows)) if rows.is_right is None else rows.is_right.astype(float)
        of_class = (rows.codes[:, None] == np.arange(CLASSES + 1)).astype(float)
        table = np.column_stack([right, rows.plausibility, of_class, rows.features])
        found = []
        for which, values in enumerate(table.T.tolist()):
            detector = self.detectors[which]
            for i, value in enumerate(values):
                detector.update(value)
                if detector.drift_detected:
                    found.append(self.n_rows + i + 1)
                    detector = self.detectors[which] = self.make[which]()
        self.n_rows += len(rows)
        return sorted(found)


class Ours:
    """The monitor of nearkin."""

    def __init__(self, false_alarms: float):
        self.monitor = Monitor(false_alarms)

    def see(self, rows: SeenRows) -> list[int]:
        return [one.row for one in self.monitor.see(rows)]


def detectors() -> dict[str, Callable[[], Any]]:
    """Who is compared."""
    found: dict[str, Callable[[], Any]] = {
        "nearkin, 1 per million": lambda: Ours(1.0),
        "nearkin, 100 per million": lambda: Ours(100.0),
    }
    try:
        from river.drift import ADWIN, PageHinkley
    except ImportError:
        return found

    def page_hinkley(threshold: float, delta: float) -> Callable[[], River]:
        return lambda: River(
            lambda: PageHinkley(threshold=threshold, delta=delta),
            lambda: PageHinkley(threshold=threshold, delta=delta, mode="down"),
        )

    return found | {
        "ADWIN, as it comes (0.002)": lambda: River(ADWIN),
        "ADWIN, delta 1e-5": lambda: River(lambda: ADWIN(delta=1e-5)),
        "Page-Hinkley, as it comes": page_hinkley(50.0, 0.005),
        "Page-Hinkley, threshold 100, delta 0.05": page_hinkley(100.0, 0.05),
    }


def change_stream(seed: int, what: str, size: float) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    for at in range(0, BEFORE + AFTER, BATCH):
        yield make_rows(rng, BATCH, *((what, size) if at >= BEFORE else ()))


def steady_stream(seed: int, n_rows: int) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    for _ in range(n_rows // BATCH):
        yield make_rows(rng, BATCH)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks drift", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    n_seeds, n_steady = (2, 60_000) if options.quick else (10, 1_000_000)
    names = detectors()
    delays: dict[str, dict[str, list[float]]] = {name: {change: [] for change in CHANGES} for name in names}
    for change, (what, size) in CHANGES.items():
        for seed in range(n_seeds):
            seen = list(watch_learner(change_stream(seed, what, size)))
            for name, make in names.items():
                detector = make()
                found = [row for rows in seen for row in detector.see(rows)]
                later = [row - BEFORE for row in found if row > BEFORE]
                delays[name][change].append(min(later, default=np.inf))
        print(change, {name: np.median(one[change]) for name, one in delays.items()}, flush=True)
    false, seconds = {}, {}
    seen = list(watch_learner(steady_stream(99, n_steady)))
    for name, make in names.items():
        detector, begun = make(), time.perf_counter()
        false[name] = 1e6 / n_steady * sum(len(detector.see(rows)) for rows in seen)
        seconds[name] = 1e6 * (time.perf_counter() - begun) / n_steady
        print(name, false[name], seconds[name], flush=True)
    lines = [
        "| change | " + " | ".join(names) + " |",
        "|---|" + "---:|" * len(names),
        *(f"| {change} | " + " | ".join(describe(delays[name][change]) for name in names) + " |" for change in CHANGES),
        "| nothing: alarms per million rows | " + " | ".join(f"{false[name]:.0f}" for name in names) + " |",
        "| microseconds a row | " + " | ".join(f"{seconds[name]:.1f}" for name in names) + " |",
    ]
    page = "\n".join(lines)
    if not options.quick:
        (HERE / "results" / "drift.md").write_text(page + "\n")
    print(page)


def describe(delays: list[float]) -> str:
    missed = int(np.isinf(delays).sum())
    middle = np.median(delays)
    text = "missed" if np.isinf(middle) else f"{middle:,.0f}"
    return text + (f" ({missed} of {len(delays)} missed)" if missed and not np.isinf(middle) else "")


if __name__ == "__main__":
    main()
