"""Several answers per row, beside others: ``python -m benchmarks annotators [--data FOLDER] [--draws N]``.

Real answers: the 44 listeners of the music genres (700 songs, 2,945 answers), and three workers per picture of
CIFAR-10N (4,000 pictures). Simulated ones, where the truth is known: twelve annotators, right in 95, 85, 75, 60 or
40 % of the cases on average, each with habits of its own in every class; half of the worst answer without looking. A
row has one to five answers. Draw 0 was looked at when the settings of nearkin were
chosen, as were music and half of CIFAR-10N, so draws count from 1.

Methods: majority vote (ties at random), Dawid and Skene, one-coin Dawid and Skene and MACE by crowd-kit, CROWDLAB by
cleanlab (with a logistic regression of five folds, as its tutorial does), and nearkin with and without features.

A table (benchmarks/results/annotators.md) has the share of right labels, the mean confidence, how well confidence finds
wrong labels (AUROC), and, of the annotators, the share of intervals that hold the true share of right answers and the
rank correlation of quality. Needs crowd-kit and cleanlab: ``pip install crowd-kit 'nearkin[cleanlab]'``.

With ``--asking`` another table (benchmarks/results/annotators_asking.md) has what asking again brings: one answer of
every row with several is hidden, then some are shown again.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import defaultdict
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from scipy.stats import spearmanr  # noqa: E402
from sklearn import datasets  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from sklearn.model_selection import cross_val_predict  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from nearkin import __version__, find_consensus  # noqa: E402

from .settings import HERE  # noqa: E402

SIMULATED = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}
QUALITY = (0.95, 0.85, 0.75, 0.6, 0.4)


def simulate(y, rng, n_annotators=12):
    """Draw answers; -1 where there is none."""
    k = int(y.max()) + 1
    confusion = np.empty((n_annotators, k, k))
    for a, right in enumerate(rng.choice(QUALITY, n_annotators)):
        if right < 0.5 and rng.random() < 0.5:
            confusion[a] = rng.dirichlet(np.ones(k))  # answers without looking
            continue
        for c in range(k):
            hit = np.clip(right + 0.1 * rng.normal(), 0.1, 0.99)
            confusion[a, c] = np.insert(rng.dirichlet(np.full(k - 1, 0.5)) * (1.0 - hit), c, hit)
    answers = np.full((len(y), n_annotators), -1)
    for i, c in enumerate(y):
        for a in rng.choice(n_annotators, rng.integers(1, 6), replace=False):
            answers[i, a] = rng.choice(k, p=confusion[a, c])
    return answers


def load(folder, draws):
    """Yield name, rows, truth and answers."""
    if folder is not None:
        music, cifar = (np.load(folder / f"{name}.npz") for name in ("music_genre_crowd", "cifar10n_resnet18pq"))
        yield "music, 44 listeners", music["X"], music["y"], music["answers"].astype(int)
        workers = np.stack([cifar[f"y_random{i}"] for i in (1, 2, 3)], axis=1).astype(int)
        yield "CIFAR-10N, 3 workers", cifar["X"].astype(np.float32), cifar["y"], workers
    for name, read in SIMULATED.items():
        X, y = read(return_X_y=True)
        for draw in range(1, draws + 1):
            yield f"{name}, simulated", X, y, simulate(y, np.random.default_rng(draw))


def majority(X, answers, k):
    counts = np.stack([(answers == c).sum(axis=1) for c in range(k)], axis=1).astype(float)
    counts += 1e-6 * np.random.default_rng(0).random(counts.shape)
    return counts / counts.sum(axis=1, keepdims=True), None


def by_crowd_kit(kind, **settings):
    def run(X, answers, k):
        import crowdkit.aggregation
        import pandas

        task, worker = np.nonzero(answers >= 0)
        told = pandas.DataFrame({"task": task, "worker": worker, "label": answers[task, worker]})
        found = getattr(crowdkit.aggregation, kind)(**settings).fit_predict_proba(told)
        return found.reindex(index=range(len(answers)), columns=range(k), fill_value=0.0).to_numpy(), None

    return run


def crowdlab(X, answers, k):
    from cleanlab.multiannotator import get_label_quality_multiannotator

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    votes = cross_val_predict(model, X, majority(X, answers, k)[0].argmax(axis=1), cv=5, method="predict_proba")
    found = get_label_quality_multiannotator(np.where(answers < 0, np.nan, answers), votes, verbose=False)
    shares = np.zeros((len(X), k))
    at = np.arange(len(X)), found["label_quality"]["consensus_label"].to_numpy().astype(int)
    shares[at] = found["label_quality"]["consensus_quality_score"].to_numpy()
    quality = found["annotator_stats"]["annotator_quality"].reindex(range(answers.shape[1])).to_numpy()
    return shares, (quality, None, None)


def by_nearkin(has_features):
    def run(X, answers, k):
        found = find_consensus(X if has_features else None, answers, random_state=0, missing=-1)
        shares = np.zeros((len(X), k))
        shares[:, found.classes] = found.shares
        return shares, (found.pooled.quality, found.pooled.low, found.pooled.high)

    return run


METHODS = {
    "majority vote": majority,
    "Dawid-Skene (crowd-kit)": by_crowd_kit("DawidSkene", n_iter=100),
    "one-coin Dawid-Skene (crowd-kit)": by_crowd_kit("OneCoinDawidSkene", n_iter=100),
    "MACE (crowd-kit)": by_crowd_kit("MACE", random_state=0),
    "CROWDLAB (cleanlab)": crowdlab,
    "nearkin, answers alone": by_nearkin(False),
    "nearkin": by_nearkin(True),
}


def measure(y, answers, shares, annotators):
    """Figures of one method on one set of answers."""
    label, confidence = shares.argmax(axis=1), shares.max(axis=1)
    wrong = label != y
    found = {
        "right": 100 * np.mean(~wrong),
        "confidence": 100 * confidence.mean(),
        "AUROC": 100 * roc_auc_score(wrong, -confidence) if 0 < wrong.sum() < len(y) else np.nan,
    }
    if annotators is not None:
        quality, low, high = annotators
        at = [np.flatnonzero(one >= 0) for one in answers.T]
        true = np.array([np.mean(answers[one, a] == y[one]) if len(one) else np.nan for a, one in enumerate(at)])
        known = np.isfinite(true) & np.isfinite(quality)
        found["rank correlation"] = spearmanr(true[known], quality[known]).statistic
        if low is not None:
            found["intervals that hold"] = 100 * np.mean((low <= true)[known] & (true <= high)[known])
    return found


def ask_again(X, y, answers, rng, share=0.15):
    """Right labels with one answer hidden of every row that has several, and after some of them are shown again."""
    several = [(i, rng.choice(np.flatnonzero(one >= 0))) for i, one in enumerate(answers) if (one >= 0).sum() > 1]
    held, n = np.array(several), int(share * len(answers))
    hidden = answers.copy()
    hidden[held[:, 0], held[:, 1]] = -1

    def right(shown):
        table, at = hidden.copy(), tuple(held[shown].T)
        table[at] = answers[at]
        return 100 * np.mean(find_consensus(X, table, random_state=0, missing=-1).label == y)

    before = find_consensus(X, hidden, random_state=0, missing=-1)
    order = {
        "in the order of ask_again": np.argsort(before.confidence[held[:, 0]], kind="stable"),
        "rows with fewest answers": np.lexsort((rng.random(len(held)), before.n_answers[held[:, 0]])),
        "at random": rng.permutation(len(held)),
    }
    return {"before": 100 * np.mean(before.label == y)} | {name: right(one[:n]) for name, one in order.items()}


def compare_asking(folder, draws, out):
    """Write what asking again brings."""
    found = defaultdict(list)
    music = np.load(folder / "music_genre_crowd.npz")
    for draw in range(1, draws + 1):
        for name in ("music", "wine", "breast cancer"):
            rng = np.random.default_rng(draw)
            X, y = (music["X"], music["y"]) if name == "music" else SIMULATED[name](return_X_y=True)
            answers = music["answers"].astype(int) if name == "music" else simulate(y, rng)
            for how, rows in (("with features", X), ("answers alone", None)):
                found[f"{name}, {how}"].append(ask_again(rows, y, answers, rng))
                print(name, how, found[f"{name}, {how}"][-1], flush=True)
    ways = list(next(iter(found.values()))[0])
    lines = ["# Asking again", "", f"nearkin {__version__}, {draws} draws: right labels in percent.", ""]
    lines += ["| answers | " + " | ".join(ways) + " |", "|---" * (len(ways) + 1) + "|"]
    for name, each in found.items():
        lines.append(f"| {name} | " + " | ".join(f"{np.mean([one[way] for one in each]):.1f}" for way in ways) + " |")
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("NEARKIN_DATA"))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "annotators.md")
    parser.add_argument("--asking", action="store_true", help="measure what asking again brings, and nothing else")
    given = parser.parse_args()
    if given.asking:
        warnings.simplefilter("ignore")
        compare_asking(Path(given.data), given.draws, given.out.with_name("annotators_asking.md"))
        return
    found = defaultdict(lambda: defaultdict(list))
    for name, X, y, answers in load(given.data and Path(given.data), given.draws):
        for method, run in METHODS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                figures = measure(y, answers, *run(X, answers, int(y.max()) + 1))
            found[name][method].append(figures)
            print(name, method, {key: round(float(value), 2) for key, value in figures.items()}, flush=True)
    lines = [
        "# Several answers per row",
        "",
        f"nearkin {__version__}, {given.draws} draws of simulated answers; percent.",
    ]
    names = list(found)
    lines += ["", "Right labels:", "", "| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for method in METHODS:
        values = [[one["right"] for one in found[name][method]] for name in names]
        cells = [
            f"{np.mean(v):.1f}" + (f" ± {np.std(v, ddof=1) / np.sqrt(len(v)):.1f}" if len(v) > 1 else "")
            for v in values
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    keys = ("confidence", "AUROC", "rank correlation", "intervals that hold")
    for key in keys:
        title = {
            "confidence": "Mean confidence (right labels are above)",
            "AUROC": "Wrong labels found by low confidence, AUROC",
            "rank correlation": "Rank correlation of the quality of annotators with their share of right answers",
            "intervals that hold": "Intervals of quality that hold the share of right answers",
        }[key]
        lines += ["", f"{title}:", "", "| method | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for method in METHODS:
            if all(key in one for name in names for one in found[name][method]):
                digits = 2 if key == "rank correlation" else 1
                cells = [f"{np.nanmean([one[key] for one in found[name][method]]):.{digits}f}" for name in names]
                lines.append(f"| {method} | " + " | ".join(cells) + " |")
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
