"""LSMDML and its robust form: metrics for many features, learned in random sketches."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from nearkin.checks import Instance, Integer, OneOf, Real, Rule
from nearkin.learners._docs import documented
from nearkin.learners._preset import with_defaults
from nearkin.learners.modal import ModalLearner
from nearkin.losses import Loss
from nearkin.measures import DISTANCE
from nearkin.parameters import Sketched
from nearkin.rows import Rows
from nearkin.triplets import TripletSource

__all__ = ["LSMDML", "RobustLSMDML"]

#: Features up to which a sum of steps is kept as the matrix it is, which is then also the faster way.
_EXACT = 1024


@documented
class LSMDML(ModalLearner):
    """Large-scale multi-modal distance: steps are found in a small random sketch and taken in the original space.

    Per modality ``M = P_+(I + sum_t tau_t A_t)``, where the ``tau_t`` come from an m x m matrix. One update costs
    O(dm + m^2) and, spread over a full buffer, O(d (rank + buffer)). Where ``rank`` is below the number of features,
    neither learning nor `transform` ever makes a d x d matrix, so tens of thousands of features train in the memory of
    some hundred vectors.

    Parameters
    ----------
    {steps}
    {modalities}
    n_projections : int, default=100
        Size m of the sketch. A modality with no more features than this is learned without one.
    rank : int or None, default=None
        Eigenpairs that are kept of what was learned in each modality; None for all features up to 1024, else 64.
    buffer : int, default=64
        Newest steps that are kept as they came, before they are merged into the eigenpairs.
    C_weights : float, default=0.1
        Aggressiveness of the weights of the modalities.
    simplex : bool, default=False
        Whether weights come back to the nearest weights; otherwise they are cut at zero and normalised.
    {stream}

    Attributes
    ----------
    {modal}
    {fitted}

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

    _measure = DISTANCE
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        **ModalLearner._rules,
        "n_projections": (Integer(1),),
        "rank": (Integer(1), OneOf((None,))),
        "buffer": (Integer(1),),
        "C_weights": (Real(0.0, np.inf),),
        "simplex": (Instance((bool, np.bool_), "True or False"),),
    }

    def __init__(
        self,
        C: float = 0.1,
        *,
        modalities: Any = None,
        n_projections: int = 100,
        rank: int | None = None,
        buffer: int = 64,
        C_weights: float = 0.1,
        simplex: bool = False,
        loss: str | Loss = "hinge",
        eta: float = 1.0,
        max_hq_iter: int = 3,
        triplets: str | TripletSource = "octg",
        n_epochs: int = 1,
        shuffle: bool = True,
        scale: str | None = "auto",
        rescore: bool = True,
        random_state: Any = None,
    ):
        self.C = C
        self.modalities = modalities
        self.n_projections = n_projections
        self.rank = rank
        self.buffer = buffer
        self.C_weights = C_weights
        self.simplex = simplex
        self.loss = loss
        self.eta = eta
        self.max_hq_iter = max_hq_iter
        self.triplets = triplets
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.scale = scale
        self.rescore = rescore
        self.random_state = random_state

    def _begin(self, rows: Rows, rng: np.random.Generator) -> Sketched:
        known = self._group(rows.n_features)
        ranks = [self.rank or (d if d <= _EXACT else 64) for d in known.sizes]
        return Sketched(known, rows.dtype, self.n_projections, ranks, self.buffer, self.C_weights, self.simplex, rng)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)  # without the d x d map


@documented
@with_defaults(loss="rescaled_hinge")
class RobustLSMDML(LSMDML):
    """`LSMDML` with the rescaled hinge: implausible triplets move metrics and weights little or not at all.

    Parameters
    ----------
    {steps}
    {modalities}
    n_projections : int, default=100
        Size of the sketch; see `LSMDML`.
    rank : int or None, default=None
        Eigenpairs that are kept; see `LSMDML`.
    buffer : int, default=64
        Newest steps that are kept as they came.
    C_weights : float, default=0.1
        Aggressiveness of the weights of the modalities, before robust weighting.
    simplex : bool, default=False
        See `LSMDML`.
    {stream}

    Attributes
    ----------
    {modal}
    {fitted}

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
