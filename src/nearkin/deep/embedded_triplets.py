"""Triplets among the embeddings of a batch, and what they say about its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nearkin.arrays import Codes, Index
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.triplets import Triplets, TripletSource
from nearkin.triplets.source import PlainView

__all__ = ["SPACE", "EmbeddedTriplets", "Members", "explicit_triplets", "find_triplets", "smallest_of_rows"]

#: Anchors, positives and negatives of triplets, one embedding per row.
Members = tuple[Tensor, Tensor, Tensor]

#: What a triplet source sees of a deep learner: its rows are embeddings already.
SPACE = PlainView(DISTANCE)


class EmbeddedTriplets(NamedTuple):
    """Triplets of a batch, whose positives and negatives are rows of it or constants such as prototypes.

    Parameters
    ----------
    anchor, positive, negative : Tensor of int64
        Rows of the batch; -1 for a constant.
    positives, negatives : Tensor of shape (n_triplets, n_components)
        The constants.
    """

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    positives: Tensor
    negatives: Tensor

    def members(self, embedding: Tensor) -> Members:
        """Gather anchors, positives and negatives; gradients flow to the rows of the batch."""
        positives = _gather(embedding, self.positive, self.positives)
        return embedding[self.anchor], positives, _gather(embedding, self.negative, self.negatives)


def _gather(embedding: Tensor, row: Tensor, constants: Tensor) -> Tensor:
    is_row = row >= 0
    if not bool(is_row.any()):
        return constants
    rows = embedding[row.clamp_min(0)]
    return rows if bool(is_row.all()) else torch.where(is_row[:, None], rows, constants)


def find_triplets(
    source: TripletSource, embedding: Tensor, codes: Codes, weigh: Callable[[Tensor, Members], Tensor]
) -> EmbeddedTriplets:
    """Let a source choose the triplets of an embedded batch.

    Parameters
    ----------
    source : TripletSource
        Receives the plausibilities of each piece and may move its prototypes by them.
    embedding : Tensor of shape (n_rows, n_components)
        The batch.
    codes : ndarray of int64
        Classes of the rows.
    weigh : callable
        Maps the anchors' rows and the members of a piece to plausibilities.
    """
    rows, device = Rows(embedding.detach().cpu().numpy()), embedding.device
    first = source.n_rows_seen_
    pieces: list[EmbeddedTriplets] = []
    for triplets in source.generate(rows, codes, SPACE):
        piece = _as_tensors(triplets, first, device)
        with torch.no_grad():
            plausibility = weigh(piece.anchor, piece.members(embedding))
        source.receive(triplets, plausibility.cpu().numpy().astype(np.float64))
        pieces.append(piece)
    if not pieces:
        nothing, no_rows = embedding.detach()[:0], torch.empty(0, dtype=torch.int64, device=device)
        return EmbeddedTriplets(no_rows, no_rows, no_rows, nothing, nothing)
    return EmbeddedTriplets(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))


def explicit_triplets(embedding: Tensor) -> EmbeddedTriplets:
    """Triplets of a batch that holds all anchors, then all positives, then all negatives."""
    anchor, positive, negative = torch.arange(len(embedding), device=embedding.device).chunk(3)
    return EmbeddedTriplets(anchor, positive, negative, embedding.detach()[:0], embedding.detach()[:0])


def _as_tensors(triplets: Triplets, first: int, device: torch.device) -> EmbeddedTriplets:
    def rows(origin: Index) -> Tensor:
        return torch.from_numpy(np.maximum(origin - first, -1)).to(device)

    def vectors(which: Index) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(triplets.pool.take(which))).to(device)

    return EmbeddedTriplets(
        rows(triplets.row_origin[triplets.anchor]),
        rows(triplets.pool_origin[triplets.positive]),
        rows(triplets.pool_origin[triplets.negative]),
        vectors(triplets.positive),
        vectors(triplets.negative),
    )


def smallest_of_rows(values: Tensor, anchor: Tensor, n_rows: int) -> Tensor:
    """Return the smallest value among each row's triplets, 1 for a row without triplets.

    Examples
    --------
    >>> smallest_of_rows(torch.tensor([0.5, 0.25]), torch.tensor([1, 1]), 2).tolist()
    [1.0, 0.25]
    """
    found = torch.ones(n_rows, dtype=values.dtype, device=values.device)
    return found.scatter_reduce(0, anchor, values, "amin")
