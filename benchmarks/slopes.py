"""Growth of public calls with rows, features and classes: ``python -m benchmarks slopes [--only NAME,...]``.

Every call gets a mixture of clusters, three per class, a tenth of the labels wrong, on one thread. One size is changed
at a time. The slope is that of the processor time between the last two sizes, both on logarithmic scales: 1 is linear,
2 quadratic. A series ends before a call would take longer than `_MOST` seconds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import nearkin
from nearkin.learners import OnlineLearner, fit_many
from nearkin.search import Index, SimilarityAdapter

from . import machine
from .settings import HERE

#: Sizes that stay, and those that are tried.
USUAL = {"rows": 4000, "features": 32, "classes": 5}
SIZES = {"rows": (1000, 4000, 16_000), "features": (16, 64, 256), "classes": (4, 16, 64)}
_MOST = 4.0
_QUERIES = 1000


def draw(rows: int, features: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in clusters, in single precision, and labels."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, 3, features)) * 3.0 / np.sqrt(features)
    y = rng.integers(0, classes, rows)
    X = centres[y, rng.integers(0, 3, rows)] + rng.normal(size=(rows, features)) / np.sqrt(features)
    noisy, _ = nearkin.flip_labels(y, 0.1, random_state=0)
    return X.astype(np.float32), noisy


def learner_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name and preparation of the `fit` of every learner."""
    for name in nearkin.__all__:
        kind = getattr(nearkin, name)
        if isinstance(kind, type) and issubclass(kind, OnlineLearner) and name.startswith("Robust"):
            if name in ("RobustOMDML", "RobustLOMDML", "RobustLSMDML"):
                yield (
                    f"{name}.fit, two modalities",
                    lambda X, y, kind=kind: lambda: kind(random_state=0).fit(np.array_split(X, 2, axis=1), y),
                )
                continue
            yield f"{name}.fit", lambda X, y, kind=kind: lambda: kind(random_state=0).fit(X, y)


