"""Find pictures of the same thing although some of the gallery's labels are wrong.

Pictures without labels search a gallery of labelled pictures. The measure is learned from the gallery's labels, some of
which are wrong; the right labels decide whether an answer is right. Besides the plain learners, two rows learn only
from pictures that `RobustKNeighborsClassifier` finds plausible.

Without arguments this runs on the small digits that scikit-learn carries. With the data folder NEARKIN_DATA:

    python examples/retrieval_images.py coil20 yale --noise 0 0.2 0.4 --seeds 3 --json results.json --picture folder
"""

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit

import nearkin
from nearkin import datasets
from nearkin.search import Index, bootstrap, ranking_scores

#: Settings to try on a part of the gallery, scored by its given labels.
STEPS = (0.03, 0.1, 0.3, 1.0)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def load(name):
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        keep = np.arange(900)
        return digits.data[keep].astype(np.float32), digits.target[keep], digits.images[keep]
    data = datasets.load(name)
    return data.X.astype(np.float32), data.y, data.X.reshape(-1, 32, 32).transpose(0, 2, 1)


def prepared(name, X, gallery):
    """Faces in changing light need their length and their main directions taken out; no label is used."""
    if name != "yale":
        return X
    whiten = PCA(100, whiten=True, random_state=0).fit(unit(X[gallery]))
    return whiten.transform(unit(X)).astype(np.float32)


def scores(index, queries, wanted, given):
    """Average precision and precision at 10 of every query, over the whole gallery."""
    _, order = index.query(queries, k=len(given))
    query, place = np.nonzero(given[order] == wanted[:, None])
    found = ranking_scores(query, place + 1, 10)
    return found["map"], found["precision"]


def methods(n_epochs):
    """Name, learner with a step, whether implausible labels are left out."""
    given = {"n_epochs": n_epochs, "random_state": 0}
    yield "OASIS", lambda C: nearkin.OASIS(C, **given), False
    for clean in (False, True):
        words = " + plausibility" if clean else ""
        yield "Robust-OASIS" + words, lambda C: nearkin.RobustOASIS(C, eta=0.3, **given), clean
        yield "Robust-LODML" + words, lambda C: nearkin.RobustLODML(C=C, **given), clean


def plausible(X, y):
    return nearkin.RobustKNeighborsClassifier(n_neighbors="auto", random_state=0).fit(X, y).kept_


def learned(make, C, X, y):
    return Index(make(C).fit(X, y)).fit(X)


def chosen(X, y, kept, steps, n_epochs):
    """Best step of every method on a quarter of the gallery, judged by the labels given (or the plausible ones)."""
    fit, check = next(StratifiedShuffleSplit(1, test_size=0.25, random_state=0).split(X, y))
    best = {}
    for name, make, clean in methods(n_epochs):
        inside, asked = (part[np.isin(part, kept[clean])] for part in (fit, check))
        for C in steps:
            index = learned(make, C, X[inside], y[inside])
            value = scores(index, X[asked], y[asked], y[inside])[0].mean()
            if name not in best or value > best[name][0]:
                best[name] = (value, make, C, clean)
    return best


def run(name, noise, seeds, steps, n_epochs):
    X, y, _ = load(name)
    settings, found = None, {}
    for seed in range(seeds):
        gallery, asked = next(StratifiedShuffleSplit(1, test_size=0.25, random_state=seed).split(X, y))
        Z = prepared(name, X, gallery)
        given, _ = nearkin.flip_labels(y[gallery], noise, random_state=seed)
        kept = {True: plausible(Z[gallery], given), False: np.arange(len(gallery))}
        settings = settings or chosen(Z[gallery], given, kept, steps, n_epochs)
        indexes = {
            "Euclidean": Index(measure="distance").fit(Z[gallery]),
            "cosine": Index(measure="cosine").fit(Z[gallery]),
        } | {
            method: learned(make, C, Z[gallery][kept[clean]], given[kept[clean]]).fit(Z[gallery])
            for method, (_, make, C, clean) in settings.items()
        }
        for method, index in indexes.items():
            found.setdefault(method, []).append(scores(index, Z[asked], y[asked], y[gallery]))
    return {method: [np.concatenate(one) for one in zip(*parts, strict=True)] for method, parts in found.items()}


def table(name, noise, found):
    rng = np.random.default_rng(0)
    rows, target = [], "Robust-OASIS + plausibility"
    print(f"\n{name}, {100 * noise:.0f} % of the gallery's labels wrong")
    print(f"  {'method':<28}{'mAP':>22}{'precision@10':>22}   mAP behind {target}")
    for method, (average, precision) in found.items():
        behind = bootstrap(found[target][0] - average, rng)
        cells = [bootstrap(average, rng), bootstrap(precision, rng)]
        print(f"  {method:<28}{cells[0]!s:>22}{cells[1]!s:>22}   {behind if method != target else ''}")
        rows.append({"method": method, "data": name, "noise": noise, "n_queries": len(average)}
                    | {key: [one.mean, one.low, one.high] for key, one in
                       zip(("map", "precision", "behind_in_map"), (*cells, behind), strict=True)})  # fmt: skip
    return rows


def picture(name, noise, n_epochs, folder):
    """Queries with their nearest pictures by cosine and by the learned measure; right answers are framed in green."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y, images = load(name)
    gallery, asked = next(StratifiedShuffleSplit(1, test_size=0.25, random_state=0).split(X, y))
    Z = prepared(name, X, gallery)
    given, _ = nearkin.flip_labels(y[gallery], noise, random_state=0)
    make = nearkin.RobustOASIS(0.3, eta=0.3, n_epochs=n_epochs, random_state=0)
    kept = plausible(Z[gallery], given)
    learner = make.fit(Z[gallery][kept], given[kept])
    rows = [("cosine", Index(measure="cosine")), ("learned", Index(learner))]
    answers = [index.fit(Z[gallery]).query(Z[asked], 8)[1] for _, index in rows]
    right = [y[gallery][found] == y[asked][:, None] for found in answers]
    worst = np.argsort(right[0].sum(axis=1), kind="stable")  # where the plain measure is at a loss
    some = [worst[place] for place in np.linspace(1, len(worst) // 5, 4).astype(int)]
    figure, axes = plt.subplots(2 * len(some), 9, figsize=(9, 2.15 * len(some)))
    for block, query in enumerate(some):
        for line, (title, _) in enumerate(rows):
            shown = [images[asked[query]], *images[gallery][answers[line][query]]]
            for place, image in enumerate(shown):
                axis = axes[2 * block + line, place]
                axis.imshow(image, cmap="gray")
                axis.set_xticks([])
                axis.set_yticks([])
                good = place and right[line][query, place - 1]
                for side in axis.spines.values():
                    side.set_color("#2a9d5c" if good else "#c0392b" if place else "black")
                    side.set_linewidth(2.5 if place else 1)
            axes[2 * block + line, 0].set_ylabel(title, fontsize=9)
    axes[0, 0].set_title("query", fontsize=9)
    figure.suptitle(f"{name}: nearest pictures, learned with {100 * noise:.0f} % wrong labels", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(Path(folder) / f"retrieval_{name}.png", dpi=80)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=["digits"], help="digits, coil20, yale")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.2])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", nargs="+", type=float, default=None, help="sizes of a step that are tried")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    rows = []
    for name in given.data:
        steps = given.steps or ((0.1,) if name == "digits" else STEPS)
        for noise in given.noise:
            rows += table(name, noise, run(name, noise, given.seeds, steps, given.epochs))
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1))
        if given.picture:
            picture(name, 0.2, given.epochs, given.picture)


if __name__ == "__main__":
    main()
