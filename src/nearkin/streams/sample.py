"""A few rows from all over a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.streams.file_stream import FileStream

__all__ = ["sample_rows"]

#: Most batches to read.
_BATCHES = 256


def sample_rows(stream: FileStream, n_rows: int, seed: int = 0) -> tuple[NDArray[np.floating], NDArray[Any]]:
    """Draw rows from all over the files, in their order; the same seed draws the same rows.

    Parameters
    ----------
    stream : FileStream
        From `nearkin.streams.open`.
    n_rows : int
        Number of rows, if the stream has that many.
    seed : int
        For the draw.

    Returns
    -------
    X, y : ndarray
        Features and labels.

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
    ...     streams.sample_rows(stream, 10)[0].shape
    (10, 5)
    """
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.permutation(stream.n_batches)[:_BATCHES])
    sizes = [min(stream.batch_rows, stream.n_rows - number * stream.batch_rows) for number in numbers.tolist()]
    wanted = np.sort(rng.permutation(sum(sizes))[:n_rows])
    cursor = stream.cursor()
    X, y, at = [], [], 0
    for number, size in zip(numbers.tolist(), sizes, strict=True):
        batch = stream.batch(stream.pieces(0, number), cursor)
        picked = np.zeros(size, dtype=bool)
        picked[wanted[(wanted >= at) & (wanted < at + size)] - at] = True
        X.append(batch.X[picked[batch.kept]])
        y.append(batch.y[picked[batch.kept]])
        at += size
    return np.concatenate(X), np.concatenate(y)
