"""``nearkin datasets``: which data sets are known, where they would come from, and what to beware of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearkin.cli._program import examples, with_debug

if TYPE_CHECKING:
    from nearkin.datasets import DatasetInfo

__all__ = ["datasets"]

_DATA = click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder with data files.  [default: $NEARKIN_DATA]",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="For machines.")
_NOT_HERE, _DAMAGED = "not here", "wrong checksum"


@click.group(
    invoke_without_command=True,
    short_help="List data sets and what is known about them.",
    epilog=examples("nearkin datasets list", "nearkin datasets list --data ~/data", "nearkin datasets info ionosphere"),
)
@with_debug
@click.pass_context
def datasets(ctx: click.Context) -> None:
    """List the data sets of the paper and others, and what is known about them.

    No data comes with nearkin. It is read from a folder (--data or the
    environment variable NEARKIN_DATA), from scikit-learn, or from OpenML.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@datasets.command(
    "list",
    short_help="All data sets, their size and their source.",
    epilog=examples("nearkin datasets list", "nearkin datasets list --data ~/data --json"),
)
@_DATA
@_JSON
@with_debug
def list_all(folder: Path | None, as_json: bool) -> None:
    """List all data sets, their size, and where they would come from.

    Files are compared with their checksums. Nothing is downloaded.
    """
    from nearkin.datasets import info, names

    entries = [info(name) for name in names()]
    sources = [_source(entry, folder)[0] for entry in entries]
    if as_json:
        import json

        keys = ("name", "title", "file", "n_rows", "n_features", "n_classes")
        facts = [
            {key: getattr(entry, key) for key in keys} | {"source": source}
            for entry, source in zip(entries, sources, strict=True)
        ]
        click.echo(json.dumps(facts, indent=2))
        return
    from nearkin.cli import _text

    table = _text.columns(
        ["name", "rows", "features", "classes", "from"],
        [
            [entry.name, *(_text.count(n) for n in (entry.n_rows, entry.n_features, entry.n_classes)), source]
            for entry, source in zip(entries, sources, strict=True)
        ],
    )
    click.echo(_text.bold(table[0]))
    click.echo("\n".join(table[1:]))
    if _NOT_HERE in sources:
        click.echo()
        click.echo("How to get one that is not here: nearkin datasets info NAME")


@datasets.command(
    "info",
    short_help="What is known about one data set.",
    epilog=examples("nearkin datasets info wine", "nearkin datasets info covid-resnet18 --json"),
)
@click.argument("name")
@_DATA
@_JSON
@with_debug
def show_one(name: str, folder: Path | None, as_json: bool) -> None:
    """Show size, licence, citation, traps and sources of the data set NAME."""
    from nearkin.datasets import info

    entry = info(name)
    source, advice = _source(entry, folder)
    if as_json:
        import json
        from dataclasses import asdict

        click.echo(json.dumps(asdict(entry) | {"source": source}, indent=2))
    else:
        _show(entry, source, advice)


def _source(entry: DatasetInfo, folder: Path | None) -> tuple[str, str]:
    """Where the data would come from, and what is to be done if it would not."""
    from nearkin.datasets import WrongChecksum, where

    try:
        source = where(entry.name, folder)
    except WrongChecksum as error:
        return _DAMAGED, str(error)
    if source is not None:
        return source, ""
    return _NOT_HERE, f"Put {entry.file} into a folder and name the folder by --data or NEARKIN_DATA."


def _show(entry: DatasetInfo, source: str, advice: str) -> None:
    from textwrap import fill

    from nearkin.cli import _text

    classes = f": {', '.join(entry.class_names)}" if entry.class_names else ""
    noisy = [f"{name}: {_text.percent(one.wrong)} wrong, {one.about}" for name, one in entry.noisy_labels.items()]
    lines = [
        ("rows", _text.count(entry.n_rows)),
        ("features", f"{_text.count(entry.n_features)}, {entry.dtype}"),
        ("classes", f"{entry.n_classes}{classes}"),
        *_under("human labels", noisy),
        *_under("also holds", [f"{name}: {about}" for name, about in entry.extra.items()]),
        *_under("groups", [f"{entry.groups}: equal where rows are copies of each other"] if entry.groups else []),
        ("in the paper", entry.paper),
        *_under("to drop", [f"column {column}, counted from 0" for column in entry.drop_columns]),
        *_under("beware", entry.traps),
        ("licence", entry.licence),
        *_under("cite", entry.citation),
        ("made from", entry.origin),
        ("file", entry.file),
        ("sha256", entry.sha256),
        ("from", source),
        *_under("elsewhere", [entry.elsewhere] if entry.elsewhere else []),
    ]
    click.echo(_text.bold(f"{entry.name}: {entry.title}"))
    click.echo(_text.pairs(lines))
    if advice:
        click.echo()
        click.echo(fill(advice, _text.WIDTH, break_long_words=False, break_on_hyphens=False))


def _under(title: str, values: Sequence[str]) -> list[tuple[str, str]]:
    """Values one below the other, the first of them beside the title."""
    return [("" if at else title, value) for at, value in enumerate(values)]
