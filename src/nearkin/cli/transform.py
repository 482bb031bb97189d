"""``nearkin transform``: rows in the learned space."""

from __future__ import annotations

from pathlib import Path

import click

from nearkin.cli._options import DATA, MODEL, Passed, option, options, quiet_option, takes
from nearkin.cli._program import command, with_debug
from nearkin.errors import InputError

__all__ = ["transform"]


@options
class TransformOptions(Passed):
    """Options of ``nearkin transform``."""

    output: Path | None = option(
        "-o", "--output", metavar="FILE",
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
    --id.
    """
    from nearkin.model_files import load_fitted
    from nearkin.tables import ARRAY_SUFFIXES, TABLE_SUFFIXES, check_destination, read_for_model, write_matrix

    if given.output is not None:
        check_destination(given.output, [model, data], (*TABLE_SUFFIXES, *ARRAY_SUFFIXES))
        if given.output.suffix.lower() == ".npy" and given.others:
            raise InputError("npy holds one array; use .npz, .csv or .parquet to copy --id columns.")
    loaded = load_fitted(model)
    learner = loaded.learner
    if loaded.embed is None:
        raise InputError(f"{type(learner).__name__} has no map: it compares by a kernel. Use nearkin predict.")
    rows = read_for_model(
        data, loaded.feature_names, learner.n_features_in_, loaded.label,
        others=given.others, array=given.array, drop=given.drop,
    )  # fmt: skip
    mapped = loaded.embed(rows.X)
    write_matrix(given.output, mapped, rows.others)
    if given.output is not None and not quiet:
        click.echo(f"{len(mapped):,} rows of {mapped.shape[1]:,} numbers in {given.output}", err=True)
