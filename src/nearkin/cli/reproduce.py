"""``nearkin reproduce``: the paper's tables from data, beside the printed numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from nearkin.cli._options import listed, quiet_option
from nearkin.cli._program import examples, with_debug

__all__ = ["reproduce"]

# Named here again so that --help need not load the package of the paper; a test compares both.
_TABLES = ("table1", "table3", "table4", "table5", "grid")
_FIGURES = "figures"
_SELECTIONS = ("default", "folds", "nested")
_KINDS = ("uniform", "next-class", "boundary")


def _split_names(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    return tuple(dict.fromkeys(listed(given))) or None


def _split_levels(ctx: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[float, ...] | None:
    levels = []
    for text in listed(given):
        try:
            level = float(text)
        except ValueError:
            level = -1.0
        if not 0.0 <= level < 100.0:
            raise click.BadParameter(f"{text!r} is not a percentage from 0 to below 100.")
        levels.append(level)
    return tuple(dict.fromkeys(levels)) or None


@click.command(
    short_help="Measure the paper's tables anew.",
    epilog=examples(
        "nearkin reproduce",
        "nearkin reproduce table1 --out results",
        "nearkin reproduce table3 --quick --out results",
        "nearkin reproduce table3 --datasets wine,wdbc --noise 0,20 --out results",
        "nearkin reproduce table4 --selection nested --budget 30 --jobs 8 --out results",
        "nearkin reproduce figures --out results",
    ),
)
@click.argument("table", required=False, type=click.Choice((*_TABLES, _FIGURES)))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Folder for results.")
@click.option("--datasets", multiple=True, callback=_split_names, metavar="NAME,NAME", help="Only these data sets.")
@click.option("--noise", multiple=True, callback=_split_levels, metavar="PERCENT,...", help="Only these noise levels.")
@click.option("--methods", multiple=True, metavar="NAME", help="Only this column. Repeatable.")
@click.option(
    "--selection",
    type=click.Choice(_SELECTIONS),
    default="default",
    show_default=True,
    help="How to choose parameters: not at all, on the folds that also test, or on inner folds with noisy labels.",
)
@click.option("--kind", type=click.Choice(_KINDS), default="uniform", show_default=True, help="Kind of label noise.")
@click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder with data files.  [default: $NEARKIN_DATA]",
)
@click.option(
    "--jobs", "n_jobs", type=click.IntRange(1), default=1, metavar="N", show_default=True, help="Cells at once."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", show_default=True, help="Same seed, same numbers."
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="N",
    help="Settings that a search tries; a fifth beyond 2,000 rows.  [default: 32]",
)
@click.option(
    "--draws", "n_draws", type=click.IntRange(1), metavar="N",
    help="Draws of folds and noise.  [default: 1; table1: 50]",
)  # fmt: skip
@click.option("--quick", is_flag=True, help="Small data sets, few cells: a look in under three minutes.")
@click.option("--resume/--fresh", default=True, help="Keep finished cells (the default), or measure all again.")
@quiet_option
@with_debug
def reproduce(table: str | None, out: Path | None, quick: bool, quiet: bool, resume: bool, **options: Any) -> None:
    """Measure TABLE anew and put it beside the numbers that the paper prints.

    Writes TABLE.json, TABLE.md and TABLE.html. The file cells.jsonl keeps every
    finished cell, so that a run that was stopped goes on where it was.

    TABLE may also be the word figures, which draws Figures 2, 3, 8 to 11 anew,
    and 12 and 14 from table3 and table4 in DIR. It takes --out, --seed and
    --quick. Without TABLE the command lists what there is to measure.
    """
    if table is None:
        _list_tables()
        return
    if out is None:
        raise click.MissingParameter(param_hint="'--out'", param_type="option")
    say = (lambda line: None) if quiet else partial(click.echo, err=True)
    if table == _FIGURES:
        from nearkin.paper.figures import draw_figures

        files, left_out = draw_figures(out, seed=options["seed"], n_runs=2 if quick else 10)
        records = []
    else:
        from nearkin import paper

        run = {name: options.pop(name) for name in ("folder", "n_jobs")}
        wanted = paper.shrink(paper.TABLES[table]) if quick else paper.TABLES[table]
        options["methods"] = options["methods"] or None
        result = paper.reproduce(paper.narrow(wanted, **options), out, fresh=not resume, say=say, **run)
        files, left_out, records = result.files, result.left_out, result.records
    for one in left_out:
        click.echo(f"nearkin: left out: {one}", err=True)
    if quiet:
        return
    compared = [one["difference"] for one in records if one.get("difference") is not None]
    if compared:
        click.echo(f"{sum(one >= 0 for one in compared)} of {len(compared)} printed numbers are reached.")
    click.echo(f"Written: {', '.join(map(str, files))}")


def _list_tables() -> None:
    from nearkin.cli import _text
    from nearkin.paper import TABLES

    titles = [*((name, table.title) for name, table in TABLES.items()), (_FIGURES, "Figures 2, 3, 8 to 12 and 14")]
    click.echo(_text.pairs(titles))
    click.echo("\nChoose one, for example: nearkin reproduce table3 --quick --out results")
