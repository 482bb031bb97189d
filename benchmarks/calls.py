"""Overhead of the library around its kernels: explicit triplets, `partial_fit`, and the first fit of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import nearkin
from nearkin import parameters
from nearkin.discriminant import start, sums, witnesses
from nearkin.kernels import impostors
from nearkin.kernels import lowrank as sweeps

from . import low_rank
from .growth_child import chunks
from .settings import ROOT, Settings
from .timing import row, skipped
from .triplet_data import draw, part, vectors

SECTION = "calls"
ROWS, WIDTH = 256, 64
WATCHED = ("learn", "search", "start")
PAPER: dict[str, Any] = {"init": "identity", "triplets": "octg", "C": 0.1, "random_state": 0}
MAKERS = {
    "RobustLODML r=16": lambda: nearkin.RobustLODML(16, **PAPER),
    "RobustLODML r=64": lambda: nearkin.RobustLODML(64, **PAPER),
    "RobustODML": lambda: nearkin.RobustODML(**PAPER),
    "RobustOASIS": lambda: nearkin.RobustOASIS(**PAPER),
    "RobustLODML r=16, default": lambda: nearkin.RobustLODML(16, random_state=0),
    "RobustOASIS, default": lambda: nearkin.RobustOASIS(random_state=0),
}
SIZES = tuple((d, r, n) for d, r in ((64, 10), (512, 64)) for n in (ROWS, 8192))


def run(settings: Settings) -> Iterator[dict]:
    for d, r, n in SIZES:
        for scale in (None, "auto"):
            yield explicit(d, r, n, scale, 20 if settings.quick else 100)
        yield labelled(d, r, n, 20 if settings.quick else 100)
    for name, make in MAKERS.items():
        yield overhead(name, make, 40 if settings.quick else 200)
    yield from cold(settings)


def explicit(d: int, r: int, n: int, scale: str | None, repeats: int) -> dict:
    """Share of the compiled sweep in calls that learn explicit triplets, all of which move the map."""
    members = vectors(part(draw(d, 1 << 14, "float32"), 0, n))
    model = low_rank.learner(d, r).set_params(scale=scale)
    shares, took = {}, {}
    with timed((sweeps.exact, "run")) as spent:
        for call in (model.fit_triplets, model.partial_fit_triplets):
            call(*members)
            shares[call.__name__], took[call.__name__] = [], []
            for _ in range(repeats if n == ROWS else repeats // 5):
                spent[0], start = 0.0, time.process_time()
                call(*members)
                took[call.__name__].append(time.process_time() - start)
                shares[call.__name__].append(spent[0] / took[call.__name__][-1])
    values = {f"kernel in {name}": share for name, share in shares.items()}
    values |= {f"us/triplet {name}": 1e6 * np.array(one) / n for name, one in took.items()}
    return row(SECTION, f"{n} triplets ({d}, {r}) scale={scale}", values)


def labelled(d: int, r: int, n: int, repeats: int) -> dict:
    """Share of the compiled sweep and of the compiled search for impostors in `partial_fit` in the paper's form."""
    model, took, shares = nearkin.RobustLODML(r, **{**PAPER, "C": low_rank.C}), [], []
    repeats = repeats if n == ROWS else repeats // 10
    with timed((sweeps.exact, "run"), (impostors, "_triplets")) as spent:
        for number, (X, y) in enumerate(chunks((repeats + 4) * n, d, n)):
            spent[0], start = 0.0, time.process_time()
            model.partial_fit(X, y)
            if number >= 4:  # the first ones compile
                took.append(time.process_time() - start)
                shares.append(spent[0] / took[-1])
    values = {"kernel in partial_fit": shares, "us/row partial_fit": 1e6 * np.array(took) / n}
    return row(SECTION, f"partial_fit {n} rows ({d}, {r})", values)


@contextmanager
def timed(*places: tuple[Any, str]) -> Iterator[list[float]]:
    """Count the processor seconds of some functions."""
    spent = [0.0]

    def around(function: Callable) -> Callable:
        def counted(*arguments):
            start = time.process_time()
            try:
                return function(*arguments)
            finally:
                spent[0] += time.process_time() - start

        return counted

    kept = [(owner, name, getattr(owner, name)) for owner, name in places]
    try:
        for owner, name, function in kept:
            setattr(owner, name, around(function))
        yield spent
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


