"""What learners learn: one family of parameters with one contract."""

from nearkin.parameters.contract import LearningRule, MappedParameter, Parameter, check_metric_fits, weighted_mean
from nearkin.parameters.full import FullMatrix
from nearkin.parameters.identity import Identity
from nearkin.parameters.local import NAMELESS, LocalMetrics
from nearkin.parameters.logdet import LogDet, PairBounds
from nearkin.parameters.lowrank import LowRank
from nearkin.parameters.modalities import EqualShares, Hedged, ModalFull, Modalities, ModalLowRank
from nearkin.parameters.sketch import Recovered, Sketched
from nearkin.parameters.supports import Supports

__all__ = [
    "NAMELESS", "EqualShares", "FullMatrix", "Hedged", "Identity", "LearningRule", "LocalMetrics", "LogDet", "LowRank",
    "MappedParameter", "ModalFull", "ModalLowRank", "Modalities", "PairBounds", "Parameter", "Recovered", "Sketched",
    "Supports", "check_metric_fits", "weighted_mean",
]  # fmt: skip
