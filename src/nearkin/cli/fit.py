"""``nearkin fit``: learn from files and save the model."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nearkin.cli import _show, _stream
from nearkin.cli._onto import OntoOptions, fit_onto
from nearkin.cli._options import (
    Share,
    Source,
    WordOr,
    device_option,
    given_options,
    option,
    options,
    output_option,
    quiet_option,
    seed_option,
    takes,
)
from nearkin.cli._program import DRIFT, command, with_debug
from nearkin.cli._stream import StreamOptions
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.streams import FileStream
    from nearkin.tables import LabelledRows

__all__ = ["LEARNERS", "fit"]

_METHODS = ("LODML", "ODML", "LOSL", "OASIS", "OPML", "SLMOML", "ITML", "LPAODML", "OKS", "OMKS")
#: Names on the command line and the classes behind them.
LEARNERS = {
    "auto": "RobustLODML",
    **{f"robust-{one.lower()}": f"Robust{one}" for one in _METHODS},
    **{one.lower(): one for one in _METHODS},
    "euclidean": "Euclidean",
}
#: Passes over the data, the same for every learner so that they can be compared.
_EPOCHS = 3
#: Options that are settings of the learner.
_SETTINGS = {"C": "--C", "eta": "--eta", "n_epochs": "--epochs", "n_components": "--components", "scale": "--scale"}


@options
class Outputs:
    """What is written."""

    output: Path | None = output_option("model", "-o", "--output", metavar="MODEL", help="Where to save it.")
    suspects: Path | None = output_option(
        "doubts", help="Also write a table of all rows, the least plausible labels first."
    )


class _LearnerName(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """One of the learners; another name is answered with those that are like it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            close = get_close_matches(str(value).lower(), self.choices, 2, 0.5)
            hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "nearkin fit --help lists them."
            self.fail(f"{value!r} is not a learner. {hint}", param, ctx)
        return super().convert(value, param, ctx)


@options
class ModelOptions:
    """Which model is fitted."""

    learner: str = option(
        type=_LearnerName(list(LEARNERS)), metavar="NAME", default="auto",
        help=f"{', '.join(one.lower() for one in _METHODS)}, each also as robust-NAME, or euclidean; auto is "
        "robust-lodml.",
    )  # fmt: skip
    neighbors: int | str | None = option(
        type=WordOr(click.IntRange(1), "auto"), metavar="K|auto",
        help="Neighbours that vote, as in the paper; auto asks a jury of many.  [default: auto]",
    )  # fmt: skip
    noise_rate: float | str = option(
        type=Share("auto", below_one=True), metavar="auto|SHARE", default="auto",
        help="Share of wrong labels; auto estimates it.",
    )  # fmt: skip
    C: float | None = option("--C", help="Aggressiveness of a step.")
    eta: float | None = option(help="How fast trust falls with the loss of a triplet.")
    n_epochs: int | None = option("--epochs", help=f"Passes over the data.  [default: {_EPOCHS}]")
    n_components: int | None = option("--components", metavar="R", help="Rank of a low-rank map.")
    centers: int | None = option(help="Centres per class in the triplet generator.")
    scale: str | None = option(type=click.Choice(["auto", "pairs", "unit", "none"]), help="How to scale features.")
    half_life: float | None = option(
        metavar="ROWS", help="Stream: rows after which older ones count half for scale, centres and voters."
    )
    seed: int = seed_option("model")
    device: str = device_option("Where the model learns and judges.")

    def list_wishes(self) -> dict[str, Any]:
        """Return the settings that were given, by the names that the library gives them."""
        given = given_options(self)
        wishes = {name: getattr(self, name) for name in (*_SETTINGS, "noise_rate", "device") if name in given}
        if "scale" in given or "half_life" in given:
            wishes["scale"] = self._find_scale()
        if "learner" in given and self.learner != "auto":
            wishes["learner"] = LEARNERS[self.learner]
        if self.neighbors is not None:
            wishes["n_neighbors"] = self.neighbors
        if self.centers is not None:
            wishes["triplets"] = self.make_learner().triplets
        return wishes | ({"random_state": self.seed} if "seed" in given else {})

    def make_classifier(self, *, in_batches: bool) -> Any:
        """Return a classifier around the learner; without any wish it chooses its own, unless rows come in batches."""
        from nearkin.neighbors import RobustKNeighborsClassifier

        learner: Any = self.make_learner()
        wishes = {getattr(self, name) for name in ("centers", "half_life", *_SETTINGS)} - {None}
        if not in_batches and not wishes and self.learner == "auto" and self.neighbors in (None, "auto"):
            learner = "auto"
        model = RobustKNeighborsClassifier(
            learner, noise_rate=self.noise_rate, random_state=self.seed, device=self.device
        )
        return model if self.neighbors is None else model.set_params(n_neighbors=self.neighbors)

    def _find_scale(self) -> Any:
        """Return the scale as a learner takes it."""
        from nearkin.rows import MovingScale

        if self.half_life is None:
            return None if self.scale == "none" else self.scale
        if self.scale == "none":
            raise InputError("--half-life lets the scale follow the rows; leave it out, or --scale none.")
        return MovingScale(self.half_life, self.scale or "auto")

    def make_learner(self) -> Any:
        """Return the learner with the settings that were given; one that it does not have is refused."""
        import nearkin

        cls = getattr(nearkin, LEARNERS[self.learner])
        known = inspect.signature(cls).parameters
        settings = {name: value for name in _SETTINGS if (value := getattr(self, name)) is not None}
        for name in settings:
            if name not in known or (name == "eta" and known["loss"].default == "hinge"):
                raise InputError(f"{_SETTINGS[name]} means nothing to the learner {self.learner}; leave it out.")
        if "n_epochs" in known:
            settings.setdefault("n_epochs", _EPOCHS)
        if self.scale is not None or self.half_life is not None:
            settings["scale"] = self._find_scale()
        if self.centers is not None:
            settings["triplets"] = nearkin.OCTG(n_centers=self.centers)
        if "device" in known:
            settings["device"] = self.device
        return cls(**settings, random_state=self.seed)


