"""``nearkin adapt``: a query map from clicks, checked before it is used."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import PATH, quiet_option
from nearkin.cli._program import examples, with_debug

if TYPE_CHECKING:
    from nearkin.search import Adaptation, SimilarityAdapter

__all__ = ["adapt"]

_FORMS = ("auto", "triplets", "judgements", "impressions")
_METRICS = ("ndcg", "recall", "precision", "map", "mrr")
_TITLES = {"recall": "recall@{k}", "precision": "precision@{k}", "ndcg": "nDCG@{k}", "map": "MAP", "mrr": "MRR"}
#: What a list of items is in each form of feedback.
_LISTS = {
    "triplets": ("triplet", "triplets"),
    "judgements": ("judged query", "judged queries"),
    "impressions": ("impression", "impressions"),
}


class Roles(click.ParamType):
    """``role=column``."""

    name = "role=column"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split at the sign."""
        role, sign, column = str(value).partition("=")
        if not sign or not role or not column:
            self.fail(f"{value!r} is not of the form ROLE=COLUMN, as in query=user_query.", param, ctx)
        return role, column


class Strength(click.FloatRange):
    """The word auto or a share."""

    def __init__(self) -> None:
        super().__init__(0.0, 1.0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Let the word through."""
        return value if value == "auto" else super().convert(value, param, ctx)


class Candidates(click.IntRange):
    """A word or a number of items."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Let the words through."""
        return value if value in ("auto", "all") else super().convert(value, param, ctx)


@click.command(
    short_help="Learn from clicks how to ask an index that stays as it is.",
    epilog=examples(
        "nearkin adapt --queries q.npy --items d.npy --feedback clicks.parquet \\",
        "    -o adapter.nearkin",
        "nearkin adapt --queries q.parquet --items d.parquet --feedback log.csv \\",
        "    --column query=user_query --skip-bad -o adapter.nearkin --onnx map.onnx",
        "nearkin adapt --start adapter.nearkin --queries q.npy --items d.npy \\",
        "    --feedback today.csv -o adapter.nearkin",
        "nearkin transform adapter.nearkin new_queries.npy -o mapped.npy",
    ),
)
@click.option("--queries", type=PATH, required=True, metavar="FILE", help="Query vectors: npy, npz, CSV or Parquet.")
@click.option("--items", type=PATH, required=True, metavar="FILE", help="Item vectors, as the index holds them.")
@click.option("--feedback", type=PATH, required=True, metavar="FILE", help="Clicks or judgements: CSV, Parquet or npz.")
@click.option("-o", "--output", type=PATH, required=True, metavar="FILE", help="Adapter to write, *.nearkin.")
@click.option(
    "--form", type=click.Choice(_FORMS), default="auto", show_default=True, metavar="FORM",
    help="triplets, judgements or impressions; auto tells by the columns.",
)  # fmt: skip
@click.option(
    "--column", "columns", type=Roles(), multiple=True, metavar="ROLE=COL",
    help="What a column of the feedback is called in the file. Repeatable.",
)  # fmt: skip
@click.option("--query-ids", type=PATH, metavar="FILE", help="Ids of the queries: npy, or text with one a line.")
@click.option("--item-ids", type=PATH, metavar="FILE", help="Ids of the items.  [default: 0, 1, 2, ...]")
@click.option("--id", "id_column", metavar="COL", help="Column of ids in tables of vectors.  [default: id or ids]")
@click.option("--start", type=PATH, metavar="MODEL", help="Adapter that learns on, instead of a new one.")
@click.option(
    "--metric", type=click.Choice(_METRICS), default="ndcg", show_default=True, metavar="NAME",
    help=f"Measure that decides: {', '.join(_METRICS[:-1])} or {_METRICS[-1]}.",
)  # fmt: skip
@click.option("--k", type=click.IntRange(1), default=10, metavar="N", show_default=True, help="Results looked at.")
@click.option(
    "--holdout", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.2, show_default=True,
    metavar="SHARE", help="Share of the queries on which the gain is measured.",
)  # fmt: skip
@click.option(
    "--candidates", type=Candidates(), default="auto", show_default=True, metavar="auto|all|N",
    help="Among what clicks must be found: all items, or the judged ones and N random ones.",
)  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), default=1, metavar="N", show_default=True, help="Passes.")
@click.option(
    "--random", "n_random", type=click.IntRange(0), default=1, metavar="N", show_default=True,
    help="Random items per click that count as skipped.",
)  # fmt: skip
@click.option("--C", "C", type=float, metavar="NUMBER", help="Aggressiveness of a step.  [default: 0.1]")
@click.option("--eta", type=float, metavar="NUMBER", help="How fast trust falls with the loss.  [default: 0.5]")
@click.option(
    "--strength", type=Strength(), metavar="auto|SHARE",
    help="How much of what was learned is used.  [default: auto]",
)  # fmt: skip
@click.option("--skip-bad", is_flag=True, help="Leave out and count what cannot be used, instead of stopping.")
@click.option(
    "--duplicates", type=click.Choice(("raise", "skip", "keep")), metavar="raise|skip|keep",
    help="What to do with repeated rows.  [default: keep for triplets, else raise]",
)  # fmt: skip
@click.option("--numpy", "numpy_file", type=PATH, metavar="FILE", help="Also write the map as npz for numpy alone.")
@click.option("--onnx", "onnx_file", type=PATH, metavar="FILE", help="Also write the map as ONNX.")
@click.option("--report", type=PATH, metavar="FILE", help="Also write the figures as JSON.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", show_default=True, help="Same seed, same adapter."
)
@quiet_option
@with_debug
def adapt(
    queries: Path,
    items: Path,
    feedback: Path,
    output: Path,
    form: str,
    columns: tuple[tuple[str, str], ...],
    query_ids: Path | None,
    item_ids: Path | None,
    id_column: str | None,
    start: Path | None,
    metric: str,
    k: int,
    holdout: float,
    candidates: str | int,
    epochs: int,
    n_random: int,
    skip_bad: bool,
    duplicates: str | None,
    numpy_file: Path | None,
    onnx_file: Path | None,
    report: Path | None,
    seed: int,
    quiet: bool,
    **parameters: Any,
) -> None:
    """Learn a map of queries from clicks; the index of items stays as it is.

    Feedback is a table of triplets (query, clicked, skipped), of judgements
    (query, item, relevant) or of impressions (impression, query, item, clicked
    and, if rows are not in order, rank). Ids are those of the vectors; without
    any, rows are numbered from 0.

    Some queries are held out. If the map does not help them, the identity is
    kept and the command says so.
    """
    from nearkin.cli._feedback import read_feedback, read_vectors, rows_from_one
    from nearkin.cli._progress import progress_bar
    from nearkin.model_files import check_replaceable
    from nearkin.saving import save
    from nearkin.search import adapt as run
    from nearkin.search import write_numpy, write_onnx
    from nearkin.tables import check_destination

    inputs = [one for one in (queries, items, feedback, query_ids, item_ids) if one is not None]
    begun = time.perf_counter()
    check_destination(output, inputs)
    check_replaceable(output)
    for path, kinds in ((numpy_file, (".npz",)), (onnx_file, (".onnx",)), (report, (".json",))):
        if path is not None:
            check_destination(path, [*inputs, output, *([start] if start else [])], kinds)
    if onnx_file is not None:
        _require_onnx()
    adapter = _adapter(start, parameters, skip_bad)
    Q, q_ids = read_vectors(queries, query_ids, id_column)
    X, x_ids = read_vectors(items, item_ids, id_column)
    if Q.shape[1] != X.shape[1]:
        raise UserError(
            f"{queries} holds vectors of {Q.shape[1]} numbers and {items} of {X.shape[1]}; both sides must come from "
            "one space."
        )
    found, said = read_feedback(
        feedback, form, dict(columns),
        query_ids=len(Q) if q_ids is None else q_ids, item_ids=len(X) if x_ids is None else x_ids,
        bad="skip" if skip_bad else "raise", duplicates=duplicates,
    )  # fmt: skip
    if not len(said):
        raise UserError(f"nothing of {feedback} is left to learn from: {_counted(said.skipped)}.")
    with progress_bar(quiet=quiet), rows_from_one():
        done = run(
            Q, X, said, adapter=adapter, holdout=holdout, metric=metric, k=k, n_epochs=epochs, n_random=n_random,
            candidates=candidates,
            bad="skip" if skip_bad else "raise", random_state=seed,
        )  # fmt: skip
    save(done.adapter, output.resolve())  # a link stays a link
    if numpy_file is not None:
        write_numpy(done.adapter, numpy_file)
    if onnx_file is not None:
        write_onnx(done.adapter, onnx_file)
    if report is not None:
        _write_report(done, report)
    if not quiet:
        _summarise(done, found, said, Q, X, output, time.perf_counter() - begun)


