"""The paper's figures drawn from our numbers; needs matplotlib (the extra ``paper``).

Figures 12 and 14 show the records of Tables 3 and 4 and are drawn where these were measured before. Figure 13 shows
images, which are not here, and the others are drawings of ideas.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.paper import curves

__all__ = ["draw_figures"]

Record = dict[str, Any]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#9A4C95", "#8a6d00", "#555555", "#000000")
_MARKS = ("o", "s", "^", "D", "v", "x", "*")


def draw_figures(
    out: Path, *, seed: int = 0, n_runs: int = 10, cs: tuple[float, ...] = curves.CS, ending: str = "svg"
) -> tuple[list[Path], list[str]]:
    """Draw all figures for which there are numbers.

    Parameters
    ----------
    out : Path
        Folder that holds the records of the tables, and gets the figures.
    seed : int
        Of noise, divisions and t-SNE.
    n_runs : int
        Divisions of Wine in Figures 9 and 10; 10 in the paper.
    cs : tuple of float
        Values of C in the same figures.
    ending : str
        Format of the files.

    Returns
    -------
    files : list of Path
        What was drawn.
    left_out : list of str
        What was not, and why.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(f"figures need matplotlib: pip install 'nearkin[paper]' ({error}).") from error
    import matplotlib as mpl

    files, left_out = [], []
    out.mkdir(parents=True, exist_ok=True)

    def save(number: int, width: float, height: float, draw: Callable[[Any], None]) -> None:
        with mpl.rc_context({"svg.hashsalt": "nearkin", "svg.fonttype": "path", "legend.frameon": False}):
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(figure)
            files.append(out / f"figure{number}.{ending}")
            figure.savefig(files[-1], dpi=110, metadata={"Date": None} if ending == "svg" else None)

    runs = curves.wine_runs(n_runs, seed)
    save(2, 5, 3.4, _hinge)
    save(3, 5, 3.4, _rescaled)
    places = _Places(seed)
    save(8, 5, 4, places.noisy)
    found, robust = curves.batch_curves(runs, cs), curves.robust_curves(runs, cs)
    save(9, 6, 4, lambda figure: _against_c(figure, cs, found, "Figure 9: ODML on batch triplets"))
    save(10, 6, 4, lambda figure: _against_c(figure, cs, robust, "Figure 10: Robust-LODML, eta = 3"))
    save(11, 9, 4, places.weighed)
    for number, table, draw in ((12, "table3", _accuracies), (14, "table4", _covid)):
        records = _records(out / f"{table}.json")
        if records:
            save(number, *_size(number, records), partial(draw, records))
        else:
            left_out.append(f"figure {number} shows {table}, which is not in {out}; measure it first.")
    return files, left_out


def _records(path: Path) -> list[Record]:
    if not path.is_file():
        return []
    held: list[Record] = json.loads(path.read_text("utf-8"))
    return [one for one in held if one["kind"] == "uniform"]


