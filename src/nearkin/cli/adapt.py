"""``nearkin adapt``: a query map from clicks, checked before it is used."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._options import UpdatedFile, WordOr, option, options, output_option, quiet_option, seed_option, takes
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError, Option

if TYPE_CHECKING:
    from nearkin.search import Adaptation, Feedback, SimilarityAdapter

__all__ = ["adapt"]

#: What a list of items is in each form of feedback.
_LISTS = {
    "triplets": ("triplet", "triplets"),
    "judgements": ("judged query", "judged queries"),
    "impressions": ("impression", "impressions"),
}
#: Arguments of the library that have another name here.
_FLAGS = {"bad": Option("skip_bad"), "n_random": Option("random")}


def _parse_role(text: str) -> tuple[str, str]:
    role, _, column = text.partition("=")
    if not role or not column:
        raise click.BadParameter(f"{text!r} is not of the form ROLE=COLUMN, as in query=user_query.")
    return role, column


@options
class Sources:
    """Vectors, and feedback about them."""

    queries: Path = option(required=True, help="Query vectors: npy, npz, CSV or Parquet.")
    items: Path = option(required=True, help="Item vectors, as the index holds them.")
    feedback: Path = option(required=True, help="Clicks or judgements: CSV, Parquet or npz.")
    form: str = option(
        type=click.Choice(("auto", *_LISTS)), default="auto", metavar="FORM",
        help="triplets, judgements or impressions; auto tells by the columns.",
    )  # fmt: skip
    column: tuple[tuple[str, str], ...] = option(
        type=_parse_role, multiple=True, metavar="ROLE=COL", help="Name of a feedback column in the file. Repeatable."
    )
    query_ids: Path | None = option(help="Ids of the queries: npy, or text with one a line.  [default: 0, 1, 2, ...]")
    item_ids: Path | None = option(help="Ids of the items.  [default: 0, 1, 2, ...]")
    id_column: str | None = option(
        "--id", metavar="COL", help="Column of ids in tables of vectors.  [default: id or ids]"
    )
    skip_bad: bool = option(help="Skip and count what cannot be used, instead of stopping.")
    duplicates: str | None = option(
        type=click.Choice(("raise", "skip", "keep")), metavar="raise|skip|keep",
        help="What to do with repeated rows.  [default: keep for triplets, else raise]",
    )  # fmt: skip

    @property
    def bad(self) -> str:
        """What the library does with rows that cannot be used."""
        return "skip" if self.skip_bad else "raise"

    def read(self) -> tuple[Any, Any, Feedback]:
        """Return queries, items and feedback."""
        from nearkin.search import read_feedback, read_vectors

        queries, query_ids = read_vectors(self.queries, self.query_ids, self.id_column)
        items, item_ids = read_vectors(self.items, self.item_ids, self.id_column)
        if queries.shape[1] != items.shape[1]:
            widths = f"{self.queries} holds vectors of {queries.shape[1]} numbers and {self.items} of {items.shape[1]}"
            raise InputError(f"{widths}; both must come from one space.")
        feedback = read_feedback(
            self.feedback, query_ids=query_ids, item_ids=item_ids, form=self.form, column=dict(self.column),
            bad=self.bad, duplicates=self.duplicates,
        )  # fmt: skip
        if not len(feedback):
            raise InputError(f"nothing in {self.feedback} can be used: {_count(feedback.skipped)}.")
        return queries, items, feedback

    @contextmanager
    def naming_files(self) -> Iterator[None]:
        """Put the file in place of what the library calls its content."""
        files = {"queries": self.queries, "items": self.items}
        try:
            yield
        except InputError as error:
            if error.place in files or error.owner == "feedback":
                error.place = str(files.get(error.place, self.feedback))
            raise


@options
class Learning:
    """What learns."""

    start: Path | None = option(
        type=UpdatedFile(path_type=Path), metavar="MODEL", help="Adapter that learns on, instead of a new one."
    )
    C: float | None = option("--C", help="Aggressiveness of a step.  [default: 0.1]")
    eta: float | None = option(help="How fast trust falls with the loss.  [default: 0.5]")
    strength: str | float | None = option(
        type=WordOr(click.FloatRange(0, 1), "auto"), metavar="auto|SHARE",
        help="How much of what was learned is used.  [default: auto]",
    )  # fmt: skip

    def open_adapter(self, bad: str) -> SimilarityAdapter:
        """Return the adapter, new or old."""
        from nearkin.model_files import load_fitted
        from nearkin.search import SimilarityAdapter
        from nearkin.settings import check_settings

        given = {name: value for name in ("C", "eta", "strength") if (value := getattr(self, name)) is not None}
        adapter = SimilarityAdapter() if self.start is None else load_fitted(self.start).estimator
        if not isinstance(adapter, SimilarityAdapter):
            kind = type(adapter).__name__
            raise InputError(f"{self.start} holds a {kind}, not an adapter; make one with nearkin adapt.")
        if self.start is not None and set(given) - {"strength"}:
            raise InputError(f"--{min(set(given) - {'strength'})} was fixed when {self.start} was made; leave it out.")
        check_settings(adapter.set_params(**given, bad=bad))
        return adapter


@options
class Check:
    """How the gain is measured; the fields are arguments of `nearkin.search.adapt`."""

    metric: str = option(
        type=click.Choice(("auto", "lift", "ndcg", "recall", "precision", "map", "mrr")), default="auto",
        metavar="NAME", help="Measure that decides: lift, ndcg, recall, precision, map or mrr; auto takes lift for "
        "impressions, else ndcg.",
    )  # fmt: skip
    k: int = option(default=10, help="Results looked at.")
    holdout: float = option(
        type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.2, metavar="SHARE",
        help="Share of the queries on which the gain is measured.",
    )  # fmt: skip
    n_epochs: int = option("--epochs", default=1, help="Passes.")
    n_random: int = option(
        "--random", type=click.IntRange(0), default=1, metavar="N",
        help="Random items per click that count as skipped.",
    )  # fmt: skip
    random_state: int = seed_option("adapter", "--seed")


@options
class Outputs:
    """What is written."""

    output: Path = output_option("adapter", "-o", "--output", required=True, help="Adapter to write, *.nearkin.")
    numpy: Path | None = output_option("map", help="Also write the map as npz for numpy alone.")
    onnx: Path | None = output_option("onnx", help="Also write the map as ONNX.")
    report: Path | None = output_option("report", help="Also write the figures as JSON.")

    def write(self, done: Adaptation) -> None:
        """Write all files."""
        from nearkin.saving import save
        from nearkin.search import write_numpy, write_onnx

        save(done.adapter, self.output)
        if self.numpy is not None:
            write_numpy(done.adapter, self.numpy)
        if self.onnx is not None:
            write_onnx(done.adapter, self.onnx)
        if self.report is not None:
            done.write_json(self.report)


@command(
    "Learn a map of queries from clicks, for an existing index.",
    "nearkin adapt --queries q.npy --items d.npy --feedback clicks.parquet \\",
    "    -o adapter.nearkin",
    "nearkin adapt --queries q.parquet --items d.parquet --feedback log.csv \\",
    "    --column query=user_query --skip-bad -o adapter.nearkin --onnx map.onnx",
    "nearkin adapt --start adapter.nearkin --queries q.npy --items d.npy \\",
    "    --feedback today.csv -o adapter.nearkin",
    "nearkin transform adapter.nearkin new_queries.npy -o mapped.npy",
)
@takes(Sources, "sources")
@takes(Learning, "learning")
@takes(Check, "check")
@takes(Outputs, "outputs")
@quiet_option
@with_debug
def adapt(sources: Sources, learning: Learning, check: Check, outputs: Outputs, quiet: bool) -> None:
    """Learn a map of queries from clicks; the index of items stays as it is.

    Feedback is a table of triplets (query, clicked, skipped), of judgements
    (query, item, relevant) or of impressions (impression, query, item, clicked
    and, if rows are not in order, rank). Ids are those of the vectors; without
    any, rows are numbered from 0.

    Some queries are held out. If the map does not help them, the identity is
    kept and the command says so.
    """
    from nearkin import search

    begun = time.perf_counter()
    if outputs.onnx is not None:
        search.require_onnx()
    adapter = learning.open_adapter(sources.bad)
    with _own_options():
        queries, items, feedback = sources.read()
        with sources.naming_files(), _show.progress_bar(quiet=quiet):
            done = search.adapt(queries, items, feedback, adapter=adapter, bad=sources.bad, **vars(check))
    outputs.write(done)
    if not quiet:
        _summarise(done, queries, items, feedback)
        size = _show.size(outputs.output.stat().st_size)
        last = [
            ("result", done.verdict),
            ("version", str(done.adapter.versions_[-1])),
            ("saved", f"{outputs.output} ({size})"),
        ]
        _show.echo(_show.pairs([*last, ("time", f"{time.perf_counter() - begun:.1f} s")]))


@contextmanager
def _own_options() -> Iterator[None]:
    """Let errors of the library recommend the options of this command."""
    try:
        yield
    except InputError as error:
        error.options = {name: _FLAGS.get(one.name, one) for name, one in error.options.items()}
        raise


def _summarise(done: Adaptation, queries: Any, items: Any, feedback: Feedback) -> None:
    learned, chosen, held = (
        _show.count(number, "query", "queries") for number in (done.n_learned, done.n_chosen, done.n_held_out)
    )
    lines = [
        ("queries", f"{len(queries):,} vectors of {queries.shape[1]:,} numbers"),
        ("items", f"{len(items):,}"),
        ("feedback", _show.count(len(feedback), *_LISTS[feedback.form])),
        ("skipped", _count(done.skipped)),
        ("learned from", f"{learned}, {_show.count(done.n_triplets, 'triplet')}"),
        ("chosen on", chosen),
        ("measured on", f"{held} that were held out"),
        (
            "would show",
            ", ".join(f"a gain of {gain:g}: {n:,}" for gain, n in done.needed.items()) + " held-out queries",
        ),
    ]
    _show.echo(_show.pairs(line for line in lines if line[1]) + "\n")
    _show.echo("\n".join(_show.columns(["", "before", "after", "gain"], done.table())))
    _show.echo("  means with 95 % bootstrap intervals over queries; those of the gain hold on all days together")
    if done.metric == "lift":
        _show.echo("  all but lift count what was not shown as wrong, which favours the old ranking")
    _show.echo("\n" + "\n".join(_show.columns(["map", done.measure], done.rival_table())) + "\n")


def _count(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} x {reason}" for reason, count in skipped.items())
