"""``nearkin adapt``: a query map from clicks, checked before it is used."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._options import (
    PATH,
    UpdatedFile,
    WordOr,
    option,
    options,
    output_option,
    quiet_option,
    seed_option,
    takes,
)
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError, Option

if TYPE_CHECKING:
    from nearkin.search import Adaptation, Decisions, Feedback, Outlook, SimilarityAdapter

__all__ = ["adapt"]

#: What a list of items is in each form of feedback.
_LISTS = {
    "triplets": ("triplet", "triplets"),
    "judgements": ("judged query", "judged queries"),
    "impressions": ("impression", "impressions"),
    "clicks": ("click", "clicks"),
}
#: Arguments of the library that have another name here.
_FLAGS = {"bad": Option("no_strict"), "n_random": Option("random")}
#: Fewer held-out queries than these are called few.
_FEW = 50


def _parse_role(text: str) -> tuple[str, str]:
    role, _, column = text.partition("=")
    if not role or not column:
        raise click.BadParameter(f"{text!r} is not of the form ROLE=COLUMN, as in query=user_query.")
    return role, column


@dataclass
class Vectors:
    """Vectors and the ids of their rows; a number stands for 0, 1, 2, ..."""

    X: Any
    ids: Any


@options
class Sources:
    """Vectors, and feedback about them."""

    queries: Path = option(required=True, help="Query vectors: npy, npz, CSV or Parquet.")
    items: Path = option(required=True, help="Item vectors, as the index holds them.")
    feedback: tuple[Path, ...] = option(
        type=PATH, metavar="FILE", multiple=True, required=True,
        help="Clicks or judgements: CSV, JSONL (both also .gz), Parquet or npz. Repeatable; '*' in quotes works.",
    )  # fmt: skip
    form: str = option(
        type=click.Choice(("auto", "triplets", "impressions", "lists", "judgements", "clicks")), default="auto",
        metavar="FORM", help="triplets, impressions, lists, judgements or clicks; auto tells by the columns.",
    )  # fmt: skip
    column: tuple[tuple[str, str], ...] = option(
        type=_parse_role, multiple=True, metavar="ROLE=COL", help="Name of a feedback column in the file. Repeatable."
    )
    grade: str = option(
        type=click.Choice(("auto", "dwell")), default="auto",
        help="What a click counts: as its column says, or by the seconds in the column dwell.",
    )  # fmt: skip
    clicks_as: str = option(
        type=click.Choice(("auto", "ids", "positions", "positions0", "flags")), default="auto", metavar="HOW",
        help="What clicks of a list are: ids, positions (from 1), positions0 (from 0) or flags.",
    )  # fmt: skip
    test_from: str | None = option(
        metavar="TIME", help="Learn from what was shown before this time, and test with what came after."
    )
    query_ids: Path | None = option(help="Ids of the queries: npy, or text with one a line.  [default: 0, 1, 2, ...]")
    item_ids: Path | None = option(help="Ids of the items.  [default: 0, 1, 2, ...]")
    id_column: str | None = option(
        "--id", metavar="COL", help="Column of ids in tables of vectors.  [default: id or ids]"
    )
    strict: bool = option(
        "--strict/--no-strict", default=False, show_default=False,
        help="Stop at the first row that cannot be used, instead of counting it.",
    )  # fmt: skip
    duplicates: str | None = option(
        type=click.Choice(("raise", "skip", "keep")), metavar="raise|skip|keep",
        help="What to do with repeated rows.  [default: keep for triplets and clicks, else skip]",
    )  # fmt: skip
    decisions: Path | None = option(help="Decisions of the page: wrong clicks do not count as clicks.")
    max_rows: int = option(default=4_000_000, help="Rows of feedback held in memory; of more, lists are drawn.")

    @property
    def bad(self) -> str:
        """What the library does with rows that cannot be used."""
        return "raise" if self.strict else "skip"

    def read(self) -> tuple[Vectors, Vectors, Feedback, Decisions | None]:
        """Return queries, items, feedback and what was decided about it."""
        from nearkin.search import read_decisions, read_feedback, read_vectors

        queries = Vectors(*read_vectors(self.queries, self.query_ids, self.id_column))
        items = Vectors(*read_vectors(self.items, self.item_ids, self.id_column))
        if queries.X.shape[1] != items.X.shape[1]:
            widths = f"{self.queries} holds vectors of {queries.X.shape[1]} numbers and {self.items} of"
            raise InputError(f"{widths} {items.X.shape[1]}; both must come from one space.")
        feedback = read_feedback(
            _expand(self.feedback), query_ids=queries.ids, item_ids=items.ids, form=self.form, column=dict(self.column),
            grade=self.grade, clicks_as=self.clicks_as, bad=self.bad, duplicates=self.duplicates,
            max_rows=self.max_rows,
        )  # fmt: skip
        if self.decisions is None:
            return queries, items, feedback, None
        decided = read_decisions(self.decisions, query_ids=queries.ids, item_ids=items.ids).among_clicks(feedback)
        return queries, items, decided.apply(feedback), decided

    @contextmanager
    def naming_files(self) -> Iterator[None]:
        """Put the file in place of what the library calls its content."""
        files = {"queries": self.queries, "items": self.items}
        try:
            yield
        except InputError as error:
            if error.place in files or error.owner == "feedback":
                error.place = str(files.get(error.place, ", ".join(str(one) for one in self.feedback)))
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
        type=click.Choice(("auto", "lift", "alike", "ndcg", "recall", "precision", "map", "mrr")), default="auto",
        metavar="NAME", help="Measure that decides: lift, alike, ndcg, recall, precision, map or mrr; auto takes lift, "
        "or alike if there are no lists, or they contradict what other queries clicked.",
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
    page: Path | None = output_option(
        "clicks", metavar="PAGE", help="Also write a page: the report, and clicks that look wrong."
    )
    query_texts: Path | None = option(help="Texts of the queries for the page, one a line.")
    item_texts: Path | None = option(help="Texts of the items for the page, one a line.")
    title: str | None = option(metavar="TEXT", help="Heading of the page.  [default: names of the feedback]")

    def read_texts(self) -> dict[str, list[str] | None]:
        """Return the texts for the page."""
        given = {"query_texts": self.query_texts, "item_texts": self.item_texts}
        if self.page is None and (any(given.values()) or self.title is not None):
            flag = next((name for name, one in given.items() if one is not None), "title").replace("_", "-")
            raise InputError(f"--{flag} is for the page; name one with --page.")
        return {name: None if path is None else _read_lines(path) for name, path in given.items()}

    def check_texts(self, texts: dict[str, list[str] | None], queries: Vectors, items: Vectors) -> None:
        """Refuse texts that are not one for every vector, before anything is learned."""
        for (name, held), vectors in zip(texts.items(), (queries, items), strict=True):
            if held is not None and len(held) != len(vectors.X):
                path = getattr(self, name)
                raise InputError(f"{path} holds {len(held):,} lines for {len(vectors.X):,} vectors.")

    def write(self, done: Adaptation, **about_page: Any) -> None:
        """Write all files; ``about_page`` is what the page needs."""
        from nearkin.saving import save
        from nearkin.search import write_click_page, write_numpy, write_onnx

        if self.page is not None:
            write_click_page(done, path=self.page, **{**about_page, "title": self.title or about_page["title"]})

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
    "    --column query=user_query -o adapter.nearkin --onnx map.onnx",
    "nearkin adapt --queries q.npy --items d.npy --feedback monday.jsonl.gz \\",
    "    --feedback tuesday.jsonl.gz --grade dwell -o adapter.nearkin",
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

    Feedback is a log of impressions (query, item, clicked; better with
    impression and rank), of lists (query, items, clicks), of clicks alone
    (query, item), of triplets (query, clicked, skipped) or of judgements
    (query, item, relevant). Ids are those of the vectors; without any, rows are
    numbered from 0. Odd rows are counted, and reading goes on.

    Some queries are held out. If the map does not help them, the identity is
    kept and the command says so.
    """
    from nearkin import search

    begun = time.perf_counter()
    if outputs.onnx is not None:
        search.require_onnx()
    adapter = learning.open_adapter(sources.bad)
    rolled_to = _find_rollback(adapter)
    with _own_options():
        texts = outputs.read_texts()
        with _show.progress_bar(quiet=quiet):
            queries, items, feedback, decided = sources.read()
        outputs.check_texts(texts, queries, items)
        about = _describe_log(queries, items, feedback, decided)
        with sources.naming_files(), _show.progress_bar(quiet=quiet):
            done = search.adapt(
                queries.X, items.X, feedback, adapter=adapter, bad=sources.bad, test_from=sources.test_from,
                foretell=None if quiet else partial(_foretell, about), **vars(check),
            )  # fmt: skip
    outputs.write(
        done, queries=queries.X, items=items.X, query_ids=queries.ids, item_ids=items.ids, **texts,
        kept=() if decided is None else decided.kept, title=", ".join(one.name for one in sources.feedback),
    )  # fmt: skip
    if not quiet:
        _summarise(done, feedback)
        size = _show.size(outputs.output.stat().st_size)
        served = next(one for one in done.adapter.versions_ if one.number == done.adapter.version_)
        last = [
            ("result", done.verdict),
            ("version", str(served)),
            ("saved", f"{outputs.output} ({size})"),
        ]
        if rolled_to not in (None, served.number):
            last.append(("note", f"version {rolled_to}, to which the adapter was rolled back, is no longer served"))
        if done.repeats:
            last.append(("note", "test queries were shown nothing new: if this log was given before, it counts twice"))
        for name in ("numpy", "onnx", "report", "page"):
            if (path := getattr(outputs, name)) is not None:
                last.append((name, f"{path} ({_show.size(path.stat().st_size)})"))
        _show.echo(_show.pairs([*last, ("time", f"{time.perf_counter() - begun:.1f} s")]))