class Watch:
    """Time spent in the functions that do the work."""

    def __init__(self):
        self.spent = dict.fromkeys(WATCHED, 0.0)

    def around(self, name: str, function: Callable) -> Callable:
        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] += time.perf_counter() - start

        return timed


@contextmanager
def watched() -> Iterator[Watch]:
    """Wrap `learn` of the parameters, the compiled loop that finds impostors, and the arithmetic of a start."""
    watch = Watch()
    places = [(parameters.FullMatrix, "learn", "learn"), (parameters.LowRank, "learn", "learn"),
              (impostors, "_triplets", "search"), (witnesses, "judge", "start"), (sums, "_scatter", "start"),
              (sums.Sums, "find_map", "start"), (start, "_place", "start")]  # fmt: skip
    kept = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in places]
    try:
        for owner, attribute, name in places:
            setattr(owner, attribute, watch.around(name, getattr(owner, attribute)))
        yield watch
    finally:
        for owner, attribute, function in kept:
            setattr(owner, attribute, function)


def overhead(name: str, make: Callable, repeats: int) -> dict:
    """Share of a `partial_fit` of 256 rows that is spent outside learning, the search for impostors, and the start."""
    stream = [(X.copy(), y) for X, y in chunks((repeats + 4) * ROWS, WIDTH, ROWS)]
    model = make()
    for X, y in stream[:4]:
        model.partial_fit(X, y)
    total: list[float] = []
    shares: dict[str, list[float]] = {key: [] for key in WATCHED}
    for X, y in stream[4:]:
        with watched() as watch:
            start = time.perf_counter()
            model.partial_fit(X, y)
            total.append(time.perf_counter() - start)
        for key, seconds in watch.spent.items():
            shares[key].append(seconds / total[-1])
    outside = 1.0 - sum(np.asarray(share) for share in shares.values())
    values = {
        "us/call": 1e6 * np.asarray(total),
        "outside": outside,
        "us outside": 1e6 * outside * np.asarray(total),
        "triplets/row": model.n_triplets_seen_ / model.n_rows_seen_,
        **shares,
    }
    out = row(SECTION, f"partial_fit {ROWS} rows d={WIDTH} {name}", values)
    out["rounds"] = {"wall": total}
    return out


_FIRST = """
import json, sys, time
start = time.perf_counter()
import nearkin
imported = time.perf_counter()
import numpy as np
rng = np.random.default_rng(0)
X, y = rng.standard_normal((200, 16)), rng.integers(0, 3, 200)
model = getattr(nearkin, sys.argv[1])(random_state=0)
begun = time.perf_counter()
model.fit(X, y)
first = time.perf_counter()
model.fit(X, y)
print(json.dumps({"import": imported - start, "first": first - begun, "second": time.perf_counter() - first}))
"""


def cold(settings: Settings) -> Iterator[dict]:
    """First fit of a fresh process with an empty cache of compiled code, then with the cache it left."""
    for learner in ("RobustLODML", "RobustODML"):
        with tempfile.TemporaryDirectory() as folder:
            said: dict[str, list[dict]] = {"empty": [], "warm": []}
            for number in range(1 + min(3, settings.rounds)):
                done = subprocess.run(
                    [sys.executable, "-c", _FIRST, learner], cwd=ROOT, capture_output=True, text=True, timeout=300,
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                )  # fmt: skip
                if done.returncode:
                    yield skipped(SECTION, f"first fit {learner}", done.stderr.strip().splitlines()[-1][:200])
                    return
                said["empty" if number == 0 else "warm"].append(json.loads(done.stdout))
        for cache, runs in said.items():
            values = {
                "import s": [one["import"] for one in runs],
                "first fit s": [one["first"] for one in runs],
                "second fit s": [one["second"] for one in runs],
            }
            out = row(SECTION, f"first fit {learner}, {cache} cache", values)
            out["rounds"] = runs
            yield out
