"""``nearkin reproduce``: the paper's tables from data, beside the printed numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from nearkin.cli import _show
from nearkin.cli._options import folder_option, listed, names_option, option, options, quiet_option, seed_option, takes
from nearkin.cli._program import command, with_debug

__all__ = ["reproduce"]

# Named here again so that --help need not load the package of the paper; a test compares both.
_TABLES = ("table1", "table3", "table4", "table5", "grid")
_FIGURES = "figures"
_SELECTIONS = ("default", "folds", "nested")
_KINDS = ("uniform", "next-class", "boundary")


def _split_levels(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[float, ...] | None:
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


@options
class Wanted:
    """What to measure, and how."""

    out: Path | None = option(
        type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Folder for results."
    )
    datasets: list[str] = names_option(metavar="NAME,NAME", help="Only these data sets.")
    noise: tuple[float, ...] | None = option(
        multiple=True, callback=_split_levels, metavar="PERCENT,...", help="Only these noise levels."
    )
    methods: tuple[str, ...] = option(multiple=True, metavar="NAME", help="Only this column. Repeatable.")
    selection: str = option(
        type=click.Choice(_SELECTIONS), default="default",
        help="How to choose parameters: not at all, on the folds that also test, or on inner folds with noisy labels.",
    )  # fmt: skip
    kind: str = option(type=click.Choice(_KINDS), default="uniform", help="Kind of label noise.")
    folder: Path | None = folder_option()
    n_jobs: int = option("--jobs", default=1, help="Cells at once.")
    seed: int = seed_option("numbers")
    budget: int | None = option(help="Settings that a search tries; a fifth beyond 2,000 rows.  [default: 32]")
    settings: Path | None = option(
        type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
        help="JSON file of settings that a search tries first, by data set and column.",
    )  # fmt: skip
    n_draws: int | None = option("--draws", help="Draws of folds and noise.  [default: 1; table1: 50]")
    quick: bool = option(help="Small data sets, few cells: a look in under three minutes.")
    resume: bool = option(
        "--resume/--fresh", default=True, show_default=False,
        help="Keep finished cells (the default), or measure all again.",
    )  # fmt: skip


@command(
    "Measure the paper's tables anew.",
    "nearkin reproduce",
    "nearkin reproduce table1 --out results",
    "nearkin reproduce table3 --quick --out results",
    "nearkin reproduce table3 --datasets wine,wdbc --noise 0,20 --out results",
    "nearkin reproduce table4 --selection nested --budget 30 --jobs 8 --out results",
    "nearkin reproduce figures --out results",
)
@click.argument("table", required=False, type=click.Choice((*_TABLES, _FIGURES)))
@takes(Wanted)
@quiet_option
@with_debug
def reproduce(table: str | None, given: Wanted, quiet: bool) -> None:
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
    if given.out is None:
        raise click.MissingParameter(param_hint="'--out'", param_type="option")
    say = (lambda line: None) if quiet else partial(_show.echo, err=True)
    if table == _FIGURES:
        from nearkin.paper.figures import draw_figures

        files, left_out = draw_figures(given.out, seed=given.seed, n_runs=2 if given.quick else 10)
        records = []
    else:
        from nearkin import paper

        wanted = paper.narrow(
            paper.shrink(paper.TABLES[table]) if given.quick else paper.TABLES[table],
            datasets=tuple(dict.fromkeys(given.datasets)) or None, noise=given.noise, methods=given.methods or None,
            selection=given.selection, kind=given.kind, seed=given.seed, budget=given.budget, n_draws=given.n_draws,
            settings=json.loads(given.settings.read_text("utf-8")) if given.settings else None,
        )  # fmt: skip
        result = paper.reproduce(
            wanted, given.out, folder=given.folder, n_jobs=given.n_jobs, fresh=not given.resume, say=say
        )
        files, left_out, records = result.files, result.left_out, result.records
    for one in left_out:
        _show.echo(f"nearkin: left out: {one}", err=True)
    if quiet:
        return
    compared = [one["difference"] for one in records if one.get("difference") is not None]
    if compared:
        _show.echo(f"{sum(one >= 0 for one in compared)} of {len(compared)} printed numbers are reached.")
    _show.echo(f"Written: {', '.join(map(str, files))}")


def _list_tables() -> None:
    from nearkin.paper import TABLES

    titles = [*((name, table.title) for name, table in TABLES.items()), (_FIGURES, "Figures 2, 3, 8 to 12 and 14")]
    _show.echo(_show.pairs(titles))
    _show.echo("\nChoose one, for example: nearkin reproduce table3 --quick --out results")
