"""``nearkin info``: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearkin.cli._options import MODEL
from nearkin.cli._program import examples, with_debug

__all__ = ["info"]

_COUNTERS = ("n_rows_seen_", "n_triplets_seen_", "n_updates_")


@click.command(
    short_help="Show what a model file holds.",
    epilog=examples("nearkin info wine.nearkin", "nearkin info wine.nearkin --json"),
)
@MODEL
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@with_debug
def info(model: Path, as_json: bool) -> None:
    """Show what MODEL is, what it was fitted on and how it is set."""
    facts = _facts(model)
    if as_json:
        import json

        click.echo(json.dumps(facts, indent=2))
    else:
        _show(facts)


def _facts(path: Path) -> dict[str, Any]:
    import nearkin
    from nearkin.cli._models import header_of, load_model

    model = load_model(path)
    header = header_of(path) or {}
    estimator, learner = model.estimator, model.learner
    is_classifier, has_learner = hasattr(estimator, "noise_rate_"), hasattr(learner, "n_updates_")
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
        "learner": type(learner).__name__ if is_classifier and has_learner else None,
        "learner_parameters": _parameters(learner) if is_classifier and has_learner else None,
        "voters": _voters(estimator),
        "n_features": int(estimator.n_features_in_),
        "feature_names": model.feature_names,
        "label": model.label,
        "classes": [one.item() if hasattr(one, "item") else one for one in estimator.classes_],
        "map_shape": _map_shape(learner) if has_learner else None,
        "counters": {name.strip("_"): int(getattr(learner, name)) for name in _COUNTERS} if has_learner else None,
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


def _voters(estimator: Any) -> list[dict[str, Any]] | None:
    """Names and shares of a jury; None for a model without one."""
    jury = getattr(getattr(estimator, "decision_", None), "jury", None)
    if jury is None:
        return None
    return [{"voter": one.name, "share": share} for one, share in zip(jury.voters, jury.shares, strict=True)]


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
    lines = [
        ("model", facts["class"]),
        ("file", f"{_text.size(facts['bytes'])}, written by nearkin {facts['written_by']} (format {facts['format']})"),
    ]
    if not facts["fitted"]:
        click.echo(_text.pairs([*lines, ("state", "not fitted"), ("parameters", _words(facts["parameters"]))]))
        return
    if "search" in facts:
        found = [(name.replace("_", " "), _value(value)) for name, value in facts["search"].items()]
        lines += [("features", f"{facts['n_features']:,}"), *found, ("parameters", _words(facts["parameters"]))]
        click.echo(_text.pairs(lines))
        return
    counters = facts["counters"]
    names = facts["feature_names"]
    features = f"{facts['n_features']:,}" + (f": {_listed(names, 16)}" if names else " without names")
    lines += [
        ("features", features),
        ("label", facts["label"] or "without a name"),
        ("classes", f"{len(facts['classes']):,}: {_listed(facts['classes'], 16)}"),
    ]
    if counters:
        seen = ", ".join(_text.count(counters[f"n_{noun}s_seen"], noun) for noun in ("row", "triplet"))
        lines += [
            ("map", " x ".join(f"{one:,}" for one in facts["map_shape"] or ()) or "none, by a kernel"),
            ("learned from", f"in all passes {seen}"),
            ("updates", f"{counters['n_updates']:,}"),
        ]
    if facts["voters"]:
        lines.append(("voters", ", ".join(f"{one['voter']} {_text.percent(one['share'])}" for one in facts["voters"])))
    if "noise_rate" in facts:
        wrong = f"{facts['n_doubtful']:,} of {facts['n_rows']:,} labels doubtful"
        lines.append(("noise rate", f"{_text.percent(facts['noise_rate'])}, {wrong}"))
    hidden = ("learner",) if facts["learner"] else ()
    lines.append(("parameters", _words({k: v for k, v in facts["parameters"].items() if k not in hidden})))
    if facts["learner"]:
        lines.append(("learner", f"{facts['learner']}: {_words(facts['learner_parameters'])}"))
    click.echo(_text.pairs(lines))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "{:.4f} [{:.4f}, {:.4f}]".format(*value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def _words(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _listed(some: list[Any], most: int) -> str:
    rest = len(some) - most
    return ", ".join(str(one) for one in some[:most]) + (f" and {rest:,} more" if rest > 0 else "")
