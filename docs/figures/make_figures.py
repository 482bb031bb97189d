"""Draw the figures of the documentation: ``python docs/figures/make_figures.py [FOLDER] [FORMAT]``.

The same sources give the same files. Every figure stands on its own light ground, so that it reads the same on a
light and on a dark page; colours are told apart with colour-blind eyes too, and never carry a meaning alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

import nearkin
from nearkin.losses import RescaledHinge, hinge

BLUE, ORANGE, GREEN, PURPLE, INK, FAINT = "#0072B2", "#D55E00", "#009E73", "#9A4C95", "#222222", "#8a8a8a"
CLASSES = (BLUE, ORANGE, GREEN)
MARKS = ("o", "s", "^")
STYLE = {
    "figure.facecolor": "#fcfcfa",
    "axes.facecolor": "#fcfcfa",
    "savefig.facecolor": "#fcfcfa",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.09,
    "figure.constrained_layout.w_pad": 0.09,
    "svg.hashsalt": "nearkin",
    "svg.fonttype": "path",
}
ETAS = ((0.5, GREEN, "-."), (1.0, BLUE, "-"), (2.0, PURPLE, "--"), (5.0, ORANGE, ":"))


def losses() -> Figure:
    """Hinge against rescaled hinge."""
    figure, axes = plt.subplots(figsize=(7.2, 3.9))
    z = np.linspace(-4, 3, 400)
    axes.plot(z, hinge(z), color=INK, lw=2.2, label="hinge")
    for eta, colour, dashes in ETAS:
        axes.plot(z, RescaledHinge(eta).value(z), color=colour, ls=dashes, lw=2, label=f"rescaled, η = {eta:g}")
    axes.axvline(0, ymax=0.55, color=FAINT, lw=0.8, zorder=0)
    axes.axvline(1, ymax=0.3, color=FAINT, lw=0.8, ls=(0, (2, 3)), zorder=0)
    axes.set(xlabel="margin z of a triplet (larger is better)", ylabel="loss", xlim=(-4, 3), ylim=(-0.1, 4.4))
    axes.annotate("all meet at z = 0, loss 1", (0, 1), (0.5, 1.9), arrowprops={"arrowstyle": "->", "color": INK})
    axes.text(1.1, 0.55, "no loss from z = 1 on")
    axes.legend(loc="upper right")
    return figure


def weights() -> Figure:
    """Half-quadratic weight and plausibility."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.5))
    h = np.linspace(0, 5, 300)
    for axes in (left, right):
        axes.axhline(1, color=INK, lw=2.2, label="hinge (η = 0)")
        axes.set(xlabel="hinge of the triplet, max(0, 1 − z)", xlim=(0, 5))
    for eta, colour, dashes in ETAS:
        loss = RescaledHinge(eta)
        left.plot(h, loss.weight(1 - h), color=colour, ls=dashes, lw=2, label=f"η = {eta:g}")
        right.plot(h, loss.plausibility(1 - h), color=colour, ls=dashes, lw=2)
    left.set(ylabel="largest step, in units of C", ylim=(0, 5.3))
    left.set_title("cap on the step: β η exp(−η · hinge)")
    right.set(ylabel="plausibility ω", ylim=(0, 1.08))
    right.set_title("the same as a share of its maximum")
    left.legend(loc="upper right")
    return figure


