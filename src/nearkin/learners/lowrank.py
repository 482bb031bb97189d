"""Low-rank maps: LOSL of a similarity, LODML of a distance, and their robust forms (Algorithms 3 and 4)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nearkin.arrays import Array, Index
from nearkin.directions import principal_directions
from nearkin.errors import InputError
from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import DeviceSettings, StepSettings, StreamSettings, aggressiveness
from nearkin.learners.maps import MapMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE, SIMILARITY, Measure
from nearkin.parameters import LowRank
from nearkin.rows import Rows
from nearkin.settings import Integer, OneOf, Real, declare, setting

__all__ = ["LODML", "LOSL", "LowRankMixin", "RobustLODML", "RobustLOSL"]


@declare
class LowRankMixin:
    """Settings and start of `LOSL` and `LODML`."""

    on_device: ClassVar[dict[str, tuple[Any, ...]]] = {"solver": ("exact",)}

    n_components: int | None = setting(
        None, Integer(1, 1_000_000), OneOf((None,)), kw_only=False,
        doc="Rank r of the map; None for all features up to 128, else 64.",
    )  # fmt: skip
    C: float | str = aggressiveness("auto", kw_only=True)
    init: str | ArrayLike = setting(
        "discriminant",
        kind='{"discriminant", "auto", "pca", "identity"} or array of shape (n_components, n_features)',
        doc="""Start of the map. "discriminant" brings the neighbours of a row's class near and is renewed as rows come;
        for explicit triplets, which have no labels, it is "auto": the identity when r equals the number of features,
        else the leading principal directions of the first batch. "identity" keeps the first r features, as printed in
        the paper.""",
    )  # fmt: skip
    solver: str = setting(
        "exact", OneOf(("exact", "subgradient")),
        doc=""""exact" solves each step in closed form; "subgradient" takes the paper's steps (Eqs. 32, 33).""",
    )  # fmt: skip
    step_size: float = setting(1.0, Real(0.0, np.inf, open_low=True, open_high=True), doc="Of the sub-gradient steps.")
    n_steps: int = setting(1, Integer(1, 10_000), doc="Sub-gradient steps per half-quadratic iteration.")

    measure: ClassVar[Measure]

    def rank_for(self, d: int) -> int:
        """Rank of the map of rows with d features, where no start is given."""
        return self.n_components if self.n_components is not None else (d if d <= 128 else 64)

    remedy = "Lower `n_components`, or reduce the features first."

    def _begins_alike(self, d: int) -> bool:
        """Unless it begins at principal directions."""
        if not isinstance(self.init, str) or self.init == "identity":
            return True
        return self.init != "pca" and self.rank_for(d) == d

    def _memory_for(self, d: int, itemsize: int) -> float:
        return 2.0 * self.rank_for(d) * d * itemsize if isinstance(self.init, str) else 0.0

    def _begin(self, rows: Rows, rng: np.random.Generator) -> LowRank:
        start = self._start(rows, rng).astype(rows.dtype)
        return LowRank(start, self.measure, self.solver, self.step_size, self.n_steps)

    def _start(self, rows: Rows, rng: np.random.Generator) -> Array:
        d = rows.n_features
        if not isinstance(self.init, str):
            return self._given_start(d)
        r = self.rank_for(d)
        if r > d:
            raise InputError(f"n_components={r} exceeds the {d} features; use at most {d}.", owner=self)
        if self.init == "pca" or (self.init in ("auto", "discriminant") and r < d):
            return principal_directions(rows, r, rng)
        if self.init in ("auto", "discriminant", "identity"):
            return np.eye(r, d)
        raise InputError(
            f"parameter `init` must be 'discriminant', 'auto', 'pca', 'identity' or an array; got {self.init!r}.",
            owner=self,
        )

    def _widen(self, parameter: Any, columns: Index, sample: Array) -> None:
        r, d = parameter.L.shape
        if isinstance(self.init, str) and (self.init == "pca" or (self.init in ("auto", "discriminant") and r < d)):
            parameter.widen(columns, sample)

    def _given_start(self, d: int) -> Array:
        try:
            start = np.asarray(self.init, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                "parameter `init` must be 'discriminant', 'auto', 'pca', 'identity' or an array of numbers; got "
                f"{self.init!r}.",
                owner=self,
            ) from None
        r = self.n_components if self.n_components is not None else (len(start) if start.ndim == 2 else 0)
        if start.shape != (r, d) or not np.isfinite(start).all():
            raise InputError(
                f"`init` must be finite numbers of shape (n_components, n_features) = ({r}, {d}); "
                f"got {self.init!r}, of shape {start.shape}.",
                owner=self,
            )
        return start


@declare
class LOSL(LowRankMixin, DeviceSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online low-rank similarity ``S(x, y) = (L'x)'(L'y)``, L of shape d x r.

    One update costs O(dr), and with a start O(r^2). Memory is L, and a start of bounded size, however long the stream.

    {sections}

    See Also
    --------
    RobustLOSL : The same with the rescaled hinge.
    OASIS : The same with a full matrix.

    Notes
    -----
    By default steps begin at the identity in the space of the discriminant start, which has r dimensions;
    ``init="identity", triplets="octg", C=0.1`` is the paper's form.

    ``solver="exact"`` takes the global minimiser of the proximal problem of Eq. (31) in closed form, up to one
    scalar root; the paper leaves step size and number of its sub-gradient steps open. A step with step size 1 is
    its first-order expansion.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LOSL(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    measure = SIMILARITY


@declare
class RobustLOSL(LOSL):
    """`LOSL` with the rescaled hinge (Algorithm 3): implausible triplets move the map little or not at all.

    {sections}

    See Also
    --------
    LOSL : The same with the plain hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RobustLOSL(n_components=2, random_state=0).fit(X, y)
    >>> model.query_map_ is model.item_map_
    True
    """

    loss: str | Loss = "rescaled_hinge"


@declare
class LODML(LowRankMixin, DeviceSettings, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Online low-rank distance ``d2(x, y) = ||L'x - L'y||^2``, L of shape d x r.

    Positive semi-definite by construction. One update costs O(dr), and with a start O(r^2). Memory is L, and a start of
    bounded size, however long the stream.

    {sections}

    See Also
    --------
    RobustLODML : The same with the rescaled hinge.
    ODML : The same with a full matrix.

    Notes
    -----
    By default steps begin at the identity in the space of the discriminant start, which has r dimensions;
    ``init="identity", triplets="octg", C=0.1`` is the paper's form.

    ``solver="exact"`` takes the global minimiser of the proximal problem behind Eq. (33) in closed form, up to one
    scalar root; the paper leaves step size and number of its sub-gradient steps open. If L is orthogonal to the
    direction that a triplet asks for and C is large enough, the step begins a part of L along it, in the component with
    the smallest norm (not on a device).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LODML(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    measure = DISTANCE


@declare
class RobustLODML(LODML):
    """`LODML` with the rescaled hinge (Algorithm 4): implausible triplets move the map little or not at all.

    The paper's best method, here from a better start, and the default of `RobustKNeighborsClassifier`.

    {sections}

    See Also
    --------
    LODML : The same with the plain hinge.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustLODML(random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
