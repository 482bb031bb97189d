"""Triplets of one batch in the space of the embeddings, and what they say about its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nearkin.arrays import Codes
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.triplets import Triplets, TripletSource
from nearkin.triplets.source import PlainView

__all__ = ["SPACE", "Criterion", "EmbeddedTriplets", "find_triplets", "smallest"]


#: What a triplet source sees of a deep learner: rows that are embedded already.
SPACE = PlainView(DISTANCE)

#: Loss and plausibility of every triplet.
Criterion = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class EmbeddedTriplets(NamedTuple):
    """Triplets of a batch: rows of it, and constants such as prototypes.

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

    def members(self, embedding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, positives and negatives; gradients flow to the rows of the batch."""
        pairs = ((self.positive, self.positives), (self.negative, self.negatives))
        others = [
            torch.where((at >= 0)[:, None], embedding[at.clamp_min(0)], fixed) if bool((at >= 0).any()) else fixed
            for at, fixed in pairs
        ]
        return embedding[self.anchor], others[0], others[1]


def find_triplets(
    source: TripletSource,
    embedding: Tensor,
    codes: Codes,
    plausible: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> EmbeddedTriplets:
    """Triplets of an embedded batch by a source, which hears of each piece how plausible it was.

    Parameters
    ----------
    source : TripletSource
        Its rows are embeddings; prototypes move when it hears.
    embedding : Tensor of shape (n_rows, n_components)
        The batch.
    codes : ndarray of int64
        Classes of the rows.
    plausible : callable
        ``(row of the batch, anchor, positive, negative) -> plausibility`` of every triplet of a piece.
    """
    rows, device = Rows(embedding.detach().cpu().numpy()), embedding.device
    first = source.n_rows_seen_
    pieces: list[EmbeddedTriplets] = []
    for triplets in source.generate(rows, codes, SPACE):
        piece = _of_batch(triplets, first, device)
        with torch.no_grad():
            heard = plausible(piece.anchor, *piece.members(embedding)).cpu().numpy().astype(np.float64)
        source.receive(triplets, heard)
        pieces.append(piece)
    if not pieces:
        none = torch.empty(0, dtype=torch.int64, device=device)
        empty = embedding.detach()[:0]
        return EmbeddedTriplets(none, none, none, empty, empty)
    return EmbeddedTriplets(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))


def _of_batch(triplets: Triplets, first: int, device: torch.device) -> EmbeddedTriplets:
    def numbers(origin: Codes) -> Tensor:
        return torch.from_numpy(np.maximum(origin - first, -1)).to(device)

    def vectors(which: Codes) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(triplets.pool.take(which))).to(device)

    return EmbeddedTriplets(
        numbers(triplets.row_origin[triplets.anchor]),
        numbers(triplets.pool_origin[triplets.positive]),
        numbers(triplets.pool_origin[triplets.negative]),
        vectors(triplets.positive),
        vectors(triplets.negative),
    )


def smallest(values: Tensor, anchor: Tensor, n_rows: int) -> Tensor:
    """Smallest value of each row's triplets; 1 for a row without any.

    Examples
    --------
    >>> smallest(torch.tensor([0.5, 0.25]), torch.tensor([1, 1]), 2).tolist()
    [1.0, 0.25]
    """
    found = torch.ones(n_rows, dtype=values.dtype, device=values.device)
    return found.scatter_reduce(0, anchor, values, "amin")
