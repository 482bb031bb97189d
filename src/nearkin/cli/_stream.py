"""Fitting from a stream: what the command line adds to `nearkin.streams` and `nearkin.distributed`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import PATH

if TYPE_CHECKING:
    from nearkin.streams import FileStream, Report

__all__ = ["StreamOptions", "cluster", "learn", "open_data", "stream_options", "voting"]

#: Seconds between two drawings of the live line.
_EVERY = 0.2

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--stream",), {"is_flag": True, "help": "Read a single file in batches too; several files always are."}),
    (
        ("--checkpoint",),
        {"type": PATH, "metavar": "FILE", "help": "Stream: file from which a killed run can go on."},
    ),
    (("--resume",), {"is_flag": True, "help": "Stream: go on from the checkpoint, if there is one."}),
    (
        ("--checkpoint-every",),
        {
            "type": click.FloatRange(0), "metavar": "SECONDS", "default": 30.0, "show_default": True,
            "help": "Stream: time between two checkpoints.",
        },
    ),
    (("--log",), {"type": PATH, "metavar": "FILE", "help": "Stream: log how it goes, one JSON object a line."}),
    (
        ("--batch-rows",),
        {
            "type": click.IntRange(2), "metavar": "N", "default": 4096, "show_default": True,
            "help": "Stream: rows learned together; the first batch fixes the scale.",
        },
    ),
    (("--shuffle",), {"is_flag": True, "help": "Stream: read the row groups in an order drawn by --seed."}),
    (
        ("--missing",),
        {
            "type": click.Choice(["error", "drop"]), "default": "error", "show_default": True,
            "help": "Stream: rows that lack a number or a label.",
        },
    ),
    (("--text-labels",), {"is_flag": True, "help": "Stream of CSV: labels are text even if they look like numbers."}),
    (
        ("--voters",),
        {
            "type": click.IntRange(0), "metavar": "N", "default": 10_000, "show_default": True,
            "help": "Stream: rows kept to vote in predictions; 0 saves the learned measure alone.",
        },
    ),
    (
        ("--plausibility",),
        {"is_flag": True, "help": "Stream: score all rows at the end, into FILE.plausibility.pq beside each FILE."},
    ),
    (
        ("--dask",),
        {
            "metavar": "ADDRESS|local:N",
            "help": "Stream: learn on a Dask cluster, or in N processes of this machine.",
        },
    ),
    (
        ("--shards",),
        {"type": click.IntRange(1), "metavar": "N", "help": "Dask: shares learned at once.  [default: one a worker]"},
    ),
    (
        ("--merge-every",),
        {"type": click.IntRange(1), "metavar": "ROWS", "help": "Dask: rows of a share between two merges."},
    ),
    (
        ("--tls",),
        {"type": PATH, "nargs": 3, "metavar": "CA CERT KEY", "help": "Dask: files for an encrypted connection."},
    ),
)  # fmt: skip


@dataclass(frozen=True)
class StreamOptions:
    """What the options above say."""

    stream: bool
    checkpoint: Path | None
    resume: bool
    checkpoint_every: float
    log: Path | None
    batch_rows: int
    shuffle: bool
    missing: str
    text_labels: bool
    voters: int
    plausibility: bool
    dask: str | None
    shards: int | None
    merge_every: int | None
    tls: tuple[Path, Path, Path] | None

    def is_asked(self, data: Sequence[Path]) -> bool:
        """Whether the data is to be read in batches."""
        from nearkin.streams.opening import is_many

        return self.stream or self.checkpoint is not None or self.dask is not None or is_many(data)

    def check_unused(self) -> None:
        """Refuse options that mean nothing for a table that is read whole."""
        given = {
            "--resume": self.resume, "--log": self.log is not None, "--shuffle": self.shuffle,
            "--missing": self.missing != "error", "--plausibility": self.plausibility,
            "--shards": self.shards is not None, "--merge-every": self.merge_every is not None,
            "--tls": self.tls is not None, "--text-labels": self.text_labels,
        }  # fmt: skip
        for name, is_given in given.items():
            if is_given:
                raise UserError(f"{name} is for data that is read in batches; add --stream, or leave it out.")


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of streams to a command."""
    for flags, how in reversed(_OPTIONS):
        command = click.option(*flags, **how)(command)
    return command


def open_data(
    data: Sequence[Path],
    label: str | None,
    labels: Path | None,
    features: Sequence[str],
    drop: Sequence[str],
    options: StreamOptions,
    seed: int,
) -> FileStream:
    """The stream behind the arguments of a command."""
    from nearkin import streams

    if label is not None and labels is not None:
        raise UserError("--label names a column and --labels a file; give one of them.")
    opened = streams.open(
        [str(one) for one in data], label=label if labels is None else str(labels), features=features or None,
        drop=drop, batch_rows=options.batch_rows, shuffle=options.shuffle, seed=seed, missing=options.missing,
        text_labels=options.text_labels,
    )  # fmt: skip
    assert isinstance(opened, streams.FileStream)
    return opened


@contextmanager
def live_line(*, quiet: bool) -> Iterator[Callable[[Report], None]]:
    """Something to give reports to: one line on stderr that is drawn again and again, if somebody looks."""
    drawn = 0.0
    shows = not quiet and sys.stderr.isatty()

    def draw(report: Report) -> None:
        nonlocal drawn
        if report.drift and not quiet:
            note = f"nearkin: note: plausibility fell after {report.rows:,} rows; the data may have changed."
            click.echo(_clear(shows) + note, err=True)
        if shows and time.monotonic() - drawn > _EVERY:
            drawn = time.monotonic()
            click.echo(_clear(True) + line_of(report), err=True, nl=False)

    try:
        yield draw
    finally:
        if shows and drawn:
            click.echo(_clear(True), err=True, nl=False)


