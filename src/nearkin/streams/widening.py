"""Columns that come later: a model that holds rows takes them up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.streams.columns import Columns, known_columns, without_names
from nearkin.streams.file_stream import FileStream
from nearkin.streams.history import History
from nearkin.streams.pupil import Pupil, held_rows

__all__ = ["take_up"]


def take_up(model: Any, stream: FileStream) -> None:
    """Let a model learn the columns of a stream that it does not know, which stand behind those it knows.

    The rows it holds get the median of the first batch there, so that nothing is near or far by a value that nobody has
    measured. The learner begins anew from these rows: the columns have a scale and directions of their own from the
    first rows on in which they vary.
    """
    known, found, history = known_columns(model), stream.columns, model.history_
    new = {} if known is None or found is None else {n: w for n, w in found.widths.items() if n not in known.widths}
    if known is None or not new:
        return
    if history.held is None:
        raise InputError(
            "only a classifier that holds rows can take up new columns, since its learner begins anew from these; a "
            "learner alone cannot."
        )
    d = len(known.names)
    first = next(iter(replace(stream, join=None).batches(0))).X
    _widen(history, d, np.median(first[:, d:], axis=0))
    history.columns = Columns({**known.widths, **new}, known.labels)
    if not len(history.held):
        return
    with without_names(model):
        pupil = Pupil(model)
        if pupil.learner is not None:
            pupil.learner = _begin_anew(pupil.learner, history, stream.batch_rows)
            model.learner = pupil.learner
        history.n_decided = 0
        pupil.decide()


def _widen(history: History, d: int, values: Array) -> None:
    """Give all rows that a model holds further columns."""
    for one in (history.held, history.waiting):
        if one is not None and one.rows.shape[1] == d:
            more = np.broadcast_to(values, (len(one.rows), len(values))).astype(one.rows.dtype)
            one.rows = np.concatenate([one.rows, more], axis=1)


def _begin_anew(learner: Any, history: History, size: int) -> Any:
    """Return a learner with the same settings that has learned the rows held."""
    rows, labels = held_rows(history)
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    fresh = clone(learner)
    for _ in range(getattr(fresh, "n_epochs", 1)):
        for start in range(0, len(rows), size):
            part = order[start : start + size]
            fresh.partial_fit(rows[part], labels[part])
    return fresh
