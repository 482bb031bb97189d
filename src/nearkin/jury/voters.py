"""Who votes: one contract, and the votes of neighbours by their rank. Regressions are in `ridge`, trees in `forest`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from nearkin.accelerator import computing_device
from nearkin.arrays import Array, Codes, Index
from nearkin.noise.model import VotesOn

__all__ = [
    "N_VOTING", "WIDE", "Embedding", "NeighbourhoodVoter", "RankVoter", "SearchingVoter", "Voter", "map_rows",
    "rank_votes",
]  # fmt: skip

#: Neighbours of a row that vote.
N_VOTING = 60

#: Rows whose votes are counted at the same time, and the most votes of them.
_AT_ONCE = 1 << 11
_VOTES_AT_ONCE = 1 << 20

#: Most features for which matrices of all pairs of features are formed.
WIDE = 1024


class Voter(Protocol):
    """Votes on the class of a row, never counting the row's own label.

    Attributes
    ----------
    name : str
        Short and unique in its jury.
    votes_with : str
        What the votes rest on, in words.

    Examples
    --------
    >>> from nearkin.jury import Jury
    >>> class Prior:
    ...     name, votes_with = "prior", "the shares of the labels"
    ...
    ...     def __init__(self, codes):
    ...         self.codes = codes
    ...
    ...     def left_out(self, weights):
    ...         total = np.bincount(self.codes, weights, 2)
    ...         shares = (total - np.eye(2)[self.codes] * weights[:, None]) / (total.sum() - weights)[:, None]
    ...         return shares.__getitem__
    ...
    ...     def answers(self, queries, weights):
    ...         return np.tile(np.bincount(self.codes, weights, 2) / weights.sum(), (len(queries), 1))
    >>> Jury([Prior(np.array([0, 0, 0, 1]))], [1.0]).answers(np.zeros((1, 2)), np.ones(4)).tolist()
    [[0.75, 0.25]]
    """

    name: str

    @property
    def votes_with(self) -> str:
        """What the votes rest on, in words."""

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows, each by all others, whose labels count as much as ``weights`` says."""

    def answers(self, queries: Array, weights: Array) -> Array | None:
        """Votes on new scaled rows, of shape (n_queries, n_classes); None abstains, and the others count for more."""


@runtime_checkable
class NeighbourhoodVoter(Voter, Protocol):
    """A voter whose votes are cast by rows near the one in question."""

    def neighbours_left_out(self, rows: Index, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of training rows in each space that judges them, nearest first, with their parts of the vote."""

    def neighbours(self, queries: Array, weights: Array, found: Index | None = None) -> list[tuple[Index, Array]]:
        """The same for new scaled rows, where known among candidates that another voter has found."""

    def map_rows(self, rows: Array) -> Array:
        """Scaled rows in the space where nearness is judged."""


class Embedding(Protocol):
    """A learned map of scaled rows."""

    def embed(self, X: Array) -> Array:
        """Mapped rows."""


def map_rows(space: Array | Embedding | None, rows: Array) -> Array:
    """Map scaled rows by a matrix of shape (n_components, n_features) or an `Embedding`; None leaves them."""
    if space is None:
        return rows
    return rows @ space.T if isinstance(space, np.ndarray) else space.embed(rows)


def rank_votes(index: Index, codes: Codes, weights: Array, n_classes: int, bandwidth: float) -> Array:
    """Count the votes of neighbours, the j-th nearest with ``exp(-j / bandwidth)`` times its weight.

    ``index`` has one row of neighbours for each query, the nearest first; ``codes`` and ``weights`` belong to all rows.
    The nearest ``bandwidth`` neighbours hold two thirds of the votes. Where no neighbour has any weight, all classes
    have the same share.

    Examples
    --------
    >>> votes = rank_votes(np.array([[0, 1, 2]]), np.array([0, 1, 1]), np.ones(3), 2, 2.0)
    >>> votes.round(3).tolist()
    [[0.506, 0.494]]
    """
    if (device := computing_device()) is not None:
        from nearkin.accelerator.device_votes import count_ranks

        return count_ranks(index, codes, weights, n_classes, bandwidth, device)
    votes = np.empty((len(index), n_classes))
    step = min(_AT_ONCE, max(1, _VOTES_AT_ONCE // n_classes))
    for start in range(0, len(index), step):
        some = index[start : start + step]
        cells = np.arange(len(some))[:, None] * n_classes + codes[some]
        counted = np.bincount(cells.ravel(), _cast(some, weights, bandwidth).ravel(), len(some) * n_classes)
        votes[start : start + step] = counted.reshape(len(some), n_classes)
    total = votes.sum(axis=1, keepdims=True)
    votes /= np.where(total > 0, total, 1.0)
    votes[total[:, 0] <= 0] = 1.0 / n_classes
    return votes


def _cast(index: Index, weights: Array, bandwidth: float) -> Array:
    """Weight of the vote of each neighbour."""
    cast: Array = np.exp(-np.arange(index.shape[1]) / bandwidth) * weights[index]
    return cast


class SearchingVoter:
    """A voter whose neighbours are found, or chosen among candidates that are found, by one search."""

    @property
    def searches_input(self) -> bool:
        """Whether candidates are those of the input space, which several voters share."""
        raise NotImplementedError

    def find(self, queries: Array) -> Index:
        """Training rows near new scaled rows, the nearest first."""
        raise NotImplementedError

    def answers(self, queries: Array, weights: Array, found: Index | None = None) -> Array:
        """Votes on new scaled rows; where ``found`` is given it has candidates of the input space."""
        raise NotImplementedError


class RankVoter(SearchingVoter):
    """Neighbours of training rows that vote with weights falling by rank; how they are found is left to its kinds."""

    # Found again when needed, and not stored.
    _among: Index | None = None

    name: str
    codes: Codes
    n_classes: int
    bandwidth: float

    @property
    def among(self) -> Index:
        """Neighbours of every training row outside its group, of shape (n_samples, 60), found at the first use."""
        return self.candidates[:, :N_VOTING]

    @property
    def candidates(self) -> Index:
        """The same, and more of them where others choose among them."""
        if self._among is None:
            self._among = self._find_among()
        return self._among

    def _find_among(self) -> Index:
        raise NotImplementedError

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows by their neighbours."""
        return lambda part: rank_votes(self.among[part], self.codes, weights, self.n_classes, self.bandwidth)

    def neighbours_left_out(self, rows: Index, weights: Array) -> list[tuple[Index, Array]]:
        """Neighbours of training rows and their parts of the vote."""
        return [self._weigh(self.among[rows], weights)]

    def _weigh(self, index: Index, weights: Array) -> tuple[Index, Array]:
        """Neighbours with their parts of the vote, which sum to 1."""
        cast = _cast(index, weights, self.bandwidth)
        total = cast.sum(axis=1, keepdims=True)
        return index, np.divide(cast, total, out=np.full_like(cast, 1.0 / cast.shape[1]), where=total > 0)
