"""LSMDML and its robust form: metrics for many features, learned in random sketches."""

from __future__ import annotations

import numpy as np

from nearkin.learners.base import OnlineLearner
from nearkin.learners.groups import StepSettings, StreamSettings
from nearkin.learners.maps import MapMixin
from nearkin.learners.modal import ModalMixin
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import Sketched
from nearkin.rows import Rows
from nearkin.settings import BOOLEAN, Integer, OneOf, Real, declare, setting

__all__ = ["LSMDML", "RobustLSMDML"]

#: Features up to which a sum of steps is kept as the matrix it is, which is then also the faster way.
_EXACT = 1024


@declare
class LSMDML(ModalMixin, StreamSettings, StepSettings, MapMixin, OnlineLearner):
    """Large-scale multi-modal distance: steps are found in a small random sketch and taken in the original space.

    Per modality ``M = P_+(I + sum_t tau_t A_t)``, where the ``tau_t`` come from an m x m matrix. One update costs
    O(dm + m^2) and, spread over a full buffer, O(d (rank + buffer)). Where ``rank`` is below the number of features,
    neither learning nor `transform` ever makes a d x d matrix, so tens of thousands of features train in the memory of
    some hundred vectors.

    {sections}

    See Also
    --------
    RobustLSMDML : The same with the rescaled hinge.
    DualRandomProjection : The sketch.
    ODML : Without a sketch; ``psd="end"`` is this learner where nothing needs one.

    Notes
    -----
    The sketch of A is ``R_1' A R_2`` with two independent projections, which keeps inner products on average; the
    matrix in the sketch begins at ``R_1' R_2``. Weights take the passive-aggressive step for
    ``max(0, 1 + sum_k theta_k f_k)`` with ``f_k = d2_k(x, x+) - d2_k(x, x-)`` in the sketch, before the metrics move.

    Verified at abstract level only: learning in a dual random projection, recovery with a low-rank metric, and weights
    by passive-aggressive steps. The formulas are our consistent reading; a public re-implementation has the signs of
    both steps reversed. Our own: the cone is enforced when the metric is read; the sum is kept by its largest
    eigenpairs, exactly if ``rank`` is the number of features; small modalities need no sketch.

    References
    ----------
    Rasheed, Zabihzadeh, Al-Obaidi: Large-scale multi-modal distance metric learning with application to
    content-based information retrieval and image classification. IJPRAI 34(13), 2020.

    Qian, Jin, Zhu, Lin: Fine-grained visual categorization via multi-stage metric learning. CVPR 2015.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.normal(size=(60, 3000)) + 0.1 * y[:, None]
    >>> model = LSMDML(random_state=0).fit(X, y)
    >>> model.transform(X).shape, model.weights_.tolist()
    ((60, 3000), [1.0])
    """

    n_projections: int = setting(
        100, Integer(1, 100_000),
        doc="Size m of the sketch. A modality with no more features than this is learned without one.",
    )  # fmt: skip
    rank: int | None = setting(
        None, Integer(1, 1_000_000), OneOf((None,)),
        doc="Eigenpairs kept of what was learned in each modality; None for all features up to 1024, else 64.",
    )  # fmt: skip
    buffer: int = setting(
        64, Integer(1, 100_000), doc="Newest steps kept as they came, before they are merged into the eigenpairs."
    )
    C_weights: float = setting(
        0.1, Real(0.0, np.inf), doc="Aggressiveness of the weights of the modalities, before robust weighting."
    )
    simplex: bool = setting(
        False, BOOLEAN,
        doc="Whether weights come back to the nearest weights; otherwise they are cut at zero and normalised.",
    )  # fmt: skip

    measure = DISTANCE

    remedy = "Lower `rank`, `buffer` or `n_projections`, or reduce the features first."

    def _memory_for(self, d: int, itemsize: int) -> float:
        total = 0.0
        for size, rank in zip(*self._sizes(d), strict=True):
            m = min(self.n_projections, size)
            kept = 16 * size**2 if rank >= size else 3 * (rank + 2 * self.buffer) * size * itemsize
            total += kept + 2 * size * m * itemsize + 8 * m**2
        return total

    def _sizes(self, d: int) -> tuple[list[int], list[int]]:
        """Features of every modality, and eigenpairs kept."""
        sizes = self._group(d).sizes
        return sizes, [self.rank or (one if one <= _EXACT else 64) for one in sizes]

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Sketched:
        known = self._group(rows.n_features)
        _, ranks = self._sizes(rows.n_features)
        return Sketched(known, rows.dtype, self.n_projections, ranks, self.buffer, self.C_weights, self.simplex, rng)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)  # without the d x d map


@declare
class RobustLSMDML(LSMDML):
    """`LSMDML` with the rescaled hinge: implausible triplets move metrics and weights little or not at all.

    {sections}

    See Also
    --------
    LSMDML : The same with the plain hinge.

    Notes
    -----
    Our own combination of `LSMDML` with the loss of Eq. (10), in the steps of the metrics and of the weights.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = y.copy()
    >>> wrong[0] = 2
    >>> model = RobustLSMDML(modalities=[2, 2], random_state=0).fit(X, wrong)
    >>> bool(model.plausibility_[0] < 0.5 * model.plausibility_[1])
    True
    """

    loss: str | Loss = "rescaled_hinge"
