"""What the driver does: learn in rounds of shares, merged in a fixed order, and score all rows in a second pass."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from numpy.typing import ArrayLike

from nearkin import progress
from nearkin._version import __version__
from nearkin.distributed.cluster import Cluster, ClusterLost, Task, connect
from nearkin.distributed.tasks import learn_share, pack, receive, score_share, unpack
from nearkin.errors import InputError, owned_by
from nearkin.learners import OnlineLearner, merge_states
from nearkin.settings import Integer, Real, check_argument
from nearkin.streams import FileStream, Report
from nearkin.streams.checkpoint import Checkpoint
from nearkin.streams.file_stream import Piece
from nearkin.streams.monitor import Cuts
from nearkin.streams.run import Options, Run
from nearkin.streams.scores import Scores, write_scores
from nearkin.streams.watch import Seen, learn_batch

__all__ = ["check_result", "count_batches", "fit", "form_shares", "name_share", "score"]

Learner = TypeVar("Learner", bound=OnlineLearner)

#: Batches of one share; each share is a list of batches, each batch a list of pieces of files.
Share = list[list[Piece]]

#: Merges of a pass, unless told otherwise, and the fewest batches that a share learns between two.
_MERGES = 4
_LEARNED = 8
#: Batches of a task that scores, and such tasks per worker at once.
_SCORED = 16
_AHEAD = 2


def fit(
    learner: Learner, source: FileStream, *, client: Any = "local:2", n_shards: int | None = None,
    merge_every: int | None = None, epochs: int | None = None, classes: ArrayLike | None = None,
    checkpoint: str | os.PathLike[str] | None = None, checkpoint_every: float = 30.0, resume: bool = False,
    log: str | os.PathLike[str] | None = None, log_every: int | str = 16,
    on_report: Callable[[Report], None] | None = None, prequential: bool = True, false_alarms: float | None = None,
    timeout: float = 300.0,
) -> Learner:  # fmt: skip
    """Learn from a stream on a Dask cluster; the result is an ordinary fitted learner.

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
        Shares of a round; None for one per worker present at the start. The result depends on it.
    merge_every : int or None, default=None
        Rows that a share learns between two merges, rounded up to whole batches; None for four merges a pass, or fewer,
        so that a share has at least 8 batches. The result depends on it: fewer rows are nearer to one process, more
        rows cost less.
    epochs, classes, checkpoint, checkpoint_every, resume, log, log_every, on_report, prequential, false_alarms
        As in `nearkin.streams.fit_stream`.
    timeout : float, default=300.0
        Seconds that a share may take before another worker gets it too, and that a cluster may be without workers.

    Returns
    -------
    learner
        The given learner, fitted. For a fixed seed, number of shards and `merge_every` it is the same to the bit on any
        cluster, whatever happens to its workers; with one shard it is that of `fit_stream`.

    Raises
    ------
    ConnectionError
        If the scheduler is lost (within 15 seconds), or no worker can do the work. What was learned before is in the
        learner, and in the checkpoint if there is one: resume from it.
    ValueError
        If a worker has another version of nearkin, NumPy or Python.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_wine
    >>> import nearkin
    >>> from nearkin import distributed, streams
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_wine(as_frame=True).frame.to_csv(f"{folder}/wine.csv", index=False)
    ...     stream = streams.open(f"{folder}/*.csv", label="target")
    ...     distributed.fit(nearkin.RobustLODML(random_state=0), stream, client="local:1")
    RobustLODML(random_state=0)
    """
    if not isinstance(learner, OnlineLearner):
        raise TypeError(f"a learner of nearkin is needed, such as RobustLODML(); got {type(learner).__name__}.")
    if not isinstance(source, FileStream):
        raise TypeError("distributed.fit needs files that all workers can read: a stream of paths, not of an iterator.")
    for name, value, most in (("n_shards", n_shards, 100_000), ("merge_every", merge_every, 10**12)):
        if value is not None:
            check_argument("distributed.fit", name, value, Integer(1, most))
    check_argument("distributed.fit", "timeout", timeout, Real(0.0, open_low=True))
    options = Options(
        epochs, checkpoint, checkpoint_every, resume, log, log_every, on_report, false_alarms=false_alarms
    )
    with connect(client) as connected:
        cluster = Cluster(connected, timeout)
        cluster.check_versions()
        kept = _read_plan(checkpoint) if resume else {}
        n_shards = int(n_shards or kept.get("shards") or len(cluster.wait_for_workers()))
        n_batches = count_batches(source, n_shards, merge_every)
        if merge_every is None:  # files that were appended do not change it
            n_batches = kept.get("batches_of_a_share", n_batches)
        plan = {"shards": n_shards, "batches_of_a_share": n_batches}
        with Run(learner, source, options, plan) as run:

            def learn_pass() -> Iterator[list[Seen]]:
                stream = cast(FileStream, run.stream)
                while run.at.batch < stream.n_batches:
                    if not learner.__sklearn_is_fitted__():  # the scale and the centres must be the same for all
                        batch = stream.batch(stream.pieces(run.at.epoch, run.at.batch))
                        yield [learn_batch(learner, batch, classes, test=prequential)]
                    else:
                        shares = form_shares(stream, run.at.epoch, run.at.batch, n_shards, n_batches)
                        cuts = run.at.watch.monitor.cuts
                        tests = prequential and run.at.epoch == 0
                        yield _learn_round(learner, stream, shares, cluster, n_shards, cuts, test=tests)
                    progress.advance("learning", run.n_rows, run.total_rows or 0)

            try:
                run.learn(learn_pass)
            except ClusterLost as error:
                where = "in the learner" if checkpoint is None else f"in {checkpoint}: repair the cluster and resume"
                raise ClusterLost(f"{error} What was learned from {run.n_rows:,} rows is {where}.") from error
    return learner


def count_batches(source: FileStream, n_shards: int, merge_every: int | None) -> int:
    """Return how many batches a share learns between two merges."""
    if merge_every is not None:
        return -(-int(merge_every) // source.batch_rows)
    return max(_LEARNED, -(-source.n_batches // (_MERGES * n_shards)))


def form_shares(source: FileStream, epoch: int, at: int, n_shards: int, n_batches: int) -> list[Share]:
    """Return the shares of the next round; the last round of a pass may have fewer."""
    starts = range(at, min(at + n_shards * n_batches, source.n_batches), n_batches)
    return [
        [source.pieces(epoch, one) for one in range(first, min(first + n_batches, source.n_batches))]
        for first in starts
    ]  # fmt: skip


def _learn_round(
    learner: OnlineLearner, source: FileStream, shares: list[Share], cluster: Cluster, n_shards: int,
    cuts: Cuts | None, *, test: bool,
) -> list[Seen]:  # fmt: skip
    """Let all shares learn from the present model, and merge what they have learned into it."""
    if n_shards > 1:
        with owned_by(learner):
            learner.state_.parameter.check_mergeable()
    model = _pack_bare(learner)
    options = {"test": test, "cuts": None if cuts is None else pack(cuts)}
    results = _run(cluster, [
        Task(learn_share, (model, source.describe(share), number, len(shares)), name_share(source, share), options)
        for number, share in enumerate(shares)
    ])  # fmt: skip
    models = [unpack(one["learner"]) for one in results]
    learner.state_ = merge_states(learner.state_, [one.state_ for one in models])
    learner.plausibility_ = models[-1].plausibility_
    return [receive(seen) for one in results for seen in one["seen"]]


def _pack_bare(learner: OnlineLearner) -> bytes:
    """Return a learner as bytes, without the history of its stream, which no share needs."""
    bare = copy.copy(learner)
    bare.__dict__.pop("history_", None)
    return pack(bare)


def name_share(source: FileStream, share: Share) -> str:
    first, last = share[0][0], share[-1][-1]
    begin, end = source.units[first.unit], source.units[last.unit]
    return f"{begin.path}, data row {begin.first_row + first.start + 1:,} to {end.path}, {end.first_row + last.stop:,}"


def _run(cluster: Cluster, tasks: list[Task]) -> list[dict[str, Any]]:
    """Return the results of tasks, or raise the first error in the data."""
    return [check_result(one) for one in cluster.run(tasks)]


def check_result(one: dict[str, Any]) -> dict[str, Any]:
    """Return what a task has found, or raise the error in the data that it has met."""
    if "error" in one:
        raise (OSError if one["is_os_error"] else InputError)(one["error"])
    if one.get("nearkin") != __version__:  # a worker that has joined since the workers were asked
        raise InputError(f"a worker has nearkin {one.get('nearkin')}, this process {__version__}.")
    return one


def _read_plan(checkpoint: str | os.PathLike[str] | None) -> dict[str, int]:
    """Return the number of shards with which a run began, and of batches between merges."""
    if checkpoint is None or not Checkpoint(checkpoint).exists():
        return {}
    kept = Checkpoint(checkpoint).read()
    plan = kept.get("plan") if isinstance(kept, dict) else None
    found = plan.items() if isinstance(plan, dict) else ()
    return {name: value for name, value in found if Integer(1).allows(value)}


def score(
    learner: OnlineLearner, source: FileStream, folder: str | os.PathLike[str] | None = None, *,
    client: Any = "local:2", resume: bool = False, timeout: float = 300.0,
) -> list[Path]:  # fmt: skip
    """Score all rows of a stream on a Dask cluster, into the same files as `nearkin.streams.score_stream`.

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
    >>> import tempfile
    >>> from sklearn.datasets import load_wine
    >>> import nearkin
    >>> from nearkin import distributed, streams
    >>> wine = load_wine(as_frame=True)
    >>> learner = nearkin.RobustLODML(random_state=0).fit(wine.data, wine.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wine.frame.to_csv(f"{folder}/wine.csv", index=False)
    ...     stream = streams.open(f"{folder}/*.csv", label="target")
    ...     [path.name for path in distributed.score(learner, stream, client="local:1")]
    ['wine.csv.plausibility.pq']
    """
    with connect(client) as connected:
        cluster = Cluster(connected, timeout)
        model = _pack_bare(learner)

        def score_file(part: FileStream) -> Iterator[Scores]:
            n_tasks = _AHEAD * len(cluster.wait_for_workers())
            for at in range(0, part.n_batches, n_tasks * _SCORED):
                shares = form_shares(part, 0, at, n_tasks, _SCORED)
                tasks = [Task(score_share, (model, part.describe(share)), part.paths[0]) for share in shares]
                for one in _run(cluster, tasks):
                    yield from unpack(one["scores"])

        return write_scores(learner, source, folder, score_file, resume=resume)
