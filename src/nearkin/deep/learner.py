"""The estimator shell of networks: settings, checks, and the way from rows to a trained network."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from torch import nn

from nearkin.arrays import Array, Codes
from nearkin.deep.lesson import SPACE, FitCheckpoint, NetworkLesson, digest_of
from nearkin.deep.network import Network, Plan, count_weights, network_of
from nearkin.deep.trainer import Objective, Trainer
from nearkin.deep.training import Engine, Processes, Training, computing, find_device, not_finite, reproducible
from nearkin.errors import InputError, owned_by
from nearkin.labels import check_labels
from nearkin.learners import OnlineLearner, State
from nearkin.learners.groups import StepSettings, StreamSettings
from nearkin.learners.loop import Lesson
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss, RescaledHinge, as_loss
from nearkin.measures import DISTANCE
from nearkin.memory import check_memory
from nearkin.rows import MovingScale, Rows
from nearkin.settings import BOOLEAN, DEVICE, Instance, Integer, OneOf, Real, again, check_settings, declare, setting
from nearkin.triplets import OCTG, TripletSource, as_source

__all__ = ["DeepLearner", "DeepSettings"]

#: Most rows behind a prototype: old embeddings are out of date once the network has moved.
_REMEMBERED = 30.0
#: Bytes of a weight, its gradient and two moments.
_WEIGHT_BYTES = 16.0


@declare
class DeepSettings:
    """Settings of all learners whose map is a network."""

    _octg: ClassVar[dict[str, Any]] = {}  # settings of the default triplet source

    C: float = setting(1.0, Real(0.0, np.inf, open_high=True), doc="Factor of the loss against the proximity term.")
    loss: str | Loss = setting(
        "rescaled_hinge", OneOf(("hinge", "rescaled_hinge")), Instance(RescaledHinge, "a RescaledHinge"),
        kind='{"hinge", "rescaled_hinge"} or RescaledHinge',
        doc='"hinge" trusts every label alike.',
    )  # fmt: skip
    eta: float = again(StepSettings, "eta", 2.0)
    n_epochs: int = again(StreamSettings, "n_epochs", 40)
    scale: str | MovingScale | None = again(StreamSettings, "scale", "auto")
    rescore: bool = setting(
        False, BOOLEAN, doc="Whether `plausibility_` comes from the final network instead of the memory of all passes.",
    )  # fmt: skip
    device: str = setting("cpu", DEVICE, doc='"cpu", "cuda" or "cuda:N".')
    training: Training | None = setting(
        None, OneOf((None,)), Instance(Training, "a Training"), kind="Training or None",
        doc="How steps are taken: optimiser, batches, precision, processes, checkpoints. None for ``Training()``.",
    )  # fmt: skip

    def _robust_loss(self) -> RescaledHinge:
        loss = as_loss(self.loss, self.eta)
        assert isinstance(loss, RescaledHinge)
        return loss

    def _gain(self, n_features: int) -> float:
        """Factor that brings the entries of scaled rows to about 1."""
        return {"unit": 1.0, None: n_features**-0.5}.get(cast("Any", self.scale), 2.0**0.5) * n_features**0.5


class DeepLearner(DeepSettings, StreamSettings, MapMixin, OnlineLearner):
    """Base of the learners whose map is a network; each adds `_plan`, `_groups` and `_objective`."""

    measure = DISTANCE
    lesson_kind = NetworkLesson

    # The weight of a triplet is computed again at every step.
    max_hq_iter = 1

    def _plan(self, n_features: int) -> Plan | nn.Module:
        """How to build the network."""
        raise TypeError(f"{type(self).__name__} must implement _plan().")

    def _objective(self) -> Objective:
        """What triplets cost."""
        raise TypeError(f"{type(self).__name__} must implement _objective().")

    def _groups(self) -> tuple[int, Array | None]:
        """Groups of columns with unit length, and their first weights."""
        raise TypeError(f"{type(self).__name__} must implement _groups().")

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

    def begin_lesson(self, X: ArrayLike, y: ArrayLike | None) -> Lesson:
        """Prepare a fit, or continue the one that a checkpoint holds."""
        self._check_settings()
        checkpoint = self._checkpoint(X, y)
        with ExitStack() as held:
            held.enter_context(checkpoint.hold())
            with self._computing():
                lesson = super().begin_lesson(X, y)
            assert isinstance(lesson, NetworkLesson)
            lesson.shorten_warm_up(self._training.warm_up, self._training.batch_size)
            checkpoint.resume(lesson, self._plan)
            lesson.held = held.pop_all()
        lesson.rng = network_of(lesson.state).rng if self.shuffle else None
        lesson.after_pass = lambda: checkpoint.write(lesson)
        return lesson

    def end_lesson(self, lesson: Lesson) -> None:
        """Keep what was learned."""
        with self._computing():
            super().end_lesson(lesson)

    def _learn(self, lesson: Lesson) -> None:
        network = network_of(lesson.state)
        with self._computing():
            engine = Engine(network, self._training, self._find_device(), type(self).__name__)
            network.trainer = Trainer(engine, self._objective(), self.C)
            super()._learn(lesson)
            network.take_over()
            network.trainer = None

    def _score_rows(self, state: State, rows: Rows, codes: Codes) -> Array:
        """Plausibility of every row under the network as it is; nothing is learned."""
        assert state.source is not None
        weight, first, objective = np.ones(len(rows)), state.source.n_rows_seen_, self._objective()
        for triplets in state.source.probe(self._represent(state, rows), codes, SPACE):
            anchor = torch.from_numpy(triplets.rows.take(triplets.anchor))
            positive = torch.from_numpy(triplets.pool.take(triplets.positive))
            negative = torch.from_numpy(triplets.pool.take(triplets.negative))
            with torch.no_grad():
                found = objective.losses((anchor, positive, negative), network_of(state).shares, True)
            np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, found.plausibility.numpy())
        return weight

    # ------------------------------------------------------------------ scikit-learn's side

    def __sklearn_tags__(self) -> Any:
        """Dense rows only."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    @property
    def _n_features_out(self) -> int:
        return network_of(self._fitted).n_components

    # ------------------------------------------------------------------ inside

    @property
    def _fitted(self) -> State:
        state = super()._fitted
        state.parameter.on(self._find_device())
        return state

    @property
    def _training(self) -> Training:
        return Training() if self.training is None else self.training

    def _computing(self) -> AbstractContextManager[None]:
        # Networks built here are small: threads would wait for each other.
        return computing(1 if getattr(self, "module", None) is None else None, self._training.deterministic)

    def _find_device(self) -> torch.device:
        return find_device(self.device, type(self).__name__)

    def _check_settings(self) -> None:
        check_settings(self._training)
        super()._check_settings()
        if self._training.precision == "float16" and self._find_device().type == "cpu":
            raise InputError("precision='float16' needs a GPU; on the processor use 'bfloat16'.", owner=self)
        if self._training.distributed and not Integer(0).allows(self.random_state):
            raise InputError(
                "distributed=True needs a whole number as `random_state`, the same in every process; got "
                f"{self.random_state!r}.",
                owner=self,
            )
        if getattr(self.triplets, "centers", None) is not None:
            raise InputError(
                "`centers` cannot be given, because prototypes lie in the space of the embeddings; leave them out.",
                owner=self,
            )

    def check_rows(self, X: ArrayLike, *, reset: bool = False) -> Any:
        """Validate rows, which must be dense and flat."""
        if sparse.issparse(X):
            raise TypeError(
                f"{type(self).__name__} takes dense rows, X is sparse. Reduce it first, for example with "
                "TruncatedSVD, or use RobustLODML, which takes sparse rows."
            )
        if isinstance(X, (np.ndarray, torch.Tensor)) and X.ndim > 2:
            raise InputError(
                f"X has shape {tuple(X.shape)}; rows must be flat: X.reshape(len(X), -1), with "
                f"image_shape={tuple(X.shape[1:])} for a convolutional network.",
                owner=self,
            )
        return super().check_rows(X, reset=reset)

    def _checkpoint(self, X: ArrayLike, y: ArrayLike | None) -> FitCheckpoint:
        """Checkpoint of a fit on these rows, which all processes must share."""
        training, device = self._training, self._find_device()
        processes = Processes.join(training, device, type(self).__name__)
        if processes.size == 1 and training.checkpoint is None:
            return FitCheckpoint(None)
        rows = self.check_rows(X, reset=True)
        digest = digest_of(self.get_params(deep=False), rows, check_labels(y, len(rows), type(self).__name__))
        if processes.size > 1 and not processes.agree_on(digest, device):
            raise InputError(
                "distributed=True divides every batch, so all processes need the same rows, labels and parameters.",
                owner=self,
            )
        return FitCheckpoint(training.checkpoint, digest, type(self).__name__, processes.rank == 0)

    def _make_source(self, state: State) -> TripletSource:
        if isinstance(self.triplets, str) and self.triplets in ("auto", "octg"):
            return OCTG(update_centers=True, forget_after=_REMEMBERED, **self._octg)
        return as_source(self.triplets)

    def _check_memory(self, n_features: int) -> None:
        if getattr(self, "module", None) is None:
            plan = self._plan(n_features)
            assert not isinstance(plan, nn.Module)
            n = count_weights(plan)
            check_memory(
                _WEIGHT_BYTES * n, f"a network of {n:,} weights", "Use fewer features, or narrower layers.", self
            )

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Network:
        self._check_memory(rows.n_features)
        n_features, own = rows.n_features, np.random.default_rng(rng.integers(2**63, size=4))
        with owned_by(self), reproducible(own, self._find_device()):
            network = Network(self._plan(n_features), n_features, self._gain(n_features), own, *self._groups())
            network.begin(rows.take(slice(0, 2)))
        network.on(self._find_device())
        return network

    def _start_source(self, state: State, rows: Rows, codes: Codes, rng: np.random.Generator) -> TripletSource:
        return super()._start_source(state, self._represent(state, rows), codes, rng)

    def _represent(self, state: State, rows: Rows) -> Rows:
        """Map rows to the space of the prototypes."""
        found = np.concatenate([network_of(state).represent(block) for _, block in rows.blocks()])
        if not np.isfinite(found).all():
            raise not_finite("an embedding", type(self).__name__)
        return Rows(found.astype(np.float32))
