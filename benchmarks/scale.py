"""Which scaling makes one set of defaults work on raw data? The experiment behind ``scale="auto"``.

Run ``python benchmarks/scale.py --data FOLDER`` with a folder of npz files holding raw ``X`` and ``y``. For every
data set, noise level, scaling and learner: accuracy of Robust-kNN on clean test folds, and how well plausibility
ranks the wrong labels. Nothing but the scaling changes; every learner runs with its defaults (scaled rows are
given to it with ``scale=None``).
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import nearkin
from nearkin.paper.methods import as_printed

DATA = ("wine", "wdbc", "ionosphere", "australian", "german", "letters", "yaleb_32x32", "covid_resnet18pq",
        "cifar10n_resnet18pq", "music_genre_crowd", "coil20_32x32")  # fmt: skip
#: In the paper's form, in which the scaling was chosen.
LEARNERS = {
    name: partial(as_printed, getattr(nearkin, name))
    for name in ("RobustLODML", "RobustODML", "RobustLOSL", "RobustOASIS")
}
MOST_ROWS = 2000
MOST_FEATURES_FULL = 150


def raw(mean, std, X):
    return X


def one_number(mean, std, X):
    """One number for all features: mean squared pair distance 1."""
    return X / np.sqrt(2 * (std**2).sum())


def z_score(mean, std, X):
    return (X - mean) / np.where(std > 0, std, 1)


def pairs(mean, std, X):
    """z-score, then one number: mean squared pair distance 1."""
    return z_score(mean, std, X) / np.sqrt(2 * max(1, (std > 0).sum()))


def unit(mean, std, X):
    """z-score, then rows of length 1."""
    return unit_raw(mean, std, z_score(mean, std, X))


def unit_raw(mean, std, X):
    """Rows of length 1, nothing else."""
    norm = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norm > 0, norm, 1)


def unit_centred(mean, std, X):
    """Centred rows of length 1, features not rescaled."""
    return unit_raw(mean, std, X - mean)


SCALINGS = {f.__name__: f for f in (raw, one_number, z_score, pairs, unit, unit_raw, unit_centred)}


def load(folder: Path, name: str):
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(np.float64), file["y"]
    rng = np.random.default_rng(0)
    keep = np.sort(rng.permutation(len(X))[:MOST_ROWS])
    return X[keep], y[keep]


def cell(X, y, scaling, learner, noise, n_folds, draws):
    accuracy, ranking = [], []
    for draw in range(draws):
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=draw)
        for fold, (train, test) in enumerate(folds.split(X, y)):
            mean, std = X[train].mean(0), X[train].std(0)
            given, wrong = nearkin.flip_labels(y[train], noise, random_state=1000 * draw + fold)
            model = nearkin.RobustKNeighborsClassifier(
                learner(scale=None, random_state=draw), n_neighbors=3, noise_rate=noise
            )
            model.fit(scaling(mean, std, X[train]), given)
            accuracy.append(model.score(scaling(mean, std, X[test]), y[test]))
            if wrong.any():
                ranking.append(roc_auc_score(wrong, -model.plausibility_))
    return 100 * np.mean(accuracy), 100 * np.mean(ranking) if ranking else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NEARKIN_DATA"))
    parser.add_argument("--datasets", default=",".join(DATA))
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--noise", default="0,0.2")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.data is None:
        parser.error("name the data folder with --data or NEARKIN_DATA")
    rows = []
    for name in options.datasets.split(","):
        X, y = load(Path(options.data), name)
        for learner in options.learners.split(","):
            if learner in ("RobustODML", "RobustOASIS") and X.shape[1] > MOST_FEATURES_FULL:
                continue
            for noise in map(float, options.noise.split(",")):
                for scaling, function in SCALINGS.items():
                    accuracy, auroc = cell(X, y, function, LEARNERS[learner], noise, options.folds, options.draws)
                    keys = {"data": name, "learner": learner, "noise": noise, "scaling": scaling}
                    rows.append({**keys, "accuracy": accuracy, "auroc": auroc})
                line = " ".join(f"{r['scaling']}={r['accuracy']:.1f}" + (f"/{r['auroc']:.1f}" if r["auroc"] else "")
                                for r in rows[-len(SCALINGS):])  # fmt: skip
                print(f"{name:20s} {learner:12s} {noise:4.2f}  {line}", flush=True)
    print("\nmean accuracy (AUROC) over data sets")
    for learner in options.learners.split(","):
        for noise in map(float, options.noise.split(",")):
            for scaling in SCALINGS:
                mine = [r for r in rows if (r["learner"], r["noise"], r["scaling"]) == (learner, noise, scaling)]
                auroc = [r["auroc"] for r in mine if r["auroc"] is not None]
                accuracy = [r["accuracy"] for r in mine]
                ranking = f" ({np.mean(auroc):.1f})" if auroc else ""
                print(f"{learner:12s} {noise:4.2f} {scaling:13s} {np.mean(accuracy):5.1f} "
                      f"worst {min(accuracy):5.1f}{ranking}")  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
