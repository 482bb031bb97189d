"""How a network is trained: the settings of its steps, passes and processes as one object."""

from __future__ import annotations

import os

import numpy as np
from sklearn.base import BaseEstimator

from nearkin.settings import BOOLEAN, Instance, Integer, OneOf, Real, declare, setting

__all__ = ["Training"]

_FINITE = Real(0.0, np.inf, open_high=True)


@declare
class Training(BaseEstimator):
    """How a network is trained.

    Parameters
    ----------
    {settings}

    Notes
    -----
    ``set_params(training__learning_rate=0.01)`` of a learner changes a single setting, also in a grid search.

    Examples
    --------
    >>> from nearkin.deep import DeepMetric
    >>> model = DeepMetric(training=Training(learning_rate=0.01, batch_size=128))
    >>> model.set_params(training__optimizer="sgd").training
    Training(batch_size=128, learning_rate=0.01, optimizer='sgd')
    """

    optimizer: str = setting(
        "adamw",
        OneOf(("adamw", "adam", "sgd")),
        kind='{"adamw", "adam", "sgd"}',
        doc='Optimiser of torch; "sgd" has no momentum.',
    )
    learning_rate: float = setting(
        0.001, Real(0.0, np.inf, open_low=True, open_high=True), kind="float", doc="Learning rate of the optimiser."
    )
    weight_decay: float = setting(0.0001, _FINITE, kind="float", doc="Weight decay of the optimiser.")
    batch_size: int = setting(64, Integer(2), kind="int", doc="Rows per step.")
    n_steps: int = setting(
        1, Integer(1), kind="int", doc="Steps per batch; each computes the weights of the triplets again."
    )
    proximity: float = setting(
        1.0,
        _FINITE,
        kind="float",
        doc="""Factor of half the squared distance from the parameters before the batch, the paper's proximity term. Its
        gradient is zero at the first step of a batch, so it has an effect from ``n_steps=2`` on.""",
    )
    warm_up: int = setting(
        64,
        Integer(0),
        kind="int",
        doc="""Number of first batches that use the plain loss, because the losses of an untrained network say nothing
        about labels. In `fit` at most a quarter of all batches.""",
    )
    memory: float = setting(
        0.8,
        Real(0.0, 1.0, open_high=True),
        kind="float in [0, 1)",
        doc="""Share of the earlier passes in the running plausibility of a row, in `fit`. That plausibility weighs all
        triplets of the row.""",
    )
    precision: str = setting(
        "float32",
        OneOf(("float32", "bfloat16", "float16")),
        kind='{"float32", "bfloat16", "float16"}',
        doc="Precision of the layers while learning; losses are always computed in float32.",
    )
    deterministic: bool = setting(
        False,
        BOOLEAN,
        kind="bool",
        doc="""Refuse operations whose results can differ between runs. On the processor every operation used here gives
        the same bits each time.""",
    )
    distributed: bool = setting(
        False,
        BOOLEAN,
        kind="bool",
        doc="""Divide every batch among the processes of torchrun; each of them needs all rows. The steps equal those of
        one process up to rounding.""",
    )
    checkpoint: str | os.PathLike[str] | None = setting(
        None,
        OneOf((None,)),
        Instance((str, os.PathLike), "a path"),
        kind="path or None",
        doc="""File that `fit` writes after every pass. If it exists, `fit` continues from it and ends with the same
        bits.""",
    )
