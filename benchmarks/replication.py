"""The tables of docs/replication.md from the records in results/; a test holds the page against them.

python -m benchmarks.replication            # print what the page should hold
python -m benchmarks.replication --write    # write the tables into the page; the sentences are yours to write
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "results"
PAGE = Path(__file__).parents[1] / "docs" / "replication.md"
OURS = ("Robust-LODML", "Robust-ODML")
NAMES = {
    "wine": "Wine", "letters": "Letters", "yale": "Extended Yale", "ionosphere": "Ionosphere", "wdbc": "WDBC",
    "australian": "Australian", "german": "German", "covid-resnet18": "COVID-19",
}  # fmt: skip
#: Half a digit of the printed numbers.
ROUNDING = 0.005

SMALL = ("wine", "ionosphere", "wdbc", "australian", "german")


def load(*folders: str) -> list[Record]:
    """Records of some folders of results/, one list."""
    found = []
    for folder in folders:
        (path,) = (RESULTS / folder).glob("*.json")
        found += json.loads(path.read_text("utf-8"))
    return found


def by(records: Iterable[Record], *names: str) -> dict[Any, float]:
    """Means by some fields."""
    return {tuple(one[name] for name in names): one["mean"] for one in records}


def row(*fields: object) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(str, fields)) + " |"


# ---------------------------------------------------------------- the paper's own columns


def count_reached() -> Iterator[str]:
    """Cells of the proposed methods whose mean is at least the printed one."""
    for selection, *folders in (
        ("folds", "table3-folds", "table3-folds-large"), ("nested", "table3-nested", "table3-nested-large"),
        ("default", "table3-default", "table3-default-large"),
    ):  # fmt: skip
        cells = [one for one in load(*folders) if one["method"] in OURS]
        misses = Counter(NAMES[one["dataset"]] for one in cells if one["difference"] < -ROUNDING)
        near = sum(one["difference"] >= -1.0 - ROUNDING for one in cells)
        told = ", ".join(f"{name} {n}" for name, n in misses.most_common())
        yield row(f"`{selection}`", f"{len(cells) - sum(misses.values())} of {len(cells)}", f"{near}", told or "none")


def list_folds() -> Iterator[str]:
    """Every cell of the proposed methods under ``folds``, with the printed number."""
    records = load("table3-folds", "table3-folds-large")
    for name in NAMES:
        for method in OURS:
            cells = sorted(
                (one for one in records if (one["dataset"], one["method"]) == (name, method)),
                key=lambda one: float(one["noise"]),
            )
            if cells:
                fields = (f"{one['mean']:.1f} ± {one['std']:.1f} ({one['difference']:+.1f})" for one in cells)
                yield row(NAMES[name], method, *fields)


# ---------------------------------------------------------------- our column, and rivals


def list_own() -> Iterator[str]:
    """The column nearkin and its lead over the better of the two printed methods."""
    records = load("table3-default", "table3-default-large")
    printed = {(one["dataset"], one["noise"], one["method"]): one["paper_mean"] for one in records}
    own = by((one for one in records if one["method"] == "nearkin"), "dataset", "noise")
    for name in NAMES:
        fields = []
        for noise in (0.0, 5.0, 10.0, 15.0, 20.0):
            if (name, noise) in own:
                mean = own[name, noise]
                lead = mean - max(printed[name, noise, method] for method in OURS)
                digits = 2 if abs(lead) < 0.05 else 1
                fields.append(f"{mean:.{digits}f} ({lead:+.{digits}f})")
        if fields:
            yield row(NAMES[name], *fields)


def list_rivals() -> Iterator[str]:
    """The column nearkin and its lead over the best rival of each cell."""
    records = load("rivals", "rivals-large")
    for name in ("wine", "ionosphere", "wdbc", "australian", "german", "covid-resnet18", "yale", "letters"):
        fields = []
        for noise in (0.0, 10.0, 20.0, 30.0):
            here = by((one for one in records if (one["dataset"], one["noise"]) == (name, noise)), "method")
            own = here.pop(("nearkin",))
            (rival,) = max(here, key=lambda one: here[one])
            told = rival.replace(" > ", ", ")
            fields.append(f"{own:.1f} ({own - here[rival,]:+.1f}, {told})")
        yield row(NAMES[name], *fields)


def list_covid() -> Iterator[str]:
    """Table 4 at 20 % noise, plain folds."""
    records = [one for one in load("table4") if one["noise"] == 20 and one["dataset"] == "covid-resnet18"]
    metrics = ("Accuracy", "Sensitivity", "Precision", "Specificity", "G-mean")
    columns = (*OURS, "LPA-ODML", "ODML", "OPML", "Euclidean", "nearkin")
    for grouped, methods in ((False, columns), (True, ("nearkin",))):
        means = by((one for one in records if one["grouped"] == grouped), "method", "metric")
        for method in methods:
            if (method, metrics[0]) in means:
                told = {"Euclidean": "3-NN"}.get(method, method) + (", copies in one fold" if grouped else "")
                yield row(told, *(f"{means[method, metric]:.1f}" for metric in metrics))


def list_grid() -> Iterator[str]:
    """Mean accuracy of LODML over the small sets by triplets, loss and classifier."""
    records = load("grid")
    for source in ("OCTG", "one-pass", "batch"):
        for loss in ("hinge", "rescaled"):
            fields = []
            for classifier in ("3-NN", "Robust-kNN"):
                pair = (
                    np.mean([
                        one["mean"] for one in records
                        if (one["method"], one["noise"]) == (f"{source}, {loss}, {classifier}", noise)
                        and one["dataset"] in SMALL
                    ])
                    for noise in (0.0, 20.0)
                )  # fmt: skip
                fields.append(" / ".join(f"{one:.1f}" for one in pair))
            yield row(source, loss, *fields)


def list_triplets() -> Iterator[str]:
    """Table 1: counts and mean hinges, ours beside the printed ones."""
    records = load("table1")
    for figure in dict.fromkeys(one["figure"] for one in records):
        fields = []
        for source in ("Batch", "OCTG"):
            (one,) = (one for one in records if (one["figure"], one["method"]) == (figure, source))
            hinge = one["hinge_mean"]
            fields += [f"{one['count_mean']:.0f} ± {one['count_std']:.0f} ({one['paper_count']})"]
            fields += ["-" if hinge is None else f"{hinge:.2f} ± {one['hinge_std']:.2f} ({one['paper_hinge']:.2f})"]
        yield row(figure.replace("_", " "), *fields)


#: Tables of the page by their heading.
TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "Table 3, the proposed methods in the paper's form": count_reached,
    "Every cell under `folds`": list_folds,
    "The column nearkin": list_own,
    "Against rivals without metric learning": list_rivals,
    "Table 1": list_triplets,
    "Table 4: COVID-19": list_covid,
    "Which part of the paper's method matters": list_grid,
}


def list_sentences() -> Iterator[str]:
    """What the text of the page says in numbers."""
    records = load("table3-default", "table3-default-large")
    printed = {(one["dataset"], one["noise"], one["method"]): one["paper_mean"] for one in records}
    own = by((one for one in records if one["method"] == "nearkin"), "dataset", "noise")
    leads = [mean - max(printed[*place, method] for method in OURS) for place, mean in own.items()]
    yield f"at or above in {sum(one >= -ROUNDING for one in leads)} of {len(leads)} cells"
    reached = [line.split(" | ")[1] for line in count_reached()]
    yield f"chosen on the evaluation folds in {reached[0]} cells"


def write_tables(text: str) -> str:
    """Put the lines of every table below the first table head of its section."""
    for heading, lines in TABLES.items():
        before, mark, after = text.partition(f"\n## {heading}\n")
        if not mark:
            raise ValueError(f"the page has no section {heading!r}.")
        section, next_mark, rest = after.partition("\n## ")
        held = section.split("\n")
        at = next(i for i, line in enumerate(held) if line.startswith(("| ---", "|---"))) + 1
        end = next(i for i in range(at, len(held) + 1) if i == len(held) or not held[i].startswith("|"))
        held[at:end] = list(lines())
        text = before + mark + "\n".join(held) + next_mark + rest
    return text


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(write_tables(PAGE.read_text("utf-8")), "utf-8")
    else:
        for heading, lines in TABLES.items():
            print(f"## {heading}", *lines(), "", sep="\n")
        print(*list_sentences(), sep="\n")
