"""The second pass: score every label of a stream with the final model, into Parquet beside the input."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.files import claim, replacing
from nearkin.learners import OnlineLearner
from nearkin.saving import write_tree
from nearkin.streams.batch import Batch
from nearkin.streams.columns import arrange, without_names
from nearkin.streams.file_stream import FileStream
from nearkin.streams.opening import SCORES
from nearkin.tables import require_pyarrow

__all__ = ["Scores", "list_score_files", "score_batch", "score_stream", "write_scores"]

#: Labels and plausibilities of consecutive rows of a file; None and NaN where there are none.
Scores = tuple[list[Any], NDArray[np.float32]]


def score_stream(
    learner: OnlineLearner, source: FileStream, folder: str | os.PathLike[str] | None = None, *, resume: bool = False
) -> list[Path]:
    """Score all rows of a stream with the final model.

    Parameters
    ----------
    learner : fitted learner of this package
        It stays as it is.
    source : FileStream
        From `nearkin.streams.open`.
    folder : path or None, default=None
        Where to write; None for beside each input file.
    resume : bool, default=False
        Skip files that this very model has scored already.

    Returns
    -------
    list of Path
        For every input file one Parquet file, ``NAME.plausibility.pq``, with the columns ``row`` (from 1), ``label``
        and ``plausibility``, which is null for rows that were dropped or whose class the model does not know.

    Examples
    --------
    >>> import tempfile
    >>> import nearkin
    >>> from nearkin import streams
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 3
    >>> with tempfile.TemporaryDirectory() as here:
    ...     np.save(f"{here}/X.npy", y[:, None] + rng.normal(size=(300, 4)))
    ...     np.save(f"{here}/y.npy", y)
    ...     stream = streams.open(f"{here}/X.npy", label=f"{here}/y.npy")
    ...     learner = streams.fit_stream(nearkin.RobustLODML(random_state=0), stream)
    ...     [path.name for path in streams.score_stream(learner, stream)]
    ['X.npy.plausibility.pq']
    """

    def scored(part: FileStream) -> Iterator[Scores]:
        return (score_batch(learner, batch) for batch in part.batches(0))

    return write_scores(learner, source, folder, scored, resume=resume)


def score_batch(learner: OnlineLearner, batch: Batch) -> Scores:
    """Return labels and plausibilities of the rows behind a batch."""
    labels: list[Any] = [None] * batch.n_rows
    found = np.full(batch.n_rows, np.nan, dtype=np.float32)
    y = batch.y.tolist()
    for at, label in zip(np.flatnonzero(batch.kept).tolist(), y, strict=True):
        labels[at] = label
    codes = learner.state_.labels.codes
    known = np.array([one in codes for one in y], dtype=bool)
    if known.any():
        found[np.flatnonzero(batch.kept)[known]] = learner.plausibility(batch.X[known], batch.y[known])
    return labels, found


def list_score_files(source: FileStream, folder: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return where the scores of each file of a stream go."""
    places = [Path(one) for one in source.paths]
    return [(one.parent if folder is None else Path(folder)) / (one.name + SCORES) for one in places]


def write_scores(
    learner: OnlineLearner, source: FileStream, folder: str | os.PathLike[str] | None, scored: Any, *, resume: bool
) -> list[Path]:
    """Write the scores that ``scored`` yields for each file of a stream; a file appears when it is complete."""
    require_pyarrow("score_stream")
    source = arrange(source, learner)
    mark = _mark(learner)
    written, done = [], 0
    targets = list_score_files(source, folder)
    claim([(one, "scores") for one in targets], source.files)
    for path, target in zip(source.paths, targets, strict=True):
        part = source.of_file(path)
        if not (resume and _is_scored(target, mark, part.n_rows)):
            with without_names(learner), replacing(target, "scores", durable=True) as file:
                for at in _write(file, scored(part), mark):
                    progress.advance("scoring", done + at, source.n_rows)
        done += part.n_rows
        written.append(target)
    return written


def _write(file: Any, blocks: Iterator[Scores], mark: str) -> Iterator[int]:
    import pyarrow as pa
    from pyarrow import parquet

    writer, done = None, 0
    for labels, plausibility in blocks:
        rows = np.arange(done + 1, done + 1 + len(labels))
        known = pa.array(plausibility, from_pandas=True)
        if writer is None:
            kind = pa.array([one for one in labels if one is not None]).type
            kind = pa.string() if pa.types.is_null(kind) else kind
            columns = [("row", pa.int64()), ("label", kind), ("plausibility", pa.float32())]
            schema = pa.schema(columns, metadata={"nearkin.model": mark})
            writer = parquet.ParquetWriter(file, schema)
        writer.write_table(pa.table([rows, pa.array(labels, type=kind), known], schema=schema))
        done += len(labels)
        yield done
    if writer is not None:
        writer.close()


def _mark(learner: OnlineLearner) -> str:
    """Return a fingerprint of what was learned, without the plausibilities of the last batch."""
    file = io.BytesIO()
    write_tree(learner.state_, file)
    return hashlib.sha256(file.getvalue()).hexdigest()


def _is_scored(target: Path, mark: str, n_rows: int) -> bool:
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(target) as file:
            metadata = file.schema_arrow.metadata or {}
            return metadata.get(b"nearkin.model") == mark.encode() and file.metadata.num_rows == n_rows
    except (OSError, ArrowException):
        return False
