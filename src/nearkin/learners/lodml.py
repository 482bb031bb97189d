"""LODML and Robust-LODML: a low-rank Mahalanobis distance (Algorithm 4)."""

from nearkin.learners._docs import documented
from nearkin.learners._lowrank import LowRankLearner
from nearkin.learners._preset import with_defaults
from nearkin.measures import DISTANCE

__all__ = ["LODML", "RobustLODML"]


@documented
class LODML(LowRankLearner):
    """Online low-rank distance ``d2(x, y) = ||L'x - L'y||^2``, L of shape d x r.

    Positive semi-definite by construction. One update costs O(dr), memory is L however long the stream.

    Parameters
    ----------
    {lowrank}
    {steps}
    {stream}
    {device}

    Attributes
    ----------
    {fitted}

    See Also
    --------
    RobustLODML : The same with the rescaled hinge.
    ODML : The same with a full matrix.

    Notes
    -----
    ``solver="exact"`` takes the global minimiser of the proximal problem behind Eq. (33) in closed form, up to one
    scalar root; the paper leaves step size and number of its sub-gradient steps open. If L is orthogonal to the
    direction that a triplet asks for, no step along this curve can remove its loss: the step then stops just below
    the bound where L would become infinite.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> LODML(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    _measure = DISTANCE


@documented
@with_defaults(loss="rescaled_hinge")
class RobustLODML(LODML):
    """`LODML` with the rescaled hinge (Algorithm 4): implausible triplets move the map little or not at all.

    The paper's best method, and the default of `RobustKNeighborsClassifier`.

    Parameters
    ----------
    {lowrank}
    {steps}
    {stream}
    {device}

    Attributes
    ----------
    {fitted}

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
