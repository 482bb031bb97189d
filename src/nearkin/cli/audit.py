"""``nearkin audit``: find wrong labels in a file and show why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import DATA, PATH, drop_option, listed, quiet_option
from nearkin.cli._program import examples, with_debug
from nearkin.cli.fit import NoiseRate

if TYPE_CHECKING:
    from nearkin.audit import LabelAudit
    from nearkin.cli._data import Data

__all__ = ["audit"]

#: What stands in a page and in a table that this command wrote.
_PAGE_MARK = b'<meta name="generator" content="nearkin'
_TABLE_MARK = b"given_label,suggested_label"
#: Paths that are tried before the work begins.
_TRIED = 20


@click.command(
    short_help="Find wrong labels and write a page about them.",
    epilog=examples(
        "nearkin audit reviews.parquet --label stars --id review --text body",
        "nearkin audit wine.csv --label cultivar --drop bottle -o wine.html",
        "nearkin audit photos.parquet --label animal --image file -o photos.html",
        "nearkin audit embeddings.npy --labels labels.txt -o report.html",
        "nearkin audit data.npz --label y --cleaned labels.csv",
    ),
)
@DATA
@click.option("--label", metavar="COL", help="Column of labels (npz: array).  [npz: y]")
@click.option("--labels", type=PATH, metavar="FILE", help="File of labels: npy, or text with one a line.")
@click.option(
    "-o", "--output", type=PATH, default="report.html", metavar="FILE", show_default=True, help="Page to write."
)
@click.option(
    "--suspects", type=PATH, metavar="FILE", help="CSV of all suspects.  [default: suspects.csv beside the page]"
)
@click.option("--all", "every", type=PATH, metavar="FILE", help="Also a table of all rows: .csv, .tsv or .parquet.")
@click.option("--cleaned", type=PATH, metavar="FILE", help="Also a table of cleaned labels: .csv, .tsv or .parquet.")
@click.option(
    "--id", "ids", multiple=True, metavar="COL", help="Column that names rows, in page and tables. Repeatable."
)
@click.option("--text", metavar="COL", help="Column of texts to show beside the rows.")
@click.option("--image", metavar="COL", help="Column of image files to show; paths begin at the folder of DATA.")
@click.option("--features", multiple=True, metavar="COL[,COL]", help="Use these columns only (npz: one array).")
@drop_option
@click.option(
    "--noise-rate", type=NoiseRate(), metavar="auto|SHARE", default="auto", show_default=True,
    help="Share of wrong labels, if you know it; auto estimates it.",
)  # fmt: skip
@click.option("--title", metavar="TEXT", help="Heading of the page.  [default: name of DATA]")
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", show_default=True, help="Same seed, same result."
)
@quiet_option
@with_debug
def audit(
    data: Path,
    label: str | None,
    labels: Path | None,
    output: Path,
    suspects: Path | None,
    every: Path | None,
    cleaned: Path | None,
    ids: tuple[str, ...],
    text: str | None,
    image: str | None,
    features: tuple[str, ...],
    drop: tuple[str, ...],
    noise_rate: float | str,
    title: str | None,
    seed: int,
    quiet: bool,
) -> None:
    """Find the labels in DATA that are probably wrong, and show why.

    DATA is CSV with a header row, Parquet, npz or npy. Numeric columns are
    features. Writes one HTML page that needs no network, and suspects.csv.
    No model is needed and nothing is cross-validated.
    """
    from nearkin.audit import audit_labels
    from nearkin.audit._audit import COLUMNS
    from nearkin.cli import _text
    from nearkin.cli._data import check_passed_on, read_training
    from nearkin.cli._output import write_columns
    from nearkin.cli._progress import progress_bar

    listing = suspects or output.parent / "suspects.csv"
    check_passed_on(ids, COLUMNS)
    _check_files(data, labels, output, listing, every, cleaned)
    named = [*ids, *([text] if text else []), *([image] if image else [])]
    begun = time.perf_counter()
    rows = read_training(data, label, labels, listed(features), listed(drop), ids=named)
    assert rows.y is not None
    pictures = None if image is None else _pictures(rows, image, data)
    passed_on = {name: rows.ids[name] for name in ids}
    with progress_bar(quiet=quiet):
        found = audit_labels(rows.X, rows.y, random_state=seed, noise_rate=noise_rate)
        found.to_html(
            output,
            title=title or data.name,
            ids=passed_on,
            texts=None if text is None else rows.ids[text],
            images=pictures,
            notes={"Data": data.name, "Label": label or (labels.name if labels else "y")},
            first_row=1,
        )
        found.to_csv(listing, ids=passed_on, suspects_only=True, first_row=1)
        if every is not None:
            write_columns(every, found.columns(passed_on, first_row=1))
        if cleaned is not None:
            write_columns(cleaned, _cleaned(found, passed_on))
    if quiet:
        return
    lines = found.summary()
    written = [output, *(one for one in (every, cleaned) if one is not None)]
    lines += [
        ("time", f"{time.perf_counter() - begun:.1f} s"),
        ("page", ", ".join(f"{one} ({_text.size(one.stat().st_size)})" for one in written)),
        ("suspects in", f"{listing}"),
    ]
    click.echo(_text.pairs(lines))
    if rows.n_unnamed:
        click.echo("nearkin: note: a column without a name was taken for a row index and left out.", err=True)


def _check_files(
    data: Path, labels: Path | None, output: Path, listing: Path, every: Path | None, cleaned: Path | None
) -> None:
    """Refuse, before any work is done, what cannot be written or would replace what is not ours."""
    from nearkin.cli._output import TABLES, check_destination

    inputs = [data, *([labels] if labels else [])]
    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{output}: the page is HTML, so its name must end in .html.")
    wanted = [(output, ()), (listing, (".csv",)), *((one, TABLES) for one in (every, cleaned) if one is not None)]
    seen: set[Path] = set()
    for path, kinds in wanted:
        check_destination(path, inputs, kinds)
        if path.resolve() in seen:
            raise UserError(f"{path} is named twice among the files to write.")
        seen.add(path.resolve())
    for path, mark in ((output, _PAGE_MARK), (listing, _TABLE_MARK)):
        if path.is_file() and path.stat().st_size and mark not in _beginning(path):
            option = "-o" if path == output else "--suspects"
            raise UserError(f"{path} exists and was not written by nearkin audit; choose another name with {option}.")


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


def _pictures(rows: Data, image: str, data: Path) -> list[Path]:
    """Files of the pictures; some of the first must be there."""
    from nearkin.audit._thumbnails import require_pillow

    try:
        require_pillow()
    except ImportError as error:
        raise UserError(f"--image: {error}") from None
    paths = [data.parent / str(one) for one in rows.ids[image]]
    if not any(path.is_file() for path in paths[:_TRIED]):
        raise UserError(f"--image {image}: there is no file {paths[0]}; paths begin at the folder of {data.name}.")
    return paths


def _cleaned(found: LabelAudit, ids: dict[str, Any]) -> dict[str, Any]:
    columns = found.columns(ids, first_row=1)
    names = [*ids, "row", "suggested_label", "given_label"]
    return {"label" if name == "suggested_label" else name: columns[name] for name in names}
