"""Voters together: how much each counts, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.accelerator import sending_once
from nearkin.arrays import Array, Codes, Index
from nearkin.jury.copies import Copies
from nearkin.jury.voters import N_VOTING, NeighbourhoodVoter, SearchingVoter, Voter
from nearkin.noise.model import VotesOn, split_rows
from nearkin.stored import Items, Maybe, Number, Part, stored

__all__ = ["CastVotes", "Jury", "Votes", "draw_to_equal", "mix_votes", "stack_votes", "whole_percents"]

#: Pairs of candidates and neighbours that are compared at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Votes:
    """What every voter says about some rows.

    Parameters
    ----------
    voters : tuple of str
        Names of the voters.
    shares : ndarray of shape (n_voters,)
        How much each voter counts; sums to 1.
    votes : ndarray of shape (n_voters, n_rows, n_classes)
        Votes of each voter; those of a voter on a row sum to 1.
    classes : ndarray of shape (n_classes,)
        What the columns mean.

    Examples
    --------
    >>> said = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> votes = Votes(("near", "smooth"), np.array([0.75, 0.25]), said, np.array(["cat", "dog"]))
    >>> votes.total.round(2).tolist()
    [[0.8, 0.2]]
    """

    voters: tuple[str, ...]
    shares: Array
    votes: Array
    classes: NDArray[Any]

    @property
    def total(self) -> Array:
        """What the voters say together, of shape (n_rows, n_classes)."""
        return np.einsum("v,vnk->nk", self.shares, self.votes)


@dataclass(frozen=True)
class CastVotes:
    """Rows that cast the votes of neighbourhood voters on some rows, those with the largest parts first."""

    #: Names of the neighbourhood voters.
    voters: tuple[str, ...]
    #: Training rows, each among the k nearest of at least one voter, of shape (n_rows, k).
    rows: Index
    #: Part of the whole jury's vote that each row casts through each voter, of shape (n_voters, n_rows, k).
    parts: Array
    #: Whether the row is among the k nearest of the voter, of the same shape.
    is_nearest: NDArray[np.bool_]

    @property
    def total(self) -> Array:
        """Part of the jury's vote that each row casts through all voters, of shape (n_rows, k)."""
        return self.parts.sum(axis=0)


