"""``nearkin fit --onto``: the files that a saved model has not learned yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._options import Source, UpdatedFile, given_options, option, options
from nearkin.cli._program import DRIFT, PUT_ASIDE, USER, describe
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.cli._stream import StreamOptions
    from nearkin.streams import FileNote, Outcome

__all__ = ["OntoOptions", "fit_onto"]

#: Options of streams that --onto needs not, or cannot have.
_ALONE = (
    "checkpoint",
    "resume",
    "checkpoint_every",
    "shuffle",
    "plausibility",
    "dask",
    "shards",
    "merge_every",
    "tls",
    "timeout",
)
#: Options of streams that a model keeps.
_KEPT = ("batch_rows", "missing", "text_labels")


@options
class OntoOptions:
    """Options of a run that goes on."""

    onto: Path | None = option(
        type=UpdatedFile(path_type=Path), metavar="MODEL",
        help="Learn the files that MODEL has not learned yet, into MODEL; it is begun if it is not there.",
    )  # fmt: skip
    dry_run: bool = option(help="Onto: say what would become of each file, and change nothing.")
    on_bad_file: str = option(
        type=click.Choice(["stop", "skip"]), default="stop",
        help="Onto: a file that is damaged or odd stops the run, or is put aside (exit code 4).",
    )  # fmt: skip
    new_columns: str = option(
        type=click.Choice(["leave", "learn", "error"]), default="leave",
        help="Onto: leave columns out that MODEL has not learned, take them up (in tables of numbers alone), or take "
        "the file for bad.",
    )  # fmt: skip
    on: str | None = option(
        metavar="COL", help="Onto: find labels in the table (or folder of tables) --labels by this column of ids; rows "
        "wait until theirs comes.",
    )  # fmt: skip
    wait_rows: int = option(default=50_000, help="Onto: rows that may wait for their label; the oldest expire.")
    wait_days: float | None = option(
        type=click.FloatRange(0), metavar="DAYS", help="Onto: days after which a waiting row expires.  [default: never]"
    )

    def check(self, stream: StreamOptions, *, has_suspects: bool) -> None:
        """Refuse options that do nothing together."""
        if self.onto is None:
            if others := [name for name in given_options(self) if name != "onto"]:
                raise InputError(f"--{others[0].replace('_', '-')} belongs to --onto; add it, or leave this out.")
            return
        others = [name for name in given_options(stream) if name in _ALONE] + ["suspects"] * has_suspects
        if others:
            raise InputError(f"--{others[0].replace('_', '-')} cannot be combined with --onto; leave it out.")
        if self.on is None and (waits := [name for name in given_options(self) if name.startswith("wait_")]):
            raise InputError(f"--{waits[0].replace('_', '-')} belongs to --on; add it, or leave this out.")
        if "log_every" in given_options(stream) and stream.log is None:
            raise InputError("--log-every belongs to --log; add --log, or leave it out.")


def fit_onto(
    data: Sequence[Path], source: Source, output: Path | None, wanted: Any, stream: StreamOptions, onto: OntoOptions,
    *, quiet: bool,
) -> int:  # fmt: skip
    """Learn new files, say what became of each, and return the exit code."""
    from nearkin import streams

    assert onto.onto is not None
    source.check_in_batches()
    late = _late_labels(source, onto)
    if late is None and source.label is not None and source.labels is not None:
        raise InputError(
            "--label names a column and --labels a file; give one of them, or --on, the column of ids by which the "
            "labels are found in a table."
        )
    begun, begins = time.perf_counter(), not onto.onto.exists()
    given = given_options(stream)
    reading: dict[str, Any] = {name: getattr(stream, name) for name in _KEPT if name in given}
    reading |= {
        "label": source.label or source.labels,
        "features": source.features or None,
        "drop": source.drop or None,
        "text": source.text or None,
    }
    wishes = wanted.list_wishes()
    model = None
    if begins:
        model = wanted.make_classifier(in_batches=True)
        model = model if stream.voters else model.learner
    elif "voters" in given:
        wishes["n_voters"] = stream.voters or None
    with _show.live_line(quiet=quiet) as draw:
        outcome = streams.fit_onto(
            onto.onto, data, model=model, wishes=wishes, n_voters=stream.voters if begins and stream.voters else None,
            on_bad_file=onto.on_bad_file, log=stream.log, log_every=stream.log_every, on_report=draw,
            false_alarms=stream.false_alarms,
            on_file=lambda note: _tell(note, skips=onto.on_bad_file == "skip", is_dry=onto.dry_run, quiet=quiet),
            output=output, dry_run=onto.dry_run,
            late=late, new_columns=onto.new_columns, **reading,
        )  # fmt: skip
    if outcome.ignored and not quiet:
        entries = "1 other entry" if len(outcome.ignored) == 1 else f"{len(outcome.ignored):,} other entries"
        _show.echo(f"  not read: {entries} ({_show.sum_up(outcome.ignored, 3)})", err=True)
    if not quiet:
        _show.echo(_sum_up(outcome, is_dry=onto.dry_run))
        if outcome.is_saved:
            target = onto.onto if output is None else output
            encoder = getattr(outcome.model, "encoder_", None) if begins else None
            lines = [*_describe(outcome.model), *_show.tell_columns(getattr(encoder, "columns_", ()))]
            size = _show.size(target.stat().st_size)
            spent = f"{time.perf_counter() - begun:.1f} s"
            _show.echo(_show.pairs([*lines, ("time", spent), ("saved", f"{target} ({size})")]))
    if outcome.of("bad") or outcome.of("changed"):
        return PUT_ASIDE if onto.on_bad_file == "skip" else USER
    return DRIFT if stream.fail_on_drift and outcome.n_alarms else 0


def _late_labels(source: Source, onto: OntoOptions) -> Any:
    """Return where late labels are; None if labels stand in the files."""
    from nearkin.streams import LateLabels

    if onto.on is None:
        return None
    if source.labels is None or source.label is None:
        raise InputError("--on needs --labels, the table of labels, and --label, its column of labels.")
    return LateLabels(source.labels, onto.on, onto.wait_rows, onto.wait_days)


def _tell(note: FileNote, *, skips: bool, is_dry: bool, quiet: bool) -> None:
    """Say what became of a file; of one that was learned or put aside before only the sum is told."""
    if note.status in ("bad", "changed"):
        text = " ".join((note.text if note.error is None else describe(note.error)[0]).split())
        named = text if note.path in text else f"{note.path}: {text}"
        words = "put aside" if not is_dry else "would be put aside" if skips else "would stop the run"
        _show.echo(f"nearkin: {words}: {named}", err=True)
    elif not quiet and (note.status in ("learned", "new") or " as " in note.text.partition(":")[0]):
        words = {"learned": "learned" if note.n_rows else "read", "new": "would be learned", "seen": "skipped"}[
            note.status
        ]
        rows = f", {_show.count(note.n_rows, 'row')}" if note.n_rows else ""
        _show.echo(f"  {note.path}: {words}{rows}{'; ' if note.text else ''}{note.text}", err=True)


def _sum_up(outcome: Outcome, *, is_dry: bool) -> str:
    counts = {name: len(outcome.of(name)) for name in ("learned", "new", "seen", "changed", "bad", "aside")}
    n_new = counts["new"] if is_dry else counts["learned"]
    nothing = "no new file" if outcome.waiting.n_joined else "nothing new to learn"
    first = f"{_show.count(n_new, 'new file')} {'would be ' if is_dry else ''}learned" if n_new else nothing
    words = {"seen": "learned before", "changed": "changed since", "bad": "that cannot be learned",
             "aside": "put aside before"}  # fmt: skip
    rest = [f"{_show.count(counts[name], 'file')} {text}" for name, text in words.items() if counts[name]]
    return "  " + "; ".join([first, *rest, *_tell_wait(outcome, is_dry=is_dry)])


def _tell_wait(outcome: Outcome, *, is_dry: bool) -> list[str]:
    """Say how many rows met their label, and after how long, and how many expired."""
    wait, out = outcome.waiting, []
    if wait.n_joined:
        met = f"{_show.count(wait.n_joined, 'row')} {'would meet' if is_dry else 'met'} their label"
        out.append(met if is_dry else f"{met} after {wait.seconds / wait.n_joined / 3600:,.1f} hours on average")
    if wait.n_expired:
        out.append(f"{_show.count(wait.n_expired, 'row')} expired without a label")
    return out


def _describe(model: Any) -> list[tuple[str, str]]:
    from nearkin.streams.history import as_text

    ledger, watch = model.history_.ledger, model.history_.watch
    lines = [
        ("files", f"{len(ledger.learned):,} learned so far"),
        ("rows", f"{sum(one.n_rows for one in ledger.learned):,} in these files"),
    ]
    if (waiting := model.history_.waiting) is not None and len(waiting):
        oldest = as_text(float(waiting.arrived.min()))
        lines.append(("waiting", f"{_show.count(len(waiting), 'row')} for their label, since {oldest}"))
    if watch.recent_accuracy is not None:
        lines.append(
            ("accuracy", f"{_show.percent(watch.recent_accuracy)} of the newest labels, before they were learned")
        )
    if hasattr(model, "noise_rate_"):
        voters = _show.count(len(model.plausibility_), "row")
        lines.append(("noise rate", f"{_show.percent(model.noise_rate_)} among the {voters} that vote"))
    return lines
