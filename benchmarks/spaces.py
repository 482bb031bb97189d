"""The metric by itself: retrieval in the learned space. ``python -m benchmarks spaces [--group reported] [--draws 5]``.

For every data set and draw: at most 800 training rows (70 %) and at most 600 queries, z-scored by the training rows;
0, 20 and 40 % of the training labels flipped uniformly (30 instead of 40 % for two classes). A method learns from the
flipped labels. Then every query retrieves training rows by the learned measure, and *clean* labels judge what it got,
so that no classifier hides anything: mean average precision of the first 50, over the hits among them (*mAP*) or over
all hits that 50 places could hold (*strict*). Beside it the accuracy of 3-NN and 25-NN, which vote with the flipped
labels.

Writes spaces.md and spaces.csv. The file spaces.jsonl keeps every finished cell, so that a run that was stopped goes on
where it was. `benchmarks.space_sets` says which packages carry the data, `benchmarks.space_methods` what is compared.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for _library in ("OPENBLAS", "OMP", "MKL"):  # before anything loads them
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from nearkin import paper  # noqa: E402
from nearkin.paper import Cell  # noqa: E402

from . import space_report  # noqa: E402
from .rivals import say, split_names  # noqa: E402
from .settings import HERE  # noqa: E402
from .space_methods import METHODS, Method, select  # noqa: E402
from .space_sets import GROUPS, Missing, Rows, load  # noqa: E402

MOST_TRAINING, MOST_QUERIES, FIRST = 800, 600, 50
#: Percentages of flipped labels, and the most for two classes.
NOISES, MOST_OF_TWO = (0.0, 20.0, 40.0), 30.0
#: Seconds after which a fit is stopped.
LONGEST = 300.0


@dataclass(frozen=True)
class Space(paper.Measurement):
    """What a space is worth, in percent; None where the method failed.

    Parameters
    ----------
    cell : Cell
        What was measured; its seed is the draw.
    map, strict : float or None
        Mean average precision over hits found, and over hits possible.
    nn3, nn25 : float or None
        Accuracy of neighbours that vote with the flipped labels.
    seconds : float
        Processor time of `fit`, compilation not included.
    error : str or None
        Why there is no space.
    """

    map: float | None
    strict: float | None
    nn3: float | None
    nn25: float | None
    seconds: float
    error: str | None = None

    def __str__(self) -> str:
        cell = self.cell
        found = self.error if self.map is None else f"mAP {self.map:.1f}"
        return f"{cell.dataset}, {cell.noise_text}, draw {cell.seed}, {cell.method}: {found}"


@dataclass(frozen=True)
class Draw:
    """One split with its flipped labels; the same for every method."""

    X: np.ndarray
    clean: np.ndarray
    flipped: np.ndarray
    queries: np.ndarray
    truth: np.ndarray


def draw_rows(data: Rows, noise: float, draw: int) -> Draw:
    """Split, scale and flip; the split depends on the draw alone, so that levels of noise can be compared."""
    order = np.random.default_rng(paper.derive_seed(draw, data.name)).permutation(len(data.y))
    n = min(MOST_TRAINING, int(0.7 * len(order)))
    train, test = order[:n], order[n : n + MOST_QUERIES]
    mean, deviation = data.X[train].mean(0), data.X[train].std(0)
    varies = deviation > 1e-9
    Z = (data.X[:, varies] - mean[varies]) / deviation[varies]
    flipped = flip(data.y[train], noise, np.random.default_rng(paper.derive_seed(draw, data.name, noise)))
    return Draw(Z[train], data.y[train], flipped, Z[test], data.y[test])


def flip(y: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Replace a share of the labels by any other class."""
    k = int(y.max()) + 1
    share = min(noise, MOST_OF_TWO) if k == 2 else noise
    some = rng.permutation(len(y))[: round(share / 100.0 * len(y))]
    out = y.copy()
    out[some] = (y[some] + rng.integers(1, k, len(some))) % k
    return out


def score(closeness: np.ndarray, rows: Draw) -> dict[str, float]:
    """Judge what the queries retrieve; ``closeness`` has one row per query."""
    order = np.argsort(-closeness, axis=1, kind="stable")
    is_hit = rows.clean[order[:, :FIRST]] == rows.truth[:, None]
    precision = np.cumsum(is_hit, axis=1) / np.arange(1, is_hit.shape[1] + 1)
    total, hits = (precision * is_hit).sum(1), is_hit.sum(1)
    sizes = np.bincount(rows.clean, minlength=int(max(rows.clean.max(), rows.truth.max())) + 1)
    possible = np.minimum(FIRST, sizes[rows.truth])
    known = possible > 0  # a class that no training row has cannot be retrieved
    return {
        "map": 100.0 * float((total[known] / np.maximum(hits[known], 1)).mean()),
        "strict": 100.0 * float((total[known] / possible[known]).mean()),
        "nn3": 100.0 * float((vote(order[:, :3], rows) == rows.truth).mean()),
        "nn25": 100.0 * float((vote(order[:, :25], rows) == rows.truth).mean()),
    }