def _clear(shows: bool) -> str:
    return "\r\x1b[2K" if shows else ""


def line_of(report: Report) -> str:
    """A report as one line of text, at most 80 wide.

    Examples
    --------
    >>> from nearkin.streams import Report
    >>> line_of(Report(1, 50_000, 200_000, 0, 312_000.0, 0.5, 0.9, 0.912, 0.8, 0.83, 0, 5, False))
    '50,000 of 200,000 rows, 312k/s, 0:00 left, accuracy 91.2 %, plausible 0.83'
    """
    total = "" if report.total_rows is None else f" of {report.total_rows:,}"
    parts = [f"{report.rows:,}{total} rows"]
    if report.rows_per_second is not None:
        rate = report.rows_per_second
        parts.append(f"{rate / 1000:.0f}k/s" if rate >= 10_000 else f"{rate:,.0f}/s")
    if report.seconds_left is not None:
        minutes, seconds = divmod(int(report.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    if report.recent_accuracy is not None:
        parts.append(f"accuracy {100 * report.recent_accuracy:.1f} %")
    if report.recent_plausibility is not None:
        parts.append(f"plausible {report.recent_plausibility:.2f}")
    return ", ".join(parts)


@contextmanager
def cluster(options: StreamOptions) -> Iterator[Any]:
    """The Dask client for a command, or None if it works in this process."""
    if options.dask is None:
        yield None
        return
    from nearkin import distributed

    with distributed.connect(options.dask, tls=options.tls) as client:
        yield client


def learn(learner: Any, stream: FileStream, options: StreamOptions, client: Any, *, quiet: bool) -> Any:
    """The learner, fitted here or on a cluster."""
    from nearkin import streams

    how: dict[str, Any] = {
        "checkpoint": options.checkpoint, "checkpoint_every": options.checkpoint_every, "resume": options.resume,
        "log": options.log,
    }  # fmt: skip
    if not quiet:
        click.echo(f"  {estimate_of(learner, stream)}", err=True)
    with live_line(quiet=quiet) as draw:
        if client is None:
            return streams.fit_stream(learner, stream, on_report=draw, **how)
        from nearkin import distributed

        return distributed.fit(
            learner, stream, client=client, n_shards=options.shards, merge_every=options.merge_every, on_report=draw,
            **how,
        )  # fmt: skip


def estimate_of(learner: Any, stream: FileStream) -> str:
    """Memory that is needed, in words."""
    from nearkin.cli import _text
    from nearkin.streams import memory_estimate

    memory = memory_estimate(learner, stream)
    parts = ", ".join(
        f"{_text.size(getattr(memory, name))} {words}"
        for name, words in (("libraries", "libraries"), ("reader", "reader"), ("batch", "batch"), ("model", "model"))
    )
    return f"{_text.count(stream.n_rows, 'row')} a pass; memory about {_text.size(memory.total)} ({parts})"


def voting(learner: Any, stream: FileStream, options: StreamOptions, model: Any, seed: int) -> Any:
    """A classifier that asks rows from all over the stream, or the learner alone."""
    from nearkin.streams import sample_rows

    if not options.voters:
        return learner
    X, y = sample_rows(stream, options.voters, seed)
    return model.set_params(learner=learner).fit(X, y)


def summarise(model: Any, learner: Any, stream: FileStream, output: Path, seconds: float) -> None:
    """What was learned, on stdout."""
    from nearkin.cli import _text

    known = len(learner.classes_)
    lines = [
        ("rows", f"{learner.n_rows_seen_:,} learned, {_text.count(stream.n_rows, 'row')} a pass"),
        ("features", f"{learner.n_features_in_:,}"),
        ("classes", f"{known}: {_text.names(learner.classes_)}"),
        ("learner", type(learner).__name__),
        ("triplets", f"{learner.n_triplets_seen_:,}, of which {learner.n_updates_:,} moved the measure"),
        ("time", f"{seconds:.1f} s"),
        ("saved", f"{output} ({_text.size(output.stat().st_size)})"),
    ]
    if model is not learner:
        rate = f"{_text.percent(model.noise_rate_)} among {_text.count(len(model.plausibility_), 'row')} drawn to vote"
        lines[-2:-2] = [("noise rate", rate)]
    click.echo(_text.pairs(lines))


def write_plausibility(learner: Any, stream: FileStream, options: StreamOptions, client: Any, *, quiet: bool) -> None:
    """Score all rows, here or on a cluster, and say where the results are."""
    from nearkin.cli import _text
    from nearkin.cli._progress import progress_bar
    from nearkin.streams import score_stream

    with progress_bar(quiet=quiet):
        if client is None:
            written = score_stream(learner, stream, resume=options.resume)
        else:
            from nearkin import distributed

            written = distributed.score(learner, stream, client=client, resume=options.resume)
    if not quiet:
        more = f" and {_text.count(len(written) - 1, 'more file')}" if len(written) > 1 else ""
        click.echo(f"plausibility of {_text.count(stream.n_rows, 'row')} in {written[0]}{more}", err=True)
