"""The lines of `benchmarks.audit_rivals` as Markdown: goals, every kind of noise, rare classes, every set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nearkin import __version__

from .audit_methods import CLASSIFIERS, CLEANLAB, CV_PICK, DETECTORS, DOUBLED, N_BINS, OURS, Line
from .audit_noise import KINDS, RARE_KINDS
from .audit_sets import HALVES, RARE

#: A figure of a line, in percent, or None.
Figure = Callable[[Line], float | None]
#: Where a method was measured: set, kind of noise, draw.
Place = tuple[str, str, int]

HINDSIGHT = ("RBF-SVM", "forest", "logistic")
KINDS_SHOWN = (*(kind for kind in KINDS if kind != "rare lost"), "human")


def percent(name: str) -> Figure:
    def get(line: Line) -> float | None:
        value = getattr(line, name)
        return None if value is None else 100.0 * value

    return get


def rate_error(line: Line) -> float | None:
    return None if line.rate is None or line.true_rate is None else 100.0 * abs(line.rate - line.true_rate)


def holds(line: Line) -> float | None:
    """Whether the interval holds the true rate."""
    if line.low is None or line.high is None or line.true_rate is None:
        return None
    return 100.0 * (line.low - 1e-9 <= line.true_rate <= line.high + 1e-9)


@dataclass(frozen=True)
class Estimate:
    """A mean over sets and its standard error."""

    mean: float
    error: float
    n_sets: int

    def __str__(self) -> str:
        if not self.n_sets:
            return "–"
        return f"{self.mean:.1f}" + ("" if np.isnan(self.error) else f" ± {self.error:.1f}")


class Cells:
    """Measured lines; every set counts the same, whatever its kinds and draws."""

    def __init__(self, lines: Iterable[Line]):
        self.lines: dict[str, dict[Place, Line]] = {}
        for one in lines:
            if not one.error:
                self.lines.setdefault(one.method, {})[one.set, one.noise, one.draw] = one

    def values(self, figure: Figure, method: str, kind: str | None = None) -> dict[Place, float]:
        """Values of a method under a kind of noise, or under all."""
        found = {at: figure(line) for at, line in self.lines.get(method, {}).items() if _is_of(at[1], kind)}
        return {at: value for at, value in found.items() if value is not None}

    def best(self, figure: Figure, methods: Sequence[str], kind: str | None = None) -> dict[Place, float]:
        """The largest value of several methods at each place: the best by hindsight."""
        some = [self.values(figure, method, kind) for method in methods]
        places = set.intersection(*(set(one) for one in some)) if some else set()
        return {at: max(one[at] for one in some) for at in places}

    def mean(self, figure: Figure, method: str, kind: str | None = None) -> Estimate:
        return over_sets(self.values(figure, method, kind))

    def ahead(self, figure: Figure, other: str | Sequence[str], kind: str | None = None) -> Estimate:
        """By how much nearkin is ahead of a method, or of the best of several by hindsight."""
        theirs = self.values(figure, other, kind) if isinstance(other, str) else self.best(figure, other, kind)
        return over_sets(subtract(self.values(figure, OURS, kind), theirs))


def _is_of(noise: str, kind: str | None) -> bool:
    return kind is None or noise == kind or (kind == "human" and noise.startswith("human "))


def subtract(mine: dict[Place, float], theirs: dict[Place, float]) -> dict[Place, float]:
    return {at: mine[at] - theirs[at] for at in mine.keys() & theirs.keys()}


def over_sets(values: dict[Place, float]) -> Estimate:
    """Mean over draws, then over kinds of noise, then over sets."""
    by_kind: dict[str, dict[str, list[float]]] = {}
    for (name, noise, _), value in values.items():
        by_kind.setdefault(name, {}).setdefault(noise, []).append(value)
    means = [np.mean([np.mean(draws) for draws in kinds.values()]) for kinds in by_kind.values()]
    if not means:
        return Estimate(float("nan"), float("nan"), 0)
    error = float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")
    return Estimate(float(np.mean(means)), error, len(means))


def read_bins(lines: Iterable[Line]) -> np.ndarray:
    """Number of suspects, sum of confidence and number of right suggestions in each bin, over lines."""
    total = np.zeros((N_BINS, 3))
    for one in lines:
        if one.bins:
            total += [[float(value) for value in part.split("/")] for part in one.bins.split(";")]
    return total


def calibration_error(bins: np.ndarray) -> float:
    """Mean distance between what confidence says and how often it is right, over suspects, in percent."""
    return 100.0 * float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum()) if bins[:, 0].any() else float("nan")


# ---------------------------------------------------------------------- the page


def render(lines: Sequence[Line]) -> str:
    """The whole report; marks let a page of the documentation take a table."""
    plain = Cells(one for one in lines if one.set not in RARE)
    rare = Cells(one for one in lines if one.set in RARE)
    parts = ["# The audit beside its rivals", "", *_explain(lines), ""]
    if OURS in plain.lines:
        parts += _section("goals", "Goals", _goals(plain))
        table = _compare(plain, percent("accuracy"), CLASSIFIERS, {f"best of {', '.join(HINDSIGHT)}": HINDSIGHT})
        parts += _section("accuracy", "Accuracy", table)
        for title, name in (("AUROC", "auroc"), ("Average precision", "ap"), ("F1 of the flags", "f1")):
            table = _compare(plain, percent(name), DETECTORS, {"best of cleanlab": CLEANLAB})
            parts += _section(name, title, table)
        parts += _section("figures", "Rate, interval, flags", _figures(plain))
        parts += _section("confidence", "Confidence", _reliability(plain))
    if OURS in rare.lines:
        parts += ["## A rare class", ""]
        for kind in RARE_KINDS:
            parts += _section(f"rare-{kind.replace(' ', '-')}", kind, _rare(rare, kind), level=3)
    parts += _failures(lines)
    if OURS in plain.lines:
        parts += _section("sets", "By set", _sets(plain))
    return "\n".join(parts)


def _section(mark: str, title: str, table: list[str], level: int = 2) -> list[str]:
    return [
        f"{'#' * level} {title}",
        "",
        f"<!-- {mark}: begin -->",
        *table,
        f"<!-- {mark}: end -->",
        "",
    ]


def _explain(lines: Sequence[Line]) -> list[str]:
    sets, draws = sorted({one.set for one in lines}), len({one.draw for one in lines})
    halves = [half for half, names in HALVES.items() if set(names) & set(sets)]
    plain = [name for name in sets if name not in RARE]
    return [
        f"- nearkin {__version__} with defaults, not told how many labels are wrong. `python -m benchmarks "
        "audit-rivals` makes this page; its docstring says how.",
        f"- {len(plain)} sets and {len(sets) - len(plain)} with a rare class (half: {' and '.join(halves)}), "
        f"{draws} draw{'s' if draws > 1 else ''}: {', '.join(sets)}.",
        "- Constants of the jury and of its noise model have been chosen on other draws of sets from both halves; "
        "one guard of the interval was settled after a look at these draws.",
        "- Every set counts the same; ± is a standard error over sets. Points are percent. *Best by hindsight* takes "
        "the best of the methods in each single draw, which nobody can choose beforehand.",
        "- Noise: uniform 10 / 20 / 40 % (two classes: 30 instead of 40), next class (20 %, more than two classes), by "
        "class (0 to 40 %; two classes: 5 and 35 %), boundary (20 % near another class), weak rule (what a small "
        "model says that learned from 15 clean rows of each class), human (labels that people gave).",
        "- Rivals get z-scores; C of RBF-SVM and logistic regression is chosen by five folds of the noisy labels; "
        "HistGB has 300 trees in all for more than three classes, at least 20 rounds. Noisy CV picks among RBF-SVM, "
        "logistic, 10-NN and HistGB (five folds) and the forest (out of bag). The neighbour vote ranks as SimiFeat "
        "does, with a flip matrix by maximum likelihood; Data-OOB is computed from 150 bagged trees.",
    ]


def _goals(cells: Cells) -> list[str]:
    rows: list[tuple[str, str, str, bool]] = []

    def add(words: str, goal: str, found: Estimate, is_met: Callable[[float], bool]) -> None:
        if found.n_sets:
            rows.append((words, goal, str(found), is_met(found.mean)))

    accuracy, auroc, f1 = percent("accuracy"), percent("auroc"), percent("f1")
    add("accuracy ahead of the model that noisy CV picks", "≥ 1", cells.ahead(accuracy, CV_PICK), lambda x: x >= 1)
    add("accuracy ahead of the best of RBF-SVM, forest, logistic by hindsight", "≥ 0",
        cells.ahead(accuracy, HINDSIGHT), lambda x: x >= 0)  # fmt: skip
    add("AUROC ahead of cleanlab's best by hindsight", "≥ 2", cells.ahead(auroc, CLEANLAB), lambda x: x >= 2)
    for kind in KINDS_SHOWN[1:]:
        found = {method: cells.mean(f1, method, kind).mean for method in CLEANLAB}
        known = {method: value for method, value in found.items() if not np.isnan(value)}
        if known:
            best = max(known, key=known.__getitem__)
            add(f"F1 ahead of {best}, the best one under {kind}", "≥ 0", cells.ahead(f1, best, kind), lambda x: x >= 0)
    add("flagged on clean labels", "≤ 8", cells.mean(percent("flagged"), OURS, "none"), lambda x: x <= 8)
    add("error of the rate, all kinds", "≤ 4", cells.mean(rate_error, OURS), lambda x: x <= 4)
    add("interval holds, all kinds", "≥ 85", cells.mean(holds, OURS), lambda x: x >= 85)
    for kind in KINDS_SHOWN:
        if kind.startswith("uniform") or kind in ("none", "by class"):
            add(f"interval holds, {kind}", "≥ 90", cells.mean(holds, OURS, kind), lambda x: x >= 90)
    error = calibration_error(read_bins(cells.lines[OURS].values()))
    rows.append(("confidence off by (calibration error, suspects pooled)", "≤ 5", f"{error:.1f}", error <= 5))
    lost = subtract(cells.values(percent("recall"), OURS), cells.values(percent("recall"), DOUBLED))
    add("recall lost when every row is doubled", "≤ 3", over_sets(lost), lambda x: x <= 3)
    lines = ["| | goal | found | |", "|---|---|---|---|"]
    lines += [
        f"| {words} | {goal} | {found} | {'met' if is_met else '**missed**'} |" for words, goal, found, is_met in rows
    ]
    return lines


def _compare(cells: Cells, figure: Figure, rivals: Sequence[str], hindsight: Mapping[str, Sequence[str]]) -> list[str]:
    """nearkin by kind of noise, then by how many points it is ahead of each rival and of the best by hindsight."""
    kinds = [kind for kind in KINDS_SHOWN if cells.mean(figure, OURS, kind).n_sets]
    columns = (None, *kinds)
    lines = [f"| | all kinds | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    lines.append("| **nearkin** | " + " | ".join(f"{cells.mean(figure, OURS, kind)}" for kind in columns) + " |")
    others: dict[str, str | Sequence[str]] = {name: name for name in rivals if name in cells.lines}
    others |= {f"{name} by hindsight": some for name, some in hindsight.items()}
    for name, other in others.items():
        gaps = (_signed(cells.ahead(figure, other, kind)) for kind in columns)
        lines.append(f"| ahead of {name} | {' | '.join(gaps)} |")
    return lines


def _signed(one: Estimate) -> str:
    return str(one) if not one.n_sets or one.mean < 0 else f"+{one}"


def _figures(cells: Cells) -> list[str]:
    """Rate, interval, flags and confidence of nearkin by kind of noise."""
    figures: dict[str, Figure] = {
        "true rate": percent("true_rate"),
        "estimated rate": percent("rate"),
        "error of the rate": rate_error,
        "interval holds": holds,
        "width of the interval": lambda one: (
            None if one.low is None or one.high is None else 100 * (one.high - one.low)
        ),
        "flagged": percent("flagged"),
        "precision of the flags": percent("precision"),
        "recall of the flags": percent("recall"),
        "first tier: flagged": percent("act_flagged"),
        "first tier: precision": percent("act_precision"),
        "first tier: recall": percent("act_recall"),
        "seconds": lambda one: one.seconds,
    }
    kinds = [kind for kind in KINDS_SHOWN if cells.mean(figures["flagged"], OURS, kind).n_sets]
    lines = [f"| | all kinds | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    for name, figure in figures.items():
        means = [cells.mean(figure, OURS, kind) for kind in (None, *kinds)]
        if means[0].n_sets:
            lines.append(f"| {name} | {' | '.join(map(str, means))} |")
    for rival in CLEANLAB[:-1]:  # the margin orders rows, and leaves the rate as it is
        means = [cells.mean(rate_error, rival, kind) for kind in (None, *kinds)]
        if means[0].n_sets:
            lines.append(f"| *error of the rate, {rival}* | {' | '.join(map(str, means))} |")
    errors = []
    for kind in (None, *kinds):
        found = calibration_error(read_bins(one for at, one in cells.lines[OURS].items() if _is_of(at[1], kind)))
        errors.append("–" if np.isnan(found) else f"{found:.1f}")
    return [*lines, f"| confidence off by | {' | '.join(errors)} |"]


def _reliability(cells: Cells) -> list[str]:
    bins = read_bins(cells.lines[OURS].values())
    lines = ["| confidence | suspects | says | suggestion is right |", "|---|---|---|---|"]
    for at, (n, says, right) in enumerate(bins):
        if n:
            lines.append(
                f"| {at / N_BINS:.1f} to {(at + 1) / N_BINS:.1f} | {n:.0f} | {says / n:.2f} | {right / n:.2f} |"
            )
    return lines


def _rare(cells: Cells, kind: str) -> list[str]:
    """Sets with a rare class: how well it is found, and whether flags eat it."""
    figures = {
        "sensitivity": "sensitivity",
        "G-mean": "gmean",
        "AUROC": "auroc",
        "flagged, right rare": "rare_flagged",
        "flagged, right other": "other_flagged",
        "found, wrong rare": "rare_found",
        "F1": "f1",
    }
    lines = [f"| | {' | '.join(figures)} |", "|---" * (len(figures) + 1) + "|"]
    for method in (OURS, *CLASSIFIERS, *DETECTORS):
        means = [cells.mean(percent(name), method, kind) for name in figures.values()]
        if any(one.n_sets for one in means):
            lines.append(f"| {f'**{OURS}**' if method == OURS else method} | {' | '.join(map(str, means))} |")
    return lines


def _failures(lines: Sequence[Line]) -> list[str]:
    failed: dict[str, list[Line]] = {}
    for one in lines:
        if one.error:
            failed.setdefault(one.method, []).append(one)
    told = [f"- {method}: {some[0].error} ({some[0].set}; {len(some)} lines)" for method, some in failed.items()]
    return ["## Failed", "", *told, ""] if told else []


def _sets(cells: Cells) -> list[str]:
    """Mean over kinds of noise of every set: nearkin and the best rivals."""
    accuracy, auroc = percent("accuracy"), percent("auroc")
    columns = {
        "accuracy": cells.values(accuracy, OURS),
        "ahead of the CV pick": subtract(cells.values(accuracy, OURS), cells.values(accuracy, CV_PICK)),
        "ahead of the best of three": subtract(cells.values(accuracy, OURS), cells.best(accuracy, HINDSIGHT)),
        "AUROC": cells.values(auroc, OURS),
        "ahead of cleanlab's best": subtract(cells.values(auroc, OURS), cells.best(auroc, CLEANLAB)),
        "error of the rate": cells.values(rate_error, OURS),
        "interval holds": cells.values(holds, OURS),
    }
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in sorted({at[0] for at in cells.lines[OURS]}):
        own = [over_sets({at: value for at, value in column.items() if at[0] == name}) for column in columns.values()]
        lines.append(f"| {name} | {' | '.join(map(str, own))} |")
    return lines
