"""Search with a learned similarity: adapt queries to an index that stays as it is, or build one."""

from nearkin.search._adapt import Adaptation, adapt, evaluate
from nearkin.search._adapter import SimilarityAdapter
from nearkin.search._feedback import Feedback, FeedbackTriplets
from nearkin.search._handover import SideMap, faiss_transform, side_map, write_numpy, write_onnx
from nearkin.search._index import Index
from nearkin.search._ranking import METRICS, Interval, bootstrap, ranking_scores, ranks_of

__all__ = [
    "METRICS",
    "Adaptation",
    "Feedback",
    "FeedbackTriplets",
    "Index",
    "Interval",
    "SideMap",
    "SimilarityAdapter",
    "adapt",
    "bootstrap",
    "evaluate",
    "faiss_transform",
    "ranking_scores",
    "ranks_of",
    "side_map",
    "write_numpy",
    "write_onnx",
]
