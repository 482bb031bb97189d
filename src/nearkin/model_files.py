"""What a model file holds: its header, the names it was fitted under, and facts about the model."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from nearkin import progress
from nearkin._version import __version__
from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.saving import load
from nearkin.tables import TableEncoder

__all__ = ["Model", "describe_model", "load_fitted", "load_model", "move_to", "remember_names"]

#: Rows predicted at once.
_BLOCK = 4096
_COUNTERS = ("n_rows_seen_", "n_triplets_seen_", "n_updates_")


@dataclass
class Model:
    """A model with the names it was fitted under."""

    path: Path
    estimator: Any
    feature_names: list[str] | None
    label: str | None

    @property
    def encoder(self) -> TableEncoder | None:
        """What turns the columns of a table into features, if these are not numbers as they stand."""
        return getattr(self.estimator, "encoder_", None)

    @property
    def learner(self) -> Any:
        """The learner inside a classifier, or the model itself."""
        return getattr(self.estimator, "learner_", self.estimator)

    @property
    def embed(self) -> Any:
        """Function that maps rows into the learned space; None for a learner that compares by a kernel."""
        return getattr(self.learner, "transform", getattr(self.learner, "embed", None))

    def predict(self, X: Array) -> tuple[NDArray[Any], Array]:
        """Return the label of every row and its share of the votes, and report progress."""
        codes, shares = np.empty(len(X), dtype=np.int64), np.empty(len(X))
        for start in range(0, len(X), _BLOCK):
            part = slice(start, min(len(X), start + _BLOCK))
            votes = self.estimator.predict_proba(X[part])
            codes[part], shares[part] = votes.argmax(axis=1), votes.max(axis=1)
            progress.advance("predicting", part.stop, len(X))
        return self.estimator.classes_[codes], shares


def remember_names(
    estimator: Any, names: list[str] | None, label: str | None, encoder: TableEncoder | None = None
) -> None:
    """Tell a model the names under which it was fitted, or what encoded its rows, which knows the names."""
    estimator.label_name_ = label
    if encoder is not None:
        estimator.encoder_ = encoder
    elif names is not None:
        for one in {id(one): one for one in (estimator, getattr(estimator, "learner_", estimator))}.values():
            one.feature_names_in_ = np.array(names, dtype=object)


def move_to(model: Any, device: str) -> None:
    """Let a model and the learner inside compute on another device from now on, as far as they can.

    >>> from nearkin import RobustKNeighborsClassifier
    >>> model = RobustKNeighborsClassifier("robust-lodml", device="cuda")
    >>> move_to(model, "cpu")
    >>> model.device
    'cpu'
    """
    for name in ("", "learner", "learner_"):
        one = getattr(model, name, None) if name else model
        if one is not None and hasattr(one, "device") and "device" in one.get_params(deep=False):
            one.set_params(device=device)


def load_model(path: Path) -> Model:
    """Read a model, fitted or not."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a model.")
    if not path.exists():
        raise InputError(f"{path}: no such file. Make a model with: nearkin fit DATA --label COLUMN -o {path.name}")
    estimator = load(path)
    if not hasattr(estimator, "fit"):
        raise InputError(
            f"{path} holds an audit, not a model; in Python, nearkin.load opens it, and its `classifier` predicts."
        )
    # Names are matched by the reader; scikit-learn would only miss them on the plain arrays that it gets.
    names, encoder = vars(estimator).pop("feature_names_in_", None), getattr(estimator, "encoder_", None)
    if encoder is not None:
        names = encoder.get_feature_names_out()
    vars(getattr(estimator, "learner_", estimator)).pop("feature_names_in_", None)
    return Model(
        path, estimator, None if names is None else [str(one) for one in names], getattr(estimator, "label_name_", None)
    )


def load_fitted(path: Path, device: str | None = None) -> Model:
    """Read a model that is fitted; with a ``device``, it computes there."""
    model = load_model(path)
    try:
        check_is_fitted(model.estimator)
    except (NotFittedError, TypeError):  # TypeError: it cannot be fitted at all
        raise InputError(f"{path} holds a {type(model.estimator).__name__} that was never fitted.") from None
    if device is not None:
        move_to(model.estimator, device)
    return model


