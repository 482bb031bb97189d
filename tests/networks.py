"""Learners with their training settings among the others, as tests vary both."""

import inspect

from nearkin.deep import Training

TRAINING = inspect.signature(Training).parameters


def make(cls, **settings):
    """Learner with these settings, those of `Training` packed into one object."""
    training = {name: settings.pop(name) for name in TRAINING if name in settings}
    return cls(**settings, **({"training": Training(**training)} if training else {}))