@command(
    "Learn a classifier from a file and save it.",
    "nearkin fit wine.csv --label cultivar -o wine.nearkin",
    "nearkin fit wine.csv --label cultivar -o wine.nearkin --suspects doubts.csv",
    "nearkin fit sales.parquet --label bought --drop customer_id -o sales.nearkin",
    "nearkin fit letters.npz --label y --centers 4 --epochs 5 -o letters.nearkin",
    "nearkin fit embeddings.npy --labels labels.txt -o model.nearkin",
    "nearkin fit big/*.parquet --label y -o m.nearkin --checkpoint ck --resume",
    "nearkin fit big/*.parquet --label y -o m.nearkin --dask local:4",
    "nearkin fit incoming/ --label y --onto m.nearkin --log metrics.jsonl",
)
@click.argument("data", type=click.Path(path_type=Path), metavar="DATA...", nargs=-1, required=True)
@takes(Outputs, "outputs")
@takes(Source, "source")
@takes(ModelOptions, "wanted")
@takes(StreamOptions, "stream")
@takes(OntoOptions, "onto")
@quiet_option
@with_debug
def fit(
    data: Sequence[Path], outputs: Outputs, source: Source, wanted: ModelOptions, stream: StreamOptions,
    onto: OntoOptions, quiet: bool,
) -> int:  # fmt: skip
    """Learn a classifier from DATA and save it.

    DATA is CSV with a header row, Excel, Parquet, npz or npy. Its columns may
    hold numbers, categories, dates, texts and gaps; the model keeps how they
    were read. Some labels may be wrong: their share is estimated, and its
    effect on predictions undone. Options you leave out keep the library's
    defaults.

    Several files, a folder or a pattern are read in batches, so they need not
    fit into memory.

    With --onto, the files that MODEL has not learned yet are learned; run the
    same line every day. Exit code 4: some files were put aside.
    """
    onto.check(stream, has_suspects=outputs.suspects is not None)
    if onto.onto is not None:
        return fit_onto(data, source, outputs.output, wanted, stream, onto, quiet=quiet)
    if outputs.output is None:
        raise click.UsageError("Missing option '-o' / '--output'.", click.get_current_context())
    from nearkin.tables import holds_picture_folders

    if (len(data) == 1 and holds_picture_folders(data[0])) or not stream.applies_to(data):
        _fit_table(data[0], source, outputs.output, outputs.suspects, wanted, quiet=quiet)
    elif outputs.suspects is None:
        with _stream.logging_refusal(stream):
            model = _fit_stream(data, source, outputs.output, wanted, stream, quiet=quiet)
        if stream.fail_on_drift and _stream.count_alarms(model):
            return DRIFT
    else:
        raise InputError("--suspects needs all rows in memory; for a stream, --plausibility scores every row.")
    return 0


