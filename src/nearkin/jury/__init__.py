"""The default decision: voters that judge labels together."""

from nearkin.jury.features import Landmarks, Leading
from nearkin.jury.local_scaling import LocalNeighbours
from nearkin.jury.ridge import RidgeVotes
from nearkin.jury.voters import CrossVotes, Jury, NeighbourVotes, rank_votes

__all__ = [
    "CrossVotes",
    "Jury",
    "Landmarks",
    "Leading",
    "LocalNeighbours",
    "NeighbourVotes",
    "RidgeVotes",
    "rank_votes",
]
