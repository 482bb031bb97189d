"""What a worker does: pure functions of bytes and plain values, so that any worker can do it again.

A model travels as the bytes of a model file. Errors in the data come back as text, since every worker would meet them.
If a worker dies, the scheduler gives its task to another one.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from nearkin._version import __version__
from nearkin.learners import OnlineLearner
from nearkin.saving import read_tree, write_tree
from nearkin.streams import Batch
from nearkin.streams.file_stream import Cursor, FileStream
from nearkin.streams.monitor import SeenRows
from nearkin.streams.scores import score_batch
from nearkin.streams.watch import Seen, learn_batch
from nearkin.tables import Unit

__all__ = ["learn_share", "pack", "read_batches", "receive", "score_share", "unpack"]

#: Readers where the last tasks of this worker stopped. The next task may go on there, which saves reading a row group
#: from its start; it reads the same either way. Each of them holds a row group in memory.
_cursors: dict[str, Cursor] = {}
_MOST = 2


def pack(value: Any) -> bytes:
    """Return a model, or other plain values and arrays, as bytes."""
    file = io.BytesIO()
    write_tree(value, file)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """Return what was packed."""
    return read_tree(io.BytesIO(data))


def learn_share(
    learner: bytes, work: dict[str, Any], number: int, of: int, *, test: bool, cuts: bytes | None = None
) -> dict[str, Any]:
    """Learn the batches of a share, the ``number``-th ``of`` a round; return model and batches seen, or an error.

    With ``test`` every label is predicted before it is learned. Features come back marked by the ``cuts`` of the
    monitor; if it has none, it gets the first batch of a round as it is.
    """
    model: OnlineLearner = unpack(learner)
    if of > 1 and model.state_.source is not None:
        model.state_.for_shard(number)
    known = None if cuts is None else unpack(cuts)
    sends_features = known is None and number == 0

    def learn(batch: Batch) -> dict[str, Any]:
        nonlocal sends_features
        seen = learn_batch(model, batch, None, test=test)
        if seen.rows is not None:
            if known is not None:
                seen.rows.features = known.mark(seen.rows.features)
            elif not sends_features:
                seen.rows.features = None
            sends_features = False
        return asdict(seen)

    found = read_batches(work, learn)
    return found if "error" in found else {"learner": pack(model), "seen": found["results"], "nearkin": __version__}


def receive(seen: dict[str, Any]) -> Seen:
    """Return what a worker has seen of a batch."""
    rows = seen.pop("rows")
    return Seen(**seen, rows=None if rows is None else SeenRows(**rows))


def score_share(learner: bytes, work: dict[str, Any]) -> dict[str, Any]:
    """Return labels and plausibilities of the rows of some batches, or an error."""
    model: OnlineLearner = unpack(learner)
    found = read_batches(work, lambda batch: score_batch(model, batch))
    return found if "error" in found else {"scores": pack(found["results"]), "nearkin": __version__}


def read_batches(work: dict[str, Any], use: Callable[[Batch], Any]) -> dict[str, Any]:
    """Return what ``use`` makes of each batch, or the first error."""
    stream, batches = FileStream.from_description(work)
    first = batches[0][0]
    try:
        cursor = _cursors.pop(_key(work, stream.units[first.unit], first.start), None) or stream.cursor()
        results = [use(stream.batch(one, cursor)) for one in batches]
    except (ValueError, OSError) as error:
        return {"error": str(error), "is_os_error": isinstance(error, OSError)}
    unit, at = cursor.at
    if unit is not None:
        while len(_cursors) >= _MOST:
            _cursors.pop(next(iter(_cursors)))
        _cursors[_key(work, unit, at)] = cursor
    return {"results": results}


def _key(work: dict[str, Any], unit: Unit, at: int) -> str:
    encoder = zlib.crc32(work["encoder"] or b"")
    return json.dumps([work["reader"], encoder, work["batch_rows"], asdict(unit), at])
