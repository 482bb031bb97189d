"""Votes from outside: probabilities that the user has, and classifiers of the user's own, cross-fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from nearkin.arrays import Array, Codes, Index
from nearkin.errors import InputError, quote_names
from nearkin.jury.copies import Groups
from nearkin.noise.model import VotesOn
from nearkin.stored import ArrayOf, Count, Text, stored

__all__ = ["OutsideVoter", "check_models", "check_probabilities", "cross_fit", "split_groups"]

#: Parts of the rows; a model judges one and is fitted on the others.
_FOLDS = 5

#: How far the probabilities of a row may sum from 1.
_ROUNDING = 1e-2


@stored(
    name=Text(),
    votes_with=Text(),
    votes=ArrayOf("n", "c", low=0.0, high=1.0),
    n_classes=Count(2, size="c"),
)
class OutsideVoter:
    """Probabilities of training rows from a model that has not seen their labels; no weight changes them.

    Parameters
    ----------
    name : str
        Of the voter.
    votes : ndarray of shape (n_samples, n_classes)
        Out of sample.
    votes_with : str
        Where they come from, in words.
    model : classifier or None, default=None
        Fitted on all rows, for new ones. Without a model, and after its file was read, the voter abstains there.

    Examples
    --------
    >>> voter = OutsideVoter("mine", np.array([[0.9, 0.1], [0.3, 0.7]]), "a model")
    >>> voter.left_out(np.ones(2))(np.array([1])).tolist()
    [[0.3, 0.7]]
    >>> voter.answers(np.zeros((1, 2)), np.ones(2)) is None
    True
    """

    # A file cannot hold it.
    model: Any = None

    def __init__(self, name: str, votes: Array, votes_with: str, model: Any = None):
        self.name, self.votes, self.votes_with, self.n_classes = name, votes, votes_with, votes.shape[1]
        self.model = model

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows, whatever others count."""
        return self.votes.__getitem__

    def answers(self, queries: Array, weights: Array) -> Array | None:
        """Votes of the model on new scaled rows; None without one."""
        return None if self.model is None else _predict(self.model, queries, self.n_classes)


def cross_fit(
    model: Any, name: str, rows: Array, codes: Codes, n_classes: int, groups: Groups | None = None
) -> OutsideVoter:
    """Make a voter of a classifier: fitted five times for the rows it has not seen, and on all for new ones.

    Rows of a group are in the same part.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> codes = (rows[:, 0] > 0).astype(np.int64)
    >>> voter = cross_fit(LogisticRegression(), "logistic", rows, codes, 2)
    >>> bool((voter.left_out(np.ones(60))(slice(None)).argmax(axis=1) == codes).mean() > 0.8)
    True
    """
    part, votes = split_groups(codes, groups, _FOLDS), np.empty((len(codes), n_classes))
    for fold in np.unique(part):
        own, other = np.flatnonzero(part == fold), np.flatnonzero(part != fold)
        votes[own] = _predict(_fit(model, rows[other], codes[other]), rows[own], n_classes)
    words = f"{type(model).__name__}, fitted without the rows it judges"
    return OutsideVoter(name, votes, words, _fit(model, rows, codes))


def _fit(model: Any, rows: Array, codes: Codes) -> Any:
    try:
        return clone(model).fit(rows, codes)
    except Exception as error:
        raise InputError(f"{type(model).__name__} in `voters` could not be fitted: {error}") from error


def _predict(model: Any, rows: Array, n_classes: int) -> Array:
    """Probabilities of all classes, also of those that the model has not seen."""
    votes = np.zeros((len(rows), n_classes))
    if hasattr(model, "predict_proba"):
        votes[:, model.classes_] = model.predict_proba(rows)
    else:
        votes[np.arange(len(rows)), model.predict(rows)] = 1.0
    if not np.isfinite(votes).all():
        raise InputError(f"{type(model).__name__} in `voters` gave probabilities that are not finite.")
    return np.clip(votes, 0.0, 1.0)


def split_groups(codes: Codes, groups: Groups | None, n_parts: int) -> Index:
    """Part of each row, from 0: rows of a class in turn, or groups by their first row, in random order."""
    group = np.arange(len(codes)) if groups is None else groups.group
    its_code = codes[np.unique(group, return_index=True)[1]]
    order, part = np.lexsort((np.random.default_rng(0).random(len(its_code)), its_code)), np.empty_like(its_code)
    part[order] = np.arange(len(its_code)) % n_parts
    return part[group]


def check_models(models: Any, owner: object) -> list[Any]:
    """Refuse what is not a sequence of classifiers."""
    if not isinstance(models, (list, tuple)):
        raise InputError(f"`voters` must be a list of scikit-learn classifiers; got {models!r}.", owner=owner)
    for one in models:
        if isinstance(one, type) or not hasattr(one, "fit") or not is_classifier(one):
            raise InputError(
                f"`voters` must be a list of scikit-learn classifiers; got {models!r}, in which {one!r} is not one.",
                owner=owner,
            )
    return list(models)


def _by_class(frame: Any, classes: list[Any], owner: object) -> Any:
    """Return a frame with its columns in the order of the classes; numbers from 0 are not names."""
    names = list(frame.columns)
    place = {str(name): name for name in names}
    if {str(one) for one in classes} == place.keys():
        return np.column_stack([np.asarray(frame[place[str(one)]]) for one in classes])
    if names != list(range(len(names))) and not all(str(name) == f"column_{i}" for i, name in enumerate(names)):
        raise InputError(
            f"the columns of `pred_probs` are {quote_names(place)} and the classes {quote_names(map(str, classes))}; "
            "name every column after its class, or give an array with columns in the order of the sorted classes.",
            owner=owner,
        )
    return frame


def check_probabilities(values: Any, n_rows: int, classes: Sequence[Any], owner: object) -> Array:
    """Probabilities of the classes of rows, in the order of the sorted classes; columns of a frame go by name."""
    if hasattr(values, "columns"):
        values = _by_class(values, list(classes), owner)
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`pred_probs` must be numbers: {error}.", owner=owner) from None
    if found.shape != (n_rows, len(classes)):
        names = ", ".join(map(repr, list(classes)[:5])) + (", ..." if len(classes) > 5 else "")
        raise InputError(
            f"`pred_probs` has shape {found.shape}; {n_rows} rows and {len(classes)} classes need ({n_rows}, "
            f"{len(classes)}), with columns in the order of the sorted classes: {names}.",
            owner=owner,
        )
    bad = np.flatnonzero(~np.isfinite(found).all(axis=1) | (found < 0.0).any(axis=1))
    if len(bad):
        raise InputError(
            f"`pred_probs` holds {found[bad[0]].tolist()} in row {bad[0]}; not probabilities.", owner=owner
        )
    total = found.sum(axis=1, keepdims=True)
    if not np.allclose(total, 1.0, atol=_ROUNDING):
        row = int(np.argmax(np.abs(total[:, 0] - 1.0)))
        raise InputError(f"`pred_probs` of row {row} sum to {total[row, 0]:g}; they must sum to 1.", owner=owner)
    return found / total