def describe_model(path: Path) -> dict[str, Any]:
    """Return what a model file holds, as plain values."""
    model = load_model(path)
    with zipfile.ZipFile(path) as archive:  # it was checked when the model was read
        header = json.loads(archive.read("model.json"))
    estimator, learner = model.estimator, model.learner
    facts: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "format": header.get("format"),
        "written_by": header.get("nearkin"),
        "read_by": __version__,
        "class": type(estimator).__name__,
        "parameters": _parameters(estimator),
        "fitted": hasattr(estimator, "n_features_in_"),
    }
    if getattr(estimator, "history_", None) is not None:
        facts["history"] = _history_facts(estimator.history_)
    if not facts["fitted"]:
        return facts
    facts["n_features"] = int(estimator.n_features_in_)
    if hasattr(estimator, "kept_identity_") or hasattr(estimator, "engine_"):
        return facts | {"search": _search_facts(estimator)}
    is_classifier, has_learner = hasattr(estimator, "noise_rate_"), hasattr(learner, "n_updates_")
    facts |= {
        "learner": type(learner).__name__ if is_classifier and has_learner else None,
        "learner_parameters": _parameters(learner) if is_classifier and has_learner else None,
        "voters": _voters(estimator),
        "feature_names": model.feature_names,
        "columns": None if model.encoder is None else [str(one) for one in model.encoder.columns_],
        "label": model.label,
        "classes": [one.item() if hasattr(one, "item") else one for one in estimator.classes_],
        "map_shape": _map_shape(learner) if has_learner else None,
        "counters": {name.strip("_"): int(getattr(learner, name)) for name in _COUNTERS if has_learner},
    }
    histories = (getattr(one, "history_", None) for one in (estimator, learner))
    history = next((one for one in histories if one is not None), None)
    if history is not None and history.watch.n_batches:
        facts["stream"] = _stream_facts(history.watch)
    if is_classifier:
        is_doubtful = estimator.decision_.is_suspect
        counts = {"n_rows": len(is_doubtful), "n_doubtful": int(is_doubtful.sum())}
        facts |= {"noise_rate": float(estimator.noise_rate_), **counts}
    return facts


def _history_facts(history: Any) -> dict[str, Any]:
    """Return what a model knows about the files it was learned from."""
    learned = history.ledger.learned
    return {
        "files": len(learned),
        "rows": sum(one.n_rows for one in learned),
        "rows_dropped": sum(one.n_dropped for one in learned),
        "last_file": learned[-1].path if learned else None,
        "last_time": learned[-1].time if learned else None,
        "quarantine": [
            {"file": one.path, "row": one.row, "reason": one.problem, "time": one.time}
            for one in history.ledger.quarantined
        ],
        "waiting": None if history.waiting is None else history.waiting.facts(),
    }


def _stream_facts(watch: Any) -> dict[str, Any]:
    """Return what the stream of a model has shown."""
    monitor = watch.monitor
    return {
        "rows": watch.total.n_rows,
        "dropped": watch.total.n_dropped,
        "accuracy": watch.accuracy,
        "recent_accuracy": watch.recent_accuracy,
        "plausibility": watch.plausibility,
        "recent_plausibility": watch.recent_plausibility,
        "false_alarms_per_million_rows": monitor.false_alarms,
        "n_alarms": monitor.n_alarms,
        "alarms": [{**asdict(one), "told": str(one)} for one in monitor.alarms],
    }


def _search_facts(model: Any) -> dict[str, Any]:
    """Return what an adapter or an index says about itself."""
    if hasattr(model, "engine_"):
        return {"items": len(model), "engine": model.engine_, "recall": float(model.recall_)}
    return {
        "kept_identity": bool(model.kept_identity_),
        "strength": float(model.strength_),
        "gain": [float(one) for one in (model.gain_.mean, model.gain_.low, model.gain_.high)],
        "gain_in": next((one.measure for one in model.versions_ if one.number == model.version_), "")
        or "pairs put right",
        "triplets": int(model.n_triplets_seen_),
        "triplets_left_out": int(model.n_skipped_),
        "version": "follows the stream" if model.version_ is None else model.version_,
        "versions": [f"{one}, served" if one.number == model.version_ else str(one) for one in model.versions_],
    }


def _voters(estimator: Any) -> dict[str, float]:
    """Return the shares of the voters of a jury by name; empty without one."""
    jury = getattr(getattr(estimator, "decision_", None), "jury", None)
    return {} if jury is None else dict(zip((one.name for one in jury.voters), jury.shares, strict=True))


def _map_shape(learner: Any) -> list[int] | None:
    """Return the shape of the map; None for a learner that compares rows by a kernel."""
    if not hasattr(learner, "transform"):
        return None
    return [len(learner.get_feature_names_out()), int(learner.n_features_in_)]


def _parameters(estimator: Any) -> dict[str, Any]:
    """Return parameters that JSON can hold; others as they print."""
    plain = (str, int, float, bool, type(None))
    given = estimator.get_params(deep=False)
    return {name: value if isinstance(value, plain) else " ".join(repr(value).split()) for name, value in given.items()}
