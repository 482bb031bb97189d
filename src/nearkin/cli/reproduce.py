"""``nearkin reproduce``: the paper's tables from data, beside the printed numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearkin.cli._options import listed, quiet_option
from nearkin.cli._program import examples, with_debug

if TYPE_CHECKING:
    from nearkin.paper.reproduce import Result
    from nearkin.paper.runner import Advance

__all__ = ["reproduce"]

# Named here again so that --help need not load the experiments; a test compares both.
_TABLES = ("table1", "table3", "table4", "table5", "grid", "rivals", "human")
_FIGURES = "figures"
_SELECTIONS = ("default", "folds", "nested")
_KINDS = ("uniform", "next-class", "boundary")


@click.command(
    short_help="Measure the paper's tables anew.",
    epilog=examples(
        "nearkin reproduce table1 --out results",
        "nearkin reproduce table3 --quick --out results",
        "nearkin reproduce table3 --datasets wine,wdbc --noise 0,20 --out results",
        "nearkin reproduce table4 --selection nested --budget 30 --jobs 8 --out results",
        "nearkin reproduce figures --out results",
    ),
)
@click.argument("table", type=click.Choice((*_TABLES, _FIGURES)))
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="Folder for results."
)
@click.option("--datasets", multiple=True, metavar="NAME,NAME", help="Only these data sets.")
@click.option("--noise", multiple=True, metavar="PERCENT,PERCENT", help="Only these levels of noise.")
@click.option("--methods", multiple=True, metavar="NAME", help="Only this column. Repeatable.")
@click.option(
    "--selection",
    type=click.Choice(_SELECTIONS),
    default="default",
    show_default=True,
    help="How parameters are chosen: not at all, by the folds that also judge, or by inner folds with noisy labels.",
)
@click.option("--kind", type=click.Choice(_KINDS), default="uniform", show_default=True, help="Kind of label noise.")
@click.option(
    "--data",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder with data files.  [default: $NEARKIN_DATA]",
)
@click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", show_default=True, help="Cells at once.")
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
    "--draws", type=click.IntRange(1), metavar="N", help="Draws of folds and noise.  [default: 1; table1: 50]"
)
@click.option("--quick", is_flag=True, help="Small data sets, few cells: a look in under three minutes.")
@click.option("--resume/--fresh", default=True, help="Keep finished cells (the default), or measure all again.")
@quiet_option
@with_debug
def reproduce(
    table: str,
    out: Path,
    datasets: tuple[str, ...],
    noise: tuple[str, ...],
    methods: tuple[str, ...],
    selection: str,
    kind: str,
    folder: Path | None,
    jobs: int,
    seed: int,
    budget: int | None,
    draws: int | None,
    quick: bool,
    resume: bool,
    quiet: bool,
) -> None:
    """Measure TABLE anew and put it beside the numbers that the paper prints.

    Writes TABLE.json, TABLE.md and TABLE.html. Every finished cell is kept in
    cells.jsonl, so that a run that was stopped goes on where it was.

    TABLE may also be the word figures: draws Figures 2, 3, 8 to 11 anew, and
    12 and 14 from table3 and table4 in DIR. Takes --out, --seed and --quick.
    """
    if table == _FIGURES:
        _draw(out, seed, 2 if quick else 10, quiet=quiet)
        return
    from nearkin.paper.reproduce import Request
    from nearkin.paper.reproduce import reproduce as measure

    request = Request(
        table,
        out,
        datasets=tuple(dict.fromkeys(listed(datasets))) or None,
        noise=_levels(noise),
        methods=methods or None,
        selection=selection,
        kind=kind,
        folder=folder,
        n_jobs=jobs,
        seed=seed,
        budget=budget,
        n_draws=draws,
        quick=quick,
        fresh=not resume,
    )
    result = measure(request) if quiet else measure(request, begin=_begin, tell=_tell)
    _show(result, quiet=quiet)


def _draw(out: Path, seed: int, n_runs: int, *, quiet: bool) -> None:
    from nearkin.paper.figures import draw_figures

    files, left_out = draw_figures(out, seed=seed, n_runs=n_runs)
    for one in left_out:
        click.echo(f"nearkin: left out: {one}", err=True)
    if not quiet:
        click.echo(f"Written: {', '.join(map(str, files))}")


def _levels(given: tuple[str, ...]) -> tuple[float, ...] | None:
    """Percentages; None without any."""
    levels = []
    for text in listed(given):
        try:
            level = float(text)
        except ValueError:
            level = -1.0
        if not 0.0 <= level < 100.0:
            raise click.BadParameter(f"{text!r} is no percentage from 0 to below 100.", param_hint="--noise")
        levels.append(level)
    return tuple(dict.fromkeys(levels)) or None


def _begin(n_known: int, n_all: int) -> None:
    if n_known:
        click.echo(f"{n_known} of {n_all} cells are done already; --fresh would measure them again.", err=True)


def _tell(advance: Advance) -> None:
    from statistics import mean

    cell = advance.outcome.cell
    noise = cell.noise if isinstance(cell.noise, str) else f"{cell.noise:g} %"
    left = f"{_time(advance.seconds_left)} left" if advance.done < advance.total else "done"
    click.echo(
        f"[{advance.done}/{advance.total}] {cell.dataset}, {noise}, {cell.method}: "
        f"{mean(advance.outcome.accuracies):.2f} in {_time(advance.outcome.seconds)}; {left}",
        err=True,
    )


def _time(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is read best.

    Examples
    --------
    >>> _time(0.4), _time(75), _time(600), _time(9000)
    ('0.4 s', '75 s', '10 min', '2.5 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _show(result: Result, *, quiet: bool) -> None:
    for one in result.left_out:
        click.echo(f"nearkin: left out: {one}", err=True)
    if quiet:
        return
    compared = [one["difference"] for one in result.records if one.get("difference") is not None]
    if compared:
        click.echo(f"{sum(one >= 0 for one in compared)} of {len(compared)} printed numbers are reached.")
    click.echo(f"Written: {', '.join(str(path) for path in result.files)}")