def _size(number: int, records: list[Record]) -> tuple[float, float]:
    n_rows = -(-len(_datasets(records)) // 3)
    return (11, 3.3 * n_rows + 0.5) if number == 12 else (10, 4)


def _datasets(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(one["dataset"] for one in records))


def _hinge(figure: Any) -> None:
    from nearkin.losses import hinge

    z = np.linspace(-4, 3, 400)
    axes = figure.subplots()
    axes.plot(z, hinge(z), color=_COLOURS[0])
    axes.set(xlabel="z", ylabel="hinge loss", title="Figure 2: the hinge has no bound")


def _rescaled(figure: Any) -> None:
    from nearkin.losses import RescaledHinge, hinge

    z = np.linspace(-4, 3, 400)
    axes = figure.subplots()
    for eta, colour in zip((0.2, 0.5, 1.0, 2.0, 5.0), _COLOURS, strict=False):
        axes.plot(z, RescaledHinge(eta).value(z), color=colour, label=f"eta = {eta:g}")
    axes.plot(z, hinge(z), "--", color="#999999", label="hinge")
    axes.set(xlabel="z", ylabel="rescaled hinge loss", title="Figure 3: the rescaled hinge has one")
    axes.legend()


class _Places:
    """Wine with wrong labels on a plane (t-SNE), and how plausible its labels are."""

    def __init__(self, seed: int):
        from sklearn.manifold import TSNE
        from sklearn.preprocessing import StandardScaler, normalize
        from threadpoolctl import threadpool_limits

        from nearkin import datasets
        from nearkin.learners import RobustLODML
        from nearkin.noise import flip_labels

        wine = datasets.load("wine")
        X = normalize(StandardScaler().fit_transform(wine.X.astype(np.float64)))
        self.labels, self.is_wrong = flip_labels(wine.y, curves.NOISE_RATE, random_state=seed)
        model = RobustLODML(eta=curves.ETA, scale=None, random_state=seed).fit(X, self.labels)
        self.plausibility = model.plausibility_
        with threadpool_limits(1):  # threads only wait for each other here, and places must not depend on them
            self.at = TSNE(perplexity=30, init="pca", random_state=seed).fit_transform(X)

    def noisy(self, figure: Any) -> None:
        self._draw(figure.subplots(), np.full(len(self.labels), 30.0), "Figure 8: Wine, 10 % wrong labels (ringed)")

    def weighed(self, figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        self._draw(left, np.full(len(self.labels), 30.0), "Figure 11 (a): all rows alike")
        self._draw(right, 2.0 + 45.0 * self.plausibility, "(b): size by plausibility")

    def _draw(self, axes: Any, sizes: Any, title: str) -> None:
        for code in np.unique(self.labels):
            here = self.labels == code
            mark, colour = _MARKS[code], _COLOURS[code]
            axes.scatter(
                *self.at[here].T, s=sizes[here], marker=mark, color=colour, label=f"class {code}", linewidths=0
            )
        axes.scatter(*self.at[self.is_wrong].T, s=95, facecolors="none", edgecolors="#222222", linewidths=0.8)
        axes.set(title=title, xticks=[], yticks=[])
        axes.legend()


def _against_c(figure: Any, cs: tuple[float, ...], found: dict[str, list[float]], title: str) -> None:
    axes = figure.subplots()
    for at, (name, values) in enumerate(found.items()):
        style = (
            {"ls": "--", "color": "#777777"} if name == "Euclidean" else {"color": _COLOURS[at], "marker": _MARKS[at]}
        )
        axes.plot(cs, values, label=name, ms=4, **style)
    axes.set(xscale="log", xlabel="C", ylabel="accuracy %", title=title)
    axes.legend()


def _accuracies(records: list[Record], figure: Any) -> None:
    names = _datasets(records)
    grid = figure.subplots(-(-len(names) // 3), 3, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        _lines(axes, [one for one in records if one["dataset"] == name], lambda one: one["mean"])
        axes.set(title=f"Figure 12: {name}" if axes is grid[0] else name, xlabel="wrong labels %", ylabel="accuracy %")
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _covid(records: list[Record], figure: Any) -> None:
    """Twice the sensitivity plus precision, and the G-mean, for the first data set in plain folds."""
    plain = [one for one in records if one["dataset"] == _datasets(records)[0] and not one["grouped"]]
    precision = {(one["method"], one["noise"]): one["mean"] for one in plain if one["metric"] == "Precision"}
    sensitive = [one for one in plain if one["metric"] == "Sensitivity"]
    left, right = figure.subplots(1, 2)
    _lines(left, sensitive, lambda one: 2 * one["mean"] + precision[one["method"], one["noise"]])
    _lines(right, [one for one in plain if one["metric"] == "G-mean"], lambda one: one["mean"])
    left.set(title="Figure 14 (a)", xlabel="wrong labels %", ylabel="2 sensitivity + precision %")
    right.set(title="(b)", xlabel="wrong labels %", ylabel="G-mean %")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=7)


def _lines(axes: Any, records: list[Record], value: Callable[[Record], float]) -> None:
    for at, method in enumerate(dict.fromkeys(one["method"] for one in records)):
        mine = sorted((one["noise"], value(one)) for one in records if one["method"] == method)
        axes.plot(*zip(*mine, strict=True), color=_COLOURS[at], marker=_MARKS[at], ms=4, lw=1.2, label=method)
