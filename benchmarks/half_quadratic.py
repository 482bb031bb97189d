"""The half-quadratic loop: how far from the minimum it ends, and what other readings of it do to accuracy.

    python -m benchmarks.half_quadratic --out results/half_quadratic

The objective of a triplet, ``tau^2 |A|^2 / 2 + C loss(z + tau |A|^2)``, is not convex: the loop descends from the step
0 and stays in the valley where it begins. ``anchored`` is that loop, ``cumulative`` adds up its inner steps, ``global``
takes the best of a grid of steps, refined. Accuracy is that of Robust-kNN after one pass of Robust-ODML on the triplets
of OCTG, the cone kept at the end, on the five small sets, told the noise rate.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from nearkin import OCTG, datasets
from nearkin.losses import RescaledHinge
from nearkin.paper import derive_seed, draw_splits
from nearkin.paper.scores import summarise
from nearkin.paper.sources import digest_sources

SETS = ("wine", "ionosphere", "wdbc", "australian", "german")
RULES = ("anchored", "cumulative", "global")
CS, ETAS, NOISE = (0.1, 1.0, 30.0), (0.5, 3.0), (0.0, 20.0)
Array = np.ndarray


def loop(z: float, square: float, C: float, loss: RescaledHinge, rule: str, n_iter: int = 3) -> float:
    """Step of the half-quadratic loop along A, with ``square = |A|^2``."""
    kink, tau = (1.0 - z) / square, 0.0
    for _ in range(n_iter):
        begin = tau if rule == "cumulative" else 0.0
        tau = min(begin + C * float(loss.weight(z + tau * square)), kink)
    return tau


def best(z: float, square: float, C: float, loss: RescaledHinge) -> float:
    """Step at the global minimum: bracket it on a grid, and compare again inside the bracket."""
    low, high = 0.0, (1.0 - z) / square
    for _ in range(3):
        taus = np.linspace(low, high, 201)
        at = int(np.argmin(objective(taus, z, square, C, loss)))
        low, high = taus[max(0, at - 1)], taus[min(200, at + 1)]
    return float(taus[at])


def objective(tau: Any, z: float, square: float, C: float, loss: RescaledHinge) -> Any:
    """What a triplet costs after a step (Eq. 11)."""
    return 0.5 * square * np.square(tau) + C * loss.value(z + tau * square)


def measure_excess(n: int = 4_000, seed: int = 0) -> dict[str, Any]:
    """Share of random triplets, by the excess of the loop over the minimum after 3 iterations and after 100."""
    rng = np.random.default_rng(seed)
    found: dict[int, list[float]] = {3: [], 100: []}
    for _ in range(n):
        z, square = 1.0 - 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-1, 1)
        C, loss = 10.0 ** rng.uniform(-3, np.log10(30.0)), RescaledHinge(10.0 ** rng.uniform(-2, np.log10(5.0)))
        least = objective(best(z, square, C, loss), z, square, C, loss)
        for n_iter, list_of in found.items():
            here = objective(loop(z, square, C, loss, "anchored", n_iter), z, square, C, loss)
            list_of.append(float(here / least) - 1.0)
    return {
        f"share of triplets more than {percent} % above the minimum after {n_iter} iterations": float(
            np.mean(np.array(excess) > percent / 100.0)
        )
        for n_iter, excess in found.items()
        for percent in (1, 10, 100)
    }


def learn(rows: Array, labels: Array, rule: str, C: float, loss: RescaledHinge) -> tuple[Array, Array]:
    """Map of Robust-ODML after one pass, and the plausibility of every row under it."""
    found = OCTG().build(rows, labels)
    pool = found.pool.take(slice(None))
    V, U = rows[found.anchor] - pool[found.negative], rows[found.anchor] - pool[found.positive]
    M = np.eye(rows.shape[1])
    for u, v in zip(U, V, strict=True):
        z, square = v @ M @ v - u @ M @ u, (u @ u) ** 2 + (v @ v) ** 2 - 2.0 * (u @ v) ** 2
        if z < 1.0 and square > 0.0:
            tau = best(z, square, C, loss) if rule == "global" else loop(z, square, C, loss, rule)
            M += tau * (np.outer(v, v) - np.outer(u, u))
    values, vectors = np.linalg.eigh(M)
    L = vectors * np.sqrt(np.maximum(values, 0.0))
    weights = np.ones(len(rows))
    np.minimum.at(weights, found.anchor, loss.plausibility(((V @ L) ** 2).sum(1) - ((U @ L) ** 2).sum(1)))
    return L, weights


def score(split: Any, rule: str, C: float, loss: RescaledHinge, rate: float) -> float:
    """Accuracy of Robust-kNN (Algorithm 5) in percent."""
    L, weights = learn(split.train, split.labels, rule, C, loss)
    kept = np.argsort(weights, kind="stable")[int(rate * len(weights)) :]
    rows, test = split.train[kept] @ L, split.test @ L
    nearest = np.argsort(((test[:, None] - rows) ** 2).sum(2), axis=1, kind="stable")[:, :3]
    n_classes = split.labels.max() + 1
    votes = [np.bincount(split.labels[kept[one]], weights[kept[one]], n_classes).argmax() for one in nearest]
    return 100.0 * float(np.mean(np.array(votes) == split.test_labels))


def measure_accuracy(name: str, noise: float, folder: Path | None) -> list[dict[str, Any]]:
    """Accuracy of every rule on a set, and its lead over the anchored loop with the standard error over folds."""
    data, found = datasets.load(name, folder), []
    splits = list(draw_splits(data, noise, seed=derive_seed("half-quadratic")))[:5]
    for C, eta in product(CS, ETAS):
        scores = {rule: [score(one, rule, C, RescaledHinge(eta), noise / 100.0) for one in splits] for rule in RULES}
        for rule in RULES:
            lead, std = summarise(list(np.subtract(scores[rule], scores["anchored"])))
            found.append({
                "dataset": name, "noise": noise, "rule": rule, "C": C, "eta": eta,
                "mean": float(np.mean(scores[rule])), "lead": lead, "lead_error": std / len(splits) ** 0.5,
                "folds": len(splits), "sources": digest_sources("paper"),
            })  # fmt: skip
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--data", type=Path)
    options.add_argument("--jobs", type=int, default=1, help="sets and levels of noise at once")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    jobs = (delayed(measure_accuracy)(name, noise, given.data) for name, noise in product(SETS, NOISE))
    found = {"excess": measure_excess(), "accuracy": [one for some in Parallel(given.jobs)(jobs) for one in some]}
    (given.out / "half_quadratic.json").write_text(json.dumps(found, indent=1) + "\n")
    for name, value in found["excess"].items():
        print(f"{100 * value:5.1f} % {name}")
    for rule in RULES:
        for noise in NOISE:
            some = [one["lead"] for one in found["accuracy"] if (one["rule"], one["noise"]) == (rule, noise)]
            mean, std = summarise(some)
            print(
                f"{rule:10s} {noise:4.0f} %: {mean:+.2f} +- {std / len(some) ** 0.5:.2f} points over the anchored loop"
            )


if __name__ == "__main__":
    main()
