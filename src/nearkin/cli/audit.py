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
    from nearkin.tables import LabelledRows

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
        "nearkin audit data.npz --label y --cleaned labels.csv --how relabel",
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
    "--how", type=click.Choice(["drop", "relabel"]),
    help="What --cleaned does with suspects: drop all, or relabel those with a confident suggestion and drop the "
    "others.  [default: drop]",
)  # fmt: skip
@click.option(
    "--min-confidence", type=float, metavar="SHARE",
    help="Least confidence of a suggestion that --how relabel takes.  [default: 0.8]",
)  # fmt: skip
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
    how: str | None,
    min_confidence: float | None,
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
    No model is needed: a jury of neighbours and regressions votes on every
    label, and no voter has seen the label it judges.
    """
    from nearkin.audit import CLEANED, COLUMNS, audit_labels
    from nearkin.cli import _text
    from nearkin.cli._progress import progress_bar
    from nearkin.errors import owned_by
    from nearkin.tables import check_names, read_training, write_columns

    listing = suspects or output.parent / "suspects.csv"
    cleaning = _cleaning(how, min_confidence, cleaned)
    check_names(ids, COLUMNS if cleaned is None else (*COLUMNS, *CLEANED))
    _check_files(data, labels, output, listing, every, cleaned)
    named = [*ids, *([text] if text else []), *([image] if image else [])]
    begun = time.perf_counter()
    rows = read_training(data, label, labels, listed(features), listed(drop), others=named)
    assert rows.y is not None
    pictures = None if image is None else _pictures(rows, image, data)
    passed_on = {name: rows.others[name] for name in ids}
    with progress_bar(quiet=quiet):
        with owned_by("audit"):
            found = audit_labels(rows.X, rows.y, random_state=seed, noise_rate=noise_rate)
        found.to_html(
            output,
            title=title or data.name,
            ids=passed_on,
            texts=None if text is None else rows.others[text],
            images=pictures,
            notes={"Data": data.name, "Label": label or (labels.name if labels else "y")},
            first_row=1,
        )
        found.to_csv(listing, ids=passed_on, suspects_only=True, first_row=1)
        if every is not None:
            write_columns(every, found.columns(passed_on, first_row=1))
        if cleaned is not None:
            left = found.cleaned_columns(passed_on, first_row=1, **cleaning)
            write_columns(cleaned, left)
    if quiet:
        return
    lines = found.summary()
    lines += [
        ("time", f"{time.perf_counter() - begun:.1f} s"),
        ("page", f"{output} ({_text.size(output.stat().st_size)})"),
        ("suspects in", f"{listing}"),
    ]
    if every is not None:
        lines.append(("all rows in", f"{every}"))
    if cleaned is not None:
        lines.append(("cleaned in", f"{cleaned}: {_outcome(left, found.n_rows)}"))
    click.echo(_text.pairs(lines))
    if rows.n_unnamed:
        click.echo("nearkin: note: a column without a name was taken for a row index and left out.", err=True)


def _check_files(
    data: Path, labels: Path | None, output: Path, listing: Path, every: Path | None, cleaned: Path | None
) -> None:
    """Refuse, before any work is done, what cannot be written or would replace what is not ours."""
    from nearkin.tables import TABLE_SUFFIXES, check_destination

    inputs = [data, *([labels] if labels else [])]
    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{output}: the page is HTML, so its name must end in .html.")
    wanted = [
        (output, ()),
        (listing, (".csv",)),
        *((one, TABLE_SUFFIXES) for one in (every, cleaned) if one is not None),
    ]
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


def _pictures(rows: LabelledRows, image: str, data: Path) -> list[Path]:
    """Files of the pictures; some of the first must be there."""
    from nearkin.audit.page import require_pillow

    try:
        require_pillow()
    except ImportError as error:
        raise UserError(f"--image: {error}") from None
    paths = [data.parent / str(one) for one in rows.others[image]]
    if not any(path.is_file() for path in paths[:_TRIED]):
        raise UserError(f"--image {image}: there is no file {paths[0]}; paths begin at the folder of {data.name}.")
    return paths


def _cleaning(how: str | None, min_confidence: float | None, cleaned: Path | None) -> dict[str, Any]:
    """Options of `LabelAudit.cleaned_columns`; those that would do nothing are refused."""
    if cleaned is None and (how, min_confidence) != (None, None):
        option = "--how" if how is not None else "--min-confidence"
        raise UserError(f"{option} says how labels are cleaned; name a file for them with --cleaned.")
    if min_confidence is not None and how != "relabel":
        raise UserError("--min-confidence is for suggestions that are taken; add --how relabel.")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        hint = f" ({min_confidence:g} percent is {min_confidence / 100:g})" if 1 < min_confidence <= 100 else ""
        raise UserError(f"--min-confidence must be a number in [0, 1]; got {min_confidence:g}{hint}.")
    return {name: value for name, value in (("how", how), ("min_confidence", min_confidence)) if value is not None}


def _outcome(left: dict[str, Any], n_rows: int) -> str:
    from nearkin.cli._text import count

    n_left = len(left["row"])
    n_changed = sum(new != old for new, old in zip(left["label"].tolist(), left["given_label"].tolist(), strict=True))
    return f"{count(n_left, 'row')} left, {count(n_changed)} relabelled, {count(n_rows - n_left)} dropped"
