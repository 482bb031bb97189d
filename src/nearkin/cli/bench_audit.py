"""``nearkin bench-audit``: the audit beside cleanlab."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import listed, quiet_option
from nearkin.cli._program import examples, with_debug
from nearkin.cli.reproduce import _begin, _time

if TYPE_CHECKING:
    from nearkin.paper.runner import Advance

__all__ = ["bench_audit"]


@click.command(
    "bench-audit",
    short_help="Compare the label audit with cleanlab.",
    epilog=examples(
        "nearkin bench-audit --quick --out results",
        "nearkin bench-audit --datasets wine,letters --data folder --out results",
    ),
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="Folder for results."
)
@click.option("--datasets", multiple=True, metavar="NAME,NAME", help="Only these data sets.")
@click.option(
    "--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="FOLDER",
    help="Folder with data files.  [default: $NEARKIN_DATA]",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(1), default=5, metavar="N", show_default=True, help="Draws of the noise.")
@click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", show_default=True, help="Cells at once.")
@click.option("--quick", is_flag=True, help="Two small data sets, few cells: a look in under a minute.")
@click.option("--resume/--fresh", default=True, help="Keep finished cells (the default), or measure all again.")
@quiet_option
@with_debug
def bench_audit(
    out: Path,
    datasets: tuple[str, ...],
    folder: Path | None,
    seeds: int,
    jobs: int,
    quick: bool,
    resume: bool,
    quiet: bool,
) -> None:
    """Put wrong labels into data sets and see who finds them.

    Writes audit.md. Every finished cell is kept in audit.jsonl, so that a run
    that was stopped goes on where it was. Needs cleanlab: pip install
    'nearkin[paper]'.
    """
    from nearkin.paper.cleaning import CleanlabMissing
    from nearkin.paper.detection import bench

    names = tuple(dict.fromkeys(listed(datasets))) or None
    begin, tell = (lambda *_: None, lambda _: None) if quiet else (_begin, _tell)
    try:
        files, left_out = bench(
            out, names=names, folder=folder, n_seeds=seeds, n_jobs=jobs, quick=quick, fresh=not resume, begin=begin,
            tell=tell,
        )  # fmt: skip
    except CleanlabMissing as error:
        raise UserError(str(error)) from None
    for one in left_out:
        click.echo(f"nearkin: left out: {one}", err=True)
    if not quiet:
        click.echo(f"Written: {', '.join(map(str, files))}")


def _tell(advance: Advance) -> None:
    cell, found = advance.outcome.cell, advance.outcome
    noise = cell.noise if isinstance(cell.noise, str) else f"{cell.noise:g} %"
    score = "" if found.auroc is None else f"AUROC {found.auroc:.1f}, "
    left = f"{_time(advance.seconds_left)} left" if advance.done < advance.total else "done"
    click.echo(
        f"[{advance.done}/{advance.total}] {cell.dataset}, {cell.kind} {noise}, seed {cell.seed}, {cell.method}: "
        f"{score}rate {found.rate:.1f} in {_time(found.seconds)}; {left}",
        err=True,
    )
