"""Search with a learned similarity: adapt queries to an index that stays as it is, or build one."""

from nearkin.search._adapt import Adaptation, adapt, evaluate
from nearkin.search._adapter import SimilarityAdapter
from nearkin.search._feedback import Feedback, FeedbackTriplets
from nearkin.search._ranking import METRICS, Interval

__all__ = [
    "METRICS",
    "Adaptation",
    "Feedback",
    "FeedbackTriplets",
    "Interval",
    "SimilarityAdapter",
    "adapt",
    "evaluate",
]
