"""Whether the interval of rows checked by hand holds, and how wide it is: ``python -m benchmarks.sample``.

Labels are made wrong in several ways, next to guesses that are good, worthless or the opposite of the truth; rows are
drawn and answered without an error. The record (benchmarks/results/sample.txt) has the share of samples whose interval
held the true share of wrong labels after every single answer, so also at the worst moment to stop. Widths stand beside
those of Clopper and Pearson's exact interval on as many rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from nearkin.audit.sample import bound_shares

from .settings import HERE

N_ROWS, N_DRAWS = 2000, 50
RATES = (0.0, 0.02, 0.1, 0.2, 0.4)
KINDS = ("uniform", "by class", "boundary", "copies", "flat", "guessing", "opposite", "trusted")


def make_world(kind: str, rate: float, rng: np.random.Generator, n: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return guesses and wrong labels."""
    easy = rng.random(n)  # how far a row is from the boundary between classes
    if kind == "boundary":
        wrong = easy < np.quantile(easy, rate) * rng.choice([0.8, 1.2], n)
    elif kind == "by class":
        wrong = rng.random(n) < rate * np.array([0.0, 0.5, 2.5])[rng.choice(3, n, p=[0.4, 0.3, 0.3])].clip(0, 1)
    else:
        wrong = rng.random(n) < rate
    seen = np.where(wrong, rng.beta(4, 1, n), rng.beta(1, 12, n))  # what a good model says
    guess = {
        "guessing": rng.random(n),
        "opposite": 1.0 - seen,
        "trusted": np.where(wrong, 0.0, seen),  # wrong labels look perfectly right
        "flat": np.full(n, 0.1),
    }.get(kind, seen)
    if kind == "copies":
        guess, wrong = np.repeat(guess[: n // 4], 4), np.repeat(wrong[: n // 4], 4)
    return guess, wrong


@dataclass(frozen=True)
class Found:
    """Share of samples that held, mean widths of both intervals, and the true share of wrong labels."""

    held: float
    width: float
    exact: float
    rate: float


def measure(kind: str, rate: float, repeats: int, seed: int = 0, n: int = N_DRAWS) -> Found:
    """Draw many samples of one world and compute their intervals."""
    rng = np.random.default_rng(seed)
    guess, wrong = make_world(kind, rate, rng)
    truth, size = wrong.mean(), len(wrong)
    rows = np.array([rng.choice(size, n, replace=False) for _ in range(repeats)])
    said = np.broadcast_to(wrong[rows].astype(float), (2, repeats, n))
    facts = (size, guess.mean(), guess.min(), guess.max(), (guess * (1 - guess)).mean(), n)
    each = [np.full(repeats, one) for one in facts]
    low, high = bound_shares(said, guess[rows], np.ones(rows.shape, dtype=bool), *each)
    # Intervals only shrink with every answer, so the last one is also that of the worst moment to stop.
    held = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    count = wrong[rows].sum(axis=1)
    exact_low = np.nan_to_num(beta.ppf(0.025, count, n - count + 1))
    exact = np.nan_to_num(beta.ppf(0.975, count + 1, n - count), nan=1.0) - exact_low
    return Found(held.mean(), (high - low).mean(), exact.mean(), truth)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sample", description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000, help="samples of every world")
    given = parser.parse_args(arguments)
    lines = [
        f"python -m benchmarks.sample: {N_DRAWS} of {N_ROWS} rows checked, {given.repeats} samples a world, in %.",
        "Held: the 95 % interval has the true share, after all answers and after every number of answers alike, since",
        "intervals only shrink. Width: mean, beside that of Clopper and Pearson on as many rows.",
        "",
        f"{'guesses and noise':<18}{'wrong':>7}{'held':>8}{'width':>8}{'exact':>8}",
    ]
    for kind in KINDS:
        for rate in RATES:
            one = measure(kind, rate, given.repeats)
            told = (100 * value for value in (one.rate, one.held, one.width, one.exact))
            lines.append(f"{kind:<18}" + "{:>7.1f}{:>8.1f}{:>8.1f}{:>8.1f}".format(*told))
    text = "\n".join(lines) + "\n"
    (HERE / "results" / "sample.txt").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
