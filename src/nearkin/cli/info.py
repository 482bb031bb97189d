"""``nearkin info``: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from nearkin.cli import _text
from nearkin.cli._options import MODEL
from nearkin.cli._program import command, with_debug

__all__ = ["info"]

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
        click.echo(json.dumps(facts, indent=2))
<<<<<<< HEAD
    else:
        _show(facts)


def _facts(path: Path) -> dict[str, Any]:
    import nearkin
    from nearkin.cli._models import header_of, load_model

    model = load_model(path)
    header = header_of(path) or {}
    estimator, learner = model.estimator, model.learner
    is_classifier = learner is not estimator
    facts: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "format": header.get("format"),
        "written_by": header.get("nearkin"),
        "read_by": nearkin.__version__,
        "class": type(estimator).__name__,
        "parameters": _parameters(estimator),
        "fitted": hasattr(estimator, "n_features_in_"),
    }
    if not facts["fitted"]:
        return facts
    if hasattr(estimator, "kept_identity_") or hasattr(estimator, "engine_"):
        return facts | {"n_features": int(estimator.n_features_in_), "search": _search_facts(estimator)}
    facts |= {
        "learner": type(learner).__name__ if is_classifier else None,
        "learner_parameters": _parameters(learner) if is_classifier else None,
        "n_features": int(estimator.n_features_in_),
        "feature_names": model.feature_names,
        "label": model.label,
        "classes": [one.item() if hasattr(one, "item") else one for one in estimator.classes_],
        "map_shape": _map_shape(learner),
        "counters": {name.strip("_"): int(getattr(learner, name)) for name in _COUNTERS},
    }
    if is_classifier:
        facts |= {
            "noise_rate": float(estimator.noise_rate_),
            "n_rows": len(estimator.plausibility_),
            "n_doubtful": len(estimator.plausibility_) - len(estimator.kept_),
        }
    return facts


def _search_facts(model: Any) -> dict[str, Any]:
    """What an adapter or an index says about itself."""
    if hasattr(model, "engine_"):
        return {"items": len(model), "engine": model.engine_, "recall": float(model.recall_)}
    return {
        "kept_identity": bool(model.kept_identity_),
        "strength": float(model.strength_),
        "gain": [float(one) for one in (model.gain_.mean, model.gain_.low, model.gain_.high)],
        "triplets": int(model.n_triplets_seen_),
        "triplets_left_out": int(model.n_skipped_),
    }


def _map_shape(learner: Any) -> list[int] | None:
    """None for a learner that compares rows by a kernel."""
    if not hasattr(learner, "transform"):
        return None
    if not learner.measure.is_distance:
        return list(learner.query_map_.shape)
    return [int(learner._n_features_out), int(learner.n_features_in_)]


def _parameters(estimator: Any) -> dict[str, Any]:
    """Parameters that JSON can hold; others as they print."""
    plain = (str, int, float, bool, type(None))
    given = estimator.get_params(deep=False)
    return {name: value if isinstance(value, plain) else " ".join(repr(value).split()) for name, value in given.items()}


def _show(facts: dict[str, Any]) -> None:
    from nearkin.cli import _text

    click.echo(_text.bold(facts["file"]))
=======
        return
>>>>>>> main
    lines = [
        ("model", facts["class"]),
        ("file", f"{_text.size(facts['bytes'])}, written by nearkin {facts['written_by']} (format {facts['format']})"),
    ]
    if not facts["fitted"]:
        lines += [("state", "not fitted"), ("parameters", _words(facts["parameters"]))]
    elif "search" in facts:
        found = [(name.replace("_", " "), _value(value)) for name, value in facts["search"].items()]
        lines += [("features", f"{facts['n_features']:,}"), *found, ("parameters", _words(facts["parameters"]))]
    else:
        lines += _describe_fitted(facts)
    click.echo(_text.bold(facts["file"]))
    click.echo(_text.pairs(lines))


def _describe_fitted(facts: dict[str, Any]) -> Lines:
    names, counters = facts["feature_names"], facts["counters"]
    seen = ", ".join(_text.count(counters[f"n_{noun}s_seen"], noun) for noun in ("row", "triplet"))
    shape = " x ".join(f"{one:,}" for one in facts["map_shape"]) if facts["map_shape"] else "none, by a kernel"
    lines = [
        ("features", f"{facts['n_features']:,}" + (f": {_text.sum_up(names, 16)}" if names else " without names")),
        ("label", facts["label"] or "without a name"),
        ("classes", f"{len(facts['classes']):,}: {_text.sum_up(facts['classes'], 16)}"),
        ("map", shape),
        ("learned from", f"in all passes {seen}"),
        ("updates", f"{counters['n_updates']:,}"),
    ]
    if not facts["learner"]:
        return [*lines, ("parameters", _words(facts["parameters"]))]
    doubtful = f"{facts['n_doubtful']:,} of {facts['n_rows']:,} labels doubtful"
    return [
        *lines,
        ("noise rate", f"{_text.percent(facts['noise_rate'])}, {doubtful}"),
        ("parameters", _words({name: one for name, one in facts["parameters"].items() if name != "learner"})),
        ("learner", f"{facts['learner']}: {_words(facts['learner_parameters'])}"),
    ]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "{:.4f} [{:.4f}, {:.4f}]".format(*value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _words(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())
