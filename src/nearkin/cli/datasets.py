"""``nearkin datasets``: which data sets nearkin knows, where they would come from, and what to beware of."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import click

from nearkin.cli import _show
from nearkin.cli._options import folder_option, option, options, takes
from nearkin.cli._program import examples, with_debug

if TYPE_CHECKING:
    from nearkin.datasets import DatasetInfo

__all__ = ["datasets"]

_NOT_HERE, _DAMAGED = "not here", "wrong checksum"


@options
class Asked:
    """Where to look, and how to answer."""

    folder: Path | None = folder_option()
    as_json: bool = option("--json", help="For machines.")


@click.group(
    invoke_without_command=True,
    short_help="List data sets and what is known about them.",
    epilog=examples("nearkin datasets list", "nearkin datasets list --data ~/data", "nearkin datasets info ionosphere"),
)
@with_debug
@click.pass_context
def datasets(ctx: click.Context) -> None:
    """List the data sets of the paper and others, and what is known about them.

    nearkin comes without data. It reads data from a folder (--data or the
    environment variable NEARKIN_DATA), from scikit-learn, or from OpenML.
    """
    if ctx.invoked_subcommand is None:
        _show.echo(ctx.get_help())


@datasets.command(
    "list",
    short_help="All data sets, their size and their source.",
    epilog=examples("nearkin datasets list", "nearkin datasets list --data ~/data --json"),
)
@takes(Asked)
@with_debug
def list_all(given: Asked) -> None:
    """List all data sets, their size, and where they would come from.

    Compares files with their checksums. Downloads nothing.
    """
    from nearkin.datasets import info, names

    sizes = ("n_rows", "n_features", "n_classes")
    entries = [(info(name), _find_source(info(name), given.folder)[0]) for name in names()]
    if given.as_json:
        keys = ("name", "title", "file", *sizes)
        facts = [{key: getattr(entry, key) for key in keys} | {"source": source} for entry, source in entries]
        _show.echo(json.dumps(facts, indent=2))
        return
    rows = [[entry.name, *(_show.count(getattr(entry, size)) for size in sizes), source] for entry, source in entries]
    header, *table = _show.columns(["name", "rows", "features", "classes", "from"], rows)
    _show.echo("\n".join([_show.bold(header), *table]))
    if any(source == _NOT_HERE for _, source in entries):
        _show.echo("\nHow to get one that is not here: nearkin datasets info NAME")


@datasets.command(
    "info",
    short_help="What is known about one data set.",
    epilog=examples("nearkin datasets info wine", "nearkin datasets info covid-resnet18 --json"),
)
@click.argument("name")
@takes(Asked)
@with_debug
def show_one(name: str, given: Asked) -> None:
    """Show size, licence, citation, traps and sources of the data set NAME."""
    from nearkin.datasets import info

    entry = info(name)
    source, advice = _find_source(entry, given.folder)
    if given.as_json:
        _show.echo(json.dumps(asdict(entry) | {"source": source}, indent=2))
        return
    _show.echo(_show.bold(f"{entry.name}: {entry.title}"))
    _show.echo(_show.pairs(_list_facts(entry, source)))
    if advice:
        _show.echo("\n" + fill(advice, _show.WIDTH, break_long_words=False, break_on_hyphens=False))


def _find_source(entry: DatasetInfo, folder: Path | None) -> tuple[str, str]:
    """Where a data set would come from, and what to do if it cannot."""
    from nearkin.datasets import WrongChecksum, where

    try:
        source = where(entry.name, folder)
    except WrongChecksum as error:
        return _DAMAGED, str(error)
    if source is not None:
        return source, ""
    return _NOT_HERE, f"Put {entry.file} into a folder and name the folder by --data or NEARKIN_DATA."


def _list_facts(entry: DatasetInfo, source: str) -> list[tuple[str, str]]:
    """Titles and values; of several values, only the first has a title."""
    classes = f": {', '.join(entry.class_names)}" if entry.class_names else ""
    people = entry.noisy_labels.items()
    facts: dict[str, list[str]] = {
        "rows": [_show.count(entry.n_rows)],
        "features": [f"{_show.count(entry.n_features)}, {entry.dtype}"],
        "classes": [f"{entry.n_classes}{classes}"],
        "human labels": [f"{name}: {_show.percent(one.wrong)} wrong, {one.about}" for name, one in people],
        "also holds": [f"{name}: {about}" for name, about in entry.extra.items()],
        "groups": [f"{entry.groups}: equal where rows are copies of each other"] if entry.groups else [],
        "in the paper": [entry.paper],
        "to drop": [f"column {column}, counted from 0" for column in entry.drop_columns],
        "beware": [*entry.traps],
        "licence": [entry.licence],
        "cite": [*entry.citation],
        "made from": [entry.origin],
        "file": [entry.file],
        "sha256": [entry.sha256],
        "from": [source],
        "elsewhere": [entry.elsewhere] if entry.elsewhere else [],
    }
    return [("" if at else title, value) for title, values in facts.items() for at, value in enumerate(values)]
