"""``nearkin consensus``: one label per row from several answers, and the quality of who gave them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._options import (
    DATA,
    device_option,
    names_option,
    option,
    options,
    output_option,
    quiet_option,
    seed_option,
    takes,
)
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError, owned_by

if TYPE_CHECKING:
    from nearkin.audit import Answers
    from nearkin.tables import Table

__all__ = ["consensus"]

#: How quantities are written.
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
#: Columns of a list of answers.
_ROLES = ("row", "annotator", "label")


def _parse_role(text: str) -> tuple[str, str]:
    role, _, column = text.partition("=")
    if role not in _ROLES or not column:
        raise click.BadParameter(f"{text!r} is not of the form ROLE=COLUMN; roles are {', '.join(_ROLES)}.")
    return role, column


def _after_data(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path:
    return value or Path(f"{Path(ctx.params['data'].name.removesuffix('.gz')).stem or 'data'}_consensus.csv")


@options
class ConsensusOptions:
    """Options of ``nearkin consensus``."""

    annotators: list[str] = names_option(metavar="COL[,COL]", help="Columns of DATA with the answers, one a person.")
    answers: Path | None = option(help="List of answers instead: a table with row, annotator and label.")
    column: tuple[tuple[str, str], ...] = option(
        type=_parse_role, multiple=True, metavar="ROLE=COL", help="Name of a column in --answers. Repeatable."
    )
    id_column: str | None = option(
        "--id", metavar="COL", help="Column that names rows, in the output and in --answers.  [default: 0, 1, 2, ...]"
    )
    features: list[str] = names_option(metavar="COL[,COL]", help="Use these columns only.")
    drop: list[str] = names_option(metavar="COL[,COL]", help="Columns to exclude. Repeatable.")
    text: list[str] = names_option(metavar="COL[,COL]", help="Columns of texts, to learn from as such.")
    missing: str | None = option(metavar="LABEL", help="A value that is not an answer, such as -1, beside empty cells.")
    output: Path = output_option(
        "consensus", "-o", "--output", callback=_after_data,
        help="Table of labels: .csv, .tsv or .parquet.  [default: songs_consensus.csv for songs.csv]",
    )  # fmt: skip
    quality: Path | None = output_option("annotators", help="Also write a table of the annotators.")
    page: Path | None = output_option("page", help="Also write a page about the labels, as nearkin audit does.")
    seed: int = seed_option("result")
    device: str = device_option("Where the jury votes.")


@command(
    "Find one label per row from several answers.",
    "nearkin consensus songs.csv --annotators ann,bob,cleo -o labels.csv",
    "nearkin consensus songs.csv --id song --answers answers.csv \\",
    "    --column row=song --column label=genre --page songs.html",
)
@DATA
@takes(ConsensusOptions)
@quiet_option
@with_debug
def consensus(data: Path, given: ConsensusOptions, quiet: bool) -> None:
    """Find the label of every row of DATA that several people answered.

    Answers are columns of DATA, one a person, or a list with a line per answer.
    Empty cells do not count as answers. The other columns are features, encoded as by
    nearkin audit; by them a jury votes on every row without having seen its
    answers. Writes the labels with
    their confidence and the order in which to ask again.
    """
    from nearkin.audit import ANNOTATORS, CONSENSUS, find_consensus
    from nearkin.tables import Arrays, check_names, encode_table, open_table, write_columns

    begun = time.perf_counter()
    if bool(given.annotators) == (given.answers is not None):
        raise InputError("name the columns of answers with --annotators, or a list of answers with --answers.")
    if len(given.annotators) == 1:
        raise InputError(
            f"--annotators names one person; for one answer per row use nearkin audit --label {given.annotators[0]}."
        )
    if given.column and given.answers is None:
        raise InputError("--column names a column of --answers; give that file.")
    if given.page is not None and given.page.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{given.page}: the page is HTML, so its name must end in .html.")
    ids = [given.id_column] if given.id_column else []
    check_names(ids, (*CONSENSUS, *ANNOTATORS))
    source = open_table(data)
    if isinstance(source, Arrays):
        raise InputError(f"{data} has no named columns; give a table (CSV or Parquet).")
    source.check_known([*given.annotators, *ids, *given.features, *given.drop, *given.text])
    names = {name: source.values(name) for name in ids}
    with owned_by(None, instead_of="Answers"):
        answers = _read_columns(source, given) if given.annotators else _read_list(given, names, source.n_rows)
    others = dict.fromkeys(ids, "names the rows (--id)") | dict.fromkeys(given.annotators, "answers (--annotators)")
    rows = encode_table(source, None, given.features, given.drop, others, given.text)
    with _show.progress_bar(quiet=quiet):
        found = find_consensus(rows.X, answers, random_state=given.seed, device=given.device)
        write_columns(given.output, {**names, **found.to_columns()}, "consensus")
        if given.quality is not None:
            write_columns(given.quality, found.annotators_to_columns(), "annotators")
        if given.page is not None:
            notes = {"Data": data.name, "Labels": "consensus of several answers"}
            found.to_html(given.page, title=data.name, ids=names, notes=notes)
    if not quiet:
        written = (("labels in", given.output), ("annotators in", given.quality), ("page", given.page))
        told = [one for one in rows.columns if one.name not in given.annotators]
        lines = [*found.summary(), *_show.tell_columns(told), ("time", f"{time.perf_counter() - begun:.1f} s")]
        _show.echo(_show.pairs([*lines, *((name, str(path)) for name, path in written if path is not None)]))


def _read_columns(source: Table, given: ConsensusOptions) -> Answers:
    """Return the answers in columns of the data."""
    from nearkin.audit import Answers

    table = [_as_labels(source.values(name), given.missing, name) for name in given.annotators]
    return Answers.from_table(list(zip(*table, strict=True)), given.annotators)


def _read_list(given: ConsensusOptions, ids: dict[str, Any], n_rows: int) -> Answers:
    """Return the answers of a list; rows go by the column of ids, or by number from 0."""
    from nearkin.audit import Answers
    from nearkin.tables import Arrays, open_table

    assert given.answers is not None
    source = open_table(given.answers)
    if isinstance(source, Arrays):
        raise InputError(f"{given.answers} has no named columns; give a table (CSV or Parquet).")
    name = {role: role for role in _ROLES} | dict(given.column)
    source.check_known(name.values())
    row, annotator, label = (source.values(name[role]) for role in _ROLES)
    known = [str(one) for one in next(iter(ids.values()), range(n_rows))]
    place = {one: i for i, one in enumerate(known)}
    if len(place) < len(known):
        twice = next(one for i, one in enumerate(known) if place[one] != i)
        raise InputError(f"--id {given.id_column}: {twice!r} names two rows; give a column that names each row.")
    unknown = next((i for i, one in enumerate(row) if str(one) not in place), None)
    if unknown is not None:
        raise InputError(
            f"there is no row {str(row[unknown])!r} in the data; rows go by "
            + (f"the column {given.id_column!r}." if given.id_column else "number from 0, or by a column: --id COL."),
            place=f"{given.answers}, data row {unknown + 1:,}",
        )
    labels = _as_labels(label, given.missing, name["label"])
    return Answers.from_list([place[str(one)] for one in row], annotator, labels, n_rows=n_rows)


def _as_labels(values: Iterable[Any], missing: str | None, name: str) -> list[str | None]:
    """Return answers as text, None where there is none; quantities are refused."""
    found = [_cell(one, missing) for one in values]
    held = [one for one in found if one is not None]
    if held and all(_NUMBER.fullmatch(one) for one in held) and any("." in one for one in held):
        raise InputError(
            f"column {name!r} holds {next(one for one in held if '.' in one)}, a quantity, not a class (regression). "
            "Average such answers, or divide their range into classes first."
        )
    return found


def _cell(value: Any, missing: str | None) -> Any:
    """Return an answer as text, or None."""
    if value is None or value != value or str(value).strip() in ("", missing):
        return None
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value).strip()
