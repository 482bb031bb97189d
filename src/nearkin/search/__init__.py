"""Search with a learned similarity: adapt queries to an existing index, or build an index."""

from nearkin.search.adaptation import Adaptation, Outlook
from nearkin.search.adapter import SimilarityAdapter
from nearkin.search.adapting import adapt
from nearkin.search.betting import anytime_interval, queries_needed
from nearkin.search.decisions import Decisions, read_decisions
from nearkin.search.feedback import Feedback, FeedbackTriplets
from nearkin.search.handover import SideMap, faiss_transform, require_onnx, side_map, write_numpy, write_onnx
from nearkin.search.held_out import HeldOut, hash_rows
from nearkin.search.index import Index
from nearkin.search.inputs import ID_COLUMNS, parse_times, read_vectors
from nearkin.search.logs import FORMS, GRADES, read_feedback
from nearkin.search.page import write_click_page
from nearkin.search.ranking import METRICS, Interval, bootstrap, evaluate, ranking_scores, ranks_of
from nearkin.search.versions import MapVersion

__all__ = [
    "FORMS", "GRADES", "ID_COLUMNS", "METRICS", "Adaptation", "Decisions", "Feedback", "FeedbackTriplets", "HeldOut",
    "Index", "Interval", "MapVersion", "Outlook", "SideMap", "SimilarityAdapter", "adapt", "anytime_interval",
    "bootstrap", "evaluate", "faiss_transform", "hash_rows", "parse_times", "queries_needed", "ranking_scores",
    "ranks_of", "read_decisions", "read_feedback", "read_vectors", "require_onnx", "side_map", "write_click_page",
    "write_numpy", "write_onnx",
]  # fmt: skip