@contextmanager
def _own_options() -> Iterator[None]:
    """Let errors of the library recommend the options of this command."""
    try:
        yield
    except InputError as error:
        error.options = {name: _FLAGS.get(one.name, one) for name, one in error.options.items()}
        raise


def _find_rollback(adapter: SimilarityAdapter) -> int | None:
    """Return the version to which an adapter was rolled back, if it was."""
    now = getattr(adapter, "version_", None)
    return None if now is None or now == adapter.versions_[-1].number else now


def _expand(paths: tuple[Path, ...]) -> list[Path]:
    """Return the files behind paths and patterns, those of a pattern by name."""
    found: list[Path] = []
    for one in paths:
        if glob.has_magic(str(one)) and not one.exists():
            behind = sorted(Path(name) for name in glob.glob(str(one), recursive=True))  # noqa: PTH207
            if not behind:
                raise InputError(f"{one}: no file has such a name.")
            found += behind
        else:
            found.append(one)
    return found


def _read_lines(path: Path) -> list[str]:
    """Return the texts of a file, one a line."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text with one text a line.") from None


def _describe_log(
    queries: Vectors, items: Vectors, feedback: Feedback, decided: Decisions | None
) -> list[tuple[str, str]]:  # fmt: skip
    """Return what was read, before anything is learned."""
    told = _show.count(len(feedback), *_LISTS[feedback.form])
    if feedback.form in ("impressions", "judgements"):
        told += f", {_show.count(feedback.n_clicks, 'click' if feedback.form == 'impressions' else 'relevant item')}"
    if feedback.n_without_click:
        wanted = "relevant item" if feedback.form == "judgements" else "click"
        told += f"; {feedback.n_without_click:,} without a {wanted}"
    if feedback.worth is not None:
        told += "; clicks count by their grade"
    lines = [
        ("queries", f"{len(queries.X):,} vectors of {queries.X.shape[1]:,} numbers"),
        ("items", f"{len(items.X):,}"),
        ("feedback", told),
    ]
    if feedback.share < 1.0:
        lines.append(
            ("held", f"1 list in {round(1 / feedback.share):,}, because the log has more rows than --max-rows")
        )
    if decided is not None:
        lines.append(("decisions", _describe_decisions(decided)))
    before = ""
    for reason, n in sorted(feedback.skipped.items(), key=lambda one: _is_joined(one[0])):
        first = feedback.first_skipped.get(reason, "")
        title = "joined" if _is_joined(reason) else "left out"
        told = f"{n:,} x {reason}" + (f" (first: {first})" if first else "")
        lines.append(("" if title == before else title, told))
        before = title
    return lines


def _describe_decisions(decided: Decisions) -> str:
    wrong, right = int(decided.is_wrong.sum()), len(decided.kept)
    told = [f"{_show.count(wrong, 'clicked pair is', 'clicked pairs are')} wrong, {right:,} right"]
    if decided.n_unclicked:
        told.append(f"{_show.count(decided.n_unclicked, 'pair was', 'pairs were')} never clicked in this log")
    if decided.n_changed:
        told.append(f"{_show.count(decided.n_changed, 'pair was', 'pairs were')} decided both ways, the last one holds")
    if decided.n_unknown:
        told.append(f"{decided.n_unknown:,} about queries or items that are not there")
    return "; ".join(told)


def _is_joined(reason: str) -> bool:
    """Whether rows counted for this reason were joined to an earlier one, so that nothing of them is lost."""
    return reason.startswith("duplicate")


def _foretell(about: list[tuple[str, str]], outlook: Outlook) -> None:
    """Say, before anything is learned, what was read and what it can show."""
    learned, chosen = (_show.count(n, "query", "queries") for n in (outlook.n_learned, outlook.n_chosen))
    held = _show.count(outlook.n_held_out, "query", "queries")
    parts = [
        f"of\N{NO-BREAK SPACE}{_show.count(round(100 * gain), 'point')} {n:,}" + (f" ({more:,} more)" if more else "")
        for (gain, n), more in zip(outlook.needed.items(), outlook.missing.values(), strict=True)
    ]
    lines = [
        *about,
        ("learns from", learned),
        ("chooses on", chosen),
        ("tests on", f"{held} that are never learned from"),
        ("needed", f"test queries to show a gain in {outlook.measure} {', '.join(parts)}"),
    ]
    if outlook.n_held_out < _FEW:
        lines.append(("note", f"{held} can show only a very large gain; the intervals below are wide."))
    _show.echo(_show.pairs(lines) + "\n")


def _summarise(done: Adaptation, feedback: Feedback) -> None:
    later = {reason: n for reason, n in done.skipped.items() if reason not in feedback.skipped}
    if later:
        _show.echo(_show.pairs([("left out", _count(later))]) + "\n")
    _show.echo("\n".join(_show.columns(["", "before", "after", "gain"], done.table())))
    for one in (*done.footnotes, "means with 95 % intervals over queries; those of the gain hold on all days together"):
        _show.echo(_show.pairs([("", one)]))
    _show.echo("\n" + "\n".join(_show.columns(["map", done.measure], done.rival_table())))
    if done.n_looks > 1:
        _show.echo("  ridge and plain softmax learned from this log alone, nearkin also from those before")
    _show.echo("")


def _count(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} x {reason}" for reason, count in skipped.items())
