"""Passes of a network over labelled rows, batch by batch, and fits that continue after an interruption."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import nn
from torch.nn.parameter import is_lazy

from nearkin.arrays import Array, Codes
from nearkin.deep.network import Network, Plan, network_of
from nearkin.deep.trainer import batches
from nearkin.deep.training import reproducible
from nearkin.errors import InputError
from nearkin.files import claim
from nearkin.learners.loop import Answer, Lesson, State
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.stored import ArrayOf, Count, Part, Text, check_fields
from nearkin.streams.checkpoint import Checkpoint
from nearkin.triplets import PlainView, Triplets

__all__ = ["SPACE", "FitCheckpoint", "NetworkLesson", "digest_of"]

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

    def walk_pass(self, rows: Rows, codes: Codes, done: int) -> Generator[Triplets, Sequence[Answer], None]:
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
                    ((plausibility, _),) = yield triplets
                    source.receive(triplets, plausibility)
                self.weight[part], n_triplets, n_updates = trainer.end_batch()
                self.state.n_triplets += n_triplets
                self.state.n_updates += n_updates
                self.n_done = done + part.stop
        memory = training.memory if done else 0.0
        self.running[self.order] = memory * self.running[self.order] + (1.0 - memory) * self.weight


#: Settings that do not change the result.
_WITHOUT_EFFECT = ("checkpoint", "device", "distributed")


class FitCheckpoint:
    """State of a `fit` on disk, for the rows, labels and settings of a digest; without a path there is none."""

    def __init__(self, path: str | os.PathLike[str] | None, digest: str = "", owner: str = "", is_writer: bool = True):
        self.file = None if path is None else Checkpoint(path)
        self.digest, self.owner, self.is_writer = digest, owner, is_writer

    def hold(self) -> AbstractContextManager[Any]:
        """Return a block in which no other process may write the file."""
        if self.file is None or not self.is_writer:
            return nullcontext()
        claim([(self.file.path, "checkpoint")])
        return self.file.lock

    def resume(self, lesson: NetworkLesson, plan: Callable[[int], Plan | nn.Module]) -> None:
        """Continue a lesson from the file, if there is one; ``plan`` replaces a module that the file does not hold."""
        if self.file is None or not self.file.exists():
            return
        found = self.file.read()
        if not isinstance(found, dict) or found.get("fingerprint") != self.digest:
            problem = "belongs to other rows, labels or parameters. Remove it, or choose another file."
            raise InputError(f"the checkpoint {self.file.path} {problem}", owner=self.owner)
        try:
            self._check(found, lesson)
            network = network_of(found["state"])
            if network.plan is None:
                network.give_module(plan(network.n_features), found["state"].source)
        except ValueError as error:
            problem = f"is damaged: {error}. Remove it, or choose another file."
            raise InputError(f"the checkpoint {self.file.path} {problem}", owner=self.owner) from None
        lesson.state, lesson.source = found["state"], found["state"].source
        lesson.running, lesson.first_pass = found["running"].copy(), found["done"]

    @staticmethod
    def _check(found: dict[str, Any], lesson: NetworkLesson) -> None:
        running = ArrayOf(len(lesson.rows), of="doubles", low=0.0, high=1.0)
        done, state = Count(0, lesson.n_passes), Part(State)
        check_fields(found, "checkpoint", fingerprint=Text(), state=state, running=running, done=done)
        made, begun = found["state"], lesson.state
        same = type(made.parameter) is Network and type(made.source) is type(lesson.source)
        if not same or made.dtype != begun.dtype or made.parameter.n_features != network_of(begun).n_features:
            raise ValueError("checkpoint.state is that of another learner")

    def write(self, lesson: NetworkLesson) -> None:
        """Write all that the next pass needs; of a user's module only the weights."""
        if self.file is None:
            return
        network = network_of(lesson.state)
        network.take_over()
        if not self.is_writer:
            return
        kept = copy.copy(lesson.state)
        if isinstance(network.plan, nn.Module):
            kept.parameter = bare = network.copy()
            bare.plan = None
        n_passes = lesson.n_done // len(lesson.rows)
        self.file.lock.take()
        self.file.write({"fingerprint": self.digest, "state": kept, "running": lesson.running, "done": n_passes})


def digest_of(settings: Mapping[str, Any], X: Array, y: NDArray[Any]) -> str:
    """Compute a digest of everything that the result of a fit depends on, the same in every process."""
    digest = hashlib.sha256(_describe_all(settings).encode())
    digest.update(np.ascontiguousarray(X).data)
    digest.update(repr(y.tolist()).encode())
    return digest.hexdigest()


def _describe_all(settings: Mapping[str, Any]) -> str:
    return repr(sorted((name, _describe(one)) for name, one in settings.items() if name not in _WITHOUT_EFFECT))


def _describe(value: Any) -> str:
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state())
    if isinstance(value, nn.Module):
        digest = hashlib.sha256(repr(value).encode())
        for name, one in value.state_dict().items():
            digest.update(name.encode() + (b"" if is_lazy(one) else one.detach().cpu().numpy().tobytes()))
        return digest.hexdigest()
    if isinstance(value, BaseEstimator):
        return f"{type(value).__name__} {_describe_all(value.get_params(deep=False))}"
    return getattr(value, "__qualname__", None) or repr(value)  # a function prints its address
