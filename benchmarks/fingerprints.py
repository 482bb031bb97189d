"""Are the results still the same bits? Record them before a change of structure, compare afterwards.

    python -m benchmarks.fingerprints before.npz               # in the old checkout
    python -m benchmarks.fingerprints after.npz --compare before.npz

Every public learner is fitted on three data sets of scikit-learn with a fifth of the labels flipped, by ``fit``, by
``partial_fit`` in three batches and, on one set, on explicit triplets; then the classifier, Algorithm 5, the audit and,
where torch is installed, the networks. Only public names are used, so that the script runs on both sides of a change.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import datasets

import nearkin

SETS = {"wine": datasets.load_wine, "breast_cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
FITTED = (
    "plausibility_", "metric_", "components_", "query_map_", "item_map_", "weights_", "n_rows_seen_",
    "n_triplets_seen_", "n_updates_", "n_terms_",
)  # fmt: skip
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("RobustODML", {"psd": "end"}),
    ("RobustODML", {"psd": "none"}),
    ("RobustLODML", {"n_components": 5, "n_epochs": 2}),
    ("RobustLODML", {"solver": "subgradient"}),
    ("RobustLODML", {"triplets": "random"}),
    ("RobustLODML", {"triplets": "batch"}),
    ("RobustLOSL", {"n_components": 5, "rescore": False}),
    ("OPML", {"exact": True}),
]


def learners() -> Iterator[tuple[str, Any]]:
    from nearkin.learners import __all__ as names

    for name in sorted(set(names) & set(nearkin.__all__)):
        yield name, getattr(nearkin, name)(random_state=0)
    for name, settings in VARIANTS:
        yield f"{name}{settings}", getattr(nearkin, name)(random_state=0, **settings)


def arrays_of(model: Any, X: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for name in FITTED:
        try:
            value = getattr(model, name)
        except AttributeError:
            continue
        if value is not None:
            yield name, np.asarray(value)
    yield "pair_score", np.asarray(model.pair_score(X[:20], X[20:40]))


def small(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(1).permutation(len(X))[:400]
    return np.ascontiguousarray(X[rows]), y[rows]


def of_learners() -> Iterator[tuple[str, np.ndarray]]:
    for set_name, read in SETS.items():
        X, y = small(*read(return_X_y=True))
        y, _ = nearkin.flip_labels(y, 0.2, random_state=0)
        for name, model in learners():
            for dtype in (np.float64, np.float32):
                rows = X.astype(dtype)
                for key, value in arrays_of(model.fit(rows, y), rows):
                    yield f"{set_name}/{name}/{np.dtype(dtype)}/{key}", value
            if hasattr(model, "partial_fit"):
                del model
                fresh = dict(learners())[name]
                for part in np.array_split(np.arange(len(X)), 3):
                    fresh.partial_fit(X[part], y[part])
                for key, value in arrays_of(fresh, X):
                    yield f"{set_name}/{name}/stream/{key}", value
                if set_name == "wine":
                    third = len(X) // 3
                    fresh.fit_triplets(X[:third], X[third : 2 * third], X[2 * third : 3 * third])
                    for key, value in arrays_of(fresh, X):
                        yield f"{set_name}/{name}/triplets/{key}", value


def of_decisions() -> Iterator[tuple[str, np.ndarray]]:
    for set_name, read in SETS.items():
        X, y = small(*read(return_X_y=True))
        y, _ = nearkin.flip_labels(y, 0.2, random_state=0)
        default = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
        printed = nearkin.RobustKNeighborsClassifier.algorithm5(random_state=0).fit(X, y)
        for name, model in (("jury", default), ("algorithm5", printed)):
            yield f"{set_name}/{name}/proba", model.predict_proba(X)
            yield f"{set_name}/{name}/plausibility", model.plausibility_
            yield f"{set_name}/{name}/rate", np.asarray(model.noise_rate_)
        audit = nearkin.audit_labels(X, y, random_state=0)
        for key in (
            "plausibility",
            "score",
            "suggested_label",
            "confidence",
            "is_suspect",
            "noise_rate",
            "noise_interval",
        ):
            yield f"{set_name}/audit/{key}", np.asarray(getattr(audit, key))


def of_networks() -> Iterator[tuple[str, np.ndarray]]:
    if importlib.util.find_spec("torch") is None:
        return
    from nearkin import deep

    X, y = small(*datasets.load_wine(return_X_y=True))
    for name in ("DeepMetric", "OAHU", "RobustOAHU"):
        model = getattr(deep, name)(random_state=0).fit(X, y)
        yield f"wine/{name}/transform", np.asarray(model.transform(X))
        yield f"wine/{name}/plausibility", np.asarray(model.plausibility_)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", help="npz file to write")
    parser.add_argument("--compare", help="npz file of the other side")
    options = parser.parse_args()
    found = {}
    for part in (of_learners, of_decisions, of_networks):
        found.update(part())
        print(f"{part.__name__}: {len(found)} arrays so far", flush=True)
    np.savez(options.path, **found)
    if not options.compare:
        return
    with np.load(options.compare, allow_pickle=False) as before:
        names = sorted(set(before.files) | set(found))
        differ = [
            name
            for name in names
            if name not in found
            or name not in before.files
            or before[name].dtype != found[name].dtype
            or not np.array_equal(before[name], found[name], equal_nan=found[name].dtype.kind == "f")
        ]
    print(f"{len(names) - len(differ)} of {len(names)} arrays are the same bits")
    for name in differ:
        print(f"  differs: {name}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
