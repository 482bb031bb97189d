"""What the low-rank learners share: rank, start and solver of the map."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array
from nearkin.checks import Integer, OneOf, Real, Rule
from nearkin.kernels import one_blas_thread
from nearkin.learners._device import DeviceLearner
from nearkin.losses import Loss
from nearkin.parameters import LowRank
from nearkin.rows import Rows
from nearkin.triplets import TripletSource

__all__ = ["LowRankLearner"]


#: Numbers of the sample from which principal directions are found.
_PCA_NUMBERS = 1 << 23


class LowRankLearner(DeviceLearner):
    """Constructor and start of `LOSL` and `LODML`."""

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **DeviceLearner._rules,
        "n_components": (Integer(1), OneOf((None,))),
        "solver": (OneOf(("exact", "subgradient")),),
        "step_size": (Real(0.0, np.inf, open_low=True, open_high=True),),
        "n_steps": (Integer(1),),
    }
    _on_device: ClassVar[dict[str, tuple[Any, ...]]] = {"solver": ("exact",)}

    def __init__(
        self,
        n_components: int | None = None,
        *,
        C: float = 0.1,
        loss: str | Loss = "hinge",
        eta: float = 1.0,
        max_hq_iter: int = 3,
        init: str | ArrayLike = "auto",
        solver: str = "exact",
        step_size: float = 1.0,
        n_steps: int = 1,
        triplets: str | TripletSource = "octg",
        n_epochs: int = 1,
        shuffle: bool = True,
        scale: str | None = "auto",
        rescore: bool = True,
        device: str = "cpu",
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.C = C
        self.loss = loss
        self.eta = eta
        self.max_hq_iter = max_hq_iter
        self.init = init
        self.solver = solver
        self.step_size = step_size
        self.n_steps = n_steps
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.device = device
        self.random_state = random_state

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LowRank:
        start = self._start(rows, rng).astype(rows.dtype)
        return LowRank(start, self._measure, self.solver, self.step_size, self.n_steps)

    def _start(self, rows: Rows, rng: np.random.Generator) -> Array:
        d = rows.n_features
        if not isinstance(self.init, str):
            return self._given_start(d)
        r = self.n_components if self.n_components is not None else (d if d <= 128 else 64)
        if r > d:
            raise ValueError(f"{self._name}: n_components={r} exceeds the {d} features; use at most {d}.")
        if self.init == "pca" or (self.init == "auto" and r < d):
            return principal_directions(rows, r, rng)
        if self.init in ("auto", "identity"):
            return np.eye(r, d)
        raise ValueError(
            f"{self._name}: parameter `init` must be 'auto', 'pca', 'identity' or an array; got {self.init!r}."
        )

    def _given_start(self, d: int) -> Array:
        try:
            start = np.asarray(self.init, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{self._name}: parameter `init` must be 'auto', 'pca', 'identity' or an array of numbers; "
                f"got {self.init!r}."
            ) from None
        r = self.n_components if self.n_components is not None else (len(start) if start.ndim == 2 else 0)
        if start.shape != (r, d) or not np.isfinite(start).all():
            raise ValueError(
                f"{self._name}: `init` must be finite numbers of shape (n_components, n_features) = ({r}, {d}); "
                f"got {self.init!r}, of shape {start.shape}."
            )
        return start


def principal_directions(
    rows: Rows, r: int, rng: np.random.Generator, columns: NDArray[np.integer] | None = None
) -> Array:
    """The r leading principal directions of the rows (of a sample, if they are many), or of some of their columns.

    Orthonormal; if the rows span fewer, unit vectors made orthogonal to them fill up.
    """
    d = rows.n_features if columns is None else len(columns)
    most = max(4 * r, _PCA_NUMBERS // d)
    which = np.arange(len(rows)) if len(rows) <= most else np.sort(rng.permutation(len(rows))[:most])
    sample = rows.take(which)
    sample = (sample if columns is None else sample[:, columns]).astype(np.float64)
    sample -= sample.mean(axis=0)
    if d <= 1024:
        with one_blas_thread():  # more are many times slower where other processes want the cores too
            values, vectors = np.linalg.eigh(sample.T @ sample)
        values, vectors = values[::-1][:r], vectors[:, ::-1][:, :r]
        spread = np.sqrt(np.maximum(values, 0))
    else:
        from sklearn.utils.extmath import randomized_svd

        k = min(r, min(sample.shape))
        _, spread, found = randomized_svd(sample, k, random_state=int(rng.integers(2**31 - 1)))
        vectors = found.T
    alive = spread > 1e-10 * max(spread[0], 1e-300)
    if np.count_nonzero(alive) < r:
        filled, _ = np.linalg.qr(np.concatenate([vectors[:, alive], np.eye(d, r)], axis=1))
        filled[:, : np.count_nonzero(alive)] = vectors[:, alive]
        vectors = filled[:, :r]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(r)])
    return (vectors * np.where(signs == 0, 1, signs)).T