def toy(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three clouds in the plane."""
    centres = np.array([[-0.75, -0.35], [0.75, -0.35], [0.0, 0.8]])
    y = np.arange(n) % 3
    return centres[y] + 0.27 * rng.normal(size=(n, 2)), y


def scatter(axes: Axes, X: np.ndarray, y: np.ndarray, is_wrong: np.ndarray, size: float = 26) -> None:
    """Rows with the colour and mark of the label they carry; wrong ones ringed."""
    for code in range(3):
        mine = y == code
        axes.scatter(*X[mine].T, s=size, c=CLASSES[code], marker=MARKS[code], alpha=0.75, linewidths=0)
    axes.scatter(*X[is_wrong].T, s=4.2 * size, facecolors="none", edgecolors=INK, linewidths=1.1)


def octg() -> Figure:
    """Centres, impostors and triplets."""
    rng = np.random.default_rng(4)
    X, y = toy(90, rng)
    given, is_wrong = nearkin.flip_labels(y, 0.12, random_state=2)
    source = nearkin.OCTG(margin=1.0)
    triplets = source.build(X, given)
    z = triplets.margins()
    figure, axes = plt.subplots(figsize=(7.6, 5.6))
    scatter(axes, X, given, is_wrong)
    label_of = {code: int(given[rows][0]) for code, rows in _first_rows(given)}
    for centre, code in zip(source.centers_, source.center_codes_, strict=True):
        colour = CLASSES[label_of[int(code)]]
        axes.scatter(*centre, s=330, c=colour, marker="*", edgecolors="black", linewidths=1.2, zorder=5)
    alone = np.flatnonzero(~np.isin(np.arange(len(X)), triplets.anchor) & ~is_wrong)
    border = np.flatnonzero((given == 2) & ~is_wrong & (np.bincount(triplets.anchor, minlength=len(X)) == 1))
    wrong = np.flatnonzero(is_wrong & (given == 1))
    for row, words, at in (
        (wrong[np.argmin(X[wrong, 0])], "wrong label:\nlarge hinge", (-1.25, 1.25)),
        (border[np.argmax(X[border] @ [1.0, -1.0])], "near a border:\nsmall hinge", (1.2, 0.95)),
        (alone[np.argmin(X[alone, 0])], "far from the others:\nno triplet, plausibility 1", (-1.2, -1.15)),
    ):
        mine = np.flatnonzero(triplets.anchor == row)
        ends = [(triplets.positive[t], "-") for t in mine[:1]] + [(triplets.negative[t], (0, (4, 2))) for t in mine]
        for end, dashes in ends:
            axes.plot(*np.stack([X[row], triplets.pool.dense[end]]).T, color=INK, ls=dashes, lw=1.4, zorder=3)
        hinges = " and ".join(f"{1 - z[t]:.1f}" for t in mine)
        axes.annotate(
            words + (f" ({hinges})" if len(mine) else ""), X[row], at, ha="center", va="center", zorder=6,
            arrowprops={"arrowstyle": "->", "color": FAINT, "shrinkB": 7},
        )  # fmt: skip
    handles = [
        *(Line2D([], [], color=CLASSES[c], marker=MARKS[c], ls="", label=f"labelled class {c}") for c in range(3)),
        Line2D([], [], color=INK, marker="o", ls="", mfc="none", ms=11, label="label is wrong"),
        Line2D([], [], color=FAINT, mec="black", marker="*", ls="", ms=15, label="centre of a class"),
        Line2D([], [], color=INK, label="anchor to positive"),
        Line2D([], [], color=INK, ls=(0, (4, 2)), label="anchor to impostor"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1.4, handletextpad=0.5)
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[], xlim=(-1.75, 1.65), ylim=(-1.35, 1.6))
    axes.spines[:].set_visible(False)
    return figure


def _first_rows(labels: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Numbers given to labels by first appearance, with the rows that carry them."""
    seen: dict[int, int] = {}
    for label in labels.tolist():
        seen.setdefault(label, len(seen))
    return [(code, labels == label) for label, code in seen.items()]


def one_wrong() -> Figure:
    """What one wrong triplet does with the hinge and with the rescaled hinge, from the same metric."""
    rng = np.random.default_rng(1)
    n = 40
    # Classes differ along the second axis; the first one is noise.
    side = rng.choice([-0.6, 0.6], n)
    noise = 0.5 * rng.normal(size=(3, n))
    anchors, positives, negatives = (
        np.column_stack([noise[role], sign * side + 0.15 * rng.normal(size=n)]) for role, sign in enumerate((1, 1, -1))
    )
    # The wrong one: a row of the other class is called near, one of the own class far.
    wrong = np.array([[0.3, 0.8]]), np.array([[0.1, -0.9]]), np.array([[-0.9, 0.7]])
    figure, panels = plt.subplots(1, 2, figsize=(8.2, 4.4), sharex=True, sharey=True)
    angle = np.linspace(0, 2 * np.pi, 241)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for axes, loss, title in ((panels[0], "hinge", "ODML"), (panels[1], "rescaled_hinge", "Robust-ODML, η = 1")):
        learner = nearkin.ODML(C=0.2, loss="hinge", scale=None).fit_triplets(anchors, positives, negatives)
        before = learner.metric_.copy()
        loss_before = (
            1 + learner.pair_distance(wrong[0], wrong[1])[0] ** 2 - learner.pair_distance(wrong[0], wrong[2])[0] ** 2
        )
        learner.set_params(loss=loss).partial_fit_triplets(*wrong)
        for metric, colour, dashes, words in (
            (before, BLUE, "-", "points at distance 1 from the origin, before"),
            (learner.metric_, ORANGE, "--", "after one wrong triplet"),
        ):
            ball = circle / np.sqrt(np.einsum("ik,ij,jk->k", circle, metric, circle))
            axes.plot(*ball, color=colour, ls=dashes, lw=2.4, label=words)
        change = np.linalg.norm(learner.metric_ - before) / np.linalg.norm(before)
        axes.set_title(title)
        axes.text(
            0.5,
            0.02,
            f"hinge {loss_before:.1f}, M moves by {100 * change:.1f} %",
            transform=axes.transAxes,
            ha="center",
        )
        axes.set_aspect("equal")
        axes.set(xlabel="feature 1 (noise)", ylim=(-1.35, 1.15))
        axes.axhline(0, color=FAINT, lw=0.6, zorder=0)
        axes.axvline(0, color=FAINT, lw=0.6, zorder=0)
    panels[0].set(ylabel="feature 2 (tells classes apart)")
    handles, words = panels[0].get_legend_handles_labels()
    figure.legend(handles, words, loc="outside lower center", ncols=2)
    return figure


def plausibility() -> Figure:
    """Plausibility of right and wrong labels on Wine."""
    X, y = load_wine(return_X_y=True)
    given, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    omega = nearkin.RobustLODML(random_state=0).fit(X, given).plausibility_
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    bins = np.linspace(0, 1, 26)
    axes.hist(omega[~is_wrong], bins, color=BLUE, alpha=0.85, label=f"right label ({np.sum(~is_wrong)} rows)")
    axes.hist(
        omega[is_wrong], bins, color=ORANGE, alpha=0.8, hatch="///", edgecolor="#fcfcfa", linewidth=0.4,
        label=f"wrong label ({np.sum(is_wrong)} rows)",
    )  # fmt: skip
    order = np.argsort(omega)
    n = int(is_wrong.sum())
    cut = 0.5 * (omega[order[n - 1]] + omega[order[n]])
    axes.axvline(cut, color=INK, lw=1.4, ls=(0, (4, 2)))
    axes.text(
        cut + 0.012, 0.97, f"the {n} least plausible rows are left of the line;\n"
        f"{is_wrong[order[:n]].sum()} of them have a wrong label",
        transform=axes.get_xaxis_transform(), va="top",
    )  # fmt: skip
    axes.set(xlabel="plausibility ω of the label, after one pass", ylabel="rows", xlim=(0, 1))
    axes.legend(loc="center", bbox_to_anchor=(0.62, 0.55))
    return figure


def robust_knn() -> Figure:
    """Decision regions of plain and robust 3-NN, and of the jury."""
    rng = np.random.default_rng(7)
    X, y = toy(150, rng)
    given, is_wrong = nearkin.flip_labels(y, 0.2, random_state=3)
    plain = KNeighborsClassifier(3).fit(X, given)
    robust = nearkin.RobustKNeighborsClassifier(n_neighbors=3, random_state=0).fit(X, given)
    jury = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, given)
    low, high = X.min(axis=0) - 0.15, X.max(axis=0) + 0.15
    grid = np.stack(np.meshgrid(np.linspace(low[0], high[0], 180), np.linspace(low[1], high[1], 180)), axis=-1)
    figure, panels = plt.subplots(1, 3, figsize=(12.6, 4.3))
    models = (plain, robust, jury)
    for axes, model, title in zip(panels, models, ("3-NN", "Robust-kNN (k = 3)", "jury (the default)"), strict=True):
        region = model.predict(grid.reshape(-1, 2)).reshape(180, 180)
        axes.imshow(
            region, extent=(low[0], high[0], low[1], high[1]), origin="lower", aspect="equal", alpha=0.28,
            cmap=ListedColormap(CLASSES), vmin=0, vmax=2, interpolation="nearest",
        )  # fmt: skip
        scatter(axes, X, given, is_wrong, size=20)
        axes.set_title(title)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        if model is not plain:
            doubtful = np.setdiff1d(np.arange(len(X)), model.kept_)
            axes.scatter(*X[doubtful].T, s=44, c=INK, marker="x", linewidths=1.2)
    handles = [
        *(Line2D([], [], color=CLASSES[c], marker=MARKS[c], ls="", label=f"labelled class {c}") for c in range(3)),
        Line2D([], [], color=INK, marker="o", ls="", mfc="none", ms=10, label="label is wrong"),
        Line2D([], [], color=INK, marker="x", ls="", label="doubtful"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.2, handletextpad=0.3)
    return figure


def spaces() -> Figure:
    """Digits that no learner has seen, in four spaces, learned from right labels and with 40 % of them wrong."""
    shown = (3, 8, 9)
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, shown)], y[np.isin(y, shown)]
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:300], order[300:]
    X = X / 16.0
    wrong, _ = nearkin.flip_labels(y[train], 0.4, random_state=0)
    makers: dict[str, Callable[[], Any] | None] = {
        "pixels": None,
        "NCA": lambda: NeighborhoodComponentsAnalysis(random_state=0),
        "RobustLODML, as printed": lambda: nearkin.RobustLODML(init="auto", triplets="octg", C=0.1, random_state=0),
        "RobustLODML": lambda: nearkin.RobustLODML(random_state=0),
    }
    figure, panels = plt.subplots(2, len(makers), figsize=(12.6, 6.6))
    for row, (labels, words) in zip(panels, ((y[train], "right labels"), (wrong, "40 % wrong")), strict=True):
        row[0].set_ylabel(words, fontweight="bold")
        for axes, (title, make) in zip(row, makers.items(), strict=True):
            place = (lambda rows: rows) if make is None else make().fit(X[train], labels).transform
            items, queries = place(X[train]), place(X[test])
            plane = PCA(2, random_state=0).fit_transform(queries)
            plane *= np.sign(plane[y[test] == 3].mean(0))  # the same class on the same side
            low, high = np.quantile(plane, (0.02, 0.98), axis=0)
            plane = np.clip(plane, low - 0.15 * (high - low), high + 0.15 * (high - low))  # outliers at the border
            for digit, color in zip(shown, CLASSES, strict=True):
                axes.scatter(*plane[y[test] == digit].T, s=34, color=color, marker=f"${digit}$", linewidths=0.2)
            axes.set_title(f"{title}: {100 * precision_of_first(queries, items, y[test], y[train]):.0f} %", fontsize=10)
            axes.set(xticks=[], yticks=[])
    return figure


def precision_of_first(queries: np.ndarray, items: np.ndarray, wanted: np.ndarray, held: np.ndarray) -> float:
    """Share of the first 50 training rows that have the query's class."""
    squared = (queries**2).sum(1)[:, None] + (items**2).sum(1) - 2.0 * queries @ items.T
    return float((held[np.argsort(squared, axis=1)[:, :50]] == wanted[:, None]).mean())


FIGURES: tuple[Callable[[], Figure], ...] = (losses, weights, octg, one_wrong, plausibility, robust_knn, spaces)


def main(folder: Path, kind: str) -> None:
    """Draw every figure into a folder."""
    with matplotlib.rc_context(STYLE):
        for draw in FIGURES:
            figure = draw()
            metadata = {"Date": None, "Creator": None} if kind == "svg" else None
            figure.savefig(folder / f"{draw.__name__}.{kind}", metadata=metadata, dpi=110)
            plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent, sys.argv[2] if len(sys.argv) > 2 else "svg")
