"""Kinds of arrays, named once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SMALLEST", "Array", "Codes", "Index", "Mask"]

#: Numbers of either precision.
Array = NDArray[np.floating]

#: Positions of rows.
Index = NDArray[np.signedinteger]

#: Classes by number, in order of first appearance.
Codes = NDArray[np.int64]

#: Rows that count.
Mask = NDArray[np.bool_]

#: Smallest positive normal number: what a plausibility that underflows becomes.
SMALLEST = float(np.finfo(np.float64).tiny)
