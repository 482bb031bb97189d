"""The default decision: voters, their shares, and what they say about labels together."""

from nearkin.jury.decision import WIDE, JuryDecision, assemble_jury
from nearkin.jury.jury import CastVotes, Jury, Votes, mix_votes, stack_votes
from nearkin.jury.learned_spaces import default_learner, learn_space, whiten_classes
from nearkin.jury.local_scaling import LocalNeighbours
from nearkin.jury.ridge import FeatureMap, Landmarks, LeadingDirections, RidgeVoter
from nearkin.jury.suspects import SuspectRules, lowest_share
from nearkin.jury.voters import (
    CrossFittedVoter,
    Embedding,
    NeighbourhoodVoter,
    NeighbourVoter,
    Voter,
    map_rows,
    rank_votes,
)

__all__ = [
    "WIDE", "CastVotes", "CrossFittedVoter", "Embedding", "FeatureMap", "Jury", "JuryDecision", "Landmarks",
    "LeadingDirections", "LocalNeighbours", "NeighbourVoter", "NeighbourhoodVoter", "RidgeVoter", "SuspectRules",
    "Voter", "Votes", "assemble_jury", "default_learner", "learn_space", "lowest_share", "map_rows", "mix_votes",
    "rank_votes", "stack_votes", "whiten_classes",
]  # fmt: skip