def _fit_table(
    data: Path, source: Source, output: Path, suspects: Path | None, wanted: ModelOptions, *, quiet: bool
) -> None:
    """Learn from one file, all in memory."""
    from nearkin.labels import warn_of_lookalikes
    from nearkin.model_files import remember_names
    from nearkin.saving import save
    from nearkin.streams import hold_rows
    from nearkin.streams.onto import note_files
    from nearkin.tables import read_training, write_columns

    begun = time.perf_counter()
    model = wanted.make_classifier(in_batches=False)
    rows = read_training(
        data, source.label, source.labels, source.features, source.drop, text=source.text, image=source.image,
        embedding=source.embedding,
    )  # fmt: skip
    assert rows.y is not None
    warn_of_lookalikes(rows.y, f"column {rows.label!r} of {data}" if rows.label else str(source.labels))
    with _show.progress_bar(quiet=quiet):
        model.fit(rows.X, rows.y)
    remember_names(model, rows.names, rows.label, rows.needed_encoder)
    hold_rows(model, rows.X, rows.y)  # so that more files can be learned later
    files = [data, *([source.labels] if source.labels is not None else [])]
    if not data.is_dir():
        note_files(model, [files], [len(rows.X)], drop=source.drop, features=source.features or None, text=source.text)
    save(model, output)
    if suspects is not None:
        write_columns(suspects, _doubts(model, rows), "doubts")
    if not quiet:
        _print(_describe_table(model, rows), output, begun)
        _show.note_unnamed(rows.n_unnamed)


def _fit_stream(
    data: Sequence[Path], source: Source, output: Path, wanted: ModelOptions, options: StreamOptions, *, quiet: bool
) -> Any:
    """Learn from many rows in batches; return the model."""
    from nearkin.files import claim
    from nearkin.model_files import remember_names
    from nearkin.saving import save
    from nearkin.streams import hold_rows, sample_rows
    from nearkin.streams.scores import list_score_files

    begun = time.perf_counter()
    model = wanted.make_classifier(in_batches=True)
    stream = _stream.open_stream(data, source, options, wanted.seed)
    if options.plausibility:
        claim([(one, "scores") for one in list_score_files(stream)], stream.files)
    with _stream.connect(options) as client:
        has_voters = options.voters > 0
        whole = _stream.learn(
            model if has_voters and client is None else model.learner, stream, options, client, quiet=quiet
        )
        if has_voters and client is not None:
            X, y = sample_rows(stream, options.voters, wanted.seed)
            whole = model.set_params(learner=whole).fit(X, y)
            hold_rows(whole, X, y, options.voters, n_rows=stream.n_rows)
        learner = getattr(whole, "learner_", whole)
        remember_names(whole, stream.names, stream.label, None if stream.columns is None else stream.columns.encoder)
        _enter_files(whole, stream, source, options)
        save(whole, output)
        if not quiet:
            _print(_describe_stream(whole, learner, stream.n_rows), output, begun)
        if options.plausibility:
            vars(learner).pop("feature_names_in_", None)  # it gets plain arrays
            _stream.write_plausibility(learner, stream, options, client, quiet=quiet)
    return whole


def _enter_files(model: Any, stream: FileStream, source: Source, options: StreamOptions) -> None:
    """Let a model know the files of its stream, so that --onto skips them."""
    from nearkin.streams.onto import note_files

    labels = getattr(stream.reader, "labels", {})
    files = [[one, *([labels[one]] if one in labels else [])] for one in stream.paths]
    sizes = [stream.of_file(one).n_rows for one in stream.paths]
    note_files(
        model, files, sizes, drop=source.drop, features=source.features or None, text=source.text,
        batch_rows=options.batch_rows, missing=options.missing, text_labels=options.text_labels,
    )  # fmt: skip


def _print(lines: list[tuple[str, str]], output: Path, begun: float) -> None:
    seconds, size = time.perf_counter() - begun, output.stat().st_size
    _show.echo(_show.pairs([*lines, ("time", f"{seconds:.1f} s"), ("saved", f"{output} ({_show.size(size)})")]))


