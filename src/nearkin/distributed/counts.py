"""What is known of rows without holding them: moments, labels, and how many are how plausible; parts add up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.errors import InputError
from nearkin.jury.decision import find_suspects
from nearkin.noise import NoiseModel
from nearkin.rows import Scaling, without_noise

__all__ = ["Cells", "Survey", "draw_keys"]

#: Logarithm of the odds at which plausibility counts as zero or one, and steps between: as many as classes leave room
#: for, so that all counts together are at most about as many as the last number says.
_SURE = 24.0
_MOST_STEPS, _FEWEST_STEPS, _MOST_CELLS = 1 << 14, 1 << 8, 1 << 22


def draw_keys(seed: int, numbers: Index) -> NDArray[np.uint64]:
    """Return a number for each row that looks random (SplitMix64); rows of a class with the lowest are drawn.

    >>> draw_keys(0, np.array([0, 1])).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    z = (numbers.astype(np.uint64) + np.uint64(1) + np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return found


@dataclass
class Survey:
    """How many rows and labels there are, and mean and spread of every column; batches are added in their order.

    Examples
    --------
    >>> rows, labels = np.array([[0.0], [1.0], [5.0]]), np.array(["b", "a", "b"])
    >>> whole = Survey()
    >>> for part in (slice(0, 2), slice(2, 3)):
    ...     whole.add(Survey.look(rows[part], *np.unique(labels[part], return_counts=True), 0))
    >>> whole.counts, whole.mean.tolist(), (whole.squares / 3).round(6).tolist()
    ({'a': 1, 'b': 2}, [2.0], [4.666667])
    """

    n_rows: int = 0
    n_dropped: int = 0
    mean: Array = field(default_factory=lambda: np.zeros(0))
    squares: Array = field(default_factory=lambda: np.zeros(0))
    labels: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @classmethod
    def look(cls, X: Array, labels: NDArray[Any], sizes: Index, n_dropped: int) -> Survey:
        """Return the survey of one batch."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0, dtype=np.float64) if len(X) else np.zeros(X.shape[1])
            squares = np.square(X - mean).sum(axis=0)
        return cls(len(X), n_dropped, mean, squares, labels.tolist(), sizes.tolist())

    @property
    def counts(self) -> dict[Any, int]:
        """Rows of every label."""
        return dict(zip(self.labels, self.sizes, strict=True))

    def add(self, other: Survey) -> None:
        """Add what another batch holds."""
        counts = self.counts
        for label, size in other.counts.items():
            counts[label] = counts.get(label, 0) + size
        self.labels, self.sizes = list(counts), list(counts.values())
        self.n_dropped += other.n_dropped
        n = self.n_rows + other.n_rows
        if not self.n_rows:
            self.mean, self.squares = other.mean, other.squares
        elif other.n_rows:
            with np.errstate(over="ignore", invalid="ignore"):
                step = other.mean - self.mean
                self.mean = self.mean + step * (other.n_rows / n)
                self.squares = self.squares + other.squares + step * step * (self.n_rows * other.n_rows / n)
        self.n_rows = n

    def find_scaling(self, dtype: Any) -> Scaling:
        """Return the scaling that all rows have together, as an audit in memory learns it."""
        if not (np.isfinite(self.mean).all() and np.isfinite(self.squares).all()):
            column = int(np.argmin(np.isfinite(self.mean + self.squares)))
            raise InputError(f"numbers of feature {column} are too large to compute with.", owner="distributed.audit")
        std = without_noise(self.mean, np.sqrt(self.squares / self.n_rows), dtype)
        if not std.any():
            raise InputError(
                "all rows are equal, so nothing tells right labels from wrong ones.", owner="distributed.audit"
            )
        found = Scaling.of_moments(self.mean, std, dtype, "pairs")
        return Scaling(found.shift, found.factor, is_tame=True)


class Cells:
    """How many labels of each class are about how plausible, outvoted or not; suspects are found among these counts.

    Plausibility is rounded to steps of its log odds, so that counts of parts add up without error in any order.

    Parameters
    ----------
    n_classes : int
        Number of classes.

    Examples
    --------
    >>> cells = Cells(2)
    >>> plausibility, codes = np.array([0.01, 0.9, 0.9, 0.8]), np.array([0, 0, 0, 1])
    >>> numbers = cells.number(plausibility, plausibility < 0.5, codes)
    >>> cells.add(*np.unique(numbers, return_counts=True))
    >>> cells.find(NoiseModel(0.25, 2), rate_is_given=True)[numbers].tolist(), cells.outvoted
    ([True, False, False, False], 0.25)
    """

    def __init__(self, n_classes: int):
        self.n_classes = n_classes
        self.n_steps = max(_FEWEST_STEPS, min(_MOST_STEPS, 1 << (_MOST_CELLS // (2 * n_classes)).bit_length() - 1))
        self.counts = np.zeros(2 * n_classes * self.n_steps, np.int64)

    def number(self, plausibility: Array, is_outvoted: Mask, codes: Codes) -> Index:
        """Return the number of the cell of each label."""
        with np.errstate(divide="ignore"):
            odds = np.log(plausibility) - np.log1p(-plausibility)
        step = np.floor((np.clip(odds / _SURE, -1.0, 1.0) + 1.0) * (self.n_steps / 2)).astype(np.int64)
        return (2 * codes + is_outvoted) * self.n_steps + np.minimum(step, self.n_steps - 1)

    def add(self, numbers: Index, counts: Index) -> None:
        """Add what a part has counted."""
        self.counts[numbers] += counts

    @property
    def outvoted(self) -> float:
        """Share of the labels that are outvoted."""
        both = self.counts.reshape(self.n_classes, 2, self.n_steps).sum(axis=(0, 2))
        return float(both[1] / both.sum())

    def find(self, noise: NoiseModel, *, rate_is_given: bool) -> Mask:
        """Return the cells whose labels are suspects; the interval of the rate changes as `find_suspects` says."""
        used = np.flatnonzero(self.counts)
        group, step = np.divmod(used, self.n_steps)
        plausibility = 1.0 / (1.0 + np.exp(-_SURE * ((2 * step + 1) / self.n_steps - 1.0)))
        codes, is_outvoted = np.divmod(group, 2)
        score = np.where(is_outvoted == 1, 0.0, 1.0)
        found = np.zeros(len(self.counts), dtype=bool)
        found[used] = find_suspects(
            plausibility, score, codes, noise, rate_is_given=rate_is_given, counts=self.counts[used]
        )
        return found
