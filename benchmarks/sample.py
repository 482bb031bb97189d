"""Whether the interval of rows checked by hand holds, and how wide it is: ``python -m benchmarks.sample``.

Labels are made wrong in several ways, next to guesses that are good, worthless or the opposite of the truth; rows are
drawn and answered without an error. The record (benchmarks/results/sample.txt) has the share of samples whose interval
held the true share of wrong labels after every single answer, so also at the worst moment to stop. Widths stand beside
those of Clopper and Pearson's exact interval on as many rows. Then come small tables, answers that nobody can give,
the precision down to some depths of the ranking, and what the advice where to stop costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from nearkin.audit.sample import bound_shares, check_sample, draw_sample

from .settings import HERE

N_ROWS, N_DRAWS, N_GROWN = 2000, 50, 480
RATES = (0.0, 0.02, 0.1, 0.2, 0.4, 0.5, 0.8)
KINDS = (
    "uniform", "by class", "one class", "boundary", "copies", "flat", "guessing", "opposite", "trusted", "certain",
)  # fmt: skip
#: Rows of small tables, and numbers of answers at which their intervals are looked at.
SMALL, STOPS = (8, 12, 20, 30, 45, 60), (1, 2, 3, 5, 8, 12, 20, 30, 45, 60)
#: Depths of the ranking, in shares of the rows.
DEPTHS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75)


def make_world(kind: str, rate: float, rng: np.random.Generator, n: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return guesses and wrong labels."""
    easy = rng.random(n)  # how far a row is from the boundary between classes
    if kind == "boundary":
        wrong = easy < np.quantile(easy, rate) * rng.choice([0.8, 1.2], n)
    elif kind == "by class":
        wrong = rng.random(n) < rate * np.array([0.0, 0.5, 2.5])[rng.choice(3, n, p=[0.4, 0.3, 0.3])].clip(0, 1)
    elif kind == "one class":
        wrong = np.arange(n) < rate * n  # all labels of the first rows, and no other
    else:
        wrong = rng.random(n) < rate
    seen = np.where(wrong, rng.beta(4, 1, n), rng.beta(1, 12, n))  # what a good model says
    guess = {
        "guessing": rng.random(n),
        "opposite": 1.0 - seen,
        "trusted": np.where(wrong, 0.0, seen),  # wrong labels look perfectly right
        "one class": np.where(wrong, 0.01, rng.beta(1, 12, n)),  # a whole class is wrong, and nobody notices
        "certain": np.where(rng.random(n) < 0.5, wrong, ~wrong).astype(float),  # 0 or 1, true for every other row
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


def bound(
    guess: np.ndarray, wrong: np.ndarray, rows: np.ndarray, unsure: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends for samples of rows; ``unsure`` ones are not answered."""
    said = np.broadcast_to(wrong[rows].astype(float), (2, *rows.shape))
    if unsure is not None:
        said = np.stack([np.where(unsure, 0.0, said[0]), np.where(unsure, 1.0, said[1])])
    spread = (guess * (1 - guess)).mean()
    facts = (len(guess), guess.mean(), guess.min(), guess.max(), spread, N_DRAWS)
    each = [np.full(len(rows), float(one)) for one in facts]
    return bound_shares(said, guess[rows], np.ones(rows.shape, dtype=bool), *each)


def is_inside(low: np.ndarray, truth: float | np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which intervals have the truth."""
    return (low <= truth + 1e-9) & (truth <= high + 1e-9)


def draw_rows(size: int, n: int, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Draw samples of rows without replacement."""
    return np.array([rng.choice(size, n, replace=False) for _ in range(repeats)])


def measure(kind: str, rate: float, repeats: int, seed: int = 0, n: int = N_DRAWS) -> Found:
    """Draw many samples of one world and compute their intervals."""
    rng = np.random.default_rng(seed)
    return measure_world(*make_world(kind, rate, rng), repeats, rng, n)


def measure_world(guess: np.ndarray, wrong: np.ndarray, repeats: int, rng: np.random.Generator, n: int) -> Found:
    """Draw many samples of some guesses and wrong labels, and compute their intervals."""
    truth, rows = wrong.mean(), draw_rows(len(wrong), n, repeats, rng)
    # Intervals only shrink with every answer, so the last one is also that of the worst moment to stop.
    low, high = bound(guess, wrong, rows)
    count = wrong[rows].sum(axis=1)
    exact_low = np.nan_to_num(beta.ppf(0.025, count, n - count + 1))
    exact = np.nan_to_num(beta.ppf(0.975, count + 1, n - count), nan=1.0) - exact_low
    return Found(is_inside(low, truth, high).mean(), (high - low).mean(), exact.mean(), truth)


def measure_small(kind: str, size: int, repeats: int, unsure: str = "never", seed: int = 0) -> float:
    """Return the lowest share, over rates, of samples of a small table that held at every number of answers.

    All rows may be answered, which proves the share, so that every stop is looked at by itself. ``unsure`` says which
    answers nobody can give: "never", "sometimes" (three in ten), or "wrong" (all that would say wrong).
    """
    rng = np.random.default_rng(seed)
    shares = []
    for rate in RATES:
        guess, wrong = make_world(kind, rate, rng, size)
        rows = draw_rows(size, min(size, N_DRAWS), repeats, rng)
        chance = {"never": np.zeros(size), "sometimes": np.full(size, 0.3), "wrong": wrong.astype(float)}[unsure]
        open_, held = rng.random(rows.shape) < chance[rows], np.ones(repeats, dtype=bool)
        for n in [one for one in STOPS if one <= rows.shape[1]]:
            low, high = bound(guess, wrong, rows[:, :n], open_[:, :n])
            held &= is_inside(low, wrong.mean(), high)
        shares.append(held.mean())
    return float(min(shares))


def measure_depths(kind: str, rate: float, repeats: int, seed: int = 0) -> list[float]:
    """Return the share of samples whose interval of the precision held, for some depths of the ranking."""
    rng = np.random.default_rng(seed)
    guess, wrong = make_world(kind, rate, rng)
    order = rng.permutation(len(guess))
    order = order[np.argsort(-guess[order], kind="stable")]  # equal guesses in any order
    guess, wrong = guess[order], wrong[order]
    rows, shares = draw_rows(len(wrong), N_DRAWS, repeats, rng), []
    for size in (int(one * len(wrong)) for one in DEPTHS):
        part = guess[:size]
        facts = size, part.mean(), part.min(), part.max(), (part * (1 - part)).mean()
        plan = max(1.0, N_DRAWS * size / len(wrong))
        said = np.broadcast_to(wrong[rows].astype(float), (2, *rows.shape))
        each = [np.full(repeats, float(one)) for one in (*facts, plan)]
        low, high = bound_shares(said, guess[rows], rows < size, *each)
        shares.append(is_inside(low, wrong[:size].mean(), high).mean())
    return shares


def measure_stop(kind: str, rate: float, repeats: int, seed: int = 0) -> tuple[float, float]:
    """Return what the advice where to stop loses, and what the better of all rows and none would, in rows per hundred.

    A wrong label that is reached wins a row, a right one costs a row; the loss is against the best depth.
    """
    rng = np.random.default_rng(seed)
    guess, wrong = make_world(kind, rate, rng)
    order = np.argsort(-guess, kind="stable")
    lead = np.concatenate([[0], np.cumsum(np.where(wrong[order], 1, -1))])
    lost = []
    for i in range(repeats):
        sample = draw_sample(guess, order, N_DRAWS, i)
        found = check_sample(sample, {row: not wrong[row] for row in sample.to_review.tolist()})
        lost.append(lead.max() - lead[found.stop])
    per_hundred = 100 / len(wrong)
    return float(np.mean(lost)) * per_hundred, float(lead.max() - max(0, lead[-1])) * per_hundred


def tell_worlds(repeats: int) -> Iterator[str]:
    """Lines of the record: every kind of guesses and noise."""
    yield "Held: the 95 % interval has the true share, after all answers and after every number of answers alike, since"
    yield "intervals only shrink. Width: mean, beside that of Clopper and Pearson on as many rows."
    yield ""
    yield f"{'guesses and noise':<18}{'wrong':>7}{'held':>8}{'width':>8}{'exact':>8}"
    for kind in KINDS:
        for rate in RATES:
            one = measure(kind, rate, repeats)
            told = (100 * value for value in (one.rate, one.held, one.width, one.exact))
            yield f"{kind:<18}" + "{:>7.1f}{:>8.1f}{:>8.1f}{:>8.1f}".format(*told)


def tell_more(repeats: int) -> Iterator[str]:
    """Lines of the record: samples that grow, small tables, answers that nobody gives, precision, where to stop."""
    yield f"Samples that grow up to {N_GROWN} rows: held at every number of answers, half as many samples."
    yield ""
    yield f"{'guesses and noise':<18}{'wrong':>7}{'held':>8}{'width':>8}{'exact':>8}"
    for kind in ("uniform", "flat", "guessing", "opposite", "certain"):
        for rate in (0.02, 0.1, 0.4):
            one = measure(kind, rate, max(50, repeats // 2), n=N_GROWN)
            told = (100 * value for value in (one.rate, one.held, one.width, one.exact))
            yield f"{kind:<18}" + "{:>7.1f}{:>8.1f}{:>8.1f}{:>8.1f}".format(*told)
    yield ""
    yield f"Small tables, at most {N_DRAWS} rows of each checked: held at {len(STOPS)} numbers of answers at once, the"
    yield f"lowest of {len(RATES)} rates, half as many samples. Unsure: three answers in ten, or all that would say"
    yield "wrong, are 'cannot tell'."
    yield ""
    heads = ["never", "sometimes", "wrong"]
    yield f"{'guesses':<18}{'rows':>7}" + "".join(f"{'unsure ' + one:>18}" for one in heads)
    for kind in ("uniform", "flat", "opposite", "one class", "certain"):
        for size in SMALL:
            held = (100 * measure_small(kind, size, repeats // 2, one) for one in heads)
            yield f"{kind:<18}{size:>7}" + "".join(f"{one:>18.1f}" for one in held)
    yield ""
    yield "Precision of the ranking: held at each depth by itself (depths in percent of the rows)."
    yield ""
    yield f"{'guesses and noise':<18}{'wrong':>7}" + "".join(f"{100 * one:>7g}" for one in DEPTHS)
    for kind in KINDS:
        for rate in (0.1, 0.4):
            shares = "".join(f"{100 * one:>7.1f}" for one in measure_depths(kind, rate, repeats))
            yield f"{kind:<18}{100 * rate:>7.1f}" + shares
    yield ""
    yield "Where to stop: rows lost to the best depth, per hundred rows; beside it the loss of the better of all rows"
    yield "and none (a wrong label reached wins a row, a right one costs one)."
    yield ""
    yield f"{'guesses and noise':<18}{'wrong':>7}{'advice':>8}{'none/all':>10}"
    for kind in KINDS:
        for rate in (0.1, 0.4):
            advice, blind = measure_stop(kind, rate, max(5, repeats // 50))
            yield f"{kind:<18}{100 * rate:>7.1f}{advice:>8.1f}{blind:>10.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sample", description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000, help="samples of every world")
    given = parser.parse_args(arguments)
    first = f"python -m benchmarks.sample: {N_DRAWS} of {N_ROWS} rows checked, {given.repeats} samples a world, in %."
    text = "\n".join([first, *tell_worlds(given.repeats), "", *tell_more(given.repeats)]) + "\n"
    (HERE / "results" / "sample.txt").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
