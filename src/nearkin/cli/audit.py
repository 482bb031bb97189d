"""``nearkin audit``: find wrong labels in a file and show why."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show
from nearkin.cli._cluster import ClusterOptions, audit_on_cluster
from nearkin.cli._options import (
    PATH,
    Share,
    Source,
    device_option,
    option,
    options,
    output_option,
    quiet_option,
    seed_option,
    takes,
)
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.audit import LabelAudit
    from nearkin.tables import LabelledRows

__all__ = ["audit"]

#: Pictures that are looked for before the work begins.
_TRIED = 20


def _after_data(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """Name the page after the data, with its folder if that is another one: train.csv is a common name.

    The page of other data, such as wine.parquet beside wine.csv, or of another label stays where it is.
    """
    if value is not None or ctx.params.get("dask"):
        return value
    data = Path(os.path.abspath(ctx.params["data"][0]))  # noqa: PTH100  (links keep their names)
    name = Path(data.name.removesuffix(".gz")).stem
    is_here = data.parent == Path.cwd() or not data.parent.name
    stem = (name or "audit") if is_here else f"{data.parent.name}_{name}"
    pages = (Path(f"{stem}.html" if i == 1 else f"{stem}.{i}.html") for i in count(1))
    labels = ctx.params.get("labels")
    label = ctx.params.get("label") or (labels.name if labels else None)
    return next(page for page in pages if not _is_of_another(page, data.name, label))


def _is_of_another(page: Path, data: str, label: str | None) -> bool:
    """Whether a page is there that an audit of other data or of another label wrote."""
    from nearkin.audit.page import read_source

    if not page.is_file():
        return False
    source = read_source(page)
    return source is not None and (source[0] != data or (label is not None and source[1] != label))


def _after_page(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    if value is not None or ctx.params.get("dask"):
        return value
    page = ctx.params["output"]
    return page.parent / f"{page.stem}.suspects.csv"


@options
class AuditOptions(Source):
    """Options of ``nearkin audit``."""

    output: Path = output_option(
        "page",
        "-o",
        "--output",
        callback=_after_data,
        help="Page to write.  [default: wine.html for wine.csv, or wine.2.html if that is the page of other data or of "
        "another label]",
    )
    suspects: Path = output_option(
        "suspects", callback=_after_page, help="CSV of all suspects.  [default: wine.suspects.csv beside wine.html]"
    )
    every: Path | None = output_option("audit", "--all", help="Also write a table of all rows: .csv, .tsv or .parquet.")
    cleaned: Path | None = output_option(
        "cleaned", help="Also write a table of cleaned labels: .csv, .tsv or .parquet."
    )
    save: Path | None = output_option(
        "saved_audit", "--save", help="Also keep the audit itself, for nearkin.load in Python and for --before."
    )
    before: Path | None = option(
        type=PATH, metavar="FILE", help="An earlier audit to compare with: says what changed since."
    )
    how: str | None = option(
        type=click.Choice(["drop", "relabel"]),
        help="What --cleaned does with wrong labels: drop all, or relabel those with a confident suggestion and drop "
        "the others.  [default: drop]",
    )
    min_confidence: float | None = option(
        type=Share(), metavar="SHARE", help="Least confidence at which --how relabel relabels.  [default: 0.8]"
    )
    tier: str | None = option(
        type=click.Choice(["wrong", "all"]),
        help="Which suspects --cleaned drops or relabels: those called wrong, or also those worth a look.  "
        "[default: wrong]",
    )
    ids: tuple[str, ...] = option(
        "--id",
        multiple=True,
        metavar="COL",
        help="Column that names rows, in page and tables; learned from only if --features names it. Repeatable.",
    )
    group: str | None = option(
        metavar="COL", help="Column of groups, such as patients: rows of a group do not vouch for each other."
    )
    show: tuple[str, ...] = option(
        multiple=True, metavar="COL", help="Column to show beside the rows, not to learn from. Repeatable."
    )
    noise_rate: float | str = option(
        type=Share("auto", below_one=True), metavar="auto|SHARE", default="auto",
        help="Share of wrong labels, if you know it; auto estimates it.",
    )  # fmt: skip
    title: str | None = option(metavar="TEXT", help="Heading of the page.  [default: name of DATA]")
    seed: int = seed_option("result")
    device: str = device_option("Where rows are judged.")

    @property
    def others(self) -> dict[str, str]:
        """Columns that are not learned from, and what for."""
        found = dict.fromkeys(self.ids, "names the rows (--id)")
        if self.group:
            found.setdefault(self.group, "groups the rows (--group)")
        for name in self.show:
            found.setdefault(name, "shown (--show)")
        return found

    @property
    def cleaning(self) -> dict[str, Any]:
        """What to do with suspects; options that would do nothing are refused."""
        given = {"how": self.how, "min_confidence": self.min_confidence, "tier": self.tier}
        given = {name: value for name, value in given.items() if value is not None}
        if given and self.cleaned is None:
            flag = f"--{next(iter(given)).replace('_', '-')}"
            raise InputError(f"{flag} says how labels are cleaned; name a file for them with --cleaned.")
        if self.min_confidence is not None and self.how != "relabel":
            raise InputError("--min-confidence is for relabelling; add --how relabel.")
        return given


@command(
    "Find wrong labels and write a page about them.",
    "nearkin audit reviews.parquet --label stars --id review --text body",
    "nearkin audit passengers.csv --label survived -o passengers.html",
    "nearkin audit wine.csv --label cultivar --drop bottle -o wine.html",
    "nearkin audit photos.csv --label animal --image file -o photos.html",
    "nearkin audit photos/ -o photos.html",
    "nearkin audit embeddings.npy --labels labels.txt -o report.html",
    "nearkin audit data.npz --label y --cleaned labels.csv --how relabel",
    "nearkin audit mended.csv --label y --before monday.nearkin --save friday.nearkin",
    "nearkin audit big/*.parquet --label y --dask local:4 --into doubts",
)
@click.argument("data", type=PATH, metavar="DATA...", nargs=-1, required=True)
@takes(AuditOptions)
@takes(ClusterOptions, "cluster")
@quiet_option
@with_debug
def audit(data: Sequence[Path], given: AuditOptions, cluster: ClusterOptions, quiet: bool) -> None:
    """Find the labels in DATA that are probably wrong, and show why.

    DATA is CSV with a header row, Excel, Parquet, npz or npy. Its columns may
    hold numbers, categories, dates, texts and gaps; columns that name or count
    the rows are left out, and a line for each says what became of it. Writes
    one HTML page that needs no network, and a table of the suspects beside it;
    both are named after DATA unless you name them. Rows count from 0, the first
    below the header, and go by the column that --id names. DATA may also be a
    folder of pictures in folders, one for each class.
    No model is needed: a jury of neighbours and regressions votes on every
    label, and no voter has seen the label it judges.

    With --dask, several files or a pattern are read part by part, so they need
    not fit into memory. It writes tables of suspects and no page.
    """
    if cluster.dask is not None:
        audit_on_cluster(data, given, cluster, quiet=quiet)
        return
    cluster.check_unused(data)
    _audit_table(data[0], given, quiet=quiet)


def _audit_table(data: Path, given: AuditOptions, *, quiet: bool) -> None:
    """Audit one file, all in memory."""
    from nearkin.audit import CLEANED, COLUMNS, audit_rows, compare
    from nearkin.audit.change import KnownRows, match_rows
    from nearkin.audit.exports import tell_names
    from nearkin.jury.cost import announce_cost
    from nearkin.saving import save
    from nearkin.tables import check_names, read_training, write_columns

    cleaning, before = given.cleaning, None if given.before is None else _read_audit(given.before)
    if given.output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{given.output}: the page is HTML, so its name must end in .html.")
    check_names(given.ids, COLUMNS if given.cleaned is None else (*COLUMNS, *CLEANED))
    begun = time.perf_counter()
    image = given.image or (["file"] if data.is_dir() else [])
    shown = dict.fromkeys([*given.text, *image[:1]], "shown")
    rows = read_training(
        data, given.label, given.labels, given.features, given.drop, shown | given.others, given.text, image,
        given.embedding,
    )  # fmt: skip
    assert rows.y is not None
    pictures = _pictures(rows, image[0], data) if image else None
    named = given.ids or [one for one in image[:1] if one not in (*COLUMNS, *CLEANED)]  # pictures go by their files
    ids = {name: rows.others[name] for name in named}
    beside, (n, d), n_classes = dict.fromkeys([*given.text, *given.show]), rows.X.shape, len(set(rows.y.tolist()))
    names = [str(one) for one in next(iter(ids.values()))] if ids else None
    if before is not None:
        match_rows(KnownRows.of(before), KnownRows.of_table(rows, names))  # refused now, not after the work
    with _show.progress_bar(quiet=quiet), announce_cost(n, d, n_classes, with_page=True):
        found = audit_rows(
            rows, random_state=given.seed, noise_rate=given.noise_rate, device=given.device,
            groups=None if given.group is None else rows.others[given.group],
        )  # fmt: skip
        if found.shown_columns is not None:  # what is shown beside a row is not shown twice
            found.shown_columns = found.shown_columns.without(beside)
        if names is not None:
            found.names = names
        since = [] if before is None else str(compare(before, found)).splitlines()
        found.to_html(
            given.output,
            title=given.title or data.name,
            ids=ids,
            texts=_tell_beside({name: rows.others[name] for name in beside}, given.text),
            images=pictures,
            source=data,
            notes={"Data": data.name, "Label": rows.label or (given.labels.name if given.labels else "y")},
        )
        found.to_csv(given.suspects, ids=ids, suspects_only=True)
        if given.every is not None:
            write_columns(given.every, found.to_columns(ids), "audit")
        if given.save is not None:
            save(found, given.save)
        cleaned = None if given.cleaned is None else found.cleaned_columns(ids, **cleaning)
        if given.cleaned is not None and cleaned is not None:
            write_columns(given.cleaned, cleaned, "cleaned")
    if not quiet:
        lines = [
            *(one for one in found.summary() if one[0] != "names"),  # told below, of all columns of names
            *(("since then", one) for one in since),
            *_show.tell_columns(rows.columns),
            *tell_names(ids),
            ("time", f"{time.perf_counter() - begun:.1f} s"),
            *_written(given, cleaned, len(rows.X)),
        ]
        _show.echo(_show.pairs(lines))
        _show.note_unnamed(rows.n_unnamed)


def _read_audit(path: Path) -> LabelAudit:
    """Read an audit that was kept."""
    from nearkin.audit import LabelAudit
    from nearkin.saving import load

    found = load(path)
    if not isinstance(found, LabelAudit):
        raise InputError(f"--before {path} holds a {type(found).__name__}, not an audit; --save keeps one.")
    return found


def _tell_beside(columns: dict[str, Any], texts: list[str]) -> list[str] | None:
    """Return what is shown beside each row: its text, or a line for each of some columns."""
    if not columns:
        return None
    if len(columns) == 1 and texts:
        return [str(one) for one in next(iter(columns.values()))]
    return [
        "\n".join(f"{name}: {one}" for name, one in zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _pictures(rows: LabelledRows, image: str, data: Path) -> list[Path]:
    """Return the files of the pictures; one of the first must be there."""
    from nearkin.tables import require_pillow

    require_pillow()
    folder = data if data.is_dir() else data.parent
    paths = [folder / str(one) for one in rows.others[image]]
    if not any(path.is_file() for path in paths[:_TRIED]):
        raise InputError(f"--image {image}: there is no file {paths[0]}; paths start at the folder of {data.name}.")
    return paths


def _written(given: AuditOptions, cleaned: dict[str, Any] | None, n_rows: int) -> list[tuple[str, str]]:
    """Return which files were written."""
    lines = [
        ("page", f"{given.output} ({_show.size(given.output.stat().st_size)})"),
        ("suspects in", str(given.suspects)),
    ]
    if given.save is not None:
        lines.append(("audit in", str(given.save)))
    if given.every is not None:
        lines.append(("all rows in", str(given.every)))
    if cleaned is not None:
        n_left = len(cleaned["row"])
        changed = sum(new != old for new, old in zip(cleaned["label"], cleaned["given_label"], strict=True))
        left = f"{_show.count(n_left, 'row')} left, {changed:,} relabelled, {n_rows - n_left:,} dropped"
        lines.append(("cleaned in", f"{given.cleaned}: {left}"))
    return lines
