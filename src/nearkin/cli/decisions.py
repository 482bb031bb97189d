"""``nearkin apply``: what was decided in the page becomes labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._options import PATH, option, options, output_option, quiet_option, takes
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.audit.decisions import Decisions
    from nearkin.tables.output import CsvDialect

__all__ = ["apply"]


@options
class ApplyOptions:
    """Options of ``nearkin apply``."""

    data: Path | None = option(
        "--data", metavar="DATA", help="What was audited.  [default: the file that the page was made of, if it lies "
        "beside the first DECISIONS or here]",
    )  # fmt: skip
    label: str | None = option(metavar="COL", help="Column of labels (npz: array).  [default: the audited one]")
    labels: Path | None = option(help="File of labels: npy, or text with one label a line.")
    output: Path | None = output_option(
        "reviewed", "-o", "--output", help=".csv, .tsv or .parquet.  [default: CSV to stdout]"
    )


@command(
    "Make cleaned data from decisions of the page.",
    "nearkin apply decisions.json -o cleaned.csv",
    "nearkin apply ann.json bob.json --data wine.csv --label cultivar -o cleaned.csv",
    "nearkin apply decisions.json --data vectors.npy --labels labels.txt -o labels.csv",
)
@click.argument("decisions", type=PATH, nargs=-1, required=True, metavar="DECISIONS...")
@takes(ApplyOptions)
@quiet_option
@with_debug
def apply(decisions: tuple[Path, ...], given: ApplyOptions, quiet: bool) -> None:
    """Make cleaned data from DECISIONS, files that the page of an audit exports.

    Writes the audited table with the labels that were decided, without the rows
    that were dropped. Suspects about which nobody decided follow the rules that
    the page had below its table. Three columns come last: row (counted from 0),
    given_label, and decision (suggested, given, label, rule, or empty for rows
    that were no suspects). A CSV file keeps its delimiter, encoding and line ends. Other commands leave them out, and
    apply replaces those of an earlier review. Where several reviewers differ, the later file
    counts, and the rows are named. Nothing is written if the data are not those
    that the page was made of.
    """
    import numpy as np

    from nearkin.audit.decisions import join_decisions, review_labels
    from nearkin.labels import sorted_classes
    from nearkin.tables import REVIEWED, check_names, read_labelled, write_columns

    found, conflicts = join_decisions(decisions)
    data = given.data or _find_data(found, decisions[0])
    label = given.label or (found.label if given.labels is None else None)
    columns, name, (labels, missing) = read_labelled(data, label, given.labels)
    _check_same(found, columns, data)
    if columns.keys() >= {*REVIEWED}:  # of an earlier review
        columns = {one: values for one, values in columns.items() if one not in REVIEWED}
    check_names(columns, REVIEWED)
    numbers = np.flatnonzero(~missing)
    done = review_labels(found, labels[numbers], sorted_classes(labels[numbers])[0], numbers)
    final, kept = labels.astype(object), np.ones(len(labels), dtype=bool)
    final[numbers], kept[numbers] = done.label, done.kept
    final[missing] = None
    rows = np.flatnonzero(kept)
    how = {row: one.how for row, one in found.decided.items()}
    columns[name] = final
    written = {one: [values[row] for row in rows.tolist()] for one, values in columns.items()}
    written["row"] = rows.tolist()
    written["given_label"] = [None if missing[row] else labels[row] for row in rows.tolist()]
    written["decision"] = [how.get(row, "rule" if row in found.undecided else "") for row in rows.tolist()]
    write_columns(given.output, written, "reviewed", _dialect_of(data, given.output))
    if quiet:
        return
    _show.echo(str(done) + ("" if given.output is None else f"; in {given.output}"), err=True)
    if missing.any():
        _show.echo(f"{_show.count(int(missing.sum()), 'row')} without a label kept as they are", err=True)
    if conflicts:
        told = f"{_show.count(len(conflicts), 'row')} decided differently by several reviewers, the last one counts"
        _show.echo(f"{told}: {_show.sum_up(conflicts)}", err=True)


def _dialect_of(data: Path, output: Path | None) -> CsvDialect | None:
    """Return how a CSV file was written; its delimiter only for a name that does not promise another."""
    from nearkin.tables import kind_of
    from nearkin.tables.csv_files import read_csv_dialect

    if data.is_dir() or kind_of(data) != "csv":
        return None
    found = read_csv_dialect(data)
    is_tsv = ".tsv" in data.suffixes[-2:]
    return replace(found, delimiter=",") if is_tsv and output is not None and output.suffix.lower() == ".csv" else found


def _check_same(found: Decisions, columns: dict[str, Any], data: Path) -> None:
    """Refuse data whose rows are not those of the page: by their names, or by the file where rows have none."""
    from nearkin.audit.decisions import digest_file

    if found.id_name is not None and found.ids and not data.is_dir():
        if found.id_name not in columns:
            raise InputError(f"{data} has no column {found.id_name!r}, which named the rows in the page.")
        names = columns[found.id_name]
        for row, name in found.ids.items():
            if row >= len(names) or str(names[row]) != name:
                here = f"{str(names[row])!r}" if row < len(names) else "beyond the last row"
                raise InputError(
                    f"row {row} was {name!r} in the page (column {found.id_name!r}) and is {here} in {data}: these are "
                    "other data, or rows in another order. Apply to the data that the page was made of."
                )
    elif found.digest is not None and digest_file(data) != found.digest:
        raise InputError(
            f"{data} is not the file that the page was made of, or it changed since. Apply to that file. Pages of "
            "nearkin audit --id COL know rows by name, whatever else changes in the file."
        )


def _find_data(found: Decisions, first: Path) -> Path:
    """Return the file that the page was made of: beside the decisions or here, since only its name is known."""
    if found.data is None:
        raise InputError(f"{first} does not say which data were audited; name them with --data.")
    name = Path(found.data).name
    for folder in (first.parent, Path()):
        if name and (folder / name).exists():
            return folder / name
    raise InputError(f"{first} is about {name!r}, which lies neither beside it nor here; name it with --data.")
