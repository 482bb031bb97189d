"""The default decision: voters, their shares, and what they say about labels together."""

from nearkin.jury.cells import Cells
from nearkin.jury.copies import Copies, Groups, find_copies
from nearkin.jury.decision import JuryDecision, assemble_jury
from nearkin.jury.forest import ForestVoter, Trees
from nearkin.jury.judged import JudgedRows
from nearkin.jury.jury import Jury, Votes, mix_votes, stack_votes
from nearkin.jury.learned_spaces import CrossFittedVoter, LearnedSpace
from nearkin.jury.local_scaling import LocalNeighbours
from nearkin.jury.neighbour_voter import NeighbourVoter
from nearkin.jury.outside import OutsideVoter
from nearkin.jury.ridge import Landmarks, LeadingDirections, RidgeVoter
from nearkin.jury.suspects import SuspectRules
from nearkin.jury.voters import Voter

__all__ = [
    "Cells", "Copies", "CrossFittedVoter", "ForestVoter", "Groups", "JudgedRows", "Jury", "JuryDecision", "Landmarks",
    "LeadingDirections", "LearnedSpace", "LocalNeighbours", "NeighbourVoter", "OutsideVoter", "RidgeVoter",
    "SuspectRules", "Trees", "Voter", "Votes", "assemble_jury", "find_copies", "mix_votes", "stack_votes",
]  # fmt: skip
