"""Training of a network batch by batch: triplets among embeddings, their weights, and the steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from nearkin.arrays import Array, Index
from nearkin.deep.training import Engine, reproducible
from nearkin.rows import Rows
from nearkin.triplets import Triplets

__all__ = ["EmbeddedTriplets", "Losses", "Members", "Objective", "Trainer", "batches", "smallest_of_rows"]

#: Anchors, positives and negatives of triplets, one embedding per row.
Members = tuple[Tensor, Tensor, Tensor]


class Losses(NamedTuple):
    """What triplets cost."""

    values: Tensor  # robust or plain
    plausibility: Tensor
    by_group: Tensor | None = None  # plain, of shape (n_triplets, n_groups), where groups have weights

    @classmethod
    def join(cls, pieces: list[Losses]) -> Losses:
        """Join those of several pieces of a batch."""
        values, plausibility, by_group = zip(*pieces, strict=True)
        return cls(torch.cat(values), torch.cat(plausibility), None if by_group[0] is None else torch.cat(by_group))


class Objective(Protocol):
    """What the triplets of embeddings cost."""

    def losses(self, members: Members, shares: Array | None, is_robust: bool) -> Losses:
        """Return the losses of triplets, robust or plain, and their plausibility."""

    def reweigh(self, losses: Losses, shares: Array | None) -> Array | None:
        """Return the weights of the groups after a batch of triplets with these losses."""


class EmbeddedTriplets(NamedTuple):
    """Triplets of a batch, whose positives and negatives are rows of it or constants such as prototypes."""

    anchor: Tensor  # rows of the batch
    positive: Places
    negative: Places

    @classmethod
    def of(cls, triplets: Triplets, first: int, device: torch.device) -> Self:
        """Take over triplets of a batch that begins with row ``first`` of the stream."""

        def places(which: Index) -> Places:
            row = triplets.pool_origin[which] - first
            is_row = row >= 0
            return Places(
                torch.from_numpy(np.maximum(row, 0)).to(device) if is_row.any() else None,
                None if is_row.all() else torch.from_numpy(triplets.pool.take(which)).to(device),
                None if is_row.any() == is_row.all() else torch.from_numpy(is_row[:, None]).to(device),
            )

        anchor = torch.from_numpy(triplets.row_origin[triplets.anchor] - first).to(device)
        return cls(anchor, places(triplets.positive), places(triplets.negative))

    def members(self, embedding: Tensor) -> Members:
        """Gather anchors, positives and negatives; gradients flow to the rows of the batch."""
        return embedding[self.anchor], self.positive.gather(embedding), self.negative.gather(embedding)


class Places(NamedTuple):
    """Rows of a batch, or constants, or one or the other."""

    row: Tensor | None
    constant: Tensor | None = None
    is_row: Tensor | None = None

    def gather(self, embedding: Tensor) -> Tensor:
        """The embeddings."""
        if self.row is None or self.constant is None:
            found = self.constant if self.row is None else embedding[self.row]
            assert found is not None
            return found
        assert self.is_row is not None
        return torch.where(self.is_row, embedding[self.row], self.constant)


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
    losses: list[Losses] = field(default_factory=list)  # of the pieces, before any step


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
        if len(triplets) == 0:
            return np.empty(0)
        memory = self.training.memory
        piece = EmbeddedTriplets.of(triplets, batch.first, self.engine.device)
        now = self._weigh_piece(batch, piece).plausibility
        if not batch.is_robust:
            now = torch.ones_like(now)
        elif batch.gate is not None:
            now = memory * batch.gate[piece.anchor] + (1.0 - memory) * now
        return now.cpu().numpy().astype(np.float64)

    def _weigh_piece(self, batch: Batch, piece: EmbeddedTriplets) -> Losses:
        """Keep triplets of the batch and their losses for the first step."""
        found = self._losses(batch, piece, batch.embedding)
        batch.pieces.append(piece)
        batch.losses.append(found)
        return found

    def _losses(self, batch: Batch, piece: EmbeddedTriplets, embedding: Tensor) -> Losses:
        return self.objective.losses(piece.members(embedding), self.network.shares, batch.is_robust)

    def end_batch(self) -> tuple[Array, int, int]:
        """Take the steps of the batch; return the smallest plausibility of each row, and how many triplets moved."""
        batch, self.batch = self.batch, None
        assert batch is not None
        n = len(batch.X)
        self.network.n_batches += 1
        if not batch.pieces:
            return np.ones(n), 0, 0
        plausibility, n_moved = self._take_steps(batch, n)
        weight = smallest_of_rows(plausibility, torch.cat([one.anchor for one in batch.pieces]), n)
        return weight.cpu().numpy().astype(np.float64), len(plausibility), n_moved

    def _learn_explicit(self, triplets: Triplets) -> tuple[Array, int]:
        weight, n_moved = np.ones(len(triplets)), 0
        with reproducible(self.network.rng, self.engine.device):
            for part in batches(len(triplets), self.training.batch_size):
                others = triplets.pool.take(triplets.positive[part]), triplets.negatives.take(triplets.negative[part])
                X = np.concatenate([triplets.rows.take(triplets.anchor[part]), *others])
                self.engine.begin_batch()
                batch = Batch(X, self.engine.embed(X))
                rows = torch.arange(len(X), device=self.engine.device).chunk(3)
                self._weigh_piece(batch, EmbeddedTriplets(rows[0], Places(rows[1]), Places(rows[2])))
                plausibility, moved = self._take_steps(batch, len(rows[0]))
                weight[part] = plausibility.cpu().numpy()
                n_moved += moved
        return weight, n_moved

    def _take_steps(self, batch: Batch, n: int) -> tuple[Tensor, int]:
        """Take the steps of a batch on its triplets, whose losses are summed and divided by ``n``."""
        network, found = self.network, batch.losses
        gate = None if batch.gate is None else batch.gate[torch.cat([one.anchor for one in batch.pieces])]
        for number in range(self.training.n_steps):
            if number > 0:
                embedding = self.engine.embed(batch.X)
                found = [self._losses(batch, piece, embedding) for piece in batch.pieces]
            losses = Losses.join(found)
            self.engine.step(self.C * (losses.values if gate is None else losses.values * gate).sum() / n)
        network.shares = self.objective.reweigh(losses, network.shares)
        return losses.plausibility, int((losses.values.detach() > 0).sum())
