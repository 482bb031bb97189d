"""How far `plausibility` and `confidence` are probabilities: ``python -m benchmarks reliability``.

Labels of named sets are made wrong in several ways, audited with defaults, and compared with the right ones. A picture
(docs/figures/reliability.svg) shows of the labels that have about some probability how many were right; a table
(benchmarks/results/reliability.md) has the expected calibration error: the mean distance between both, in points, over
ten equal bins. Every set counts the same. The sets are those of `benchmarks.audit_sets`; those that are not here are
left out and named.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from nearkin import __version__, audit_labels  # noqa: E402

from . import audit_sets  # noqa: E402
from .audit_noise import draw_rows, list_kinds  # noqa: E402
from .rivals import say, split_names  # noqa: E402
from .settings import HERE  # noqa: E402

KINDS = ("none", "uniform 20", "by class", "boundary", "weak rule")
N_BINS = 10
#: What is compared: its name, and the words of its panel.
CLAIMS = {
    "plausibility": "plausibility of every label",
    "confidence": "confidence of suggestions, wrong and worth a look",
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#9A4C95", "#8a6d00")
_MARKS = ("o", "s", "^", "D", "v")


@dataclass(frozen=True)
class Said:
    """Probabilities that one audit gave, and what turned out right."""

    set: str
    kind: str
    claim: str
    says: np.ndarray
    is_right: np.ndarray


def listen(data: audit_sets.AuditSet, kind: str, draw: int) -> list[Said]:
    """Audit one draw of a set."""
    rows = draw_rows(data, kind, draw)
    audit = audit_labels(rows.X, rows.given, random_state=rows.seed)
    some = audit.is_suspect
    return [
        Said(data.name, kind, "plausibility", audit.plausibility, rows.given == rows.right),
        Said(data.name, kind, "confidence", audit.confidence[some], (audit.suggested_label == rows.right)[some]),
    ]


def bin_claims(said: Iterable[Said], n_bins: int = N_BINS) -> np.ndarray:
    """Weight, mean claim and share right of every bin, over sets that count the same."""
    said = list(said)
    size: dict[str, int] = {}
    for one in said:
        size[one.set] = size.get(one.set, 0) + len(one.says)
    out = np.zeros((3, n_bins))
    for one in said:
        at = np.minimum((one.says * n_bins).astype(int), n_bins - 1)
        values = (np.ones(len(at)), one.says, one.is_right)
        out += [np.bincount(at, value, minlength=n_bins) / max(1, size[one.set]) for value in values]
    weight = out[0] / max(out[0].sum(), 1e-12)
    with np.errstate(invalid="ignore"):
        return np.array([weight, out[1] / out[0], out[2] / out[0]])


def calibration_error(bins: np.ndarray) -> float:
    """Expected calibration error in points; NaN where nothing was said."""
    weight, says, right = bins
    held = weight > 0
    return float(100.0 * (weight * np.abs(says - right))[held].sum()) if held.any() else float("nan")


def draw(said: Sequence[Said], kinds: Sequence[str], path: Path) -> None:
    """One panel for each claim, one line for each kind of noise; dots grow with the rows that they stand for."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    style = {"svg.hashsalt": "nearkin", "axes.spines.top": False, "axes.spines.right": False, "font.size": 10,
             "figure.facecolor": "#fcfcfa", "axes.facecolor": "#fcfcfa", "legend.frameon": False}  # fmt: skip
    with plt.rc_context(style):
        figure, panels = plt.subplots(1, 2, figsize=(10.4, 5.8), layout="constrained")
        for axes, (claim, words) in zip(panels, CLAIMS.items(), strict=True):
            axes.plot([0, 1], [0, 1], color="#8a8a8a", linewidth=1, linestyle=":")
            for kind, colour, mark in zip(kinds, _COLOURS, _MARKS, strict=False):
                bins = bin_claims(one for one in said if one.claim == claim and one.kind == kind)
                weight, says, right = bins[:, bins[0] > 0.002]  # a few rows make a dot that means nothing
                label = f"{kind}: {calibration_error(bins):.1f} points off"
                axes.plot(says, right, color=colour, linewidth=1, alpha=0.7)
                axes.scatter(says, right, 12 + 260 * weight, color=colour, marker=mark, label=label, alpha=0.85)
            axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xlabel="says", ylabel="share right")
            axes.set_title(words, fontsize=11, fontweight="bold", loc="left")
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.13), "ncols": 2, "fontsize": 9}
            for one in axes.legend(**below).legend_handles:
                one.set_sizes([30])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Title": "nearkin: reliability"})
        plt.close(figure)


def tabulate(said: Sequence[Said], kinds: Sequence[str], draws: int) -> str:
    """The errors by kind of noise, and the bins over all kinds, as Markdown."""
    names = list(dict.fromkeys(one.set for one in said))
    lines = [
        f"nearkin {__version__}, `python -m benchmarks reliability`, {len(names)} sets ({', '.join(names)}), draws of "
        f"each kind of noise: {draws}. Expected calibration error in points, every set counting the same.", "",
        "| | " + " | ".join([*kinds, "all"]) + " |", "|---" * (len(kinds) + 2) + "|",
    ]  # fmt: skip
    for claim in CLAIMS:
        mine = [one for one in said if one.claim == claim]
        parts = [*([one for one in mine if one.kind == kind] for kind in kinds), mine]
        lines.append(f"| {claim} | " + " | ".join(f"{calibration_error(bin_claims(one)):.1f}" for one in parts) + " |")
    for claim, words in CLAIMS.items():
        weight, says, right = bin_claims(one for one in said if one.claim == claim)
        lines += ["", f"{words[0].upper()}{words[1:]}, all kinds of noise:", "", "| share of rows | says | right |"]
        lines += ["|---|---|---|"]
        lines += [
            f"| {100 * n:.1f} % | {one:.2f} | {other:.2f} |"
            for n, one, other in zip(weight, says, right, strict=True)
            if n > 0
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks reliability", description=__doc__)
    parser.add_argument("--sets", type=split_names, default=audit_sets.PLAIN, help="names, separated by commas")
    parser.add_argument("--noise", type=split_names, default=KINDS, help="kinds, separated by commas")
    parser.add_argument("--draws", type=int, default=1, help="splits and noises of every set")
    parser.add_argument("--data", type=Path, help="folder with data files; NEARKIN_DATA by default")
    parser.add_argument("--figure", type=Path, default=HERE.parent / "docs" / "figures" / "reliability.svg")
    parser.add_argument("--table", type=Path, default=HERE / "results" / "reliability.md")
    given = parser.parse_args(arguments)
    from .space_sets import Missing

    said: list[Said] = []
    for name in given.sets:
        try:
            data = audit_sets.load(name, given.data)
        except Missing as error:
            say(f"left out: {name}: {error}")
            continue
        mine = [
            one
            for kind in given.noise
            if kind in list_kinds(data)
            for draw_number in range(given.draws)
            for one in listen(data, kind, draw_number)
        ]
        said += mine
        errors = [calibration_error(bin_claims(one for one in mine if one.claim == claim)) for claim in CLAIMS]
        say(f"{name}: " + ", ".join(f"{claim} {error:.1f}" for claim, error in zip(CLAIMS, errors, strict=True)))
    if not said:
        parser.error("no set is here; name a folder with --data")
    draw(said, given.noise, given.figure)
    table = tabulate(said, given.noise, given.draws)
    given.table.write_text(table)
    print(table)


if __name__ == "__main__":
    main()
