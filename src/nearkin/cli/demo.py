"""``nearkin demo``: what the library does, in a few seconds and without any file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nearkin.cli._program import examples, with_debug

if TYPE_CHECKING:
    from nearkin.demo import DemoResult

__all__ = ["demo"]


@click.command(
    short_help="See what it does, in seconds and without a file.",
    epilog=examples("nearkin demo", "nearkin demo --seed 7", "nearkin demo --json"),
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", show_default=True, help="Same seed, same numbers."
)
@click.option("--json", "as_json", is_flag=True, help="For machines, fold by fold.")
@with_debug
def demo(seed: int, as_json: bool) -> None:
    """Compare five methods on wine with a fifth of its labels flipped.

    Uses the wine data that comes with scikit-learn. Training labels are
    flipped, test labels stay clean, all parameters are the defaults.
    """
    from nearkin.cli._progress import progress_bar
    from nearkin.demo import run_demo

    with progress_bar(quiet=False):
        result = run_demo(seed)
    if as_json:
        import json

        click.echo(json.dumps(_as_dict(result), indent=2))
    else:
        _show(result)


def _as_dict(result: DemoResult) -> dict[str, Any]:
    from dataclasses import asdict

    out = asdict(result)
    for score, entry in zip(result.scores, out["scores"], strict=True):
        entry |= {"mean": score.mean, "spread": score.spread}
    for found, entry in zip(result.detections, out["detections"], strict=True):
        entry |= {"precision": found.precision, "recall": found.recall}
    return out


def _show(result: DemoResult) -> None:
    from statistics import mean
    from textwrap import fill

    from nearkin.cli import _text

    setup, found = result.demo, result.detections
    noise = f"{100 * setup.noise_rate:.0f} %"
    shape = f"{result.n_rows} rows, {result.n_features} features, {result.n_classes} cultivars"
    click.echo(_text.bold(f"Wine: {shape}; {noise} of the training labels flipped"))
    click.echo()
    table = _text.columns(
        ["method", "accuracy %", "spread"],
        [[score.method, f"{100 * score.mean:.1f}", f"{100 * score.spread:.1f}"] for score in result.scores],
    )
    click.echo(table[0])
    for score, line in zip(result.scores, table[1:], strict=True):
        click.echo(_text.bold(line) if score is result.best else line)
    click.echo()
    click.echo(_text.bold("Flipped labels found by the last method"))
    click.echo()
    right = f"{100 * mean(one.precision for one in found):.0f} % of the doubtful"
    caught = f"{100 * mean(one.recall for one in found):.0f} % of the flipped"
    rates = mean(one.estimated_rate for one in found), mean(one.n_wrong / one.n_rows for one in found)
    facts = [
        ("flipped", f"{mean(one.n_wrong for one in found):.1f} of {result.n_rows} rows"),
        ("doubtful", f"{mean(one.n_doubtful for one in found):.1f} rows, the least plausible"),
        ("found", f"{mean(one.n_found for one in found):.1f} ({caught}, {right})"),
        ("noise rate", f"{_text.percent(rates[0])} estimated, {_text.percent(rates[1])} true"),
    ]
    click.echo(_text.pairs(facts))
    click.echo()
    protocol = (
        f"How: {setup.n_draws} draws of {setup.n_folds} stratified folds and of the flips; labels are flipped in the "
        f"training folds only, test labels are clean. All methods see the same folds and flips, with otherwise "
        f"default parameters; the first two on z-scored features. Spread is the standard deviation over all "
        f"{setup.n_folds * setup.n_draws} folds. Found: fitted on all rows, mean of {len(found)} draws. One small "
        f"and easy data set: a first look, not a benchmark."
    )
    click.echo(fill(protocol, _text.WIDTH))
    click.echo(f"Seed {result.seed}, {result.seconds:.1f} s.")
    click.echo()
    click.echo("Next, with a table of your own:")
    click.echo("  nearkin fit train.csv --label COLUMN -o model.nearkin")
    click.echo("  nearkin predict model.nearkin new.csv")