def other_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name and preparation of all other calls."""
    classifier = nearkin.RobustKNeighborsClassifier

    def after(make: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
        def prepare(X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
            made = make(X, y)
            return lambda: call(made, X, y)

        return prepare

    def learned(X: np.ndarray, y: np.ndarray) -> Any:
        return nearkin.RobustLODML(16, random_state=0).fit(X, y)

    def triplets(X: np.ndarray, y: np.ndarray) -> Any:
        third = len(X) // 3
        return X[:third], X[third : 2 * third], X[2 * third : 3 * third]

    def stream(X: np.ndarray, y: np.ndarray) -> None:
        model = nearkin.RobustLODML(16, random_state=0)
        for at in range(0, len(X), 256):
            model.partial_fit(X[at : at + 256], y[at : at + 256], classes=range(int(y.max()) + 1))

    def answers(y: np.ndarray) -> np.ndarray:
        rng, right = np.random.default_rng(0), np.array([0.9, 0.8, 0.6])
        return np.where(rng.random((len(y), 3)) < right, y[:, None], rng.permuted(np.tile(y, (3, 1)), axis=1).T)

    def mixed(X: np.ndarray, y: np.ndarray) -> Any:
        import pandas as pd

        columns = {f"n{i}": one for i, one in enumerate(X.T)}
        return pd.DataFrame(columns | {f"c{i}": [f"k{int(4 * abs(x)) % 9}" for x in X[:, i]] for i in range(3)})

    def save(model: Any, X: np.ndarray, y: np.ndarray) -> None:
        with tempfile.TemporaryDirectory() as folder:
            nearkin.save(model, Path(folder) / "model.nearkin")
            nearkin.load(Path(folder) / "model.nearkin")

    yield "audit_labels", lambda X, y: lambda: nearkin.audit_labels(X, y, random_state=0)
    yield "RobustKNeighborsClassifier.fit", lambda X, y: lambda: classifier(random_state=0).fit(X, y)
    yield (
        f"predict of {_QUERIES:,} rows",
        after(
            lambda X, y: classifier(random_state=0).fit(X, y),
            lambda m, X, y: m.predict(np.resize(X, (_QUERIES, X.shape[1]))),
        ),
    )
    yield "Algorithm 5, fit", lambda X, y: lambda: classifier.algorithm5(random_state=0).fit(X, y)
    yield (
        "LabelAudit.to_html",
        after(
            lambda X, y: nearkin.audit_labels(X, y, random_state=0),
            lambda found, X, y: found.to_html(Path(tempfile.mkdtemp()) / "page.html"),
        ),
    )
    yield "find_consensus", lambda X, y: lambda: nearkin.find_consensus(X, answers(y), random_state=0)
    yield "StreamAudit.partial_fit", lambda X, y: lambda: nearkin.StreamAudit(random_state=0).partial_fit(X, y)
    yield "RobustLODML.partial_fit, 256 rows each", lambda X, y: lambda: stream(X, y)
    yield "RobustLODML.transform", after(learned, lambda m, X, y: m.transform(X))
    yield "RobustLODML.plausibility", after(learned, lambda m, X, y: m.plausibility(X, y))
    yield (
        "RobustODML.fit_triplets",
        after(triplets, lambda t, X, y: nearkin.RobustODML(random_state=0).fit_triplets(*t)),
    )
    yield (
        "RobustLODML.fit_triplets",
        after(triplets, lambda t, X, y: nearkin.RobustLODML(16, random_state=0).fit_triplets(*t)),
    )
    yield "save and load", after(learned, save)
    yield (
        "RobustLODML.fit, triplets='batch'",
        lambda X, y: (
            lambda: nearkin.RobustLODML(
                16, init="pca", triplets=nearkin.BatchTriplets(max_impostors=1), rescore=False, random_state=0
            ).fit(X, y)
        ),
    )
    yield (
        "fit_many, 4 values of C",
        lambda X, y: (
            lambda: fit_many([nearkin.RobustLODML(16, C=C, random_state=0) for C in (0.001, 0.003, 0.01, 0.03)], X, y)
        ),
    )
    yield "SimilarityAdapter.fit", after(triplets, lambda t, X, y: SimilarityAdapter().fit(*t))
    yield (
        f"Index.query of {_QUERIES:,} vectors",
        after(lambda X, y: Index().fit(X), lambda index, X, y: index.query(X[:_QUERIES])),
    )
    yield "TableEncoder.fit_transform", after(mixed, lambda table, X, y: nearkin.TableEncoder().fit_transform(table))
    yield "flip_labels", lambda X, y: lambda: nearkin.flip_labels(y, 0.2, random_state=0)


def series(prepare: Callable[..., Any], axis: str) -> dict[int, float]:
    """Processor seconds at every size of an axis, the quicker of two calls."""
    found: dict[int, float] = {}
    for size in SIZES[axis]:
        sizes = list(found)
        if len(sizes) > 1:
            slope = np.log(found[sizes[-1]] / found[sizes[-2]]) / np.log(sizes[-1] / sizes[-2])
            if found[sizes[-1]] * (size / sizes[-1]) ** max(slope, 0.5) > _MOST:
                break
        X, y = draw(**{**USUAL, axis: size})
        took = []
        for _ in range(2):
            call = prepare(X, y)
            start = time.process_time()
            call()
            took.append(time.process_time() - start)
            if found and took[0] > 1.0:  # the first size may compile
                break
        found[size] = max(min(took), 1e-5)
    return found


def slope_of(found: dict[int, float]) -> float:
    """Growth between the last two sizes."""
    (n, first), (m, last) = list(found.items())[-2:]
    return float(np.log(last / first) / np.log(m / n))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks slopes", description=__doc__)
    parser.add_argument("--only", default="", help="parts of names, with commas between")
    parser.add_argument("--draw", action="store_true", help="make page and picture of the numbers that are there")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "slopes.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = json.loads(options.output.read_text()) if options.output.exists() else {}
    if not options.draw:
        with threadpool_limits(1):
            for name, prepare in (*other_calls(), *learner_calls()):
                if all(part not in name for part in options.only.split(",")):
                    continue
                for axis in SIZES:
                    kept.setdefault(name, {})[axis] = series(prepare, axis)
                    print(name, axis, {n: round(t, 3) for n, t in kept[name][axis].items()}, flush=True)
                options.output.write_text(json.dumps(kept, indent=1) + "\n")
        kept = json.loads(options.output.read_text())
    options.output.with_suffix(".md").write_text(page(kept))
    picture(kept, options.output.with_suffix(".svg"))


def page(kept: dict[str, Any]) -> str:
    """Table of slopes."""
    lines = ["| call | seconds at most rows | " + " | ".join(SIZES) + " |", "|---|---|---|---|---|"]
    for name, axes in kept.items():
        found = {axis: {int(n): t for n, t in points.items()} for axis, points in axes.items()}
        cells = [f"{slope_of(one):.2f}" if len(one) > 1 else "" for one in found.values()]
        most, took = list(found["rows"].items())[-1]
        lines.append(f"| {name} | {took:.2f} at {most:,} | " + " | ".join(cells) + " |")
    usual = ", ".join(f"{n:,} {axis}" for axis, n in USUAL.items())
    head = (
        "# Slopes\n\nSlope of the processor time between the last two sizes, on logarithmic scales, one thread; the "
        f"sizes that are not changed are {usual}. A series ends before a call would take over {_MOST:g} seconds. "
        f"Load: {machine.load()}. `python -m benchmarks slopes` writes this page.\n"
    )
    return "\n".join([head, *lines]) + "\n"


def picture(kept: dict[str, Any], path: Path) -> None:
    """Draw seconds against sizes, both logarithmic, with a linear and a quadratic line."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.hashsalt": "nearkin", "svg.fonttype": "none", "font.size": 8}
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    for axis, place in zip(SIZES, figure.subplots(1, 3, sharey=True), strict=True):
        for i, (name, axes) in enumerate(kept.items()):
            points = [(int(n), t) for n, t in axes[axis].items()]
            place.loglog(*zip(*points, strict=True), ".-", lw=1, color=mpl.colormaps["tab20"](i % 20), label=name)
        sizes = np.array(SIZES[axis])
        for power in (1, 2):
            place.loglog(sizes, 0.02 * (sizes / sizes[0]) ** power, ":", color="0.5", label=f"slope {power}")
        place.set_xlabel(axis)
        place.set_xticks(sizes, [f"{n:,}" for n in sizes])
        place.minorticks_off()
    figure.axes[0].set_ylabel("processor seconds")
    figure.axes[0].set_ylim(1e-4, 100)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=7)
    figure.savefig(path, metadata={"Date": None, "Creator": "nearkin"})


if __name__ == "__main__":
    main()
