"""The estimator shell of networks: batches, prototypes, passes, checkpoints."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from nearkin import progress
from nearkin.accelerator.device import DeviceRule
from nearkin.arrays import Array, Codes
from nearkin.checks import Instance, Integer, OneOf, Real, Rule, generator, named_errors
from nearkin.deep.bounds import AdaptiveBounds
from nearkin.deep.embedded_triplets import SPACE, find_triplets, smallest
from nearkin.deep.engine import Engine, Settings, deterministic, find_device, processes, threads, too_large
from nearkin.deep.network import Network, Plan, arrays_of, reproducible
from nearkin.deep.state import DeepState
from nearkin.labels import Labels
from nearkin.learners import OnlineLearner
from nearkin.learners.state import State
from nearkin.losses import Loss, RescaledHinge, as_loss
from nearkin.measures import DISTANCE
from nearkin.rows import Rows
from nearkin.transactions import all_or_nothing
from nearkin.triplets import OCTG, Triplets, TripletSource, as_source

__all__ = ["DeepLearner"]


#: A warm-up takes at most one in so many batches of `fit`.
_WARM = 4

#: Rows behind a prototype, at most: old embeddings are out of date as the network moves.
_REMEMBERED = 30.0


class DeepLearner(OnlineLearner):
    """Base of the learners whose map is a network; one adds its constructor, `_plan` and `_losses`."""

    _measure = DISTANCE
    _is_linear: ClassVar[bool] = False
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "n_components": (Integer(1),),
        "C": (Real(0.0, np.inf, open_high=True),),
        "loss": (OneOf(("hinge", "rescaled_hinge")), Instance(RescaledHinge, "a RescaledHinge")),
        "eta": (Real(0.0, np.inf, open_high=True),),
        "warm_up": (Integer(0),),
        "memory": (Real(0.0, 1.0, open_high=True),),
        "n_epochs": (Integer(1),),
        "batch_size": (Integer(2),),
        "shuffle": (Instance((bool, np.bool_), "True or False"),),
        "scale": (OneOf(("auto", "pairs", "unit", None)),),
        "rescore": (Instance((bool, np.bool_), "True or False"),),
        "optimizer": (OneOf(("adamw", "adam", "sgd")),),
        "learning_rate": (Real(0.0, np.inf, open_low=True, open_high=True),),
        "weight_decay": (Real(0.0, np.inf, open_high=True),),
        "n_steps": (Integer(1),),
        "proximity": (Real(0.0, np.inf, open_high=True),),
        "device": (DeviceRule(),),
        "precision": (OneOf(("float32", "bfloat16", "float16")),),
        "deterministic": (Instance((bool, np.bool_), "True or False"),),
        "distributed": (Instance((bool, np.bool_), "True or False"),),
        "checkpoint": (OneOf((None,)), Instance((str, os.PathLike), "a path")),
    }

    # The weight of a triplet is taken anew at every step.
    max_hq_iter = 1

    _state: DeepState
    n_components: int
    warm_up: int
    memory: float
    batch_size: int
    optimizer: str
    learning_rate: float
    weight_decay: float
    n_steps: int
    proximity: float
    device: str
    precision: str
    deterministic: bool
    distributed: bool
    checkpoint: str | os.PathLike[str] | None

    def _plan(self, n_features: int) -> Plan | nn.Module:
        """How to build the network."""
        raise TypeError(f"{self._name} must implement _plan().")

    def _n_groups(self) -> int:
        """Groups of columns of an embedding that are brought to unit length."""
        return 1

    def _losses(
        self, state: DeepState, members: tuple[Tensor, Tensor, Tensor], is_robust: bool
    ) -> tuple[Tensor, Tensor]:
        """Loss of every triplet, robust or plain, and its plausibility."""
        raise TypeError(f"{self._name} must implement _losses().")

    def _after_batch(self, state: DeepState, members: tuple[Tensor, Tensor, Tensor]) -> None:
        """What else is learned from the triplets of a batch."""

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
        rows = self._check_rows(X, reset=True)
        labels = self._check_labels(rows, y)
        self._check_alike(rows, labels)
        with self._computing():
            return self._fit(rows, labels)

    def _fit(self, X: Any, y: NDArray[Any]) -> Self:
        saved = self._saved(X, y)
        found = None if saved is None else saved.read()
        if found is None:
            rng = generator(self.random_state)
            state, rows = self._first_state(X, rng, Labels())
            codes = state.labels.encode(y, self._name)
            self._start_source(state, rows, codes, rng)
            running: Array = np.ones(len(rows))
            done = 0
        else:
            state, running, done = found
            state.parameter.device = self.device
            rows = self._scaled(X, state.scaling)
            codes = state.labels.encode(y, self._name)
        n_batches = self.n_epochs * sum(1 for _ in _batches(len(rows), self.batch_size))
        n_plain = min(self.warm_up, n_batches // _WARM)
        engine = self._engine(state)
        for epoch in range(done, self.n_epochs):
            order = state.rng.permutation(len(rows)) if self.shuffle else np.arange(len(rows))
            prior = running if epoch else None
            weight = self._pass(state, engine, rows, codes, order, prior, n_plain, epoch * len(rows))
            # A wrong label is learned late, if at all: what was thought of it early is worth keeping.
            running[order] = weight if prior is None else self.memory * running[order] + (1.0 - self.memory) * weight
            if saved is not None:
                state.parameter, state.moments = engine.finish()
                saved.write(state, running, epoch + 1)
        state.parameter, state.moments = engine.finish()
        self._store(state)
        self.plausibility_ = self._score_rows(state, rows, codes) if self.rescore else running
        return self

    def _learn_rows(self, state: State, rows: Rows, codes: Codes, done: int, total: int) -> Array:
        """One pass over the rows of a stream, in batches as they come."""
        assert isinstance(state, DeepState)
        state.parameter.device = self.device
        with self._computing():
            engine = self._engine(state)
            weight = self._pass(state, engine, rows, codes, np.arange(len(rows)), None, self.warm_up, done)
            state.parameter, state.moments = engine.finish()
        return weight

    def _pass(
        self,
        state: DeepState,
        engine: Engine,
        rows: Rows,
        codes: Codes,
        order: Codes,
        prior: Array | None,
        n_plain: int,
        done: int,
    ) -> Array:
        """Learn from all rows in this order; returns the smallest plausibility of each one's triplets, as ordered.

        The first ``n_plain`` batches of a learner are learned with the plain loss, until losses mean something.
        """
        weight = np.ones(len(order))
        total = max(len(rows) * self.n_epochs, done + len(rows))
        with reproducible(int(state.rng.integers(2**63)), engine.settings.device):
            for part in _batches(len(order), self.batch_size):
                at = order[part]
                gate = None if prior is None else prior[at]
                is_robust = state.n_batches >= n_plain
                weight[part] = self._learn_batch(state, engine, rows.take(at), codes[at], gate, is_robust)
                progress.advance("learning", done + part.stop, total)
        state.n_rows += len(rows)
        state.forget()
        return weight

    def _learn_batch(
        self, state: DeepState, engine: Engine, X: Array, codes: Codes, prior: Array | None, is_robust: bool
    ) -> Array:
        """Steps on the triplets of one batch; what is thought of its rows so far weighs their triplets."""
        assert state.source is not None
        gate = None
        if is_robust and prior is not None:
            gate = torch.from_numpy(prior.astype(np.float32)).to(engine.settings.device)

        def heard(row: Tensor, *members: Tensor) -> Tensor:
            _, now = self._losses(state, (members[0], members[1], members[2]), True)
            if not is_robust:
                return torch.ones_like(now)
            return now if gate is None else self.memory * gate[row] + (1.0 - self.memory) * now

        engine.begin()
        for number in range(self.n_steps):
            embedding = engine.embed(X)
            if not bool(torch.isfinite(embedding).all()):
                raise ValueError(too_large(self._name, "an embedding"))
            if number == 0:
                triplets = find_triplets(state.source, embedding, codes, heard)
            members = triplets.members(embedding)
            losses, plausibility = self._losses(state, members, is_robust)
            self._step(engine, losses if gate is None else losses * gate[triplets.anchor], len(X))
        state.n_batches += 1
        self._count(state, losses)
        self._after_batch(state, members)
        return smallest(plausibility, triplets.anchor, len(X)).cpu().numpy().astype(np.float64)

    def _step(self, engine: Engine, losses: Tensor, n: int) -> None:
        value = self.C * losses.sum() / n
        if not bool(torch.isfinite(value)):
            raise ValueError(too_large(self._name, "the loss"))
        engine.step(value)

    def _count(self, state: DeepState, losses: Tensor) -> None:
        state.n_triplets += len(losses)
        state.n_updates += int((losses.detach() > 0).sum())

    def _learn_set(self, state: State, triplets: Triplets, loss: Loss) -> Array:
        """Learn from explicit triplets in batches, in the order given."""
        assert isinstance(state, DeepState)
        state.parameter.device = self.device
        weight = np.ones(len(triplets))
        with self._computing():
            engine = self._engine(state)
            with reproducible(int(state.rng.integers(2**63)), engine.settings.device):
                for part in _batches(len(triplets), self.batch_size):
                    at = (triplets.anchor[part], triplets.positive[part], triplets.negative[part])
                    X = np.concatenate([triplets.rows.take(at[0]), *(triplets.pool.take(one) for one in at[1:])])
                    engine.begin()
                    for _ in range(self.n_steps):
                        anchor, positive, negative = engine.embed(X).chunk(3)
                        members = anchor, positive, negative
                        losses, plausibility = self._losses(state, members, True)
                        self._step(engine, losses, len(losses))
                    self._count(state, losses)
                    self._after_batch(state, members)
                    weight[part] = plausibility.cpu().numpy()
            state.parameter, state.moments = engine.finish()
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
    def _fitted(self) -> DeepState:
        state = super()._fitted
        assert isinstance(state, DeepState)
        find_device(self.device, self._name)
        state.parameter.device = self.device
        return state

    def _settings(self) -> Settings:
        # At the first step of a batch the proximity term has no slope.
        proximity = 0.0 if self.n_steps == 1 else float(self.proximity)
        return Settings(
            self._name, find_device(self.device, self._name), self.optimizer, float(self.learning_rate),
            float(self.weight_decay), self.precision, proximity, bool(self.distributed),
        )  # fmt: skip

    @contextmanager
    def _computing(self) -> Iterator[None]:
        # The networks that are built here are small: threads would wait for each other.
        with deterministic(self.deterministic), threads(1 if getattr(self, "module", None) is None else None):
            yield

    def _engine(self, state: DeepState) -> Engine:
        return Engine(state.parameter, state.moments, self._settings())

    def _check_parameters(self) -> None:
        super()._check_parameters()
        device = find_device(self.device, self._name)
        if self.precision == "float16" and device.type == "cpu":
            raise ValueError(f"{self._name}: precision='float16' needs a GPU; on the processor use 'bfloat16'.")
        if self.distributed and not Integer(0).allows(self.random_state):
            raise ValueError(
                f"{self._name}: distributed=True needs a whole number as `random_state`, the same in every process; "
                f"got {self.random_state!r}."
            )
        source = self._make_source()
        if getattr(source, "centers", None) is not None:
            raise ValueError(
                f"{self._name}: prototypes lie in the space of the embeddings, so that `centers` cannot be given; "
                "leave them out."
            )

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> Any:
        if sparse.issparse(X):
            raise TypeError(
                f"{self._name} takes dense rows, X is sparse. Reduce it first, for example with TruncatedSVD, or use "
                "RobustLODML, which takes sparse rows."
            )
        if isinstance(X, (np.ndarray, Tensor)) and X.ndim > 2:
            raise ValueError(
                f"{self._name}: X has shape {tuple(X.shape)}; rows must be flat: X.reshape(len(X), -1), with "
                f"image_shape={tuple(X.shape[1:])} for a convolutional network."
            )
        return super()._check_rows(X, reset=reset)

    def _check_alike(self, X: Array, y: NDArray[Any]) -> None:
        """Refuse processes that were given other rows."""
        settings = self._settings()
        group = processes(settings)
        if group.size > 1 and not group.agree(self._fingerprint(X, y), settings.device):
            raise ValueError(
                f"{self._name}: distributed=True shares out every batch, so that all processes must be given the same "
                "rows, labels and parameters."
            )

    def _make_source(self) -> TripletSource:
        if isinstance(self.triplets, str) and self.triplets == "octg":
            return OCTG(update_centers=True, forget_after=_REMEMBERED)
        return as_source(self.triplets)

    def _first_state(self, X: Any, rng: np.random.Generator, labels: Labels) -> tuple[DeepState, Rows]:
        scaling, gain = self._learn_scaling(X), self._gain(X.shape[1])
        rows = self._scaled(X, scaling)
        device = find_device(self.device, self._name)
        draws = np.random.default_rng(rng.integers(2**63, size=4))
        with named_errors(self), reproducible(int(draws.integers(2**63)), device):
            plan = self._plan(X.shape[1])
            module = plan if isinstance(plan, nn.Module) else plan.build()
            network = Network(plan, {}, X.shape[1], gain, self._n_groups())
            self._try(module, network, rows.take(slice(0, 2)))
        network.weights, network.device = arrays_of(module), self.device
        return DeepState(scaling, network, labels, X.dtype, rng=draws), rows

    def _try(self, module: nn.Module, network: Network, rows: Array) -> None:
        """Say at once what is wrong with a module; this also makes the weights of lazy layers."""
        x = network.tensor(rows, torch.device("cpu"))
        module.to("cpu").eval()
        with torch.no_grad():
            try:
                found = module(x)
            except (RuntimeError, TypeError) as error:
                raise ValueError(f"the module does not take rows of shape {tuple(x.shape)}: {error}") from error
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(x):
            gave = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ValueError(
                f"the module must map rows to embeddings of shape (n_rows, n_components); for {tuple(x.shape)} it gave "
                f"{gave}."
            )
        if not any(one.requires_grad for one in module.parameters()):
            raise ValueError("the module has no parameters to learn.")

    def _gain(self, n_features: int) -> float:
        """What brings scaled rows to entries around 1."""
        return {"unit": 1.0, None: n_features**-0.5}.get(self.scale, 2.0**0.5) * n_features**0.5

    def _start_source(self, state: State, rows: Rows, codes: Codes, rng: np.random.Generator) -> None:
        super()._start_source(state, self._represented(state, rows), codes, rng)

    def _represented(self, state: State, rows: Rows) -> Rows:
        """Rows in the space of the prototypes."""
        assert isinstance(state, DeepState)
        found = np.concatenate([state.parameter.represent(block) for _, block in rows.blocks()])
        if not np.isfinite(found).all():
            raise ValueError(too_large(self._name, "an embedding"))
        return Rows(found.astype(np.float32))

    def _score_rows(self, state: State, rows: Rows, codes: Codes) -> Array:
        """Plausibility of every row under the network as it is; nothing is learned."""
        assert isinstance(state, DeepState)
        assert state.source is not None
        weight, first = np.ones(len(rows)), state.source.n_rows_seen_
        for triplets in state.source.probe(self._represented(state, rows), codes, SPACE):
            anchor = torch.from_numpy(triplets.rows.take(triplets.anchor))
            others = [torch.from_numpy(triplets.pool.take(one)) for one in (triplets.positive, triplets.negative)]
            with torch.no_grad():
                _, now = self._losses(state, (anchor, others[0], others[1]), True)
            np.minimum.at(weight, triplets.row_origin[triplets.anchor] - first, now.numpy())
        return weight

    def _robust_loss(self) -> RescaledHinge:
        loss = as_loss(self.loss, self.eta)
        assert isinstance(loss, RescaledHinge)
        return loss

    # ------------------------------------------------------------------ going on after a break

    def _saved(self, X: Array, y: NDArray[Any]) -> _Saved | None:
        return None if self.checkpoint is None else _Saved(self, self._fingerprint(X, y))

    def _fingerprint(self, X: Array, y: NDArray[Any]) -> str:
        """Of everything that the result depends on."""
        own = {k: v for k, v in self.get_params(deep=False).items() if k not in ("checkpoint", "device", "distributed")}
        digest = hashlib.sha256(repr(sorted((name, _described(one)) for name, one in own.items())).encode())
        digest.update(np.ascontiguousarray(X).data)
        digest.update(repr(y.tolist()).encode())
        return digest.hexdigest()


class _Saved:
    """Where `fit` stands, on disk."""

    def __init__(self, learner: DeepLearner, fingerprint: str):
        from nearkin.streams.checkpoint import Checkpoint

        assert learner.checkpoint is not None
        self.learner, self.fingerprint = learner, fingerprint
        self.file = Checkpoint(learner.checkpoint)

    def read(self) -> tuple[DeepState, Array, int] | None:
        """State, running plausibilities and passes done, if there is a checkpoint."""
        if not self.file.exists():
            return None
        found = self.file.read()
        if not isinstance(found, dict) or found.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{self.learner._name}: the checkpoint {self.file.path} belongs to other rows, labels or parameters. "
                "Remove it, or name another file."
            )
        state = found["state"]
        if state.parameter.plan is None:
            state.parameter.plan = self.learner._plan(state.parameter.n_features)
        return state, found["running"].copy(), found["done"]

    def write(self, state: DeepState, running: Array, done: int) -> None:
        """Put it on disk; a module of the user's own is not written, only its weights."""
        if not processes(self.learner._settings()).is_first:
            return
        kept = copy.copy(state)
        if isinstance(state.parameter.plan, nn.Module):
            kept.parameter = state.parameter.copy()
            kept.parameter.plan = None
        self.file.write({"fingerprint": self.fingerprint, "state": kept, "running": running, "done": done})


def _described(value: Any) -> str:
    """A parameter in words that are the same in every process."""
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state())
    if isinstance(value, nn.Module):
        digest = hashlib.sha256(repr(value).encode())
        for name, one in value.state_dict().items():
            digest.update(name.encode() + (b"" if is_lazy(one) else one.detach().cpu().numpy().tobytes()))
        return digest.hexdigest()
    if isinstance(value, AdaptiveBounds):
        return f"{value.margin} {_described(value.curve)}"
    return getattr(value, "__qualname__", None) or repr(value)  # what a function prints has its address in it


def _batches(n: int, size: int) -> Iterator[slice]:
    """Parts of n rows; a last one of a single row is joined to the one before, since some layers need two."""
    for start in range(0, n, size):
        stop = n if start + size + 1 >= n else start + size
        yield slice(start, stop)
        if stop == n:
            return
