"""What a worker does: pure functions of bytes and plain values, so that any worker can do it again.

A model comes and goes as the bytes of a model file. Mistakes in the data come back as text, for they would be the same
on every worker; what ends a worker is left to the scheduler, which asks another one.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from typing import Any

from nearkin.learners import OnlineLearner
from nearkin.saving import read_tree, write_tree
from nearkin.streams.file_stream import Cursor, FileStream
from nearkin.streams.scores import score_batch
from nearkin.streams.watch import learn_batch
from nearkin.tables import Unit

__all__ = ["learn_share", "packed", "score_share", "unpacked"]

#: Readers that stand where an earlier task of this worker has stopped; a later task may go on there, which saves
#: reading a row group from its begin. What is read is the same with and without.
_cursors: dict[str, Cursor] = {}
_MOST = 8


def packed(value: Any) -> bytes:
    """A model, or other plain values and arrays, as bytes."""
    file = io.BytesIO()
    write_tree(value, file)
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """What was packed."""
    return read_tree(io.BytesIO(data))


def learn_share(learner: bytes, work: dict[str, Any], number: int, of: int, *, test: bool) -> dict[str, Any]:
    """Learn the batches of a share.

    Parameters
    ----------
    learner : bytes
        The model with which all shares of the round begin.
    work : dict
        Where the rows are.
    number, of : int
        Which share this is, of how many.
    test : bool
        Whether to predict every label before it is learned.

    Returns
    -------
    dict
        The model afterwards and what each batch has shown; or an error.
    """
    model: OnlineLearner = unpacked(learner)
    if of > 1 and model._state.source is not None:
        model._state.source = model._state.source.for_shard(number)
    stream, batches = FileStream.from_description(work)
    try:
        cursor = _cursor(stream, work, batches)
        seen = [asdict(learn_batch(model, stream.batch(one, cursor), None, test=test)) for one in batches]
    except (ValueError, OSError) as error:
        return {"error": str(error), "kind": type(error).__name__}
    _keep(cursor, work)
    return {"learner": packed(model), "seen": seen}


def score_share(learner: bytes, work: dict[str, Any]) -> dict[str, Any]:
    """Labels and plausibilities of the rows of some batches; or an error."""
    model: OnlineLearner = unpacked(learner)
    stream, batches = FileStream.from_description(work)
    try:
        cursor = _cursor(stream, work, batches)
        scores = [score_batch(model, stream.batch(one, cursor)) for one in batches]
    except (ValueError, OSError) as error:
        return {"error": str(error), "kind": type(error).__name__}
    _keep(cursor, work)
    return {"scores": packed(scores)}


def _cursor(stream: Any, work: dict[str, Any], batches: list[Any]) -> Cursor:
    first = batches[0][0]
    found = _cursors.pop(_place(work, stream.units[first.unit], first.start), None)
    return stream.cursor() if found is None else found


def _keep(cursor: Cursor, work: dict[str, Any]) -> None:
    unit, at = cursor.at
    if unit is None:
        return
    while len(_cursors) >= _MOST:
        _cursors.pop(next(iter(_cursors)))
    _cursors[_place(work, unit, at)] = cursor


def _place(work: dict[str, Any], unit: Unit, at: int) -> str:
    return json.dumps([work["reader"], work["batch_rows"], asdict(unit), at])
