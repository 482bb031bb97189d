"""``nearkin transform``: rows in the learned space."""

from __future__ import annotations

from pathlib import Path

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import DATA, MODEL, PATH, array_option, drop_option, id_option, listed, quiet_option
from nearkin.cli._program import examples, with_debug

__all__ = ["transform"]


@click.command(
    short_help="Map rows into the learned space.",
    epilog=examples(
        "nearkin transform wine.nearkin wine.csv -o mapped.npy",
        "nearkin transform wine.nearkin wine.csv --id cultivar -o mapped.csv",
    ),
)
@MODEL
@DATA
@click.option(
    "-o", "--output", type=PATH, metavar="FILE", help=".csv, .tsv, .npy, .npz or .parquet.  [default: CSV to stdout]"
)
@id_option
@array_option
@drop_option
@quiet_option
@with_debug
def transform(
    model: Path,
    data: Path,
    output: Path | None,
    ids: tuple[str, ...],
    array: str | None,
    drop: tuple[str, ...],
    quiet: bool,
) -> None:
    """Map the rows of DATA to where plain distance is the learned one.

    A default model learned two spaces, each from half of its rows; the rows
    are mapped into both, side by side.

    Columns are matched by name, as in predict. The output has the columns c0,
    c1, ... after those named by --id; in npz the array X, and one more for
    every --id.
    """
    from nearkin.cli._models import load_fitted
    from nearkin.tables import ARRAY_SUFFIXES, TABLE_SUFFIXES, check_destination, read_for_model, write_matrix

    if output is not None:
        check_destination(output, [model, data], (*TABLE_SUFFIXES, *ARRAY_SUFFIXES))
    kind = output.suffix.lower() if output is not None else ".csv"
    if kind == ".npy" and ids:
        raise UserError("npy holds one array; use .npz, .csv or .parquet to pass on --id columns.")
    loaded = load_fitted(model)
    if loaded.embed is None:
        raise UserError(f"{type(loaded.learner).__name__} has no map: it compares by a kernel. Use nearkin predict.")
    rows = read_for_model(
        data, loaded.feature_names, loaded.learner.n_features_in_, loaded.label,
        others=ids, array=array, drop=listed(drop),
    )  # fmt: skip
    mapped = loaded.embed(rows.X)
    write_matrix(output, mapped, rows.others)
    if output is not None and not quiet:
        click.echo(f"{len(mapped):,} rows of {mapped.shape[1]:,} numbers in {output}", err=True)
