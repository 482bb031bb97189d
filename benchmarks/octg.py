"""OCTG at 500 centres: the compiled search, which makes scores by matrix products and compares them in the cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

from nearkin.kernels.impostors import search
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.triplets import OCTG

from .machine import gemm
from .settings import ROOT, Settings
from .timing import Task, enough, interleave, row

SECTION = "octg"
N_CLASSES, N_CENTRES = 25, 20
M = N_CLASSES * N_CENTRES

#: Rows of one call.
PIECE = 2048


def run(settings: Settings) -> Iterator[dict]:
    for dtype in ("float32",) if settings.quick else ("float32", "float64"):
        for d in (64, 512):
            yield measure(d, dtype, settings)


class PlainView:
    """A triplet source's view of a learner that neither scales nor learns."""

    measure = DISTANCE

    def scaled(self, X):
        return X

    def codes_of(self, labels):
        return np.asarray(labels)


def clusters(d: int, n: int, dtype: str):
    """Rows around centres that lie in six directions, so that a handful of them are as near as the row's own."""
    rng = np.random.default_rng(0)
    directions, _ = np.linalg.qr(rng.standard_normal((d, 6)))
    centres = (0.8 * rng.standard_normal((M, 6)) @ directions.T).astype(dtype)
    owner = np.repeat(np.arange(N_CLASSES), N_CENTRES)
    which = rng.integers(0, M, n)
    rows = centres[which] + (rng.standard_normal((n, d)) / np.sqrt(d)).astype(dtype)
    return rows, owner[which], centres, owner


def measure(d: int, dtype: str, settings: Settings) -> dict:
    X, y, centres, owner = clusters(d, 16 * PIECE if d < 512 else 8 * PIECE, dtype)

    def pieces(n: int) -> int:
        found = 0
        for at in range(0, n, PIECE):
            part = slice(at, min(n, at + PIECE))
            form = DISTANCE.linear(centres)
            found += search(X[part], form, X.dtype.type(1.0 / form.unit), y[part], owner, M)[0].shape[1]
        return found

    def through_source(n: int) -> int:
        source = OCTG(centers=centres, center_labels=owner)
        rows, view = Rows(X[:n]), PlainView()
        source.begin(rows, y[:n], view, np.random.default_rng(0))
        return sum(len(triplets) for triplets in source.generate(rows, y[:n], view))

    n = enough(pieces, settings.seconds, PIECE, len(X)) // PIECE * PIECE
    through_source(PIECE)
    literal = _literal()
    few_n = enough(lambda k: literal(X[:k], y[:k], centres, owner), settings.seconds, 4, 200)
    found, few = pieces(n), len(literal(X[:few_n], y[:few_n], centres, owner))
    if abs(few - pieces(few_n)) > 0.01 * few:  # a tie may fall to either side of the margin
        raise AssertionError(f"OCTG: the search finds {pieces(few_n)} triplets, the literal loop {few}")
    out = np.empty((PIECE, M), dtype)
    tasks = [
        gemm(dtype),
        Task(
            "same product",
            n,
            lambda _: [np.matmul(X[at : at + PIECE], centres.T, out=out) for at in range(0, n, PIECE)],
        ),
        Task("search", n, lambda _: pieces(n)),
        Task("source", n, lambda _: through_source(n)),
        Task("literal", few_n, lambda _: literal(X[:few_n], y[:few_n], centres, owner)),
    ]
    times = interleave(tasks, settings.rounds)
    rate = {key: t.rate for key, t in times.items()}
    values = {
        "impostors/row": found / n,
        "rows/s": rate["search"],
        "of GEMM": 2.0 * M * d * rate["search"] / rate["gemm"],
        "of same product": rate["search"] / rate["same product"],
        "source rows/s": rate["source"],
        "x literal": rate["search"] / rate["literal"],
    }
    return row(SECTION, f"{dtype} d={d}", values, times)


def _literal():
    """The literal generator of the tests."""
    folder = str(ROOT / "tests")
    if folder not in sys.path:
        sys.path.append(folder)
    from reference.triplets import octg

    return octg
