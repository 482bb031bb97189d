"""The comparison of audits as Markdown: goals first, then every cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Data set, kind of noise, level.
Place = tuple[str, str, float | str]
#: Means by place, method and figure.
Means = dict[Place, dict[str, dict[str, float | None]]]

_FIGURES = ("auroc", "average_precision", "precision", "recall", "f1", "rate", "true_rate", "seconds")
_TITLES = {
    "auroc": "AUROC (average precision)",
    "f1": "F1 of the flagged rows (precision / recall)",
    "rate": "Estimated rate",
    "seconds": "Seconds",
}
#: Differences up to this are a tie.
_TIE = 0.1
#: Data sets on which times are compared: 20,000 x 16 and 4,000 x 512.
_TIMED = ("letters", "cifar10n")


@dataclass(frozen=True)
class Goal:
    """A goal, what was reached, and whether that meets it."""

    wanted: str
    reached: str
    is_met: bool


def average(found: Iterable[Any]) -> Means:
    """Means over the draws."""
    values: dict[Place, dict[str, list[Any]]] = {}
    for one in found:
        place = one.cell.dataset, one.cell.kind, one.cell.noise
        values.setdefault(place, {}).setdefault(one.cell.method, []).append(one)
    return {
        place: {method: {name: _mean([getattr(one, name) for one in some]) for name in _FIGURES} | {
            "rate_error": float(np.mean([abs(one.rate - one.true_rate) for one in some]))
        } for method, some in by_method.items()}
        for place, by_method in values.items()
    }  # fmt: skip


def _mean(values: list[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return float(np.mean(known)) if known else None


def judge_goals(table: Means, ours: str, rivals: Sequence[str]) -> list[Goal]:
    """Goals that this comparison can judge."""
    noisy = [one for one in table.values() if one[ours]["auroc"] is not None]
    out = []
    for figure, name, share in (("auroc", "AUROC", 1.0), ("average_precision", "average precision", 0.95)):
        ahead = [_value(one, ours, figure) >= _best(one, rivals, figure) - _TIE for one in noisy]
        wanted = f"{name} ahead of the best of the {len(rivals)} cleanlab columns in {100 * share:.0f} % of cells"
        out.append(Goal(wanted, f"{sum(ahead)} of {len(ahead)}", bool(ahead) and sum(ahead) >= share * len(ahead)))
    if noisy:
        f1 = {name: _over(noisy, name, "f1") for name in (ours, *rivals)}
        best = max(rivals, key=lambda name: f1[name])
        reached = f"{f1[ours]:.1f} ({best} {f1[best]:.1f})"
        out.append(Goal("mean F1 of the flagged rows at least 80", reached, f1[ours] >= 80))
    for words, limit, kinds, is_clean in (
        ("uniform noise", 2.0, ("uniform",), False),
        ("asymmetric and human noise", 4.0, ("next-class", "human"), False),
        ("clean labels", 2.0, ("uniform",), True),
    ):
        here = [one for place, one in table.items() if place[1] in kinds and (place[2] == 0.0) == is_clean]
        if here:
            errors = {name: _over(here, name, "rate_error") for name in (ours, *rivals)}
            best = min(rivals, key=lambda name: errors[name])
            reached = f"{errors[ours]:.1f} ({best} {errors[best]:.1f})"
            out.append(Goal(f"error of the rate on {words} at most {limit:g} points", reached, errors[ours] <= limit))
    for name in _TIMED:
        here = [one for place, one in table.items() if place[0] == name]
        if here:
            mine, other = _over(here, ours, "seconds"), _over(here, rivals[0], "seconds")
            reached = f"{mine:.1f} s against {other:.1f} s"
            out.append(Goal(f"time on {name} not above {rivals[0]}", reached, mine <= other))
    return out


def _over(cells: Sequence[dict[str, dict[str, float | None]]], method: str, figure: str) -> float:
    return float(np.mean([_value(one, method, figure) for one in cells]))


def _value(cell: dict[str, dict[str, float | None]], method: str, figure: str) -> float:
    value = cell[method][figure]
    assert value is not None
    return value


def _best(cell: dict[str, dict[str, float | None]], methods: Sequence[str], figure: str) -> float:
    return max(_value(cell, name, figure) for name in methods)


def render(found: Sequence[Any], ours: str, rivals: Sequence[str], about: Sequence[str]) -> str:
    """The whole report."""
    table = average(found)
    lines = ["# Finding wrong labels", "", *(f"- {one}" for one in about), "", "## Goals", ""]
    lines += ["| goal | reached | |", "|---|---|---|"]
    for goal in judge_goals(table, ours, rivals):
        lines.append(f"| {goal.wanted} | {goal.reached} | {'met' if goal.is_met else '**missed**'} |")
    columns = (ours, *rivals)
    for figure, title in _TITLES.items():
        lines += ["", f"## {title}", "", f"| data | noise | {' | '.join(columns)} |"]
        lines += ["|---|---|" + "---|" * len(columns)]
        for place, by_method in table.items():
            if figure in ("auroc", "f1") and by_method[ours]["auroc"] is None:
                continue
            fields = [place[0], _noise(place, by_method[ours]), *_row(by_method, columns, figure)]
            lines.append(f"| {' | '.join(fields)} |")
    return "\n".join(lines) + "\n"


def _noise(place: Place, cell: dict[str, float | None]) -> str:
    kind, level = place[1], place[2]
    return f"{kind} {level} ({cell['true_rate']:.1f} %)" if isinstance(level, str) else f"{kind} {level:g} %"


def _row(by_method: dict[str, dict[str, float | None]], columns: Sequence[str], figure: str) -> list[str]:
    """Figures of all methods, the best in bold."""
    values = [_value(by_method, name, figure) for name in columns]
    best = {"auroc": max, "f1": max, "seconds": min}.get(figure)
    out = []
    for name, value in zip(columns, values, strict=True):
        text = f"{value:.2f}" if figure == "seconds" else f"{value:.1f}"
        if best is not None and value == best(values):
            text = f"**{text}**"
        if figure == "auroc":
            text += f" ({_value(by_method, name, 'average_precision'):.1f})"
        if figure == "f1":
            text += f" ({_value(by_method, name, 'precision'):.0f} / {_value(by_method, name, 'recall'):.0f})"
        out.append(text)
    return out
