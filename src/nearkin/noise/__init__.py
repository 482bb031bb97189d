"""Wrong labels: how plausible a label is, how many are wrong, and which classes they concern."""

from nearkin.noise._flip import flip_labels, flip_near_boundary, flip_to_next
from nearkin.noise._flips import Flips, estimate_flips
from nearkin.noise._posterior import judged
from nearkin.noise._rate import estimate_noise_rate

__all__ = [
    "Flips",
    "estimate_flips",
    "estimate_noise_rate",
    "flip_labels",
    "flip_near_boundary",
    "flip_to_next",
    "judged",
]
