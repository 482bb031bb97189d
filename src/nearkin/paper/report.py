"""Tables for programs and readers: records, Markdown, and one HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from jinja2 import Environment

from nearkin.paper.scores import METRICS, get_printed_confusion, get_printed_score, score_binary, summarise
from nearkin.paper.tables import Outcome, Table

__all__ = ["Record", "Sheet", "lay_out", "make_records", "render_html", "render_markdown"]

#: A cell and a metric: our number beside the printed one.
Record = dict[str, Any]

_METHOD, _METRIC = itemgetter("method"), itemgetter("metric")


def make_records(
    outcomes: Iterable[Outcome], metrics: tuple[str, ...] = METRICS[:1], *, matrix: bool = False
) -> list[Record]:
    """One record per cell and metric, in percent; all metrics but the first, and the matrix, need two classes."""
    return [_make_record(outcome, metric, matrix=matrix) for outcome in outcomes for metric in metrics]


def _make_record(outcome: Outcome, metric: str, *, matrix: bool) -> Record:
    cell = outcome.cell
    if metric == METRICS[0]:
        mean, std = summarise(outcome.accuracies)
    else:
        mean, std = summarise([score_binary(one)[metric] for one in outcome.confusions or []])
    # The paper has uniform noise, and ignores that rows have copies.
    comparable = cell.kind == "uniform" and not cell.grouped
    place = cell.dataset, cell.noise, cell.method
    paper_mean, paper_std = get_printed_score(*place, metric) if comparable else (None, None)
    record: Record = {
        "dataset": cell.dataset, "noise": cell.noise, "method": cell.method, "selection": cell.selection,
        "metric": metric, "mean": mean, "std": std, "folds": len(outcome.accuracies),
        "paper_mean": paper_mean, "paper_std": paper_std,
        "difference": None if paper_mean is None else mean - paper_mean,
        "params": outcome.params, "seconds": outcome.seconds, "kind": cell.kind, "grouped": cell.grouped,
        "draws": cell.n_draws, "budget": cell.budget, "seed": cell.seed, "sources": outcome.sources,
    }  # fmt: skip
    if matrix:
        record["confusion"] = np.mean(outcome.confusions or [], axis=0).tolist()
        record["paper_confusion"] = get_printed_confusion(*place) if comparable else None
    return record


@dataclass(frozen=True)
class Entry:
    """One field: our number, and below it the printed one with the difference."""

    ours: str = ""
    paper: str = ""
    #: Positive if ours is at least the printed number, negative if it is below; 0 if nothing is printed.
    sign: int = 0


@dataclass(frozen=True)
class Sheet:
    """A table of entries with a caption."""

    caption: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]


def lay_out(table: Table, records: Sequence[Record]) -> list[Sheet]:
    """Arrange records for readers."""
    if table.name == "table1":
        return [_lay_out_triplets(records)]
    if table.matrix:
        return _group(records, _name_place, _lay_out_matrices)
    if len(table.metrics) > 1:
        return _group(
            records, _name_place, lambda some, place: _pivot(some, place, "noise, method", _name_row, _METRIC)
        )
    return _group(
        records, itemgetter("dataset"), lambda some, place: _pivot(some, place, "method", _METHOD, _name_noise)
    )


def render_markdown(title: str, about: Sequence[str], found: Sequence[Sheet]) -> str:
    """The whole report as Markdown."""
    lines = [f"# {title}", "", *(f"- {one}" for one in about), ""]
    for sheet in found:
        lines += [f"## {sheet.caption}", "", _line([sheet.corner, *sheet.columns])]
        lines += [_line(["---"] * (1 + len(sheet.columns)))]
        for name, entries in sheet.rows:
            lines.append(_line([name, *(f"{one.ours} ({one.paper})" if one.paper else one.ours for one in entries)]))
        lines.append("")
    return "\n".join(lines)


def render_html(title: str, about: Sequence[str], found: Sequence[Sheet]) -> str:
    """The whole report as one page without links."""
    return Environment(autoescape=True).from_string(_PAGE).render(title=title, about=about, sheets=found)


def _line(fields: Sequence[str]) -> str:
    return "| " + " | ".join(one.replace("|", "\\|") for one in fields) + " |"


def _group(
    records: Sequence[Record], key: Callable[[Record], str], make: Callable[[list[Record], str], Sheet]
) -> list[Sheet]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return [make(some, name) for name, some in groups.items()]


def _pivot(
    records: list[Record], caption: str, corner: str, row: Callable[[Record], str], column: Callable[[Record], str]
) -> Sheet:
    columns = tuple(dict.fromkeys(column(one) for one in records))
    rows: dict[str, dict[str, Entry]] = {}
    for one in records:
        rows.setdefault(row(one), {})[column(one)] = _make_entry(one)
    laid = tuple((name, tuple(held.get(at, Entry()) for at in columns)) for name, held in rows.items())
    return Sheet(caption, corner, columns, laid)


def _make_entry(record: Record) -> Entry:
    ours = f"{record['mean']:.2f} ± {record['std']:.2f}"
    if record["paper_mean"] is None:
        return Entry(ours)
    difference = record["difference"]
    paper = f"paper {record['paper_mean']:.2f} ± {record['paper_std']:.2f}, {difference:+.2f}"
    return Entry(ours, paper, 1 if difference >= 0 else -1)


def _lay_out_matrices(records: list[Record], caption: str) -> Sheet:
    columns = ("true positive", "false negative", "false positive", "true negative", "accuracy")
    rows = []
    for one in records:
        ours = [value for row in one["confusion"] for value in row]
        paper = [value for row in one["paper_confusion"] or [] for value in row] or [None] * 4
        fields = [
            Entry(f"{mine:.1f}", "" if theirs is None else f"paper {theirs:.1f}")
            for mine, theirs in zip(ours, paper, strict=True)
        ]
        rows.append((_name_row(one), (*fields, _make_entry(one))))
    return Sheet(f"{caption}, mean per fold", "noise, method", columns, tuple(rows))


def _lay_out_triplets(records: Sequence[Record]) -> Sheet:
    rows: dict[str, list[Entry]] = {}
    for one in records:
        fields = rows.setdefault(_name_kind(one["figure"]), [])
        for what, digits in (("count", 1), ("hinge", 2)):
            mean, std, paper = one[f"{what}_mean"], one[f"{what}_std"], one[f"paper_{what}"]
            ours = "-" if mean is None else f"{mean:.{digits}f} ± {std:.{digits}f}"
            fields.append(Entry(ours, f"paper {'-' if paper is None else paper}"))
    methods = tuple(dict.fromkeys(one["method"] for one in records))
    columns = tuple(f"{name}, {what}" for name in methods for what in ("number", "mean hinge"))
    return Sheet(
        "Wine, 10 % wrong labels", "triplets", columns, tuple((name, tuple(one)) for name, one in rows.items())
    )


def _name_kind(kind: str) -> str:
    return "all triplets" if kind == "triplets" else kind.replace("_", " ")


def _name_place(record: Record) -> str:
    return f"{record['dataset']}, {'copies kept in one fold' if record['grouped'] else 'plain folds'}"


def _name_noise(record: Record) -> str:
    return record["noise"] if isinstance(record["noise"], str) else f"{record['noise']:g} %"


def _name_row(record: Record) -> str:
    return f"{_name_noise(record)}, {record['method']}"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="nearkin">
<title>{{ title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 0 0 2rem; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .8rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; }
thead th { border-bottom: 2px solid #888; }
small { color: #666; display: block; }
.up small::before { color: #00695c; content: "\\25B2  "; }
.down small::before { color: #bf360c; content: "\\25BC  "; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<ul>
{% for one in about %}<li>{{ one }}</li>
{% endfor %}</ul>
{% for sheet in sheets %}<h2>{{ sheet.caption }}</h2>
<div class="wide"><table>
<thead><tr><th>{{ sheet.corner }}</th>{% for one in sheet.columns %}<th>{{ one }}</th>{% endfor %}</tr></thead>
<tbody>
{% for name, entries in sheet.rows %}<tr><th>{{ name }}</th>{% for one in entries -%}
<td{% if one.sign %} class="{{ 'up' if one.sign > 0 else 'down' }}"{% endif %}>{{ one.ours }}
{%- if one.paper %}<small>{{ one.paper }}</small>{% endif %}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table></div>
{% endfor %}</body>
</html>
"""
