"""``nearkin fit`` on data that is read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._options import (
    PATH,
    Source,
    WordOr,
    given_options,
    option,
    options,
    output_option,
    timeout_option,
)
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.streams import FileStream

__all__ = [
    "StreamOptions", "connect", "count_alarms", "learn", "logging_refusal", "open_stream", "write_plausibility",
]  # fmt: skip

#: Options that do nothing without another one.
_NEEDS = dict.fromkeys(("shards", "merge_every", "tls", "timeout"), "dask") | {
    "checkpoint_every": "checkpoint",
    "log_every": "log",
}


@options
class StreamOptions:
    """Options for data that is read in batches."""

    stream: bool = option(help="Read a single file in batches too; several files always are.")
    checkpoint: Path | None = output_option("checkpoint", help="Stream: file from which a killed run can go on.")
    resume: bool = option(help="Stream: go on from the checkpoint, if there is one.")
    checkpoint_every: float = option(
        type=click.FloatRange(0), metavar="SECONDS", default=30.0,
        help="Stream: time between two checkpoints.",
    )  # fmt: skip
    log: Path | None = output_option("log", help="Stream: log progress, one JSON object a line; see nearkin watch.")
    log_every: int | str = option(
        type=WordOr(click.IntRange(1), "batch", "file"), metavar="batch|file|N", default="16",
        help="Stream: when to log: after every batch, file, or N batches.",
    )  # fmt: skip
    false_alarms: float | None = option(
        type=click.FloatRange(0, 1e6), metavar="NUMBER",
        help="Stream: false alarms of drift per million rows, at most; 0 for none.  [default: 1]",
    )  # fmt: skip
    fail_on_drift: bool = option(help="Stream: end with exit code 3 if there was an alarm of drift.")
    batch_rows: int = option(
        type=click.IntRange(2), default=4096,
        help="Stream: rows learned together; the first batch fixes the scale.",
    )  # fmt: skip
    shuffle: bool = option(help="Stream: read the row groups in an order drawn by --seed.")
    missing: str = option(
        type=click.Choice(["error", "drop", "fill"]), default="error",
        help="Stream: what to do with rows that lack a number or a label.",
    )  # fmt: skip
    text_labels: bool = option(help="Stream of CSV: labels are text even if they look like numbers.")
    voters: int = option(
        type=click.IntRange(0), default=10_000,
        help="Stream: rows kept to vote in predictions; 0 saves the learned metric alone.",
    )  # fmt: skip
    plausibility: bool = option(help="Stream: score all rows at the end, into FILE.plausibility.pq beside each FILE.")
    dask: str | None = option(
        metavar="ADDRESS|local:N", help="Stream: learn on a Dask cluster, or in N processes of this machine."
    )
    shards: int | None = option(help="Dask: shares learned at once.  [default: one per worker]")
    merge_every: int | None = option(metavar="ROWS", help="Dask: rows of a share between two merges.")
    tls: tuple[Path, Path, Path] | None = option(
        type=PATH, nargs=3, metavar="CA CERT KEY", help="Dask: files for an encrypted connection."
    )
    timeout: float = timeout_option()

    def applies_to(self, data: Sequence[Path]) -> bool:
        """Return whether the data is to be read in batches; if not, refuse options that would do nothing."""
        from nearkin.streams.opening import is_many

        given = given_options(self)
        in_batches = self.stream or self.checkpoint is not None or self.dask is not None or is_many(data)
        needs = _NEEDS if in_batches else dict.fromkeys(given, "stream")
        for name in given:
            if name in needs and not getattr(self, needs[name]):
                flag, needed = (f"--{one.replace('_', '-')}" for one in (name, needs[name]))
                what = f"belongs to {needed}" if in_batches else "is for data that is read in batches"
                raise InputError(f"{flag} {what}; add {needed}, or leave it out.")
        return in_batches


def open_stream(data: Sequence[Path], source: Source, options: StreamOptions, seed: int) -> FileStream:
    """Return the stream behind the arguments of a command."""
    from nearkin import streams

    source.check_in_batches()
    if source.label is not None and source.labels is not None:
        raise InputError("--label names a column and --labels a file; give one of them.")
    opened = streams.open(
        [str(one) for one in data], label=source.label or source.labels, features=source.features or None,
        drop=source.drop, batch_rows=options.batch_rows, shuffle=options.shuffle, seed=seed, missing=options.missing,
        text_labels=options.text_labels, text=source.text,
    )  # fmt: skip
    assert isinstance(opened, streams.FileStream)
    return opened


@contextmanager
def connect(options: StreamOptions) -> Iterator[Any]:
    """Yield a Dask client, or None to work in this process."""
    if options.dask is None:
        yield None
        return
    from nearkin import distributed

    with distributed.connect(options.dask, tls=options.tls) as client:
        yield client


def learn(model: Any, stream: FileStream, options: StreamOptions, client: Any, *, quiet: bool) -> Any:
    """Return the model, fitted here, or a learner fitted on a cluster."""
    from nearkin import distributed, streams

    how: dict[str, Any] = {
        "checkpoint": options.checkpoint, "checkpoint_every": options.checkpoint_every, "resume": options.resume,
        "log": options.log, "log_every": options.log_every, "false_alarms": options.false_alarms,
    }  # fmt: skip
    if not quiet:
        memory = streams.memory_estimate(getattr(model, "learner", model), stream)
        parts = ", ".join(f"{_show.size(size)} {name}" for name, size in vars(memory).items())
        rows = _show.count(stream.n_rows, "row")
        _show.echo(f"  {rows} a pass; memory about {_show.size(memory.total)} ({parts})", err=True)
    with _show.live_line(quiet=quiet) as draw:
        if client is None:
            return streams.fit_stream(model, stream, on_report=draw, n_voters=options.voters or None, **how)
        return distributed.fit(
            model, stream, client=client, n_shards=options.shards, merge_every=options.merge_every, on_report=draw,
            timeout=options.timeout, **how,
        )  # fmt: skip


@contextmanager
def logging_refusal(options: StreamOptions) -> Iterator[None]:
    """Write a line into the log if the block ends with an error, whatever it is."""
    try:
        yield
    except Exception as error:
        if options.log is not None:
            from nearkin.streams.journal import Journal

            Journal(options.log).refuse(error)
        raise


def count_alarms(model: Any) -> int:
    """Return how many alarms of drift a model has had."""
    for one in (model, getattr(model, "learner_", None), getattr(model, "learner", None)):
        if (history := getattr(one, "history_", None)) is not None:
            return int(history.watch.monitor.n_alarms)
    return 0


def write_plausibility(learner: Any, stream: FileStream, options: StreamOptions, client: Any, *, quiet: bool) -> None:
    """Score all rows, here or on a cluster, and say where the scores are."""
    from nearkin import distributed, streams

    with _show.progress_bar(quiet=quiet):
        if client is None:
            written = streams.score_stream(learner, stream, resume=options.resume)
        else:
            written = distributed.score(learner, stream, client=client, resume=options.resume, timeout=options.timeout)
    if not quiet:
        more = f" and {_show.count(len(written) - 1, 'more file')}" if len(written) > 1 else ""
        _show.echo(f"plausibility of {_show.count(stream.n_rows, 'row')} in {written[0]}{more}", err=True)