def vote(nearest: np.ndarray, rows: Draw) -> np.ndarray:
    """Most frequent flipped label; the nearer one decides a tie."""
    votes = np.zeros((len(nearest), int(max(rows.flipped.max(), rows.truth.max())) + 1))
    for place, labels in enumerate(rows.flipped[nearest].T):
        votes[np.arange(len(nearest)), labels] += 1.0 - 1e-6 * place
    return votes.argmax(1)


# ---------------------------------------------------------------------- cells


class Stopped(Exception):
    """The fit took too long."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Stop after so many seconds; compiled code is stopped when it returns.

    A timer of processor time would be fairer, but makes the clock of processor time tick coarsely.
    """

    def stop(*_: Any) -> None:
        raise Stopped(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


_warm: set[str] = set()


def measure(cell: Cell, data: Rows) -> Space:
    """Learn and judge one cell; a method that fails leaves its error."""
    method, rows = METHODS[cell.method], draw_rows(data, float(cell.noise), cell.seed)
    began = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with limited(LONGEST):
                _warm_up(method)
                began = time.process_time()
                learned = method.fit(rows.X, rows.flipped, cell.seed)
                seconds = time.process_time() - began
            closeness = learned(rows.queries, rows.X)
            if not np.isfinite(closeness).all():
                raise FloatingPointError("scores are not finite")
            found: dict[str, Any] = score(closeness, rows)
        except Exception as error:
            seconds = time.process_time() - began
            found = dict.fromkeys(("map", "strict", "nn3", "nn25")) | {
                "error": f"{type(error).__name__}: {error}"[:200]
            }
    return Space(cell, **found, seconds=seconds)


def _warm_up(method: Method) -> None:
    """Compile before the clock runs."""
    if method.family in ("ours", "printed") and method.name not in _warm:
        _warm.add(method.name)
        rng = np.random.default_rng(0)
        method.fit(rng.normal(size=(60, 4)), np.arange(60) % 3, 0)


def list_cells(data: Mapping[str, Rows], methods: Sequence[Method], n_draws: int) -> list[Cell]:
    """All cells, draw by draw, so that a stopped run has compared all methods."""
    return [
        Cell(name, noise, method.name, seed=draw)
        for draw in range(n_draws)
        for name, one in data.items()
        for noise in NOISES
        for method in methods
        if method.most_features is None or one.X.shape[1] <= method.most_features
    ]


def time_digits(rounds: int = 5) -> dict[str, float]:
    """Median processor seconds of `fit` on all 1,797 digits, z-scored; methods side by side."""
    X, y = load_digits(return_X_y=True)
    X = X[:, X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    found: dict[str, list[float]] = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds):
            for name in ("NCA", "NCA(16)", "LODML", "RobustLODML"):
                _warm_up(METHODS[name])
                began = time.process_time()
                METHODS[name].fit(X, y, 0)
                found.setdefault(name, []).append(time.process_time() - began)
    return {name: float(np.median(some)) for name, some in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks spaces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the results")
    parser.add_argument(
        "--group", choices=tuple(GROUPS), help="sets that decisions used, or sets to report; both by default"
    )
    parser.add_argument("--sets", type=split_names, help="names, separated by commas; all of the group by default")
    parser.add_argument(
        "--methods", help="names or baseline, ours, printed, rival, separated by commas; all by default"
    )
    parser.add_argument("--draws", type=int, default=5, help="splits and noises of every set")
    parser.add_argument("--data", type=Path, dest="folder", help="folder with data files; NEARKIN_DATA by default")
    parser.add_argument("--jobs", type=int, default=1, help="cells to measure at once")
    parser.add_argument("--fresh", action="store_true", help="measure finished cells again")
    parser.add_argument("--report", action="store_true", help="measure nothing: write the report of what is done")
    given = parser.parse_args(arguments)
    groups = (given.group,) if given.group else tuple(GROUPS)
    names = [name for group in groups for name in GROUPS[group] if given.sets is None or name in given.sets]
    unknown = set(given.sets or ()) - set(names)
    if unknown:
        parser.error(
            f"--sets: no {', '.join(sorted(unknown))}; there are {', '.join(n for g in groups for n in GROUPS[g])}"
        )
    try:
        methods = select(given.methods)
    except ValueError as error:
        parser.error(f"--methods: {error}")
    given.out.mkdir(parents=True, exist_ok=True)
    log = paper.Log(given.out / "spaces.jsonl", Space)
    if not given.report:
        data: dict[str, Rows] = {}
        for name in names:
            try:
                data[name] = load(name, given.folder)
            except Missing as error:
                say(f"left out: {name}: {error}")
        cells = list_cells(data, methods, given.draws)
        paper.run_cells(cells, data, log, n_jobs=given.jobs, fresh=given.fresh, by=measure, say=say)  # type: ignore[arg-type]
    page = space_report.render(list(log.read().values()), time_digits())
    (given.out / "spaces.md").write_text(page, encoding="utf-8")
    (given.out / "spaces.csv").write_text(space_report.list_means(log.read().values()), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
