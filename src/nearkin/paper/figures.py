"""The paper's figures drawn from our numbers; needs matplotlib (the extra ``paper``).

Figures 12 and 14 show the records of Tables 3 and 4, if these have been measured. Figure 13 shows images that we do not
have, and the others are drawings of ideas.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from nearkin import datasets
from nearkin._version import __version__
from nearkin.files import claim, replacing
from nearkin.learners import RobustLODML
from nearkin.losses import RescaledHinge, hinge
from nearkin.noise import flip_labels
from nearkin.paper import wine
from nearkin.paper.methods import as_printed
from nearkin.paper.report import Record

__all__ = ["draw_figures"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#9A4C95", "#8a6d00", "#555555", "#000000")
_CREATOR = f"nearkin {__version__}"
_MARKS = ("o", "s", "^", "D", "v", "x", "*")


def draw_figures(
    out: Path, *, seed: int = 0, n_runs: int = 10, cs: tuple[float, ...] = wine.CS, ending: str = "svg"
) -> tuple[list[Path], list[str]]:
    """Draw all figures for which there are numbers; return the files, and which figures are left out, and why.

    The numbers of Figures 9 and 10 are written to ``figures.json``.

    The folder ``out`` holds the records of the tables and receives the figures. Figures 9 and 10 show ``n_runs``
    divisions of Wine (10 in the paper) for the values ``cs`` of C.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError(f"figures need matplotlib: pip install 'nearkin[paper]' ({error}).") from error
    files: list[Path] = []
    left_out = []
    marks = {"Date": None, "Creator": _CREATOR} if ending == "svg" else {"Software": _CREATOR}
    out.mkdir(parents=True, exist_ok=True)

    def name(number: int) -> Path:
        return out / f"figure{number}.{ending}"

    claim((name(number), "figure") for number in (2, 3, 8, 9, 10, 11, 12, 14))
    claim([(out / "figures.json", "records")])

    def save(number: int, width: float, height: float, draw: Callable[[Any], None]) -> None:
        with mpl.rc_context({"svg.hashsalt": "nearkin", "svg.fonttype": "path", "legend.frameon": False}):
            figure = Figure(figsize=(width, height), layout="constrained")
            draw(figure)
            files.append(name(number))
            with replacing(files[-1], "figure") as file:
                figure.savefig(file, format=ending, dpi=110, metadata=marks)

    runs, plane = wine.draw_runs(n_runs, seed), _Plane(seed)
    batch, robust = wine.trace_batch(runs, cs), wine.trace_robust(runs, cs)
    save(2, 5, 3.4, _draw_hinge)
    save(3, 5, 3.4, _draw_rescaled)
    save(8, 5, 4, plane.draw_noisy)
    save(9, 6, 4, partial(_draw_against_c, cs, batch, "Figure 9: ODML on batch triplets"))
    save(10, 6, 4, partial(_draw_against_c, cs, robust, "Figure 10: Robust-LODML, eta = 3"))
    files.append(out / "figures.json")
    records = wine.make_trace_records(9, batch, cs, "ideal ODML", seed)
    records += wine.make_trace_records(10, robust, cs, "Euclidean", seed)
    with replacing(files[-1], "records") as file:
        file.write((json.dumps(records, indent=1) + "\n").encode())
    save(11, 9, 4, plane.draw_weighed)
    for number, table, draw in ((12, "table3", _draw_accuracies), (14, "table4", _draw_covid)):
        records = _read_records(out / f"{table}.json")
        if records:
            width, height = (11, 3.3 * _count_rows(_list_datasets(records)) + 0.5) if number == 12 else (10, 4.0)
            save(number, width, height, partial(draw, records))
        else:
            left_out.append(f"figure {number} shows {table}, which is not in {out}; measure it first.")
    return files, left_out


def _read_records(path: Path) -> list[Record]:
    if not path.is_file():
        return []
    held: list[Record] = json.loads(path.read_text("utf-8"))
    return [one for one in held if one["kind"] == "uniform"]


def _list_datasets(records: list[Record]) -> list[str]:
    return list(dict.fromkeys(one["dataset"] for one in records))


