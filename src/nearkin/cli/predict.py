"""``nearkin predict``: labels for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import DATA, MODEL, PATH, array_option, drop_option, id_option, listed, quiet_option
from nearkin.cli._program import examples, with_debug

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearkin.tables import LabelledRows

__all__ = ["predict"]

#: Rows predicted at once.
_BLOCK = 4096


@click.command(
    short_help="Predict labels for new rows.",
    epilog=examples(
        "nearkin predict wine.nearkin new.csv",
        "nearkin predict wine.nearkin new.csv --id bottle -o predictions.csv",
        "nearkin predict wine.nearkin held_out.parquet --label cultivar -o out.csv",
    ),
)
@MODEL
@DATA
@click.option("-o", "--output", type=PATH, metavar="FILE", help=".csv, .tsv or .parquet.  [default: CSV to stdout]")
@id_option
@click.option("--label", metavar="COL", help="Column of right labels, to report accuracy.  [default: as fitted]")
@array_option
@drop_option
@quiet_option
@with_debug
def predict(
    model: Path,
    data: Path,
    output: Path | None,
    ids: tuple[str, ...],
    label: str | None,
    array: str | None,
    drop: tuple[str, ...],
    quiet: bool,
) -> None:
    """Predict the label of every row of DATA, with its share of the votes.

    Columns are matched by name: their order does not matter and additional
    ones are ignored. If DATA holds the label column, the accuracy is reported
    on stderr. --drop matters only to models that know no names.
    """
    from nearkin.cli._models import load_fitted
    from nearkin.cli._progress import progress_bar
    from nearkin.tables import TABLE_SUFFIXES, check_destination, check_names, read_for_model, write_columns

    if output is not None:
        check_destination(output, [model, data], TABLE_SUFFIXES)
    check_names(ids, ("prediction", "share"))
    loaded = load_fitted(model)
    if not hasattr(loaded.estimator, "predict_proba"):
        kind = type(loaded.estimator).__name__
        raise UserError(f"{model} holds a {kind}, which maps rows but predicts no labels; use nearkin transform.")
    rows = read_for_model(
        data, loaded.feature_names, loaded.estimator.n_features_in_, label or loaded.label,
        needs_label=label is not None, others=ids, array=array, drop=listed(drop),
    )  # fmt: skip
    with progress_bar(quiet=quiet):
        labels, shares = _predict(loaded.estimator, rows.X)
    write_columns(output, {**rows.others, "prediction": labels, "share": shares.round(4)})
    if not quiet:
        _report(rows, labels, loaded.estimator.classes_, output)


def _predict(estimator: Any, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.floating]]:
    import numpy as np

    from nearkin import progress

    codes, shares = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    for start in range(0, len(X), _BLOCK):
        part = slice(start, min(len(X), start + _BLOCK))
        votes = estimator.predict_proba(X[part])
        codes[part], shares[part] = votes.argmax(axis=1), votes.max(axis=1)
        progress.advance("predicting", part.stop, len(X))
    return estimator.classes_[codes], shares


def _report(rows: LabelledRows, predicted: NDArray[Any], classes: NDArray[Any], output: Path | None) -> None:
    import numpy as np

    if rows.y is not None and rows.no_label is not None and not rows.no_label.all():
        known = ~rows.no_label
        given, guessed = _alike(rows.y[known], predicted[known])
        right = int((given == guessed).sum())
        click.echo(f"accuracy {100 * right / len(given):.2f} % ({right:,} of {len(given):,} rows)", err=True)
        strange = int((~np.isin(given, _alike(given, classes)[1])).sum())
        if strange:
            noun = "row holds" if strange == 1 else "rows hold"
            click.echo(f"{strange:,} {noun} a class that the model does not know", err=True)
    if output is not None:
        click.echo(f"{len(rows.X):,} predictions in {output}", err=True)


def _alike(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels that can be compared: numbers with numbers, anything else as text."""
    if one.dtype.kind in "iuf" and other.dtype.kind in "iuf":
        return one, other
    return one.astype(str), other.astype(str)
