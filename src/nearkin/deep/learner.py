"""The estimator shell of networks: settings, checks, and the way from rows to a trained network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor, nn

from nearkin import progress
from nearkin.accelerator.device import DeviceRule
from nearkin.arrays import Array, Codes
from nearkin.checks import Instance, Integer, OneOf, Real, check_seed, generator
from nearkin.deep.checkpointing import FitCheckpoint, digest_of
from nearkin.deep.engine import Engine, Processes, deterministic, find_device, limit_threads, not_finite
from nearkin.deep.network import Network, Plan, reproducible
from nearkin.deep.trainer import Objective, Trainer, batches
from nearkin.deep.training import Training
from nearkin.errors import InputError, owned_by
from nearkin.labels import Labels
from nearkin.learners import OnlineLearner
from nearkin.learners.state import State
from nearkin.losses import Loss, RescaledHinge, as_loss
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.settings import check_settings, declare, setting
from nearkin.transactions import all_or_nothing
from nearkin.triplets import OCTG, Triplets, TripletSource, as_source
from nearkin.triplets.source import PlainView

__all__ = ["DeepLearner", "DeepSettings"]

#: A warm-up takes at most one in this many batches of `fit`.
_WARM = 4

#: Most rows behind a prototype: old embeddings are out of date once the network has moved.
_REMEMBERED = 30.0

#: What a triplet source sees of a network: its rows are embeddings already.
SPACE = PlainView(DISTANCE)

_YES_OR_NO = Instance((bool, np.bool_), "True or False")


@declare
class DeepSettings:
    """Settings of all learners whose map is a network."""

    _octg: ClassVar[dict[str, Any]] = {}  # settings of the default triplet source

    C: float = setting(
        1.0, Real(0.0, np.inf, open_high=True), kind="float", doc="Factor of the loss against the proximity term."
    )
    loss: str | RescaledHinge = setting(
        "rescaled_hinge",
        OneOf(("hinge", "rescaled_hinge")),
        Instance(RescaledHinge, "a RescaledHinge"),
        kind='{"hinge", "rescaled_hinge"} or RescaledHinge',
        doc='"hinge" trusts every label alike.',
    )
    eta: float = setting(
        2.0,
        Real(0.0, np.inf, open_high=True),
        kind="float",
        doc='How fast the weight of a triplet falls with its loss, for "rescaled_hinge".',
    )
    triplets: str | TripletSource = setting(
        "octg",
        kind='{"octg", "one_pass", "batch", "random"} or TripletSource',
        doc='"octg" is ``OCTG(update_centers=True, forget_after=30)``: prototypes that follow the network.',
    )
    n_epochs: int = setting(40, Integer(1), kind="int", doc="Passes of `fit` over the rows.")
    shuffle: bool = setting(
        True,
        _YES_OR_NO,
        kind="bool",
        doc="Whether each pass of `fit` takes the rows in a new random order; `partial_fit` keeps the order given.",
    )
    scale: str | None = setting(
        "auto",
        OneOf(("auto", "pairs", "unit", None)),
        kind='{"auto", "pairs", "unit", None}',
        doc="As in every learner.",
    )
    rescore: bool = setting(
        False,
        _YES_OR_NO,
        kind="bool",
        doc="Whether `plausibility_` comes from the final network instead of the memory of all passes.",
    )
    device: str = setting("cpu", DeviceRule(), kind="str", doc='"cpu", "cuda" or "cuda:N".')
    training: Training | None = setting(
        None,
        OneOf((None,)),
        Instance(Training, "a Training"),
        kind="Training or None",
        doc="How steps are taken: optimiser, batches, precision, processes, checkpoints. None for ``Training()``.",
    )
    random_state: Any = setting(None, kind="int, Generator, RandomState or None", doc="Seed.")

    def _robust_loss(self) -> RescaledHinge:
        loss = as_loss(self.loss, self.eta)
        assert isinstance(loss, RescaledHinge)
        return loss

    def _gain(self, n_features: int) -> float:
        """Factor that brings the entries of scaled rows to about 1."""
        return {"unit": 1.0, None: n_features**-0.5}.get(self.scale, 2.0**0.5) * n_features**0.5


class DeepLearner(DeepSettings, OnlineLearner):
    """Base of the learners whose map is a network; each adds `_plan`, `_groups` and `_objective`."""

    _measure = DISTANCE
    _is_linear: ClassVar[bool] = False

    # The weight of a triplet is computed again at every step.
    max_hq_iter = 1

    def _plan(self, n_features: int) -> Plan | nn.Module:
        """How to build the network."""
        raise TypeError(f"{self._name} must implement _plan().")

    def _objective(self) -> Objective:
        """What triplets cost."""
        raise TypeError(f"{self._name} must implement _objective().")

    def _groups(self) -> tuple[int, Array | None]:
        """Groups of columns with unit length, and their first weights."""
        raise TypeError(f"{self._name} must implement _groups().")

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of `training` as ``training__learning_rate``.

        Returns
        -------
        self
            The learner.
        """
        if self.training is None and any(name.startswith("training__") for name in params):
            params = {"training": Training(), **params}
        return super().set_params(**params)

    # ------------------------------------------------------------------ learning

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn from labelled rows, forgetting everything learned before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Raw features; images as flat rows.
        y : array-like of shape (n_samples,)
            Labels of any hashable kind, some of which may be wrong.

        Returns
        -------
        self
            The fitted learner, with `plausibility_` for these rows.
        """
        self._check_parameters()
        X = self._check_rows(X, reset=True)
        y = self._check_labels(X, y)
        checkpoint = self._checkpoint(X, y)
        with self._computing():
            state, rows, codes, running, n_done = self._continue(X, y, checkpoint)
            trainer = self._trainer(state)
            for epoch in range(n_done, self.n_epochs):
                self._learn_pass(state, trainer, rows, codes, running, epoch)
                checkpoint.write(state, trainer, running, epoch + 1)
            trainer.finish()
            self._store(state)
            self.plausibility_ = self._score_rows(state, rows, codes) if self.rescore else running
        return self

    def _continue(self, X: Any, y: NDArray[Any], checkpoint: FitCheckpoint) -> tuple[State, Rows, Codes, Array, int]:
        """State, scaled rows, their classes and plausibilities, and the number of passes done so far."""
        saved = checkpoint.read(self._plan)
        if saved is None:
            rng = generator(self.random_state)
            state, rows = self._first_state(X, rng, Labels())
            codes = state.labels.encode(y, self._name)
            self._start_source(state, rows, codes, rng)
            return state, rows, codes, np.ones(len(rows)), 0
        state, running, n_done = saved
        return state, self._scaled(X, state.scaling), state.labels.encode(y, self._name), running, n_done

    def _learn_pass(self, state: State, trainer: Trainer, rows: Rows, codes: Codes, running: Array, epoch: int) -> None:
        """One pass of `fit`, which updates the running plausibility of the rows."""
        n, training = len(rows), self._training
        n_batches = self.n_epochs * sum(1 for _ in batches(n, training.batch_size))
        n_plain = min(training.warm_up, n_batches // _WARM)
        order = trainer.network.rng.permutation(n) if self.shuffle else np.arange(n)
        prior = running[order] if epoch else None
        weight = self._walk(
            state, trainer, rows.reordered(order), codes[order], prior, n_plain, epoch * n, self.n_epochs * n
        )
        # A wrong label is learned late, if at all: its early plausibility is worth keeping.
        memory = training.memory if epoch else 0.0
        running[order] = memory * running[order] + (1.0 - memory) * weight

    def _walk(
        self,
        state: State,
        trainer: Trainer,
        rows: Rows,
        codes: Codes,
        prior: Array | None,
        n_plain: int,
        done: int,
        total: int,
    ) -> Array:
        """Learn all rows in order; returns the smallest plausibility of each row's triplets."""
        source = state.source
        assert source is not None
        weight = np.ones(len(rows))
        with reproducible(trainer.network.rng, trainer.engine.device):
            for part in batches(len(rows), self._training.batch_size):
                gate = None if prior is None else prior[part]
                embedded = trainer.begin_batch(rows.take(part), source.n_rows_seen_, gate, n_plain)
                for triplets in source.generate(embedded, codes[part], SPACE):
                    source.receive(triplets, trainer.weigh(triplets))
                weight[part], n_triplets, n_moved = trainer.end_batch()
                state.n_triplets += n_triplets
                state.n_updates += n_moved
                progress.advance("learning", done + part.stop, total)
        state.n_rows += len(rows)
        state.forget()
        return weight

    def _learn_rows(self, state: State, rows: Rows, codes: Codes, done: int, total: int) -> Array:
        """One pass over the rows of a stream, in batches of the order given."""
        with self._computing():
            trainer = self._trainer(state)
            weight = self._walk(state, trainer, rows, codes, None, self._training.warm_up, done, total)
            trainer.finish()
        return weight

    def _learn_set(self, state: State, triplets: Triplets, loss: Loss) -> Array:
        """Learn from explicit triplets in batches, in the order given."""
        with self._computing():
            trainer = self._trainer(state)
            with reproducible(trainer.network.rng, trainer.engine.device):
                weight, n_moved = trainer.learn_triplets(triplets)
            trainer.finish()
        state.n_triplets += len(triplets)
        state.n_updates += n_moved
        return weight

    def _score_rows(self, state: State, rows: Rows, codes: Codes) -> Array:
        """Plausibility of every row under the network as it is; nothing is learned."""
        assert state.source is not None
        weight, first, objective = np.ones(len(rows)), state.source.n_rows_seen_, self._objective()
        for triplets in state.source.probe(self._represent(state, rows), codes, SPACE):
            anchor = torch.from_numpy(triplets.rows.take(triplets.anchor))
            positive = torch.from_numpy(triplets.pool.take(triplets.positive))
            negative = torch.from_numpy(triplets.pool.take(triplets.negative))
            with torch.no_grad():
                _, now = objective.losses((anchor, positive, negative), state.parameter.shares, True)
            np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, now.numpy())
        return weight

    # ------------------------------------------------------------------ scikit-learn's side

    def __sklearn_tags__(self) -> Any:
        """Dense rows only."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._fitted.parameter.n_components

    # ------------------------------------------------------------------ inside

    @property
    def _fitted(self) -> State:
        state = super()._fitted
        find_device(self.device, self._name)
        state.parameter.device = self.device
        return state

    @property
    def _training(self) -> Training:
        return Training() if self.training is None else self.training

    @contextmanager
    def _computing(self) -> Iterator[None]:
        # Networks built here are small: threads would wait for each other.
        n_threads = 1 if getattr(self, "module", None) is None else None
        with deterministic(self._training.deterministic), limit_threads(n_threads):
            yield

    def _trainer(self, state: State) -> Trainer:
        network = state.parameter
        network.device = self.device
        engine = Engine(network, self._training, find_device(self.device, self._name), self._name)
        return Trainer(engine, self._objective(), self.C)

    def _check_parameters(self) -> None:
        check_settings(self)
        training = self._training
        check_settings(training)
        with owned_by(self):
            check_seed(self.random_state)
        device = find_device(self.device, self._name)
        if training.precision == "float16" and device.type == "cpu":
            raise InputError("precision='float16' needs a GPU; on the processor use 'bfloat16'.", owner=self)
        if training.distributed and not Integer(0).allows(self.random_state):
            raise InputError(
                "distributed=True needs a whole number as `random_state`, the same in every process; got "
                f"{self.random_state!r}.",
                owner=self,
            )
        if getattr(self._make_source(), "centers", None) is not None:
            raise InputError(
                "`centers` cannot be given, because prototypes lie in the space of the embeddings; leave them out.",
                owner=self,
            )

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> Any:
        if sparse.issparse(X):
            raise TypeError(
                f"{self._name} takes dense rows, X is sparse. Reduce it first, for example with TruncatedSVD, or use "
                "RobustLODML, which takes sparse rows."
            )
        if isinstance(X, (np.ndarray, Tensor)) and X.ndim > 2:
            raise InputError(
                f"X has shape {tuple(X.shape)}; rows must be flat: X.reshape(len(X), -1), with "
                f"image_shape={tuple(X.shape[1:])} for a convolutional network.",
                owner=self,
            )
        return super()._check_rows(X, reset=reset)

    def _checkpoint(self, X: Array, y: NDArray[Any]) -> FitCheckpoint:
        """Checkpoint of a fit on these rows, which all processes must share."""
        training = self._training
        device = find_device(self.device, self._name)
        processes = Processes.join(training, device, self._name)
        if processes.size == 1 and training.checkpoint is None:
            return FitCheckpoint(None, "", self._name)
        digest = digest_of(self.get_params(deep=False), X, y)
        if processes.size > 1 and not processes.agree_on(digest, device):
            raise InputError(
                "distributed=True divides every batch, so all processes need the same rows, labels and parameters.",
                owner=self,
            )
        return FitCheckpoint(training.checkpoint, digest, self._name)

    def _make_source(self) -> TripletSource:
        if isinstance(self.triplets, str) and self.triplets == "octg":
            return OCTG(update_centers=True, forget_after=_REMEMBERED, **self._octg)
        return as_source(self.triplets)

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Network:
        n_features, own = rows.n_features, np.random.default_rng(rng.integers(2**63, size=4))
        with owned_by(self), reproducible(own, find_device(self.device, self._name)):
            network = Network(self._plan(n_features), n_features, self._gain(n_features), own, *self._groups())
            network.begin(rows.take(slice(0, 2)))
        network.device = self.device
        return network

    def _start_source(self, state: State, rows: Rows, codes: Codes, rng: np.random.Generator) -> None:
        super()._start_source(state, self._represent(state, rows), codes, rng)

    def _represent(self, state: State, rows: Rows) -> Rows:
        """Map rows to the space of the prototypes."""
        found = np.concatenate([state.parameter.represent(block) for _, block in rows.blocks()])
        if not np.isfinite(found).all():
            raise not_finite("an embedding", self._name)
        return Rows(found.astype(np.float32))
