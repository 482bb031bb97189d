"""Wrong labels: how plausible a label is, how many are wrong, and which classes they concern."""

from nearkin.noise.inject import flip_labels, flip_near_boundary, flip_to_next
from nearkin.noise.model import Flips, estimate_flips
from nearkin.noise.posterior import judged
from nearkin.noise.rate import estimate_noise_rate

__all__ = [
    "Flips",
    "estimate_flips",
    "estimate_noise_rate",
    "flip_labels",
    "flip_near_boundary",
    "flip_to_next",
    "judged",
]
