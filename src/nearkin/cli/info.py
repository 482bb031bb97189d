"""``nearkin info``: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearkin.cli import _show
from nearkin.cli._options import MODEL
from nearkin.cli._program import command, with_debug

__all__ = ["info"]

#: Alarms that are told.
_ALARMS = 5

Lines = list[tuple[str, str]]


@command("Show what a model file holds.", "nearkin info wine.nearkin", "nearkin info wine.nearkin --json")
@MODEL
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_debug
def info(model: Path, as_json: bool) -> None:
    """Show what MODEL is, what it was fitted on and how it is set."""
    from nearkin.model_files import describe_model

    facts = describe_model(model)
    if as_json:
        _show.echo(json.dumps(facts, indent=2))
        return
    lines = [
        ("model", facts["class"]),
        ("file", f"{_show.size(facts['bytes'])}, written by nearkin {facts['written_by']} (format {facts['format']})"),
    ]
    if not facts["fitted"]:
        lines += [("state", "not fitted"), ("parameters", _words(facts["parameters"]))]
    elif "search" in facts:
        versions = facts["search"].pop("versions", ())
        found = [(name.replace("_", " "), _value(value)) for name, value in facts["search"].items()]
        found += [("versions" if one is versions[0] else "", one) for one in versions]
        lines += [("features", f"{facts['n_features']:,}"), *found, ("parameters", _words(facts["parameters"]))]
    else:
        lines += _describe_fitted(facts)
    lines += _describe_history(facts.get("history"))
    _show.echo(_show.bold(facts["file"]))
    _show.echo(_show.pairs(lines))


def _describe_fitted(facts: dict[str, Any]) -> Lines:
    names, counters = facts["feature_names"], facts["counters"]
    lines = [
        ("features", f"{facts['n_features']:,}" + (f": {_show.sum_up(names, 16)}" if names else " without names")),
        *(("column", one) for one in facts["columns"] or ()),
        ("label", facts["label"] or "without a name"),
        ("classes", f"{len(facts['classes']):,}: {_show.sum_up(facts['classes'], 16)}"),
    ]
    if counters:
        seen = ", ".join(_show.count(counters[f"n_{noun}s_seen"], noun) for noun in ("row", "triplet"))
        shape = " x ".join(f"{one:,}" for one in facts["map_shape"]) if facts["map_shape"] else "none, by a kernel"
        lines += [("map", shape), ("learned from", f"in all passes {seen}"), ("updates", f"{counters['n_updates']:,}")]
    if facts["voters"]:
        lines.append(("voters", ", ".join(f"{one} {_show.percent(share)}" for one, share in facts["voters"].items())))
    if "noise_rate" in facts:
        doubtful = f"{facts['n_doubtful']:,} of {facts['n_rows']:,} labels doubtful"
        lines.append(("noise rate", f"{_show.percent(facts['noise_rate'])}, {doubtful}"))
    lines += _describe_stream(facts.get("stream"))
    if not facts["learner"]:
        return [*lines, ("parameters", _words(facts["parameters"]))]
    return [
        *lines,
        ("parameters", _words({name: one for name, one in facts["parameters"].items() if name != "learner"})),
        ("learner", f"{facts['learner']}: {_words(facts['learner_parameters'])}"),
    ]


def _describe_history(facts: dict[str, Any] | None) -> Lines:
    """Describe the files that a model was learned from, and those that were put aside."""
    lines: Lines = []
    if facts and facts["files"]:
        rows = _show.count(facts["rows"], "row")
        last = f"the last one {Path(facts['last_file']).name}, of {facts['last_time']}"
        lines.append(("learned files", f"{_show.count(facts['files'], 'file')}, {rows}; {last}"))
    if facts and facts["quarantine"]:
        lines.append(("put aside", f"{_show.count(len(facts['quarantine']), 'file')}, the latest:"))
        lines += [("", one["reason"]) for one in facts["quarantine"][: -_ALARMS - 1 : -1]]
    if facts and (waiting := facts["waiting"]) is not None:
        hours = f" after {waiting['hours']:,.1f} hours on average" if waiting["joined"] else ""
        now = f"{_show.count(waiting['waiting'], 'row')} wait for their label"
        rest = f"{waiting['joined']:,} met theirs{hours}, {waiting['expired']:,} expired"
        lines.append(("waiting", f"{now}; {rest}"))
    return lines


def _describe_stream(facts: dict[str, Any] | None) -> Lines:
    """Return lines about the stream that a model was learned from, its latest alarms among them."""
    if facts is None:
        return []
    told = [_show.count(facts["rows"], "row")]
    if facts["accuracy"] is not None:
        told.append(f"accuracy {_show.percent(facts['accuracy'])}, lately {_show.percent(facts['recent_accuracy'])}")
    if facts["plausibility"] is not None:
        told.append(f"plausibility {facts['plausibility']:.2f}, lately {facts['recent_plausibility']:.2f}")
    lines = [("stream", "; ".join(told))]
    if not facts["n_alarms"]:
        return [*lines, ("drift", "no alarm")]
    lines.append(("drift", f"{_show.count(facts['n_alarms'], 'alarm')}, the latest:"))
    return lines + [("", one["told"]) for one in facts["alarms"][: -_ALARMS - 1 : -1]]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "{:.4f} [{:.4f}, {:.4f}]".format(*value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _words(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())