@stored(
    voters=Items(
        Part("NeighbourVoter", "CrossFittedVoter", "RidgeVoter", "ForestVoter", "OutsideVoter", m="n", c="c", d="d"),
        "v",
        least=1,
    ),
    shares=Items(Number(0.0, 1.0), "v"),
    copies=Maybe(Part(Copies, n="n", m="m"), else_equal=("n", "m")),
)
class Jury:
    """Voters whose votes are averaged by their shares.

    Each covers the failures of the others: neighbours in a learned space where features differ in worth, in the input
    space where there is too little to learn from, regressions where classes overlap widely.

    Parameters
    ----------
    voters : sequence of Voter
        All of the same training rows.
    shares : sequence of float
        How much each counts, up to a common factor; a voter with share 0 never votes.
    copies : Copies or None, default=None
        Rows for which others stand: the voters know only these. Positions and weights are those of all rows.

    Examples
    --------
    >>> from nearkin.jury import LocalNeighbours, NeighbourVoter
    >>> rows, codes = np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]]), np.array([0, 0, 1, 1, 1, 1])
    >>> jury = Jury([NeighbourVoter("input space", LocalNeighbours(rows), codes, 2, bandwidth=1.0)], [1.0])
    >>> jury.left_out(np.ones(6))(slice(None)).argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]
    >>> jury.answers(np.array([[0.2]]), np.ones(6)).argmax(axis=1).tolist()
    [0]
    """

    def __init__(self, voters: Sequence[Voter], shares: Sequence[float] | Array, copies: Copies | None = None):
        self.copies = copies
        total = float(sum(shares))
        self.voters, self.shares = list(voters), [float(one) / total for one in shares]

    @property
    def percents(self) -> list[int]:
        """Shares in whole percent that sum to 100."""
        return whole_percents(self.shares)

    @property
    def _voting(self) -> tuple[list[Voter], list[float]]:
        """Voters that count, and their shares."""
        heard = [pair for pair in zip(self.voters, self.shares, strict=True) if pair[1] > 0.0]
        return [voter for voter, _ in heard], [share for _, share in heard]

    def left_out(self, weights: Array) -> VotesOn:
        """Votes on training rows, each by all others."""
        voters, shares = self._voting
        return self._for_all(mix_votes([voter.left_out(self._reduce(weights)) for voter in voters], shares))

    def _reduce(self, weights: Array) -> Array:
        """Weights of the rows that the voters know."""
        return weights if self.copies is None else weights[self.copies.first]

    def _for_all(self, votes: VotesOn) -> VotesOn:
        """Votes on all rows, from those on the rows that the voters know."""
        if self.copies is None:
            return votes
        known = self.copies.group_of_row

        def votes_on_all(part: Any) -> Array:
            # Each is judged once: products of matrices may round equal rows differently at different places.
            some, place = np.unique(known[part], return_inverse=True)
            return votes(some)[place]

        return votes_on_all

    def answers(self, queries: Array, weights: Array) -> Array:
        """Votes on new scaled rows, of shape (n_queries, n_classes)."""
        voters, shares = self._voting
        said = _ask(voters, queries, self._reduce(weights))
        votes = [(one.__getitem__, share) for one, share in zip(said, shares, strict=True) if one is not None]
        total = sum(share for _, share in votes)
        return mix_votes([one for one, _ in votes], [share / total for _, share in votes])(slice(None))

    def poll_left_out(self, rows: Index, weights: Array, classes: NDArray[Any]) -> Votes:
        """What every voter says about training rows."""
        weights = self._reduce(weights)
        return self._gather([self._for_all(one.left_out(weights))(rows) for one in self.voters], classes)

    def poll(self, queries: Array, weights: Array, classes: NDArray[Any]) -> Votes:
        """What every voter says about new scaled rows."""
        return self._gather(_ask(self.voters, queries, self._reduce(weights)), classes)

    def _gather(self, said: list[Array | None], classes: NDArray[Any]) -> Votes:
        """What was said, by those who said something."""
        heard = [
            (voter.name, share, one)
            for voter, share, one in zip(self.voters, self.shares, said, strict=True)
            if one is not None
        ]
        names, shares, votes = zip(*heard, strict=True)
        return Votes(names, np.array(shares) / sum(shares), np.stack(votes), classes)

    def cast_left_out(self, rows: Index, weights: Array, k: int) -> CastVotes:
        """Of the k nearest others of training rows by each voter, those k that cast most of the votes on them."""
        weights, known = self._reduce(weights), rows if self.copies is None else self.copies.group_of_row[rows]
        k = min(k, N_VOTING, len(weights) - 1)
        return self._cast(lambda voter, part: voter.neighbours_left_out(known[part], weights), len(rows), k, k)

    def cast(self, queries: Array, weights: Array, k: int) -> CastVotes:
        """Of all rows that vote on new scaled rows, those k that cast most of the votes."""
        weights = self._reduce(weights)
        most = min(N_VOTING, len(weights))
        found = _find_once(self._voting[0], queries)
        return self._cast(
            lambda voter, part: voter.neighbours(queries[part], weights, None if found is None else found[part]),
            len(queries), min(k, most), most,
        )  # fmt: skip

    def _cast(self, find: Any, n: int, k: int, n_candidates: int) -> CastVotes:
        voting = [pair for pair in zip(*self._voting, strict=True) if isinstance(pair[0], NeighbourhoodVoter)]
        step = max(1, _AT_ONCE // (n_candidates * N_VOTING))
        blocks = [slice(start, start + step) for start in range(0, max(n, 1), step)]
        found = [_largest([(share, find(voter, part)) for voter, share in voting], k, n_candidates) for part in blocks]
        rows, parts, nearest = zip(*found, strict=True)
        voted = np.concatenate(rows)
        return CastVotes(
            tuple(voter.name for voter, _ in voting), voted if self.copies is None else self.copies.first[voted],
            np.concatenate(parts, axis=1), np.concatenate(nearest, axis=1),
        )  # fmt: skip


def _ask(voters: Sequence[Voter], queries: Array, weights: Array) -> list[Array | None]:
    """Votes of every voter on new scaled rows; their neighbours in the input space are found once."""
    with sending_once():
        found = _find_once(voters, queries)
        return [
            one.answers(queries, weights, found) if isinstance(one, SearchingVoter) else one.answers(queries, weights)
            for one in voters
        ]


def _find_once(voters: Sequence[Voter], queries: Array) -> Index | None:
    """Candidates of new rows in the input space, if a voter has them."""
    searching = [one for one in voters if isinstance(one, SearchingVoter) and one.searches_input]
    return searching[0].find(queries) if searching else None


def _largest(
    found: list[tuple[float, list[tuple[Index, Array]]]], k: int, n_candidates: int
) -> tuple[Index, Array, NDArray[np.bool_]]:
    """Of the nearest rows of every space, those k with the largest parts of the vote, and their parts by voter."""
    candidates = np.concatenate([index[:, :n_candidates] for _, spaces in found for index, _ in spaces], axis=1)
    parts = np.zeros((len(found), *candidates.shape))
    is_nearest = np.zeros(parts.shape, dtype=bool)
    for v, (share, spaces) in enumerate(found):
        for index, part in spaces:
            same = candidates[:, :, None] == index[:, None, :]
            parts[v] += share * (same * part[:, None, :]).sum(axis=2)
            is_nearest[v] |= same[:, :, :k].any(axis=2)
    total = parts.sum(axis=0)
    again = np.tril(candidates[:, :, None] == candidates[:, None, :], -1).any(axis=2)
    order = np.argsort(np.where(again, -1.0, total) * -1.0, axis=1, kind="stable")[:, :k]
    parts, is_nearest = (np.take_along_axis(one, order[None], axis=2) for one in (parts, is_nearest))
    return np.take_along_axis(candidates, order, axis=1), parts, is_nearest


def mix_votes(votes: Sequence[VotesOn], shares: Sequence[float] | Array) -> VotesOn:
    """Mix the votes of several voters by their shares."""

    def votes_on(part: Any) -> Array:
        total = shares[0] * votes[0](part)
        for share, one in zip(shares[1:], votes[1:], strict=True):
            progress.pause()
            total += share * one(part)
        return total

    return votes_on


def stack_votes(votes: Sequence[VotesOn], codes: Codes, n_classes: int) -> Array:
    """Find the shares of voters with which their mixture predicts the labels best, by non-negative least squares.

    No voter may have seen the label of the row it judges. Uniform noise shrinks all votes alike, so the labels as
    given tell who is right more often.

    Parameters
    ----------
    votes : sequence of callable
        Votes of each voter on a part of the rows.
    codes : ndarray of int64 of shape (n_samples,)
        Labels as whole numbers below ``n_classes``.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of shape (n_voters,)
        Sums to 1; equal shares if no voter helps.

    Examples
    --------
    >>> codes = np.array([0, 1, 0, 1])
    >>> knows = lambda part: np.array([[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.1, 0.9]])[part]
    >>> guesses = lambda part: np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])[part]
    >>> stack_votes([knows, guesses], codes, 2).round(2).tolist()
    [1.0, 0.0]
    """
    from scipy.optimize import nnls

    prior = np.bincount(codes, minlength=n_classes) / len(codes)
    gram, right = np.zeros((len(votes), len(votes))), np.zeros(len(votes))
    for part in split_rows(len(codes), n_classes * len(votes)):
        said = np.stack([_heard(one, part) - prior for one in votes])
        target = -np.tile(prior, (said.shape[1], 1))
        target[np.arange(said.shape[1]), codes[part]] += 1.0
        gram += np.einsum("ank,bnk->ab", said, said)
        right += np.einsum("ank,nk->a", said, target)
    # Least squares by the root of the Gram matrix, which is small.
    values, vectors = np.linalg.eigh(gram)
    known = values > 1e-12 * max(values[-1], 1e-300)
    equal = np.full(len(votes), 1.0 / len(votes))
    if not known.any():
        return equal
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    shares, _ = nnls(root[known], (vectors.T @ right)[known] / np.sqrt(values[known]))
    return shares / shares.sum() if shares.sum() > 0.0 else equal


def _heard(votes: VotesOn, part: Any) -> Array:
    progress.pause()
    return votes(part)


def draw_to_equal(shares: Array) -> Array:
    """Go half way to equal shares: few rows do not tell the shares exactly."""
    return (shares + 1.0 / len(shares)) / 2.0


def whole_percents(shares: Sequence[float]) -> list[int]:
    """Round shares that sum to 1 to whole percent that sum to 100: the largest remainders are rounded up."""
    exact = [100.0 * share for share in shares]
    found = [int(one) for one in exact]
    for i in sorted(range(len(exact)), key=lambda i: found[i] - exact[i])[: 100 - sum(found)]:
        found[i] += 1
    return found
