"""Tables and pictures of the replication pages from the records in results/; a test holds the pages against them.

    python -m benchmarks.replication            # print what the pages should hold
    python -m benchmarks.replication --write    # write tables and pictures; the sentences are yours to write

`benchmarks.sentences` has the numbers in the text.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from . import imbalance, retrieval, retrieval_steps, unseen, why, why_pictures

Record = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "results"
DOCS = Path(__file__).parents[1] / "docs"
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
        ("`folds`", "table3-folds", "table3-folds-large"),
        ("`folds`, five draws of the small sets", "table3-folds-draws", "table3-folds-large"),
        ("`nested`", "table3-nested", "table3-nested-large"), ("`default`", "table3-default", "table3-default-large"),
    ):  # fmt: skip
        if not has(*folders):
            continue
        cells = [one for one in load(*folders) if one["method"] in OURS]
        misses = Counter(NAMES[one["dataset"]] for one in cells if one["difference"] < -ROUNDING)
        near = sum(one["difference"] >= -1.0 - ROUNDING for one in cells)
        told = ", ".join(f"{name} {n}" for name, n in misses.most_common())
        yield row(selection, f"{len(cells) - sum(misses.values())} of {len(cells)}", f"{near}", told or "none")


def list_folds(*folders: str) -> Iterator[str]:
    """Every cell of the proposed methods under ``folds``, with the printed number."""
    records = load(*folders)
    for name in NAMES:
        for method in OURS:
            cells = sorted(
                (one for one in records if (one["dataset"], one["method"]) == (name, method)),
                key=lambda one: float(one["noise"]),
            )
            if cells:
                fields = (f"{one['mean']:.1f} ± {one['std']:.1f} ({one['difference']:+.1f})" for one in cells)
                yield row(NAMES[name], method, *fields)


def list_search() -> Iterator[str]:
    """Mean accuracy over the small sets of all learners under ``nested``, and the lead of Robust-LODML."""
    means = by(load("table3-nested"), "method", "noise", "dataset")
    levels = sorted({noise for _, noise, _ in means})
    for method in dict.fromkeys(method for method, _, _ in means):
        cells = []
        for noise in levels:
            own, first = (np.array([means[one, noise, name] for name in SMALL]) for one in (method, OURS[0]))
            behind = f" ({imbalance.show(own - first)})" if method != OURS[0] else ""
            cells.append(f"{own.mean():.1f}{behind}")
        yield row(method, *cells)


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


#: Kinds of labels that people gave, by column; several share one.
PEOPLE = (
    (("cifar10n", "aggre"),),
    (("cifar10n", "random1"), ("cifar10n", "random2"), ("cifar10n", "random3")),
    (("cifar10n", "worst"),),
    (("music-genres", "single"),),
    (("music-genres", "majority"),),
)


def list_people() -> Iterator[str]:
    """Accuracy on labels that people gave; of plain neighbours and of cleanlab the best of each cell."""
    found = by(load("human"), "dataset", "noise", "method")
    rows = {
        "nearkin": ("nearkin",),
        "Robust-LODML, told the rate": ("Robust-LODML",),
        "best of 3-, 10-, 25-NN": ("Euclidean", "10-NN", "25-NN"),
        "logistic regression": ("logistic",),
        "best of cleanlab before 3-NN or logistic regression": ("cleanlab > 3-NN", "cleanlab > logistic"),
    }
    for name, methods in rows.items():
        best = ([f"{max(found[(*one, method)] for method in methods):.1f}" for one in some] for some in PEOPLE)
        yield row(name, *(" / ".join(one) for one in best))


def list_covid(folder: str = "table4") -> Iterator[str]:
    """Table 4 at 20 % noise, plain folds."""
    records = [one for one in load(folder) if one["noise"] == 20]
    metrics = ("Accuracy", "Sensitivity", "Precision", "Specificity", "G-mean")
    columns = (*OURS, "LPA-ODML", "ODML", "OPML", "Euclidean", "nearkin")
    for grouped, methods in ((False, columns), (True, ("nearkin",))):
        means = by((one for one in records if one["grouped"] == grouped), "method", "metric")
        for method in methods:
            if (method, metrics[0]) in means:
                told = {"Euclidean": "3-NN"}.get(method, method) + (", copies in one fold" if grouped else "")
                yield row(told, *(f"{means[method, metric]:.1f}" for metric in metrics))


def list_confusions() -> Iterator[str]:
    """Table 5: mean confusion matrices at 20 % noise in plain folds, the printed ones in brackets."""
    for one in load("table5"):
        if not one["grouped"]:
            ours = [value for line in one["confusion"] for value in line]
            printed = [value for line in one["paper_confusion"] or [] for value in line] or [None] * 4
            cells = zip(ours, printed, strict=True)
            yield row(one["method"], *(f"{a:.1f}" if b is None else f"{a:.1f} ({b:.1f})" for a, b in cells))


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


# ---------------------------------------------------------------- figures


def list_traces() -> Iterator[str]:
    """Figures 9 and 10: accuracy by line at the larger values of C, and the lead at the largest."""
    records = load("figures")
    shown = sorted({one["C"] for one in records})[-6:]
    for figure, line in dict.fromkeys((one["figure"], one["line"]) for one in records):
        here = {one["C"]: one for one in records if (one["figure"], one["line"]) == (figure, line)}
        last = here[shown[-1]]
        lead = "-" if line == last["against"] else f"{last['lead']:+.1f} ± {last['lead_error']:.1f}"
        yield row(figure, line, *(f"{here[C]['mean']:.1f}" for C in shown), lead)


def list_decline() -> Iterator[str]:
    """Figure 12 in short: mean accuracy over the small sets by noise, and the loss from none to the most."""
    records = [one for one in load("table3-default") if one["dataset"] in SMALL]
    for method in dict.fromkeys(one["method"] for one in records):
        means = [
            float(np.mean([one["mean"] for one in records if (one["method"], one["noise"]) == (method, noise)]))
            for noise in (0.0, 5.0, 10.0, 15.0, 20.0)
        ]
        yield row(method, *(f"{one:.1f}" for one in means), f"{means[-1] - means[0]:+.1f}")


def list_sums() -> Iterator[str]:
    """Figure 14: twice the sensitivity plus precision, and the G-mean, by noise."""
    records = [one for one in load("table4") if not one["grouped"] and one["dataset"] == "covid-resnet18"]
    means = by(records, "method", "noise", "metric")
    for method in dict.fromkeys(one["method"] for one in records):
        levels = sorted({one["noise"] for one in records if one["method"] == method})
        sums = [2 * means[method, one, "Sensitivity"] + means[method, one, "Precision"] for one in levels]
        both = zip(sums, (means[method, one, "G-mean"] for one in levels), strict=True)
        yield row(method, *(f"{first:.1f}, {second:.1f}" for first, second in both))


# ---------------------------------------------------------------- our own experiments


def list_unseen() -> Iterator[str]:
    """Settings chosen on the folds, on draws that the choice has not seen."""
    yield from body(unseen.list_table([one | {"dataset": NAMES[one["dataset"]]} for one in load("unseen")]))


def list_rare(classifier: str, metric: str) -> Iterator[str]:
    """A metric of rare classes by method, and what balanced triplets add."""
    yield from body(imbalance.list_table(load("imbalance"), classifier, metric))


def list_retrieval() -> Iterator[str]:
    """mAP by method, and the lead over OASIS."""
    yield from body(retrieval.list_table(load("retrieval")))


def list_steps() -> Iterator[str]:
    """mAP by step size, eta and centres."""
    yield from body(retrieval_steps.list_table(load("retrieval-steps")))


def body(lines: Iterable[str]) -> Iterator[str]:
    """Rows of a table without its head, which the page has."""
    return islice(lines, 2, None)


#: Tables by page and heading, each with the folders of its records. A page has those that are measured.
TABLES: dict[str, dict[str, tuple[tuple[str, ...], Callable[[], Iterator[str]]]]] = {
    "replication.md": {
        "## Table 3, the proposed methods in the paper's form": (("table3-folds", "table3-default"), count_reached),
        "## Every cell under `folds`": (
            ("table3-folds", "table3-folds-large"),
            partial(list_folds, "table3-folds", "table3-folds-large"),
        ),
        "### Five draws": (("table3-folds-draws",), partial(list_folds, "table3-folds-draws")),
        "### On draws that the choice has not seen": (("unseen",), list_unseen),
        "### The same search for all learners": (("table3-nested",), list_search),
        "## The column nearkin": (("table3-default", "table3-default-large"), list_own),
        "## Against rivals without metric learning": (("rivals", "rivals-large"), list_rivals),
        "### Labels that people gave": (("human",), list_people),
        "## Table 1": (("table1",), list_triplets),
        "## Table 4: COVID-19": (("table4",), list_covid),
        "### The other network": (("table4-mobilenet",), partial(list_covid, "table4-mobilenet")),
        "### Table 5": (("table5",), list_confusions),
        "### Figures 9 and 10": (("figures",), list_traces),
        "### Figure 12": (("table3-default",), list_decline),
        "### Figure 14": (("table4",), list_sums),
        "## Which part of the paper's method matters": (("grid",), list_grid),
        "### G-mean after Robust-kNN": (("imbalance",), partial(list_rare, "Robust-kNN", "G-mean")),
        "### Sensitivity after Robust-kNN": (("imbalance",), partial(list_rare, "Robust-kNN", "Sensitivity")),
        "### G-mean after 3-NN": (("imbalance",), partial(list_rare, "3-NN", "G-mean")),
        "## Image retrieval": (("retrieval",), list_retrieval),
        "### Why a robust loss gains little here": (("retrieval-steps",), list_steps),
    },
    "what-helps.md": {
        "## Main effects": (("why",), lambda: body(why.list_main(load_why()))),
        "## One part less": (("why",), lambda: body(why.list_replaced(load_why()))),
        "## Together": (("why",), lambda: body(why.list_pairs(load_why()))),
    },
}

#: Pictures of the pages, from the record of `benchmarks.why`.
PICTURES: dict[str, Callable[[], str]] = {
    "what_helps.svg": lambda: why_pictures.draw_main(load_why()),
    "what_helps_together.svg": lambda: why_pictures.draw_interactions(load_why()),
}


def load_why() -> list[Record]:
    """Runs of the factorial experiment."""
    return why.load_runs(RESULTS / "why")


def find_tables(page: str) -> dict[str, Callable[[], Iterator[str]]]:
    """Tables of a page that have their records."""
    return {heading: lines for heading, (folders, lines) in TABLES[page].items() if has(*folders)}


def has(*folders: str) -> bool:
    """Whether there are records in all of some folders."""
    return all(any((RESULTS / one).glob("*.json")) for one in folders)


def write_tables(text: str, tables: dict[str, Callable[[], Iterator[str]]]) -> str:
    """Put the lines of every table below the first table head after its heading."""
    for heading, lines in tables.items():
        before, mark, after = text.partition(f"\n{heading}\n")
        if not mark:
            raise ValueError(f"the page has no section {heading!r}.")
        held = after.split("\n")
        at = next(i for i, line in enumerate(held) if line.startswith(("| ---", "|---"))) + 1
        if any(line.startswith("#") for line in held[:at]):
            raise ValueError(f"the section {heading!r} has no table.")
        end = next(i for i in range(at, len(held) + 1) if i == len(held) or not held[i].startswith("|"))
        held[at:end] = list(lines())
        text = before + mark + "\n".join(held)
    return text


def main() -> None:
    """Print or write what the pages should hold."""
    for name in TABLES:
        if "--write" in sys.argv[1:] and (DOCS / name).is_file():
            (DOCS / name).write_text(write_tables((DOCS / name).read_text("utf-8"), find_tables(name)), "utf-8")
        else:
            for heading, lines in find_tables(name).items():
                print(heading, *lines(), "", sep="\n")
    if "--write" in sys.argv[1:] and has("why"):
        for name, draw in PICTURES.items():
            (DOCS / "figures" / name).write_text(draw(), "utf-8")


if __name__ == "__main__":
    main()
