"""What forgetting costs and gives: learners over streams that stay or change in one way, with a half-life or not.

``python -m benchmarks forgetting [--quick]`` writes ``results/forgetting.md``: accuracy on rows before they are learned
(learners), and on new rows after the end (the classifier with 1,000 voters).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nearkin
from nearkin import streams
from nearkin.streams.batch import Batch, Place
from nearkin.streams.watch import learn_batch

from .settings import HERE

FEATURES, CLASSES, NOISE = 16, 6, 0.1
MOVING = nearkin.MovingScale(2_000.0)
ROWS, BATCH, BEGIN, END = 24_000, 500, 8_000, 16_000
#: What changes, slowly from row 8,000 to row 16,000 unless it jumps.
CHANGES = {
    "nothing": "nothing",
    "offset": "offsets grow to 8 sd",
    "gain": "gains from 1/20 to 20",
    "jump": "half of the units by 1,000",
    "classes": "classes move elsewhere",
    "balance": "rare classes become frequent",
}
FIRST = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])


class World:
    """Gaussian classes that change in one way."""

    def __init__(self, what: str, seed: int):
        self.what, self.rng = what, np.random.default_rng(seed)
        self.centers = self.rng.normal(size=(2, CLASSES, FEATURES))

    def rows(self, at: int, n: int) -> tuple[Any, Any, Any]:
        """Rows as they are there, their labels, some of them wrong, and the true ones."""
        t = float(np.clip((at - BEGIN) / (END - BEGIN), 0.0, 1.0))
        shares = (1 - t) * FIRST + t * FIRST[::-1] if self.what == "balance" else np.full(CLASSES, 1 / CLASSES)
        y = self.rng.choice(CLASSES, n, p=shares / shares.sum())
        moved = t if self.what == "classes" else 0.0
        X = ((1 - moved) * self.centers[0] + moved * self.centers[1])[y] + 0.9 * self.rng.normal(size=(n, FEATURES))
        if self.what == "offset":
            X += 8 * t * np.linspace(-1, 1, FEATURES)
        if self.what == "gain":
            X *= np.exp(t * np.linspace(-3, 3, FEATURES))
        if self.what == "jump" and at >= BEGIN:
            X *= np.where(np.arange(FEATURES) % 2, 1000.0, 1.0)
        wrong = self.rng.random(n) < NOISE
        return X, np.where(wrong, self.rng.integers(0, CLASSES, n), y), y

    def stream(self) -> Iterator[tuple[Any, Any]]:
        for at in range(0, ROWS, BATCH):
            yield self.rows(at, BATCH)[:2]


def learners() -> dict[str, Callable[[], Any]]:
    """Who learns."""

    def printed(**more: Any) -> Any:
        return nearkin.RobustLODML(init="auto", triplets="octg", C=0.1, random_state=0, **more)

    def voting(**more: Any) -> Any:
        learner = nearkin.RobustLODML(random_state=0, **more)
        return nearkin.RobustKNeighborsClassifier(learner, random_state=0)

    return {
        "RobustLODML": lambda: nearkin.RobustLODML(random_state=0),
        "with half-life": lambda: nearkin.RobustLODML(scale=MOVING, random_state=0),
        "paper's form": printed,
        "paper's form with half-life": lambda: printed(scale=MOVING),
        "classifier": voting,
        "classifier with half-life": lambda: voting(scale=MOVING),
    }


def measure(model: Any, what: str, seed: int) -> tuple[float, float]:
    """Accuracy while the stream changes and after it; of a classifier only the second."""
    world = World(what, seed)
    if isinstance(model, nearkin.RobustKNeighborsClassifier):
        streams.fit_stream(model, streams.open(list(world.stream()), batch_rows=BATCH), n_voters=1_000)
        X, _, y = world.rows(ROWS, 2_000)
        return np.nan, float((model.predict(X) == y).mean())
    right = []
    for X, y in world.stream():
        seen = learn_batch(model, Batch(X, y, np.ones(len(X), bool), Place("rows", 0)), None, test=True)
        right.append(seen.n_right / max(1, seen.n_tested))
    during, after = slice(BEGIN // BATCH, END // BATCH), slice((END + 2_000) // BATCH, None)
    return float(np.mean(right[during])), float(np.mean(right[after]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks forgetting", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    makes, n_seeds = learners(), 1 if options.quick else 3
    lines = ["| change | " + " | ".join(makes) + " |", "|---|" + "---:|" * len(makes)]
    for what, words in CHANGES.items():
        cells = []
        for make in makes.values():
            during, after = 100 * np.mean([measure(make(), what, seed) for seed in range(n_seeds)], axis=0)
            cells.append(f"{after:.1f}" if np.isnan(during) else f"{during:.1f}, {after:.1f}")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    if not options.quick:
        (HERE / "results" / "forgetting.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
