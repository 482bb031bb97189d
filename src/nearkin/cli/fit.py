"""``nearkin fit``: learn from a file and save the model."""

from __future__ import annotations

import inspect
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli._errors import UserError
from nearkin.cli._options import PATH, drop_option, listed, quiet_option
from nearkin.cli._program import examples, with_debug
from nearkin.cli._stream import StreamOptions, stream_options

if TYPE_CHECKING:
    from nearkin.tables import LabelledRows

__all__ = ["fit"]

#: Names on the command line and the classes behind them.
LEARNERS = {
    "auto": "RobustLODML",
    "robust-lodml": "RobustLODML",
    "robust-odml": "RobustODML",
    "robust-losl": "RobustLOSL",
    "robust-oasis": "RobustOASIS",
    "lodml": "LODML",
    "odml": "ODML",
    "losl": "LOSL",
    "oasis": "OASIS",
    "robust-opml": "RobustOPML",
    "robust-slmoml": "RobustSLMOML",
    "robust-itml": "RobustITML",
    "opml": "OPML",
    "slmoml": "SLMOML",
    "itml": "ITML",
    "robust-lpaodml": "RobustLPAODML",
    "robust-oks": "RobustOKS",
    "robust-omks": "RobustOMKS",
    "lpaodml": "LPAODML",
    "oks": "OKS",
    "omks": "OMKS",
    "euclidean": "Euclidean",
}
#: Endings of files that hold a table.
_TABLES = (".csv", ".tsv", ".parquet", ".pq")
#: Passes over the data, the same for every learner so that they can be compared.
_EPOCHS = 3
#: Options of the learner, by the names of its parameters.
_FLAGS = {"C": "--C", "eta": "--eta", "n_epochs": "--epochs", "n_components": "--components", "scale": "--scale"}


