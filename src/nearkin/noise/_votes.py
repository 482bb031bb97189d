"""What voters say about labelled rows, asked in parts of bounded size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ask", "LeftOut", "parts", "survey"]

Array = NDArray[np.floating]

#: Most votes, rows times classes, that are held at once.
_AT_ONCE = 1 << 22

#: Shares of the classes for some rows, given as a slice or by their numbers: shape (n_rows, n_classes).
Ask = Callable[[Any], Array]

#: The same, each row judged by all others, whose labels count as much as the weights say.
LeftOut = Callable[[Array], Ask]


def parts(n_rows: int, n_classes: int) -> list[slice]:
    """Parts of the rows whose votes fit into bounded memory.

    Examples
    --------
    >>> parts(10, 2), len(parts(10_000, 4000))
    ([slice(0, 10, None)], 10)
    """
    step = max(1, _AT_ONCE // n_classes)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def survey(ask: Ask, n_rows: int, n_classes: int) -> tuple[NDArray[np.int64], Array]:
    """Class with most votes for every row, and its share.

    Examples
    --------
    >>> shares = np.array([[0.9, 0.1], [0.3, 0.7]])
    >>> [one.tolist() for one in survey(shares.__getitem__, 2, 2)]
    [[0, 1], [0.9, 0.7]]
    """
    predicted, certainty = np.empty(n_rows, np.int64), np.empty(n_rows)
    for part in parts(n_rows, n_classes):
        shares = ask(part)
        predicted[part] = shares.argmax(axis=1)
        certainty[part] = shares.max(axis=1)
    return predicted, certainty
