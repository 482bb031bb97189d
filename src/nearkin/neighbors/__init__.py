"""Classification by neighbours: search, vote, and the classifier made of them."""

from nearkin.neighbors._leave_one_out import leave_one_out_votes
from nearkin.neighbors.classifier import RobustKNeighborsClassifier
from nearkin.neighbors.robust_knn import vote
from nearkin.neighbors.search import BlockSearch, NeighbourSearch

__all__ = ["BlockSearch", "NeighbourSearch", "RobustKNeighborsClassifier", "leave_one_out_votes", "vote"]
