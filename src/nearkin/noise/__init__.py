"""Wrong labels: a model of how they arise, their rate, the plausibility of each label, and noise put in on purpose."""

from nearkin.noise.annotators import AnswerCodes, PooledAnswers, pool_answers
from nearkin.noise.estimate import estimate_noise_model, estimate_noise_rate, proven_rate, rate_interval
from nearkin.noise.inject import flip_labels, flip_near_boundary, flip_to_next
from nearkin.noise.model import NoiseModel, judge_labels, rate_labels, score_labels, suggest_labels

__all__ = [
    "AnswerCodes", "NoiseModel", "PooledAnswers", "estimate_noise_model", "estimate_noise_rate", "flip_labels",
    "flip_near_boundary", "flip_to_next", "judge_labels", "pool_answers", "proven_rate", "rate_interval", "rate_labels",
    "score_labels", "suggest_labels",
]  # fmt: skip
