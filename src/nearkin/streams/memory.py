"""Memory that a fit over a stream needs, estimated before it begins."""

from __future__ import annotations

from dataclasses import dataclass

from nearkin.learners import LPAODML, OnlineLearner
from nearkin.streams.file_stream import FileStream

__all__ = ["Memory", "memory_estimate"]

#: Python and its libraries before any data, measured.
_LIBRARIES = 300_000_000


@dataclass(frozen=True)
class Memory:
    """Most bytes that a fit needs, by purpose.

    Parameters
    ----------
    libraries, reader, batch, model : int
        Python and its libraries; what the reader holds of the file; a batch, scaled, with its scores; the model, the
        copy that survives an error, and a checkpoint.

    Examples
    --------
    >>> Memory(libraries=200, reader=10, batch=5, model=1).total
    216
    """

    libraries: int
    reader: int
    batch: int
    model: int

    @property
    def total(self) -> int:
        """All together."""
        return self.libraries + self.reader + self.batch + self.model


def memory_estimate(learner: OnlineLearner, stream: FileStream, n_classes: int = 100) -> Memory:
    """Estimate the memory of a fit over a stream; it does not depend on the number of rows.

    Parameters
    ----------
    learner : learner of this package
        Fitted or not.
    stream : FileStream
        From `nearkin.streams.open`.
    n_classes : int, default=100
        Classes to expect.

    Returns
    -------
    Memory
        In bytes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import nearkin
    >>> from nearkin import streams
    >>> with tempfile.TemporaryDirectory() as here:
    ...     np.save(f"{here}/X.npy", np.eye(100, 5))
    ...     np.save(f"{here}/y.npy", np.arange(100) % 2)
    ...     stream = streams.open(f"{here}/X.npy", label=f"{here}/y.npy", batch_rows=30)
    ...     streams.memory_estimate(nearkin.RobustLODML(), stream).batch < 1e6
    True
    """
    first = stream.batch(stream.pieces(0, 0)[:1])
    d, size = first.X.shape[1], first.X.itemsize
    rows = stream.batch_rows * d * size
    scores = stream.batch_rows * n_classes * size
    components = getattr(learner, "n_components", None)
    if components is None:
        components = d if d <= 128 or not hasattr(learner, "n_components") else 64
    per_class = n_classes if isinstance(learner, LPAODML) else 1
    parameter = int(components) * d * 8 * per_class * (2 if getattr(learner, "psd", None) == "project" else 1)
    centers = n_classes * d * size
    return Memory(_LIBRARIES, stream.reader.n_bytes, 6 * rows + 4 * scores, 4 * (parameter + centers))
