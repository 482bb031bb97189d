"""Model files as the command line sees them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearkin.cli._errors import UserError

__all__ = ["Model", "header_of", "load_fitted", "load_model"]


@dataclass
class Model:
    """A model with the names it was fitted under."""

    path: Path
    estimator: Any
    feature_names: list[str] | None
    label: str | None

    @property
    def learner(self) -> Any:
        """The learner inside a classifier, or the model itself."""
        return getattr(self.estimator, "learner_", self.estimator)

    @property
    def embed(self) -> Any:
        """Maps rows into the learned space; None for a learner that compares by a kernel and has no map."""
        return getattr(self.learner, "transform", getattr(self.learner, "embed", None))


def header_of(path: Path) -> dict[str, Any] | None:
    """What a model file says about itself; None if it is no model file."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read("model.json"))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError):
        return None
    return header if isinstance(header, dict) and str(header.get("kind", "")).startswith("nearkin") else None


def load_model(path: Path) -> Model:
    """Read a model, fitted or not."""
    from sklearn.base import BaseEstimator

    from nearkin.saving import load

    if path.is_dir():
        raise UserError(f"{path} is a folder, not a model.")
    if not path.exists():
        raise UserError(f"{path}: no such file. Make a model with: nearkin fit DATA --label COLUMN -o {path.name}")
    estimator = load(path)
    if not isinstance(estimator, BaseEstimator):
        raise UserError(f"{path} holds a {type(estimator).__name__}, which is no model.")
    # Names are matched by the reader; scikit-learn would only miss them on the plain arrays that it gets.
    names = vars(estimator).pop("feature_names_in_", None)
    vars(getattr(estimator, "learner_", estimator)).pop("feature_names_in_", None)
    return Model(
        path, estimator, None if names is None else [str(one) for one in names], getattr(estimator, "label_name_", None)
    )


def load_fitted(path: Path) -> Model:
    """Read a model that can be used."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    model = load_model(path)
    try:
        check_is_fitted(model.estimator)
    except (NotFittedError, TypeError):  # TypeError: no estimator with a fit at all
        raise UserError(f"{path} holds a {type(model.estimator).__name__} that was never fitted.") from None
    return model
