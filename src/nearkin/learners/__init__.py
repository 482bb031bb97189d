"""Online learners of distances and similarities, as scikit-learn estimators."""

from nearkin.learners._learner import OnlineLearner
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.lodml import LODML, RobustLODML
from nearkin.learners.losl import LOSL, RobustLOSL
from nearkin.learners.oasis import OASIS, RobustOASIS
from nearkin.learners.odml import ODML, RobustODML

__all__ = [
    "LODML",
    "LOSL",
    "OASIS",
    "ODML",
    "Euclidean",
    "OnlineLearner",
    "RobustLODML",
    "RobustLOSL",
    "RobustOASIS",
    "RobustODML",
]