class Neighbors(click.IntRange):
    """A number of neighbours or the word auto."""

    def __init__(self) -> None:
        super().__init__(1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it is given to the classifier."""
        return "auto" if value == "auto" else super().convert(value, param, ctx)


class NoiseRate(click.ParamType):
    """``auto`` or a share."""

    name = "noise rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """A number in [0, 1), or "auto"."""
        if value == "auto":
            return "auto"
        try:
            share = float(value)
        except ValueError:
            self.fail(f"{value!r} is neither 'auto' nor a number.", param, ctx)
        if not 0 <= share < 1:
            hint = f" ({share:g} percent is {share / 100:g})" if 1 <= share < 100 else ""
            self.fail(f"must be 'auto' or a number in [0, 1); got {value}{hint}.", param, ctx)
        return share


@click.command(
    short_help="Learn a classifier from a file and save it.",
    epilog=examples(
        "nearkin fit wine.csv --label cultivar -o wine.nearkin",
        "nearkin fit wine.csv --label cultivar -o wine.nearkin --suspects doubts.csv",
        "nearkin fit sales.parquet --label bought --drop customer_id -o sales.nearkin",
        "nearkin fit letters.npz --label y --centers 4 --epochs 5 -o letters.nearkin",
        "nearkin fit embeddings.npy --labels labels.txt -o model.nearkin",
        "nearkin fit big/*.parquet --label y -o m.nearkin --checkpoint ck --resume",
        "nearkin fit big/*.parquet --label y -o m.nearkin --dask local:4",
    ),
)
@click.argument("data", type=PATH, metavar="DATA...", nargs=-1, required=True)
@click.option("--label", metavar="COL", help="Column of labels (npz: array).  [npz: y]")
@click.option("--labels", type=PATH, metavar="FILE", help="File of labels: npy, or text with one a line.")
@click.option("-o", "--output", type=PATH, required=True, metavar="MODEL", help="Where to save the model.")
@click.option(
    "--suspects", type=PATH, metavar="FILE", help="Also write a table of all rows, the least plausible labels first."
)
@click.option("--features", multiple=True, metavar="COL[,COL]", help="Use these columns only (npz: one array).")
@drop_option
@click.option(
    "--learner", type=click.Choice(list(LEARNERS)), metavar="NAME", default="auto",
    help=f"{', '.join(list(LEARNERS)[1:-1])} or {list(LEARNERS)[-1]}.  [default: auto, which is robust-lodml]",
)  # fmt: skip
@click.option(
    "--neighbors", type=Neighbors(), metavar="K|auto",
    help="Neighbours that vote, as in the paper; auto, the default, asks a jury of many.",
)  # fmt: skip
@click.option(
    "--noise-rate", type=NoiseRate(), metavar="auto|SHARE", default="auto", show_default=True,
    help="Share of wrong labels; auto estimates it.",
)  # fmt: skip
@click.option("--C", "C", type=float, help="Aggressiveness of a step.")
@click.option("--eta", type=float, help="How fast trust falls with the loss of a triplet.")
@click.option(
    "--epochs", "n_epochs", type=click.IntRange(1), metavar="N", help=f"Passes over the data.  [default: {_EPOCHS}]"
)
@click.option("--components", "n_components", type=click.IntRange(1), metavar="R", help="Rank of a low-rank map.")
@click.option("--centers", type=click.IntRange(1), metavar="N", help="Centres per class in the triplet generator.")
@click.option("--scale", type=click.Choice(["auto", "pairs", "unit", "none"]), help="How features are scaled.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", show_default=True, help="Same seed, same model."
)
@stream_options
@quiet_option
@with_debug
def fit(
    data: tuple[Path, ...],
    label: str | None,
    labels: Path | None,
    output: Path,
    suspects: Path | None,
    features: tuple[str, ...],
    drop: tuple[str, ...],
    learner: str,
    neighbors: int | str | None,
    noise_rate: float | str,
    centers: int | None,
    seed: int,
    quiet: bool,
    **parameters: Any,
) -> None:
    """Learn a classifier from DATA and save it.

    DATA is CSV with a header row, Parquet, npz or npy. Numeric columns are
    features. Some labels may be wrong: how many is estimated, and undone in
    predictions. Options that are left out keep the library's defaults.

    Several files, a folder or a pattern are read in batches, so that they need
    not fit into memory.
    """
    from nearkin.neighbors import RobustKNeighborsClassifier
    from nearkin.tables import check_destination

    stream = StreamOptions(**{field.name: parameters.pop(field.name) for field in fields(StreamOptions)})
    inputs = [*data, *([labels] if labels else [])]
    check_destination(output, inputs)
    _check_replaceable(output)
    if suspects is not None:
        check_destination(suspects, [*inputs, output], _TABLES)
    made = _learner(learner, parameters, centers, seed)
    model = RobustKNeighborsClassifier(made, noise_rate=noise_rate, random_state=seed)
    if neighbors is not None:
        model.set_params(n_neighbors=neighbors)
    columns = listed(features), listed(drop)
    if stream.is_asked(data):
        if suspects is not None:
            raise UserError("--suspects needs all rows in memory; for a stream, --plausibility scores every row.")
        _fit_stream(data, label, labels, columns, output, stream, model, seed, quiet=quiet)
        return
    stream.check_unused()
    untouched = centers is None and all(value is None for value in parameters.values())
    if neighbors in (None, "auto") and learner == "auto" and untouched:
        model.set_params(learner="auto")  # then a third space is learned
    _fit_table(data[0], label, labels, columns, output, suspects, model, quiet=quiet)


def _fit_table(
    data: Path,
    label: str | None,
    labels: Path | None,
    columns: tuple[list[str], list[str]],
    output: Path,
    suspects: Path | None,
    model: Any,
    *,
    quiet: bool,
) -> None:
    """One file, all in memory."""
    from nearkin.cli._progress import progress_bar
    from nearkin.saving import save
    from nearkin.tables import read_training, write_columns

    begun = time.perf_counter()
    rows = read_training(data, label, labels, *columns)
    assert rows.y is not None
    with progress_bar(quiet=quiet):
        model.fit(rows.X, rows.y)
    _name(model, rows.names, rows.label)
    save(model, output.resolve())  # a link stays a link
    if suspects is not None:
        write_columns(suspects, _doubts(model, rows))
    if not quiet:
        _summarise(model, rows, output, time.perf_counter() - begun)


def _fit_stream(
    data: tuple[Path, ...],
    label: str | None,
    labels: Path | None,
    columns: tuple[list[str], list[str]],
    output: Path,
    options: StreamOptions,
    model: Any,
    seed: int,
    *,
    quiet: bool,
) -> None:
    """Batches of many rows."""
    from nearkin.cli._stream import cluster, learn, open_data, summarise, voting, write_plausibility
    from nearkin.saving import save

    begun = time.perf_counter()
    rows = open_data(data, label, labels, *columns, options, seed)
    with cluster(options) as client:
        fitted = learn(model.learner, rows, options, client, quiet=quiet)
        whole = voting(fitted, rows, options, model, seed)
        _name(whole, rows.names, rows.label)
        save(whole, output.resolve())
        if not quiet:
            summarise(whole, fitted, rows, output, time.perf_counter() - begun)
        if options.plausibility:
            fitted.__dict__.pop("feature_names_in_", None)  # it gets plain arrays
            write_plausibility(fitted, rows, options, client, quiet=quiet)


def _name(model: Any, names: list[str] | None, label: str | None) -> None:
    """Tell a model the names under which it was fitted."""
    import numpy as np

    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
        if hasattr(model, "learner_"):
            model.learner_.feature_names_in_ = model.feature_names_in_
    model.label_name_ = label


def _learner(name: str, given: dict[str, Any], centers: int | None, seed: int) -> Any:
    """The learner with the options that were given; one that it does not have is refused."""
    import nearkin

    cls = getattr(nearkin, LEARNERS[name])
    known = inspect.signature(cls).parameters
    parameters = {key: value for key, value in given.items() if value is not None}
    for key in parameters:
        if key not in known or (key == "eta" and known["loss"].default == "hinge"):
            raise UserError(f"{_FLAGS[key]} means nothing to the learner {name}; leave it out.")
    if "n_epochs" in known:
        parameters.setdefault("n_epochs", _EPOCHS)
    if parameters.get("scale") == "none":
        parameters["scale"] = None
    if centers is not None:
        parameters["triplets"] = nearkin.OCTG(n_centers=centers)
    if name == "auto":
        return nearkin.RobustKNeighborsClassifier.default_learner(seed).set_params(**parameters)
    return cls(**parameters, random_state=seed)


def _doubts(model: Any, rows: LabelledRows) -> dict[str, Any]:
    """All rows, the least plausible first; rows are numbered from 1, as in messages."""
    import numpy as np

    score = getattr(model, "score_", model.plausibility_)
    order = np.argsort(score, kind="stable")
    doubtful = ~np.isin(order, model.kept_)
    return {
        "row": order + 1,
        "label": np.asarray(rows.y)[order],
        "plausibility": model.plausibility_[order],
        "score": score[order],
        "doubtful": np.where(doubtful, "yes", "no"),
    }


def _check_replaceable(path: Path) -> None:
    """A model may take the place of a model, of nothing else."""
    from nearkin.cli._models import header_of

    if path.exists() and (not path.is_file() or header_of(path) is None):
        raise UserError(f"{path} exists and is not a nearkin model; choose another name, or remove it.")


def _by_class(model: Any) -> str:
    """Rates of the classes that are mistaken most, if classes differ."""
    from nearkin.cli import _text

    rates = model.noise_rates_
    if (rates == rates[0]).all():
        return ""
    most = (-rates).argsort(kind="stable")[:5]
    named = [f"{model.classes_[i]}\N{NO-BREAK SPACE}{_text.percent(rates[i])}" for i in most]
    return "; by true class " + ", ".join(named) + (", ..." if len(rates) > len(most) else "")


def _of_measure(model: Any) -> list[tuple[str, str]]:
    """The learner and its triplets, or the voters of a jury that learned spaces of its own."""
    if not hasattr(model, "learner_"):
        from nearkin.cli import _text

        jury = model.decision_.jury
        voters = [f"{one.name} {_text.percent(s)}" for one, s in zip(jury.voters, jury.shares, strict=True)]
        return [("voters", ", ".join(voters))]
    inner = model.learner_
    triplets = f"{inner.n_triplets_seen_:,}, of which {inner.n_updates_:,} moved the measure"
    return [("learner", type(inner).__name__), ("triplets", triplets)]


def _summarise(model: Any, rows: LabelledRows, output: Path, seconds: float) -> None:
    import numpy as np

    from nearkin.cli import _text

    assert rows.y is not None
    classes, counts = np.unique(rows.y, return_counts=True)
    sizes = [f"{name}\N{NO-BREAK SPACE}({count:,})" for name, count in zip(classes, counts, strict=True)]
    shown = ", ".join(sizes[:10]) + (f" and {len(sizes) - 10} more" if len(sizes) > 10 else "")
    inner = getattr(model, "learner_", None)
    suspects = len(rows.X) - len(model.kept_)
    how = "estimated" if model.noise_rate == "auto" else "as given"
    if model.noise_rate == "auto" and getattr(inner, "loss", None) == "hinge":
        how = "the plain hinge trusts every label; use a robust learner"
    lines = [
        ("rows", f"{len(rows.X):,}"),
        ("features", f"{rows.X.shape[1]:,}"),
        ("classes", f"{len(classes)}: {shown}"),
        *_of_measure(model),
        ("noise rate", f"{_text.percent(model.noise_rate_)} ({how}){_by_class(model)}"),
        ("suspects", f"{_text.count(suspects, 'row')}, the least plausible labels" if suspects else "none"),
        ("time", f"{seconds:.1f} s"),
        ("saved", f"{output} ({_text.size(output.stat().st_size)})"),
    ]
    click.echo(_text.pairs(lines))
    if rows.n_unnamed:
        click.echo("nearkin: note: a column without a name was taken for a row index and left out.", err=True)