def _adapter(start: Path | None, given: Mapping[str, Any], skip_bad: bool) -> SimilarityAdapter:
    from nearkin.model_files import load_fitted
    from nearkin.search import SimilarityAdapter
    from nearkin.settings import check_settings

    parameters = {name: value for name, value in given.items() if value is not None}
    adapter = SimilarityAdapter()
    if start is not None:
        adapter = load_fitted(start).estimator
        if not isinstance(adapter, SimilarityAdapter):
            raise UserError(f"{start} holds a {type(adapter).__name__}, no adapter; make one with nearkin adapt.")
        fixed = sorted(set(parameters) - {"strength"})
        if fixed:
            raise UserError(f"--{fixed[0]} was fixed when {start} was made; leave it out.")
    adapter.set_params(**parameters, bad="skip" if skip_bad else "raise")
    check_settings(adapter)
    return adapter


def _require_onnx() -> None:
    from importlib.util import find_spec

    if find_spec("onnx") is None:
        raise UserError("--onnx needs onnx; install it with: pip install 'nearkin[onnx]'")


def _write_report(done: Adaptation, path: Path) -> None:
    import json
    from dataclasses import asdict

    from nearkin.files import replacing

    facts = {
        name: {key: asdict(one) for key, one in getattr(done, name).items()} for name in ("before", "after", "gain")
    }
    plain = ("metric", "k", "n_learned", "n_chosen", "n_held_out", "n_triplets", "skipped", "kept_identity")
    facts |= {name: getattr(done, name) for name in plain} | {"strength": done.adapter.strength_}
    with replacing(path) as file:
        file.write(json.dumps(facts, indent=2).encode())


