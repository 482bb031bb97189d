"""Wrong labels: a model of how they arise, their rate, the plausibility of each label, and noise put in on purpose."""

from nearkin.noise.inject import flip_labels, flip_near_boundary, flip_to_next
from nearkin.noise.model import NoiseModel, estimate_noise_model
from nearkin.noise.posterior import judge_labels, score_labels, suggest_labels
from nearkin.noise.rate import estimate_noise_rate, rate_interval

__all__ = [
    "NoiseModel", "estimate_noise_model", "estimate_noise_rate", "flip_labels", "flip_near_boundary", "flip_to_next",
    "judge_labels", "rate_interval", "score_labels", "suggest_labels",
]  # fmt: skip
