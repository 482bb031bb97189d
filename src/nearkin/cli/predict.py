"""``nearkin predict`` and ``nearkin transform``: a model applied to new rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkin.cli import _show
from nearkin.cli._options import DATA, MODEL, Passed, option, options, output_option, quiet_option, takes
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearkin.tables import LabelledRows

__all__ = ["predict", "transform"]


@options
class PredictOptions(Passed):
    """Options of ``nearkin predict``."""

    label: str | None = option(metavar="COL", help="Column of true labels, to report accuracy.  [default: as fitted]")
    output: Path | None = output_option(
        "predictions", "-o", "--output", help=".csv, .tsv or .parquet.  [default: CSV to stdout]"
    )


@command(
    "Predict labels for new rows.",
    "nearkin predict wine.nearkin new.csv",
    "nearkin predict wine.nearkin new.csv --id bottle -o predictions.csv",
    "nearkin predict wine.nearkin held_out.parquet --label cultivar -o out.csv",
)
@MODEL
@DATA
@takes(PredictOptions)
@quiet_option
@with_debug
def predict(model: Path, data: Path, given: PredictOptions, quiet: bool) -> None:
    """Predict the label of every row of DATA, with its share of the votes.

    Columns are matched by name: their order does not matter, and extra columns
    are ignored. If DATA holds the label column, the accuracy goes to stderr.
    """
    from nearkin.model_files import load_fitted
    from nearkin.tables import check_names, read_for_model, write_columns

    check_names(given.others, ("prediction", "share"))
    loaded = load_fitted(model, given.device)
    estimator = loaded.estimator
    if not hasattr(estimator, "predict_proba"):
        kind = type(estimator).__name__
        raise InputError(f"{model} holds a {kind}, which maps rows but predicts no labels; use nearkin transform.")
    rows = read_for_model(
        data, loaded.feature_names, estimator.n_features_in_, given.label or loaded.label,
        needs_label=given.label is not None, others=given.names_of(data), array=given.array, drop=given.drop,
        encoder=loaded.encoder, embedding=given.embedding,
    )  # fmt: skip
    with _show.progress_bar(quiet=quiet):
        labels, shares = loaded.predict(rows.X)
    write_columns(given.output, {**rows.others, "prediction": labels, "share": shares.round(4)}, "predictions")
    if not quiet:
        _report(rows, labels, estimator.classes_, given.output)


def _report(rows: LabelledRows, predicted: NDArray[Any], classes: NDArray[Any], output: Path | None) -> None:
    import numpy as np

    if rows.y is not None and rows.no_label is not None and not rows.no_label.all():
        given, guessed, known = rows.y[~rows.no_label], predicted[~rows.no_label], classes
        if not all(one.dtype.kind in "iuf" for one in (given, guessed)):  # compare numbers, or anything else as text
            given, guessed, known = given.astype(str), guessed.astype(str), known.astype(str)
        right = int((given == guessed).sum())
        _show.echo(f"accuracy {100 * right / len(given):.2f} % ({right:,} of {len(given):,} rows)", err=True)
        strange = int((~np.isin(given, known)).sum())
        if strange:
            rows_hold = "row holds" if strange == 1 else "rows hold"
            _show.echo(f"{strange:,} {rows_hold} a class that the model does not know", err=True)
    if output is not None:
        _show.echo(f"{len(rows.X):,} predictions in {output}", err=True)


@options
class TransformOptions(Passed):
    """Options of ``nearkin transform``."""

    output: Path | None = output_option(
        "matrix", "-o", "--output",
        help=".csv, .tsv, .npy, .npz or .parquet.  [default: CSV to stdout]",
    )  # fmt: skip


@command(
    "Map rows into the learned space.",
    "nearkin transform wine.nearkin wine.csv -o mapped.npy",
    "nearkin transform wine.nearkin wine.csv --id cultivar -o mapped.csv",
)
@MODEL
@DATA
@takes(TransformOptions)
@quiet_option
@with_debug
def transform(model: Path, data: Path, given: TransformOptions, quiet: bool) -> None:
    """Map the rows of DATA to where plain distance is the learned one.

    A default model learned two spaces, each from half of its rows; rows are
    mapped into both, side by side.

    Columns are matched by name, as in predict. The output holds the columns
    named by --id, then c0, c1, ...; in npz, the array X and one more for every
    --id. For adapters of searches a column id or ids holds the ids by itself;
    npy leaves them out.
    """
    from nearkin.model_files import load_fitted
    from nearkin.search import ID_COLUMNS, SimilarityAdapter
    from nearkin.tables import read_for_model, write_matrix

    holds_one = given.output is not None and given.output.suffix.lower() == ".npy"
    if holds_one and given.others:
        raise InputError("npy holds one array; use .npz, .csv or .parquet to copy --id columns.")
    loaded = load_fitted(model, given.device)
    learner = loaded.learner
    if loaded.embed is None:
        raise InputError(f"{type(learner).__name__} has no map: it compares by a kernel. Use nearkin predict.")
    rows = read_for_model(
        data, loaded.feature_names, learner.n_features_in_, loaded.label,
        others=given.names_of(data), array=given.array, drop=given.drop, encoder=loaded.encoder,
        embedding=given.embedding, ids=ID_COLUMNS if isinstance(learner, SimilarityAdapter) else (),
    )  # fmt: skip
    mapped = loaded.embed(rows.X)
    write_matrix(given.output, mapped, {} if holds_one else rows.others)
    if given.output is not None and not quiet:
        _show.echo(f"{len(mapped):,} rows of {mapped.shape[1]:,} numbers in {given.output}", err=True)
