"""What a cell of text means: a number, a label, or nothing. Both CSV readers follow these rules."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NotNumbers", "labels_of", "numbers_of"]

#: Cells that say that there is no label, and no number. "None" and "?" may be names of classes.
_NO_LABEL = frozenset(("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL"))
_NO_NUMBER = _NO_LABEL | {"-nan", "-NaN", "None", "none", "?"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)


class NotNumbers(ValueError):
    """A column holds something that is no number."""

    def __init__(self, row: int, value: object):
        super().__init__(f"{reprlib.repr(value)} in data row {row + 1}")


def numbers_of(cells: Sequence[str]) -> NDArray[np.float64]:
    """Numbers of a column; NaN where a cell is missing.

    Examples
    --------
    >>> numbers_of(["1", " 2.5", "NA"]).tolist()
    [1.0, 2.5, nan]
    """
    out = np.empty(len(cells))
    for row, cell in enumerate(cells):
        text = cell.strip()
        if _NUMBER.fullmatch(text):
            out[row] = float(text)
        elif text in _NO_NUMBER:
            out[row] = np.nan
        else:
            raise NotNumbers(row, text)
    return out


def labels_of(cells: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels of a column and which are missing: whole numbers stay whole numbers, everything else is text.

    Numbers with leading zeros are names rather than numbers. Numbers with a decimal point become floats.

    Examples
    --------
    >>> labels_of(["1", "2", ""])[0].dtype.kind, labels_of(["01", "2"])[0].tolist()
    ('i', ['01', '2'])
    """
    texts = [cell.strip() for cell in cells]
    missing = np.array([text in _NO_LABEL for text in texts], dtype=bool)
    known = [text for text in texts if text not in _NO_LABEL]
    if known and all(_WHOLE.fullmatch(text) for text in known):
        return np.array([0 if text in _NO_LABEL else int(text) for text in texts], dtype=np.int64), missing
    if known and all(_NUMBER.fullmatch(text) for text in known) and any("." in text for text in known):
        return np.array([0.0 if text in _NO_LABEL else float(text) for text in texts]), missing
    return np.array(texts), missing
