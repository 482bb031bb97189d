"""Passes of a network over labelled rows, batch by batch."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from nearkin.arrays import Array, Codes
from nearkin.deep.engine import reproducible
from nearkin.deep.network import network_of
from nearkin.deep.trainer import batches
from nearkin.learners.loop import Answer, Lesson
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.triplets import PlainView, Triplets

__all__ = ["SPACE", "NetworkLesson"]

#: What a triplet source sees of a network: its rows are embeddings already.
SPACE = PlainView(DISTANCE)

#: A warm-up takes at most one in this many batches of `fit`.
_WARM = 4


@dataclass
class NetworkLesson(Lesson):
    """A lesson whose triplets lie among the embeddings of each batch, after which the network takes its steps.

    A wrong label is learned late, if at all. So a row's plausibility in one pass weighs its triplets in the next, and
    `plausibility` is a running mean over the passes.
    """

    n_plain: int | None = None  # batches that use the plain loss; None for all of the warm-up

    def __post_init__(self) -> None:
        self.running = np.ones(len(self.rows))

    @property
    def plausibility(self) -> Array:
        """Running mean of each row's smallest weight."""
        return self.running

    def shorten_warm_up(self, warm_up: int, batch_size: int) -> None:
        """Keep the warm-up to a part of all batches."""
        n_batches = self.n_passes * sum(1 for _ in batches(len(self.rows), batch_size))
        self.n_plain = min(warm_up, n_batches // _WARM)

    def walk_pass(self, rows: Rows, codes: Codes, done: int) -> Generator[Triplets, Answer, None]:
        """Yield the triplets of one pass, batch by batch."""
        trainer, source = network_of(self.state).trainer, self.source
        assert trainer is not None
        training = trainer.training
        n_plain = training.warm_up if self.n_plain is None else self.n_plain
        prior = self.running[self.order] if done else None
        self.weight = np.ones(len(rows))
        with reproducible(trainer.network.rng, trainer.engine.device):
            for part in batches(len(rows), training.batch_size):
                gate = None if prior is None else prior[part]
                embedded = trainer.begin_batch(rows.take(part), source.n_rows_seen_, gate, n_plain)
                for triplets in source.generate(embedded, codes[part], SPACE):
                    plausibility, _ = yield triplets
                    source.receive(triplets, plausibility)
                self.weight[part], n_triplets, n_updates = trainer.end_batch()
                self.state.n_triplets += n_triplets
                self.state.n_updates += n_updates
                self.n_done = done + part.stop
        memory = training.memory if done else 0.0
        self.running[self.order] = memory * self.running[self.order] + (1.0 - memory) * self.weight
