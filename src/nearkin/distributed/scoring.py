"""The second pass on a cluster: every row scored with the final model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nearkin.distributed.cluster import Cluster, Task
from nearkin.distributed.connection import connect
from nearkin.distributed.tasks import packed, score_share, unpacked
from nearkin.learners import OnlineLearner
from nearkin.streams import FileStream
from nearkin.streams.scores import Scores, write_scores

__all__ = ["score"]

#: Batches of a task, and tasks for each worker that are asked for at once.
_BATCHES = 16
_AHEAD = 2


def score(
    learner: OnlineLearner,
    source: FileStream,
    folder: str | os.PathLike[str] | None = None,
    *,
    client: Any = "local:2",
    resume: bool = False,
    timeout: float = 300.0,
) -> list[Path]:
    """Score all rows of a stream on a Dask cluster; the files are those of `nearkin.streams.score_stream`.

    Parameters
    ----------
    learner : fitted learner of this package
        It stays as it is.
    source : FileStream
        From `nearkin.streams.open`.
    folder, resume
        As in `nearkin.streams.score_stream`.
    client, timeout
        As in `fit`.

    Returns
    -------
    list of Path
        The files, which this process writes.

    Examples
    --------
    >>> from nearkin import distributed
    >>> distributed.score(learner, stream, client="local:4")  # doctest: +SKIP
    [PosixPath('big/0.parquet.plausibility.pq')]
    """
    with connect(client) as connected:
        cluster = Cluster(connected, timeout)
        model = packed(learner)

        def scored(part: FileStream) -> Iterator[Scores]:
            at_once = _AHEAD * _BATCHES * len(cluster.wait_for_workers())
            for first in range(0, part.n_batches, at_once):
                numbers = range(first, min(first + at_once, part.n_batches))
                tasks = []
                for start in range(numbers.start, numbers.stop, _BATCHES):
                    batches = [part.pieces(0, one) for one in range(start, min(start + _BATCHES, numbers.stop))]
                    tasks.append(Task(score_share, (model, part.describe(batches)), part.paths[0]))
                for one in cluster.run(tasks):
                    if "error" in one:
                        raise ValueError(one["error"])
                    yield from unpacked(one["scores"])

        return write_scores(learner, source, folder, scored, resume=resume)
