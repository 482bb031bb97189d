"""The learners that tests of common behaviour run over, found in `nearkin.learners`."""

import inspect

from sklearn.base import BaseEstimator

from nearkin import learners

ALL = tuple(
    cls
    for name in learners.__all__
    if inspect.isclass(cls := getattr(learners, name)) and issubclass(cls, BaseEstimator) and name != "OnlineLearner"
)

#: Learners with a matrix and a map of rows; the others learn a similarity from Mercer kernels.
LEARNERS = tuple(cls for cls in ALL if hasattr(cls(), "transform"))
SIMILARITIES = tuple(cls for cls in ALL if cls not in LEARNERS)

#: Without robust forms that differ from a plain one in a default only: what is said about the one holds for the other.
DIFFERENT = tuple(
    cls
    for cls in LEARNERS
    if not cls.__name__.startswith("Robust") or cls.__name__[6:] in ("ODML", "LODML", "OASIS", "LOSL")
)

#: One of each kind of parameter, for the fast lane: full matrix, factor, per class, modalities, LogDet, nothing.
FEW = tuple(
    cls for cls in ALL if cls.__name__ in ("RobustODML", "RobustLODML", "LPAODML", "LOMDML", "SLMOML", "Euclidean")
)
