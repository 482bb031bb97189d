"""Learning from a stream on a cluster: rounds of shares, merged in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from nearkin import progress
from nearkin.checks import Integer, Real
from nearkin.distributed.cluster import Cluster, ClusterLost, Task
from nearkin.distributed.connection import connect
from nearkin.distributed.tasks import learn_share, packed, unpacked
from nearkin.learners import OnlineLearner
from nearkin.learners.merge import check_mergeable, merge_states
from nearkin.streams import FileStream, Report
from nearkin.streams.checkpoint import Checkpoint
from nearkin.streams.file_stream import Piece
from nearkin.streams.run import Options, Run
from nearkin.streams.watch import Seen, learn_batch

__all__ = ["fit"]

Learner = TypeVar("Learner", bound=OnlineLearner)

#: Batches of a share between two merges, unless told otherwise.
_BATCHES = 8


def fit(
    learner: Learner,
    source: FileStream,
    *,
    client: Any = "local:2",
    n_shards: int | None = None,
    merge_every: int | None = None,
    epochs: int | None = None,
    classes: ArrayLike | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    resume: bool = False,
    log: str | os.PathLike[str] | None = None,
    log_every: int = 16,
    on_report: Callable[[Report], None] | None = None,
    prequential: bool = True,
    timeout: float = 300.0,
) -> Learner:
    """Learn from a stream on a Dask cluster; returns an ordinary fitted learner.

    In every round each share learns the next `merge_every` rows from the same model, and the results are merged in a
    fixed order: maps and matrices by the mean weighted by triplets, centres by the rows behind them, counts by sums.

    Parameters
    ----------
    learner : learner of this package
        One whose parameter has a mean: a matrix or a map.
    source : FileStream
        From `nearkin.streams.open`; all workers must see the files under the same paths.
    client : distributed.Client or str, default="local:2"
        A client, the address of a scheduler, or ``"local:N"`` for N processes of this machine.
    n_shards : int or None, default=None
        Shares of a round; None for one per worker that is there at the start. The result depends on it.
    merge_every : int or None, default=None
        Rows that a share learns between two merges, rounded up to whole batches; None for 8 batches. The result depends
        on it: fewer rows are nearer to one process, more rows cost less.
    epochs, classes, checkpoint, checkpoint_every, resume, log, log_every, on_report, prequential
        As in `nearkin.streams.fit_stream`.
    timeout : float, default=300.0
        Seconds that a share may take before another worker is asked too, and that a cluster may be without workers.

    Returns
    -------
    learner
        The learner that was given, fitted. For a fixed seed, number of shards and `merge_every` it is the same to the
        bit on any cluster, whatever happened to its workers; with one shard it is that of `fit_stream`.

    Raises
    ------
    ConnectionError
        If the cluster is lost, or no worker can do the work. What was learned before is in the learner, and in the
        checkpoint if there is one: resume from it.

    Examples
    --------
    >>> import nearkin
    >>> from nearkin import distributed, streams
    >>> stream = streams.open("big/*.parquet", label="y")  # doctest: +SKIP
    >>> distributed.fit(nearkin.RobustLODML(random_state=0), stream, client="local:4")  # doctest: +SKIP
    RobustLODML(random_state=0)
    """
    if not isinstance(source, FileStream):
        raise TypeError("distributed.fit needs files that all workers can read: a stream of paths, not of an iterator.")
    for name, value, rule in (
        ("n_shards", n_shards, Integer(1)), ("merge_every", merge_every, Integer(1)),
        ("timeout", timeout, Real(0.0, open_low=True)),
    ):  # fmt: skip
        if value is not None and not rule.allows(value):
            raise ValueError(f"distributed.fit: `{name}` must be {rule}; got {value!r}.")
    n_batches = _BATCHES if merge_every is None else -(-int(merge_every) // source.batch_rows)
    with connect(client) as connected:
        cluster = Cluster(connected, timeout)
        if n_shards is None:
            n_shards = _shards_of(checkpoint) if resume else None
        if n_shards is None:
            n_shards = len(cluster.wait_for_workers())
        options = Options(epochs, checkpoint, checkpoint_every, resume, log, log_every, on_report)
        run = Run(learner, source, options, {"shards": int(n_shards), "batches_of_a_share": n_batches})
        with _told(run, checkpoint):
            for epoch in range(run.epoch, run.epochs):
                while run.batch < source.n_batches:
                    if not learner.__sklearn_is_fitted__():
                        # The scale and the centres must be the same for all.
                        first = source.batch(source.pieces(epoch, run.batch))
                        seen = [learn_batch(learner, first, classes, test=prequential)]
                    else:
                        if n_shards > 1:
                            check_mergeable(learner._state.parameter, type(learner).__name__)
                        shares = _shares(source, epoch, run.batch, int(n_shards), n_batches)
                        seen = _round(learner, source, shares, cluster, test=prequential)
                    for one in seen:
                        run.count(one)
                    progress.advance("learning", run.n_rows, run.total_rows or 0)
                    run.save_if_due()
                run.end_epoch()
            if not run.is_done:
                run.finish()
    return learner


def _shares(source: FileStream, epoch: int, at: int, n_shards: int, n_batches: int) -> list[list[list[Piece]]]:
    """Batches of the next round, share by share; the last round of a pass may have fewer."""
    shares = []
    for number in range(n_shards):
        first = at + number * n_batches
        last = min(first + n_batches, source.n_batches)
        if first < last:
            shares.append([source.pieces(epoch, one) for one in range(first, last)])
    return shares


def _round(
    learner: OnlineLearner, source: FileStream, shares: list[list[list[Piece]]], cluster: Cluster, *, test: bool
) -> list[Seen]:
    """All shares learn from the model as it is; it becomes what they have learned together."""
    model = packed(learner)
    tasks = [
        Task(learn_share, (model, source.describe(share), number, len(shares)), _name(source, share), {"test": test})
        for number, share in enumerate(shares)
    ]
    results = cluster.run(tasks)
    for one in results:
        if "error" in one:
            raise (ValueError if one["kind"] != "OSError" else OSError)(one["error"])
    models = [unpacked(one["learner"]) for one in results]
    learner._state = merge_states(learner._state, [one._state for one in models])
    learner.plausibility_ = models[-1].plausibility_
    return [Seen(**seen) for one in results for seen in one["seen"]]


def _name(source: FileStream, share: list[list[Piece]]) -> str:
    first, last = share[0][0], share[-1][-1]
    begin, end = source.units[first.unit], source.units[last.unit]
    return f"{begin.path}, data row {begin.first_row + first.start + 1:,} to {end.path}, {end.first_row + last.stop:,}"


def _shards_of(checkpoint: str | os.PathLike[str] | None) -> int | None:
    """Number of shards with which a run was begun."""
    if checkpoint is None or not Checkpoint(checkpoint).exists():
        return None
    found = Checkpoint(checkpoint).read()["plan"].get("shards")
    return None if found is None else int(found)


@contextmanager
def _told(run: Run, checkpoint: Any) -> Iterator[None]:
    """Save what was learned before an error, and say how to go on."""
    try:
        yield
    except ClusterLost as error:
        run.save_quietly()
        where = f"in {checkpoint}: mend the cluster and resume" if checkpoint is not None else "in the learner"
        raise ClusterLost(f"{error} What was learned from {run.n_rows:,} rows is {where}.") from error
    except BaseException:
        run.save_quietly()
        raise