def _count_rows(names: list[str]) -> int:
    """Rows of a grid with three columns."""
    return -(-len(names) // 3)


def _draw_hinge(figure: Any) -> None:
    z = np.linspace(-4, 3, 400)
    axes = figure.subplots()
    axes.plot(z, hinge(z), color=_COLOURS[0])
    axes.set(xlabel="z", ylabel="hinge loss", title="Figure 2: the hinge has no bound")


def _draw_rescaled(figure: Any) -> None:
    z = np.linspace(-4, 3, 400)
    axes = figure.subplots()
    for eta, colour in zip((0.2, 0.5, 1.0, 2.0, 5.0), _COLOURS, strict=False):
        axes.plot(z, RescaledHinge(eta).value(z), color=colour, label=f"eta = {eta:g}")
    axes.plot(z, hinge(z), "--", color="#999999", label="hinge")
    axes.set(xlabel="z", ylabel="rescaled hinge loss", title="Figure 3: the rescaled hinge has one")
    axes.legend()


class _Plane:
    """Wine with wrong labels on a plane (t-SNE), and how plausible its labels are."""

    def __init__(self, seed: int):
        data = datasets.load("wine")
        X = wine.scale_rows(data.X)
        self.labels, self.is_wrong = flip_labels(data.y, wine.NOISE_RATE, random_state=seed)
        learner = as_printed(RobustLODML, eta=wine.ETA, scale=None, random_state=seed)
        self.plausibility = learner.fit(X, self.labels).plausibility_
        with threadpool_limits(1):  # the plane must not depend on the number of threads
            self.points = TSNE(perplexity=30, init="pca", random_state=seed).fit_transform(X)

    def draw_noisy(self, figure: Any) -> None:
        self._scatter(figure.subplots(), np.full(len(self.labels), 30.0), "Figure 8: Wine, 10 % wrong labels (ringed)")

    def draw_weighed(self, figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        self._scatter(left, np.full(len(self.labels), 30.0), "Figure 11 (a): all rows alike")
        self._scatter(right, 2.0 + 45.0 * self.plausibility, "(b): size by plausibility")

    def _scatter(self, axes: Any, sizes: Any, title: str) -> None:
        for code in np.unique(self.labels):
            here = self.labels == code
            style = {"marker": _MARKS[code], "color": _COLOURS[code], "label": f"class {code}", "linewidths": 0}
            axes.scatter(*self.points[here].T, s=sizes[here], **style)
        axes.scatter(*self.points[self.is_wrong].T, s=95, facecolors="none", edgecolors="#222222", linewidths=0.8)
        axes.set(title=title, xticks=[], yticks=[])
        axes.legend()


def _draw_against_c(cs: tuple[float, ...], found: wine.Trace, title: str, figure: Any) -> None:
    axes = figure.subplots()
    for (name, values), colour, mark in zip(found.items(), _COLOURS, _MARKS, strict=False):
        style = {"ls": "--", "color": "#777777"} if name == "Euclidean" else {"color": colour, "marker": mark}
        axes.plot(cs, values.mean(axis=0), label=name, ms=4, **style)
    axes.set(xscale="log", xlabel="C", ylabel="accuracy %", title=title)
    axes.legend()


def _draw_accuracies(records: list[Record], figure: Any) -> None:
    names = _list_datasets(records)
    grid = figure.subplots(_count_rows(names), 3, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        _draw_lines(axes, [one for one in records if one["dataset"] == name], lambda one: one["mean"])
        axes.set(title=f"Figure 12: {name}" if axes is grid[0] else name, xlabel="wrong labels %", ylabel="accuracy %")
    for axes in grid[len(names) :]:
        axes.set_axis_off()
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _draw_covid(records: list[Record], figure: Any) -> None:
    """Twice the sensitivity plus precision, and the G-mean, for the first data set in plain folds."""
    plain = [one for one in records if one["dataset"] == _list_datasets(records)[0] and not one["grouped"]]
    precision = {(one["method"], one["noise"]): one["mean"] for one in plain if one["metric"] == "Precision"}
    sensitive = [one for one in plain if one["metric"] == "Sensitivity"]
    left, right = figure.subplots(1, 2)
    _draw_lines(left, sensitive, lambda one: 2 * one["mean"] + precision[one["method"], one["noise"]])
    _draw_lines(right, [one for one in plain if one["metric"] == "G-mean"], lambda one: one["mean"])
    left.set(title="Figure 14 (a)", xlabel="wrong labels %", ylabel="2 sensitivity + precision %")
    right.set(title="(b)", xlabel="wrong labels %", ylabel="G-mean %")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=7)


def _draw_lines(axes: Any, records: list[Record], value: Callable[[Record], float]) -> None:
    for at, method in enumerate(dict.fromkeys(one["method"] for one in records)):
        mine = sorted((one["noise"], value(one)) for one in records if one["method"] == method)
        axes.plot(*zip(*mine, strict=True), color=_COLOURS[at], marker=_MARKS[at], ms=4, lw=1.2, label=method)
