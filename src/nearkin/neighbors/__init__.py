"""Classification by neighbours: the public classifier, Algorithm 5, and search under a learned measure."""

from nearkin.neighbors.classifier import RobustKNeighborsClassifier
from nearkin.neighbors.gathering import Gathered
from nearkin.neighbors.robust_knn import RobustKNN, vote
from nearkin.neighbors.search import BlockSearch, NeighbourSearch

__all__ = ["BlockSearch", "Gathered", "NeighbourSearch", "RobustKNN", "RobustKNeighborsClassifier", "vote"]
