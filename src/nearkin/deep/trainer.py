"""Training of a network batch by batch: triplets among embeddings, their weights, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from nearkin.arrays import Array, Index
from nearkin.deep.training import Engine, reproducible
from nearkin.rows import Rows
from nearkin.triplets import Triplets

__all__ = ["EmbeddedTriplets", "Members", "Objective", "Trainer", "batches", "smallest_of_rows"]

#: Anchors, positives and negatives of triplets, one embedding per row.
Members = tuple[Tensor, Tensor, Tensor]


class Objective(Protocol):
    """What the triplets of embeddings cost."""

    def losses(self, members: Members, shares: Array | None, is_robust: bool) -> tuple[Tensor, Tensor]:
        """Return the loss of every triplet, robust or plain, and its plausibility."""

    def reweigh(self, members: Members, shares: Array | None) -> Array | None:
        """Return the weights of the groups after a batch with these triplets."""


class EmbeddedTriplets(NamedTuple):
    """Triplets of a batch, whose positives and negatives are rows of it or constants such as prototypes."""

    anchor: Tensor  # rows of the batch
    positive: Tensor  # rows of the batch, -1 for a constant
    negative: Tensor
    positives: Tensor  # the constants, of shape (n_triplets, n_components)
    negatives: Tensor

    @classmethod
    def of(cls, triplets: Triplets, first: int, device: torch.device) -> EmbeddedTriplets:
        """Take over triplets of a batch that begins with row ``first`` of the stream."""

        def rows(origin: Index) -> Tensor:
            return torch.from_numpy(np.maximum(origin - first, -1)).to(device)

        def vectors(which: Index) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(triplets.pool.take(which))).to(device)

        return cls(
            rows(triplets.row_origin[triplets.anchor]),
            rows(triplets.pool_origin[triplets.positive]),
            rows(triplets.pool_origin[triplets.negative]),
            vectors(triplets.positive),
            vectors(triplets.negative),
        )

    @classmethod
    def within(cls, anchor: Tensor, positive: Tensor, negative: Tensor, embedding: Tensor) -> EmbeddedTriplets:
        """Triplets of rows only."""
        return cls(anchor, positive, negative, embedding.detach()[:0], embedding.detach()[:0])

    @classmethod
    def join(cls, pieces: Sequence[EmbeddedTriplets], embedding: Tensor) -> EmbeddedTriplets:
        """Join pieces; without any there are no triplets."""
        if not pieces:
            nothing = torch.empty(0, dtype=torch.int64, device=embedding.device)
            return cls.within(nothing, nothing, nothing, embedding)
        return cls(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))

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


def smallest_of_rows(values: Tensor, anchor: Tensor, n_rows: int) -> Tensor:
    """Return the smallest value among each row's triplets, 1 for a row without triplets."""
    found = torch.ones(n_rows, dtype=values.dtype, device=values.device)
    return found.scatter_reduce(0, anchor, values, "amin")


def batches(n: int, size: int) -> Iterator[slice]:
    """Split n rows; a single last row joins the batch before it, because some layers need two rows."""
    for start in range(0, n, size):
        stop = n if start + size + 1 >= n else start + size
        yield slice(start, stop)
        if stop == n:
            return


@dataclass
class Batch:
    """Rows on their way through the network.

    ``gate`` holds the plausibility of the rows so far, which weighs their triplets; None weighs them alike.
    """

    X: Array
    embedding: Tensor
    first: int = 0
    gate: Tensor | None = None
    is_robust: bool = True
    pieces: list[EmbeddedTriplets] = field(default_factory=list)