def _describe_stream(model: Any, learner: Any, n_rows: int) -> list[tuple[str, str]]:
    n_passes = getattr(learner, "n_epochs", 1)
    dropped = n_rows - learner.n_rows_seen_ // n_passes
    a_pass = f"{_show.count(n_rows, 'row')} a pass" + (f", of which {dropped:,} dropped" if dropped else "")
    lines = [
        ("rows", f"{learner.n_rows_seen_:,} learned, {a_pass}"),
        ("features", f"{learner.n_features_in_:,}"),
        *_show.tell_columns(getattr(getattr(model, "encoder_", None), "columns_", ())),
        ("classes", f"{len(learner.classes_)}: {_show.sum_up(learner.classes_)}"),
        *_describe_learner(learner),
    ]
    if model is not learner:
        voters = _show.count(len(model.plausibility_), "row")
        lines.append(("noise rate", f"{_show.percent(model.noise_rate_)} among {voters} drawn to vote"))
    return lines


def _describe_learner(learner: Any) -> list[tuple[str, str]]:
    return [
        ("learner", type(learner).__name__),
        ("triplets", f"{learner.n_triplets_seen_:,}, of which {learner.n_updates_:,} moved the measure"),
    ]


def _describe_jury(jury: Any) -> list[tuple[str, str]]:
    shares = zip(jury.voters, jury.percents, strict=True)
    return [("voters", ", ".join(f"{one.name} {share} %" for one, share in shares))]


def _describe_table(model: Any, rows: LabelledRows) -> list[tuple[str, str]]:
    import numpy as np

    assert rows.y is not None
    classes, counts = np.unique(rows.y, return_counts=True)
    sizes = [f"{name}\N{NO-BREAK SPACE}({count:,})" for name, count in zip(classes, counts, strict=True)]
    how = "estimated" if model.noise_rate == "auto" else "as given"
    if model.noise_rate == "auto" and getattr(getattr(model, "learner_", None), "loss", None) == "hinge":
        how = "the plain hinge trusts every label; use a robust learner"
    rates = model.noise_rates_
    if (rates == rates[0]).all():
        by_class = ""
    else:
        most = (-rates).argsort(kind="stable")
        named = [f"{model.classes_[i]}\N{NO-BREAK SPACE}{_show.percent(rates[i])}" for i in most[:5]]
        by_class = "; by true class " + ", ".join(named) + (", ..." if len(most) > 5 else "")
    n_skipped = 0 if rows.unlabelled is None else len(rows.unlabelled.X)
    return [
        ("rows", f"{len(rows.X):,}" + (f"; {n_skipped:,} more without a label, skipped" if n_skipped else "")),
        ("features", f"{rows.X.shape[1]:,}"),
        *_show.tell_columns(rows.columns),
        ("classes", f"{len(classes)}: {_show.sum_up(sizes)}"),
        *(_describe_learner(model.learner_) if hasattr(model, "learner_") else _describe_jury(model.decision_.jury)),
        ("noise rate", f"{_show.percent(model.noise_rate_)} ({how}){by_class}"),
        ("suspects", _describe_suspects(model.decision_)),
    ]


def _describe_suspects(decision: Any) -> str:
    n_suspects = int(decision.is_suspect.sum())
    n_wrong = len(decision.is_suspect) - len(decision.kept)
    if not hasattr(decision, "is_wrong") or not n_suspects:  # Algorithm 5 drops a share and knows no tiers
        return f"{_show.count(n_suspects, 'row')}, the least plausible labels" if n_suspects else "none"
    return f"{n_wrong:,} wrong, {n_suspects - n_wrong:,} worth a look"


def _doubts(model: Any, rows: LabelledRows) -> dict[str, Any]:
    """Return all rows, the least plausible first; rows count from 0."""
    import numpy as np

    score = getattr(model, "score_", model.plausibility_)
    order = np.argsort(score, kind="stable")
    return {
        "row": order if rows.numbers is None else rows.numbers[order],
        "label": np.asarray(rows.y)[order],
        "plausibility": model.plausibility_[order],
        "score": score[order],
        "doubtful": np.where(model.decision_.is_suspect[order], "yes", "no"),
    }