def _summarise(done: Adaptation, form: str, said: Any, Q: Any, X: Any, output: Path, seconds: float) -> None:
    from nearkin.cli import _text

    lines = [
        ("queries", f"{len(Q):,} vectors of {Q.shape[1]:,} numbers"),
        ("items", f"{len(X):,}"),
        ("feedback", _text.count(len(said), *_LISTS[form])),
    ]
    if done.skipped:
        lines.append(("left out", _counted(done.skipped)))
    lines += [
        (
            "learned from",
            f"{_text.count(done.n_learned, 'query', 'queries')}, {_text.count(done.n_triplets, 'triplet')}",
        ),
        ("chosen on", _text.count(done.n_chosen, "query", "queries")),
        ("measured on", f"{_text.count(done.n_held_out, 'query', 'queries')} that were held out"),
    ]
    click.echo(_text.pairs(lines))
    click.echo()
    rows = [
        [_TITLES[name].format(k=done.k), str(done.before[name]), str(done.after[name]), str(done.gain[name])]
        for name in done.before
    ]
    click.echo("\n".join(_text.columns(["", "before", "after", "gain"], rows)))
    click.echo("  means with 95 % intervals, by drawing queries again")
    click.echo()
    measure, gain = _TITLES[done.metric].format(k=done.k), done.gain[done.metric]
    if done.kept_identity:
        words = (
            f"{measure}: a gain above zero was not shown, so the identity is kept. Queries that pass through this "
            "adapter stay as they are."
        )
    else:
        words = f"{measure} gains {gain}; the map is used at strength {done.adapter.strength_:g}."
    click.echo(
        _text.pairs([
            ("result", words),
            ("saved", f"{output} ({_text.size(output.stat().st_size)})"),
            ("time", f"{seconds:.1f} s"),
        ])
    )  # fmt: skip


def _counted(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} x {reason}" for reason, count in skipped.items()) or "nothing"
