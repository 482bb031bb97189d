"""Online learners of distances and similarities, as scikit-learn estimators."""

from nearkin.learners.base import OnlineLearner
from nearkin.learners.euclidean import Euclidean
from nearkin.learners.full import OASIS, ODML, RobustOASIS, RobustODML
from nearkin.learners.logdet import ITML, SLMOML, RobustITML, RobustSLMOML
from nearkin.learners.loop import State, merge_states
from nearkin.learners.lowrank import LODML, LOSL, RobustLODML, RobustLOSL
from nearkin.learners.lpa import LPAODML, RobustLPAODML
from nearkin.learners.lsmdml import LSMDML, RobustLSMDML
from nearkin.learners.many import fit_many
from nearkin.learners.modal import join_modalities
from nearkin.learners.oks import OKS, OMKS, RobustOKS, RobustOMKS
from nearkin.learners.omdml import LOMDML, OMDML, RobustLOMDML, RobustOMDML
from nearkin.learners.opml import OPML, RobustOPML
from nearkin.learners.sharing import share_triplets

__all__ = [
    "ITML", "LODML", "LOMDML", "LOSL", "LPAODML", "LSMDML", "OASIS", "ODML", "OKS", "OMDML", "OMKS", "OPML", "SLMOML",
    "Euclidean", "OnlineLearner", "RobustITML", "RobustLODML", "RobustLOMDML", "RobustLOSL", "RobustLPAODML",
    "RobustLSMDML", "RobustOASIS", "RobustODML", "RobustOKS", "RobustOMDML", "RobustOMKS", "RobustOPML", "RobustSLMOML",
    "State", "fit_many", "join_modalities", "merge_states", "share_triplets",
]  # fmt: skip