class Trainer:
    """Trains a network on batches of rows, or on explicit triplets; ``C`` is the factor of their cost.

    For a batch of rows call `begin_batch`, then `learn` for each piece of its triplets, then `end_batch`. Without a
    batch `learn` takes its steps at once.
    """

    batch: Batch | None = None

    def __init__(self, engine: Engine, objective: Objective, C: float):
        self.engine, self.objective, self.C = engine, objective, C
        self.network, self.training = engine.network, engine.training

    def begin_batch(self, X: Array, first: int, prior: Array | None, n_plain: int) -> Rows:
        """Embed scaled rows, the first of which has this number in the stream.

        ``prior`` is the plausibility of the rows so far. The first ``n_plain`` batches use the plain loss.
        """
        is_robust, gate = self.network.n_batches >= n_plain, None
        if is_robust and prior is not None:
            gate = torch.from_numpy(prior.astype(np.float32)).to(self.engine.device)
        self.engine.begin_batch()
        self.batch = Batch(X, self.engine.embed(X), first, gate, is_robust)
        return Rows(self.batch.embedding.detach().cpu().numpy())

    def learn(self, triplets: Triplets) -> tuple[Array, int]:
        """Learn explicit triplets, or weigh those of the batch; return plausibilities and how many triplets moved."""
        return self._learn_explicit(triplets) if self.batch is None else (self._weigh(triplets, self.batch), 0)

    def _weigh(self, triplets: Triplets, batch: Batch) -> Array:
        """Return the plausibilities of triplets of the batch, for their source, and keep the triplets for the steps."""
        memory = self.training.memory
        piece = EmbeddedTriplets.of(triplets, batch.first, self.engine.device)
        batch.pieces.append(piece)
        with torch.no_grad():
            _, now = self.objective.losses(piece.members(batch.embedding), self.network.shares, True)
        if not batch.is_robust:
            now = torch.ones_like(now)
        elif batch.gate is not None:
            now = memory * batch.gate[piece.anchor] + (1.0 - memory) * now
        return now.cpu().numpy().astype(np.float64)

    def end_batch(self) -> tuple[Array, int, int]:
        """Take the steps of the batch; return the smallest plausibility of each row, and how many triplets moved."""
        batch, self.batch = self.batch, None
        assert batch is not None
        triplets = EmbeddedTriplets.join(batch.pieces, batch.embedding)
        plausibility, n_moved = self._take_steps(batch, triplets, len(batch.X))
        self.network.n_batches += 1
        weight = smallest_of_rows(plausibility, triplets.anchor, len(batch.X))
        return weight.cpu().numpy().astype(np.float64), len(triplets.anchor), n_moved

    def _learn_explicit(self, triplets: Triplets) -> tuple[Array, int]:
        weight, n_moved = np.ones(len(triplets)), 0
        with reproducible(self.network.rng, self.engine.device):
            for part in batches(len(triplets), self.training.batch_size):
                others = (triplets.pool.take(one[part]) for one in (triplets.positive, triplets.negative))
                X = np.concatenate([triplets.rows.take(triplets.anchor[part]), *others])
                self.engine.begin_batch()
                batch = Batch(X, self.engine.embed(X))
                rows = torch.arange(len(X), device=self.engine.device).chunk(3)
                embedded = EmbeddedTriplets.within(rows[0], rows[1], rows[2], batch.embedding)
                plausibility, moved = self._take_steps(batch, embedded, len(rows[0]))
                weight[part] = plausibility.cpu().numpy()
                n_moved += moved
        return weight, n_moved

    def _take_steps(self, batch: Batch, triplets: EmbeddedTriplets, n: int) -> tuple[Tensor, int]:
        """Take the steps of a batch on its triplets, whose losses are summed and divided by ``n``."""
        network = self.network
        for number in range(self.training.n_steps):
            embedding = batch.embedding if number == 0 else self.engine.embed(batch.X)
            members = triplets.members(embedding)
            losses, plausibility = self.objective.losses(members, network.shares, batch.is_robust)
            weighted = losses if batch.gate is None else losses * batch.gate[triplets.anchor]
            self.engine.step(self.C * weighted.sum() / n)
        network.shares = self.objective.reweigh(members, network.shares)
        return plausibility, int((losses.detach() > 0).sum())
