"""``nearkin demo``: what the library does, in a few seconds and without any file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from textwrap import fill
from typing import TYPE_CHECKING

from nearkin.cli import _show
from nearkin.cli._options import option, options, output_option, seed_option, takes
from nearkin.cli._program import command, with_debug

if TYPE_CHECKING:
    from nearkin.demo import DemoResult

__all__ = ["demo"]


@options
class Given:
    """The seed, and how to answer."""

    seed: int = seed_option("numbers")
    output: Path | None = output_option("page", "-o", "--output", help="Page to write.  [default: nearkin-demo.html]")
    picture: Path | None = output_option("figure", "--picture", help="Picture to write.  [default: nearkin-demo.svg]")
    as_json: bool = option("--json", help="For machines, fold by fold; writes no files unless they are named.")


@command(
    "See what it does, in seconds and without a file.", "nearkin demo", "nearkin demo --seed 7", "nearkin demo --json"
)
@takes(Given)
@with_debug
def demo(given: Given) -> None:
    """Compare five methods on wine with a fifth of its labels flipped.

    Then write a page that audits these labels and a picture of the learned space.
    Uses the wine data that comes with scikit-learn. Training labels are
    flipped, test labels stay clean, all parameters are the defaults.
    """
    from nearkin.demo import run_demo, show_demo
    from nearkin.files import claim

    page, picture = given.output, given.picture
    if not given.as_json:
        page, picture = page or Path("nearkin-demo.html"), picture or Path("nearkin-demo.svg")
    named = [(path, kind) for path, kind in ((page, "page"), (picture, "figure")) if path is not None]
    claim(named)
    with _show.progress_bar(quiet=False):
        result = run_demo(given.seed)
        if named:
            show_demo(page, picture, given.seed)
    if given.as_json:
        _show.echo(json.dumps(asdict(result), indent=2))
        return
    _show.echo(_describe(result) + "\n" + _describe_files(named))


def _describe_files(named: list[tuple[Path, str]]) -> str:
    what = {
        "page": "an audit of one draw of labels; open it in a browser",
        "figure": "the rows before and after learning",
    }
    where = "in this folder" if all(path.parent == Path() for path, _ in named) else "files"
    return f"\n{_show.bold(f'Written {where}:')}\n{_show.pairs([(str(path), what[kind]) for path, kind in named])}"


def _describe(result: DemoResult) -> str:
    setup, found = result.demo, result.detections
    shape = f"{result.n_rows} rows, {result.n_features} features, {result.n_classes} cultivars"
    table = _show.columns(
        ["method", "accuracy %", "spread"],
        [[score.method, f"{100 * score.mean:.1f}", f"{100 * score.spread:.1f}"] for score in result.scores],
    )
    best = 1 + max(range(len(table) - 1), key=lambda at: result.scores[at].mean)
    right = f"{100 * mean(one.precision for one in found):.0f} % of the doubtful"
    caught = f"{100 * mean(one.recall for one in found):.0f} % of the flipped"
    rates = mean(one.estimated_rate for one in found), mean(one.n_wrong / one.n_rows for one in found)
    facts = [
        ("flipped", f"{mean(one.n_wrong for one in found):.1f} of {result.n_rows} rows"),
        ("doubtful", f"{mean(one.n_doubtful for one in found):.1f} rows, the least plausible"),
        ("found", f"{mean(one.n_found for one in found):.1f} ({caught}, {right})"),
        ("noise rate", f"{_show.percent(rates[0])} estimated, {_show.percent(rates[1])} true"),
    ]
    protocol = (
        f"How: {setup.n_draws} draws of {setup.n_folds} stratified folds and of the flips; labels are flipped in the "
        f"training folds only, test labels are clean. All methods see the same folds and flips, with otherwise "
        f"default parameters; the first two on z-scored features. Spread is the standard deviation over all "
        f"{setup.n_folds * setup.n_draws} folds. Found: fitted on all rows, mean of {len(found)} draws. One small "
        f"and easy data set: a first look, not a benchmark. The page that is written audits one draw alone, with an "
        f"interval; its rate is another estimate than the mean above, so the two differ."
    )
    lines = [
        _show.bold(f"Wine: {shape}; {100 * setup.noise_rate:.0f} % of the training labels flipped"),
        "",
        *(_show.bold(line) if at == best else line for at, line in enumerate(table)),
        "",
        _show.bold("Flipped labels found by the last method"),
        "",
        _show.pairs(facts),
        "",
        fill(protocol, _show.WIDTH),
        f"Seed {result.seed}, {result.seconds:.1f} s.",
        "",
        "Next, with a table of your own:",
        "  nearkin audit train.csv --label COLUMN -o report.html",
        "  nearkin fit train.csv --label COLUMN -o model.nearkin",
        "  nearkin predict model.nearkin new.csv",
    ]
    return "\n".join(lines)
