"""The comparison of spaces as Markdown: goals first, then every method, then every set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nearkin import __version__

from .space_methods import METHODS
from .space_sets import GROUPS

FIGURES = ("map", "strict", "nn3", "nn25", "seconds")
TITLES = {"map": "mAP", "strict": "strict mAP", "nn3": "3-NN", "nn25": "25-NN"}
NOISES = (0.0, 20.0, 40.0)
BASELINE, DEFAULT, PLAIN = "z-scores", "RobustLODML", "LODML"
#: Methods that the default learner has to be ahead of by a point.
RIVALS = tuple(name for name, one in METHODS.items() if one.family == "rival")

#: Values by method, set, noise and draw.
Values = dict[str, dict[str, dict[float, dict[int, dict[str, float]]]]]


class Table:
    """Measured cells of one group of sets."""

    def __init__(self, found: Iterable[Any], sets: Sequence[str]):
        self.values: Values = {}
        self.errors: dict[str, dict[str, str]] = {}
        for one in found:
            cell = one.cell
            if cell.dataset not in sets:
                continue
            if one.error is not None:
                self.errors.setdefault(cell.method, {}).setdefault(cell.dataset, one.error)
                continue
            by_noise = self.values.setdefault(cell.method, {}).setdefault(cell.dataset, {})
            by_noise.setdefault(cell.noise, {})[cell.seed] = {name: getattr(one, name) for name in FIGURES}
        self.sets = [name for name in sets if any(self.has(method, name) for method in self.values)]
        self.methods = [name for name in METHODS if name in self.values]

    def has(self, method: str, name: str) -> bool:
        """Whether all levels of noise were measured."""
        return set(NOISES) <= set(self.values.get(method, {}).get(name, {}))

    def sets_of(self, *methods: str) -> list[str]:
        return [name for name in self.sets if all(self.has(method, name) for method in methods)]

    def mean(self, method: str, name: str, noise: float, figure: str) -> float:
        return float(np.mean([draw[figure] for draw in self.values[method][name][noise].values()]))

    def over(self, method: str, sets: Sequence[str], noise: float, figure: str = "map") -> float:
        """Mean over sets; every set counts the same."""
        return float(np.mean([self.mean(method, name, noise, figure) for name in sets]))

    def ahead(
        self, one: str, other: str, sets: Sequence[str], noise: float, figure: str = "map"
    ) -> tuple[float, float]:
        """By how much a method is ahead on the draws that both have, and the standard error over sets."""
        gaps = []
        for name in sets:
            mine, theirs = self.values[one][name][noise], self.values[other][name][noise]
            both = mine.keys() & theirs.keys()
            gaps.append(np.mean([mine[draw][figure] - theirs[draw][figure] for draw in both]) if both else np.nan)
        gaps = [gap for gap in gaps if np.isfinite(gap)]
        error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
        return (float(np.mean(gaps)) if gaps else float("nan")), error

    def time(self, method: str, sets: Sequence[str]) -> float:
        """Median of the seconds of a fit."""
        held = self.values[method]
        return float(np.median([one["seconds"] for name in sets for at in held[name].values() for one in at.values()]))

    def error_of_draws(self, method: str, sets: Sequence[str], noise: float) -> float:
        """Standard error of `over` if the sets are taken as given."""
        parts = [[draw["map"] for draw in self.values[method][name][noise].values()] for name in sets]
        if min(map(len, parts)) < 2:
            return float("nan")
        return float(np.sqrt(sum(np.var(part, ddof=1) / len(part) for part in parts)) / len(parts))


def render(found: Sequence[Any], digits: Mapping[str, float]) -> str:
    """The whole report."""
    lines = ["# The metric by itself", "", *_explain(), ""]
    for group, title in (("reported", "Reported on"), ("chosen", "Chosen on")):
        table = Table(found, GROUPS[group])
        if BASELINE not in table.methods:
            continue
        lines += [f"## {title}: {len(table.sets_of(BASELINE))} sets", "", ", ".join(table.sets_of(BASELINE)) + ".", ""]
        if DEFAULT in table.methods:
            lines += _goals(table)
            lines += _brief(table, group)
        everywhere = [name for name in table.methods if table.sets_of(name) == table.sets_of(BASELINE)]
        lines += _methods(table, everywhere, "All sets")
        often = [name for name in table.methods if 2 * len(table.sets_of(name)) >= len(table.sets_of(BASELINE))]
        common = table.sets_of(*often)
        if len(everywhere) < len(often) and common:
            lines += _methods(table, often, "Sets that every method was measured on")
        lines += _failures(table)
        lines += _sets(table)
    lines += _times(digits)
    return "\n".join(lines) + "\n"


def _explain() -> list[str]:
    settings = [f"{name}: {one.about}" for name, one in METHODS.items() if one.family == "rival" and one.about]
    return [
        f"- nearkin {__version__} with defaults; *printed*: without the discriminant start, with the triplets and "
        "the C of the articles. The multi-modal learners get the two halves of the columns. "
        "`python -m benchmarks spaces` makes this page; its docstring says how.",
        "- Training labels are flipped at 0 / 20 / 40 % (two classes: 30 %); clean labels judge what is retrieved. "
        "mAP: average precision of the first 50 over the hits among them; strict: over all hits possible. 3-NN and "
        "25-NN vote with the flipped labels. Loss: mAP at 0 less mAP at 40 %.",
        "- Every set counts the same. ± is a standard error over sets of the difference to z-scores; the last column "
        "has the one over draws (mAP, 20 %). ms: median processor time of a fit, one thread.",
        f"- Rivals: defaults but for {'; '.join(settings)}.",
    ]


def _goals(table: Table) -> list[str]:
    lines = [
        f"### Goals of {DEFAULT}",
        "",
        "| ahead of | by | at 0 % | at 20 % | at 40 % | |",
        "|---|---|---|---|---|---|",
    ]

    def add(words: str, other: str, wanted: Sequence[float], figure: str) -> None:
        sets = table.sets_of(DEFAULT, other)
        if sets:
            gaps = [table.ahead(DEFAULT, other, sets, noise, figure) for noise in NOISES]
            shown = " | ".join(f"{gap:+.1f} ± {error:.1f}" for gap, error in gaps)
            is_met = all(gap >= least for (gap, _), least in zip(gaps, wanted, strict=True))
            least = " / ".join(f"{one:g}" for one in dict.fromkeys(wanted))
            lines.append(f"| {other}, {words} ({len(sets)} sets) | {least} | {shown} | {_verdict(is_met)} |")

    add("mAP", BASELINE, (4.0,) * 3, "map")
    for rival in RIVALS:
        if rival in table.methods:
            add("mAP", rival, (1.0,) * 3, "map")
    for figure in ("nn3", "nn25"):
        for rival in (BASELINE, *RIVALS):
            if rival in table.methods:
                add(TITLES[figure], rival, (0.0,) * 3, figure)
    if PLAIN in table.methods:
        add("mAP", PLAIN, (-0.2, 1.5, 3.0), "map")
    sets = table.sets_of(DEFAULT)
    loss = table.over(DEFAULT, sets, 0.0) - table.over(DEFAULT, sets, 40.0)
    return [*lines, "", f"Loss from 0 to 40 %: {loss:.1f} (goal: at most 1.5; {_verdict(loss <= 1.5)}).", ""]


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def _methods(table: Table, methods: Sequence[str], title: str) -> list[str]:
    sets = table.sets_of(*methods)
    n_draws = sorted({len(table.values[one][name][0.0]) for one in methods for name in sets})
    draws = "–".join(map(str, dict.fromkeys((n_draws[0], n_draws[-1]))))
    lines = [f"### {title}", "", f"{len(sets)} sets, {draws} draws.", ""]
    lines += ["| | mAP | ahead of z-scores | loss | strict mAP | 3-NN | 25-NN | ms | draws |", "|---" * 9 + "|"]
    for method in methods:
        figures = {
            figure: " / ".join(f"{table.over(method, sets, noise, figure):.1f}" for noise in NOISES)
            for figure in TITLES
        }
        gaps = [table.ahead(method, BASELINE, sets, noise) for noise in NOISES]
        ahead = " / ".join(f"{gap:+.1f} ± {error:.1f}" for gap, error in gaps) if method != BASELINE else ""
        loss = table.over(method, sets, 0.0) - table.over(method, sets, 40.0)
        error = table.error_of_draws(method, sets, 20.0)
        lines.append(
            f"| {method} | {figures['map']} | {ahead} | {loss:.1f} | {figures['strict']} | {figures['nn3']} "
            f"| {figures['nn25']} | {1e3 * table.time(method, sets):.3g} "
            f"| {'' if np.isnan(error) else f'± {error:.2f}'} |"
        )
    return [*lines, ""]


def _brief(table: Table, group: str) -> list[str]:
    """What a page of the documentation shows: the methods that ran on all sets, best first; a section of its own."""
    sets = table.sets_of(BASELINE)
    methods = [name for name in table.methods if table.sets_of(name) == sets]
    methods.sort(key=lambda name: -np.mean([table.over(name, sets, noise) for noise in NOISES]))
    lines = ["### In brief", "", f"<!-- {group}: begin -->"]
    lines += ["| | mAP at 0 / 20 / 40 % | loss | 3-NN | 25-NN | ms | draws |", "|---" * 7 + "|"]
    for name in methods:
        figures = (
            " / ".join(f"{table.over(name, sets, noise, figure):.1f}" for noise in NOISES)
            for figure in ("map", "nn3", "nn25")
        )
        precision, three, many = figures
        loss = table.over(name, sets, 0.0) - table.over(name, sets, 40.0)
        shown = f"**{name}**" if name == DEFAULT else f"*{name}*" if METHODS[name].family == "rival" else name
        draws = min(len(table.values[name][one][0.0]) for one in sets)
        time = f"{1e3 * table.time(name, sets):.3g}"
        lines.append(f"| {shown} | {precision} | {loss:.1f} | {three} | {many} | {time} | {draws} |")
    return [*lines, f"<!-- {group}: end -->", ""]


def _failures(table: Table) -> list[str]:
    lines = [
        f"- {method}: {error} ({name}{f' and {len(by_set) - 1} others' if len(by_set) > 1 else ''})"
        for method, by_set in table.errors.items()
        for name, error in list(by_set.items())[:1]
    ]
    return ["Failed:", "", *lines, ""] if lines else []


def _sets(table: Table) -> list[str]:
    """The default learner and its rivals set by set."""
    columns = [name for name in (BASELINE, PLAIN, DEFAULT, *RIVALS) if name in table.methods]
    lines = ["### mAP by set", "", "| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in table.sets_of(BASELINE):
        cells = [
            " / ".join(f"{table.mean(one, name, noise, 'map'):.1f}" for noise in NOISES)
            if table.has(one, name)
            else "–"
            for one in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _times(digits: Mapping[str, float]) -> list[str]:
    lines = [
        "## Time on the digits",
        "",
        "1,797 x 61, clean labels, median processor seconds of a fit, one thread.",
        "",
    ]
    lines += ["| | seconds | NCA / this |", "|---|---|---|"]
    lines += [f"| {name} | {seconds:.3g} | {digits['NCA'] / seconds:.3g} |" for name, seconds in digits.items()]
    return lines


def list_means(found: Iterable[Any]) -> str:
    """Means over the draws of every set, method and noise as CSV."""
    cells: dict[tuple[str, str, float], list[Any]] = {}
    for one in found:
        if one.error is None:
            cells.setdefault((one.cell.dataset, one.cell.method, one.cell.noise), []).append(one)
    lines = [f"set,method,noise,draws,{','.join(FIGURES)}"]
    for (name, method, noise), some in sorted(cells.items()):
        means = (np.mean([getattr(one, figure) for one in some]) for figure in FIGURES)
        quoted = '"' + method.replace('"', '""') + '"' if '"' in method else method
        lines.append(f"{name},{quoted},{noise:g},{len(some)},{','.join(f'{mean:.5g}' for mean in means)}")
    return "\n".join(lines) + "\n"
