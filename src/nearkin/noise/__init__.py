"""Wrong labels: how plausible a label is and how many are wrong."""

from nearkin.noise._flip import flip_labels, flip_near_boundary, flip_to_next
from nearkin.noise._posterior import own_share, posterior
from nearkin.noise._rate import estimate_noise_rate

__all__ = ["estimate_noise_rate", "flip_labels", "flip_near_boundary", "flip_to_next", "own_share", "posterior"]
