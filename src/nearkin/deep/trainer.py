"""Passes of a network over batches of rows or of explicit triplets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.deep.embedded_triplets import (
    SPACE,
    EmbeddedTriplets,
    Members,
    explicit_triplets,
    find_triplets,
    smallest_of_rows,
)
from nearkin.deep.engine import Engine, not_finite
from nearkin.deep.network import Network, Weights, reproducible
from nearkin.learners.state import State
from nearkin.rows import Rows
from nearkin.triplets import Triplets

__all__ = ["DeepState", "Objective", "Trainer", "batches", "represent", "score_rows"]


class Objective(Protocol):
    """What the triplets of embeddings cost."""

    def losses(self, members: Members, shares: Array | None, is_robust: bool) -> tuple[Tensor, Tensor]:
        """Return the loss of every triplet, robust or plain, and its plausibility."""

    def reweigh(self, members: Members, shares: Array | None) -> Array | None:
        """Return the weights of the groups after a batch with these triplets."""


@dataclass
class DeepState(State):
    """What a deep learner holds: the network, the state of its optimiser and the draws to come."""

    parameter: Network
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    moments: Weights = field(default_factory=dict)
    n_batches: int = 0

    def copy(self) -> DeepState:
        """Copy the state, so that one can learn while the other stays."""
        other = copy.copy(self)
        other.parameter, other.labels = self.parameter.copy(), self.labels.copy()
        other.source = None if self.source is None else self.source.copy()
        other.rng = copy.deepcopy(self.rng)
        return other


def batches(n: int, size: int) -> Iterator[slice]:
    """Split n rows; a single last row joins the batch before it, because some layers need two rows.

    Examples
    --------
    >>> [(part.start, part.stop) for part in batches(9, 4)]
    [(0, 4), (4, 9)]
    """
    for start in range(0, n, size):
        stop = n if start + size + 1 >= n else start + size
        yield slice(start, stop)
        if stop == n:
            return


class Trainer:
    """Trains the network of a state batch by batch.

    Parameters
    ----------
    state : DeepState
        Learns; its network is replaced by `finish`.
    engine : Engine
        Takes the steps.
    objective : Objective
        Cost of the triplets.
    C : float
        Factor of the loss.
    """

    def __init__(self, state: DeepState, engine: Engine, objective: Objective, C: float):
        self.state, self.engine, self.objective, self.C = state, engine, objective, C
        self.training = engine.training

    def learn_rows(
        self, rows: Rows, codes: Codes, order: Index, prior: Array | None, n_plain: int, done: int, total: int
    ) -> Array:
        """Learn from all rows in this order and return the smallest plausibility of each row's triplets, as ordered.

        ``prior`` is the plausibility of the rows so far, which weighs their triplets. The first ``n_plain`` batches of
        the state use the plain loss. ``done`` of ``total`` rows were learned before.
        """
        weight = np.ones(len(order))
        with self._draws():
            for part in batches(len(order), self.training.batch_size):
                at = order[part]
                weight[part] = self._learn_batch(
                    rows.take(at), codes[at], None if prior is None else prior[at], self.state.n_batches >= n_plain
                )
                progress.advance("learning", done + part.stop, total)
        self.state.n_rows += len(rows)
        self.state.forget()
        return weight

    def learn_triplets(self, triplets: Triplets) -> Array:
        """Learn from explicit triplets in the order given and return their plausibilities."""
        weight = np.ones(len(triplets))
        with self._draws():
            for part in batches(len(triplets), self.training.batch_size):
                others = (triplets.pool.take(one[part]) for one in (triplets.positive, triplets.negative))
                X = np.concatenate([triplets.rows.take(triplets.anchor[part]), *others])
                _, plausibility = self._take_steps(X, explicit_triplets, part.stop - part.start)
                weight[part] = plausibility.cpu().numpy()
        return weight

    def finish(self) -> None:
        """Bring the trained network and the state of its optimiser back to the state."""
        self.state.parameter, self.state.moments = self.engine.finish()

    def _draws(self) -> AbstractContextManager[None]:
        return reproducible(int(self.state.rng.integers(2**63)), self.engine.device)

    def _learn_batch(self, X: Array, codes: Codes, prior: Array | None, is_robust: bool) -> Array:
        assert self.state.source is not None
        source, memory, gate = self.state.source, self.training.memory, None
        if is_robust and prior is not None:
            gate = torch.from_numpy(prior.astype(np.float32)).to(self.engine.device)

        def weigh(row: Tensor, members: Members) -> Tensor:
            _, now = self.objective.losses(members, self.state.parameter.shares, True)
            if not is_robust:
                return torch.ones_like(now)
            return now if gate is None else memory * gate[row] + (1.0 - memory) * now

        def choose(embedding: Tensor) -> EmbeddedTriplets:
            return find_triplets(source, embedding, codes, weigh)

        triplets, plausibility = self._take_steps(X, choose, len(X), is_robust, gate)
        self.state.n_batches += 1
        return smallest_of_rows(plausibility, triplets.anchor, len(X)).cpu().numpy().astype(np.float64)

    def _take_steps(
        self,
        X: Array,
        choose: Callable[[Tensor], EmbeddedTriplets],
        n: int,
        is_robust: bool = True,
        gate: Tensor | None = None,
    ) -> tuple[EmbeddedTriplets, Tensor]:
        """Take all steps on one batch; the triplets are chosen at the first and divided by ``n`` in the loss."""
        network = self.state.parameter
        triplets = None
        self.engine.begin_batch()
        for _ in range(self.training.n_steps):
            embedding = self.engine.embed(X)
            triplets = choose(embedding) if triplets is None else triplets
            members = triplets.members(embedding)
            losses, plausibility = self.objective.losses(members, network.shares, is_robust)
            weighted = losses if gate is None else losses * gate[triplets.anchor]
            self.engine.step(self.C * weighted.sum() / n)
        assert triplets is not None
        self.state.n_triplets += len(losses)
        self.state.n_updates += int((losses.detach() > 0).sum())
        network.shares = self.objective.reweigh(members, network.shares)
        return triplets, plausibility


def represent(network: Network, rows: Rows, owner: str) -> Rows:
    """Map rows to the space of the prototypes."""
    found = np.concatenate([network.represent(block) for _, block in rows.blocks()])
    if not np.isfinite(found).all():
        raise not_finite("an embedding", owner)
    return Rows(found.astype(np.float32))


def score_rows(state: DeepState, objective: Objective, rows: Rows, codes: Codes) -> Array:
    """Compute the plausibility of every embedded row under the present network; nothing is learned."""
    assert state.source is not None
    weight, first = np.ones(len(rows)), state.source.n_rows_seen_
    for triplets in state.source.probe(rows, codes, SPACE):
        anchor = torch.from_numpy(triplets.rows.take(triplets.anchor))
        positive, negative = (
            torch.from_numpy(triplets.pool.take(one)) for one in (triplets.positive, triplets.negative)
        )
        with torch.no_grad():
            _, now = objective.losses((anchor, positive, negative), state.parameter.shares, True)
        np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, now.numpy())
    return weight
