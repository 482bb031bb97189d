"""Classification by neighbours: search, vote, and the classifier made of them."""

from nearkin.neighbors._classifier import RobustKNeighborsClassifier
from nearkin.neighbors._features import Landmarks, Leading
from nearkin.neighbors._jury import CrossVotes, Jury, NeighbourVotes, rank_votes
from nearkin.neighbors._leave_one_out import leave_one_out_votes
from nearkin.neighbors._local import LocalNeighbours
from nearkin.neighbors._ridge import RidgeVotes
from nearkin.neighbors._search import BlockSearch, NeighbourSearch
from nearkin.neighbors._vote import vote

__all__ = [
    "BlockSearch",
    "CrossVotes",
    "Jury",
    "Landmarks",
    "Leading",
    "LocalNeighbours",
    "NeighbourSearch",
    "NeighbourVotes",
    "RidgeVotes",
    "RobustKNeighborsClassifier",
    "leave_one_out_votes",
    "rank_votes",
    "vote",
]
