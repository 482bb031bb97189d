"""Settings that learners share, so that the same word means the same thing in every class."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nearkin.accelerator import find
from nearkin.errors import InputError
from nearkin.losses import Loss, as_loss, exponential_weight
from nearkin.parameters import LearningRule
from nearkin.rows import MovingScale
from nearkin.settings import BOOLEAN, DEVICE, SEED, Instance, Integer, OneOf, Real, declare, setting
from nearkin.triplets import TripletSource

if TYPE_CHECKING:
    from nearkin.learners.loop import State

__all__ = [
    "DeviceSettings", "HedgeSettings", "InnerSettings", "StartSettings", "StepSettings", "StreamSettings",
    "aggressiveness",
]  # fmt: skip

#: Device code writes out every half-quadratic iteration.
_MOST_HQ = 16


def aggressiveness(default: float | str = 0.1, *, kw_only: bool = False) -> Any:
    """Declare the setting C."""
    doc = """Aggressiveness: upper bound on a step before robust weighting; 0 never moves, infinity always removes the
        loss."""
    if default != "auto":
        return setting(default, Real(0.0, np.inf), doc=doc, kw_only=kw_only)
    doc += """ "auto" is 0.1; after a discriminant start, which leaves less to learn, 0.003 of a distance and 0.0002
        of a similarity."""
    return setting(default, Real(0.0, np.inf), OneOf(("auto",)), doc=doc, kw_only=kw_only)


@declare
class StepSettings:
    """How far a triplet moves what is learned."""

    C: float | str = aggressiveness()
    loss: str | Loss = setting(
        "hinge", OneOf(("hinge", "rescaled_hinge")), Instance(Loss, "a Loss object"),
        kind='{"hinge", "rescaled_hinge"} or Loss',
        doc=""""hinge" trusts every triplet alike (Eq. 8); "rescaled_hinge" bounds what one triplet can do (Eq. 10).""",
    )  # fmt: skip
    eta: float = setting(
        1.0, Real(0.0, np.inf, open_high=True),
        doc="""How fast a triplet's weight falls with its hinge, for "rescaled_hinge"; 0 is the plain hinge.""",
    )  # fmt: skip
    max_hq_iter: int = setting(
        3, Integer(1, 1000),
        doc="""Half-quadratic iterations per triplet, each weighing it anew at the parameters reached (step 3.3 of
        Algorithm 1).""",
    )  # fmt: skip


@declare
class InnerSettings:
    """What Algorithms 1 and 2 leave open."""

    hq: str = setting(
        "anchored", OneOf(("anchored", "cumulative")),
        doc="""Where each half-quadratic iteration begins: "anchored" at the matrix before the triplet, to which Eqs. 18
        and 24 measure the distance; "cumulative" at the matrix that the one before has left, so that their steps add
        up.""",
    )  # fmt: skip

    def rule_for(self, state: State) -> LearningRule:
        """How far one triplet may move the parameter, by the settings."""
        rule: LearningRule = super().rule_for(state)  # type: ignore[misc]
        return replace(rule, carried=float(self.hq == "cumulative"))


@declare
class StreamSettings:
    """Which triplets are learned, and in which order."""

    triplets: str | TripletSource = setting(
        "auto", OneOf(("auto", "neighbours", "octg", "one_pass", "batch", "random")),
        Instance(TripletSource, "a TripletSource"),
        kind='{"auto", "neighbours", "octg", "one_pass", "batch", "random"} or TripletSource',
        doc="""Where triplets come from when rows and labels are given. "auto" is "neighbours" with a discriminant
        start, else "octg", the paper's.""",
    )  # fmt: skip
    n_epochs: int = setting(1, Integer(1, 1_000_000), doc="Passes of `fit` over the rows.")
    shuffle: bool = setting(
        True, BOOLEAN,
        doc="Whether each pass of `fit` takes the rows in a new random order; `partial_fit` keeps the order given.",
    )  # fmt: skip
    scale: str | MovingScale | None = setting(
        "auto", OneOf(("auto", "pairs", "unit", None)), Instance(MovingScale, "a MovingScale"),
        kind='{"auto", "pairs", "unit"}, MovingScale or None',
        doc="""How raw features come to the scale on which the margin 1 is meaningful; learned at the first batch, for
        columns that are constant there when they first vary. "pairs": unit variance per feature, then one number so
        that two rows have mean squared distance 1 ("auto" for distances). "unit": zero mean and unit variance per
        feature, then rows of length 1 ("auto" for similarities), which after a discriminant start are the mapped ones.
        None: as they come. A `MovingScale` follows a stream, and centres and voters with it.""",
    )  # fmt: skip
    rescore: bool = setting(
        True, BOOLEAN,
        doc="""Whether `fit` scores all rows once more in the end for `plausibility_`: with the final metric, and after
        triplets of neighbours by the votes of more of them. Otherwise these are the weights of the last pass.""",
    )  # fmt: skip
    random_state: Any = setting(None, SEED, doc="Seed of the order, of k-means and of drawn triplets.")


@declare
class DeviceSettings:
    """Where learning takes place."""

    #: Settings of the learner, with the only values that a device knows.
    on_device: ClassVar[dict[str, tuple[Any, ...]]] = {}

    device: str = setting(
        "cpu", DEVICE,
        doc=""""cuda" or "cuda:N" learns on an NVIDIA GPU, which needs torch and Triton; the results are those of "cpu"
        up to rounding. Without a GPU that is an error: nothing moves to the processor by itself.""",
    )  # fmt: skip

    def _check_device(self) -> None:
        own: Any = self
        where = f"device={own.device!r}"
        if as_loss(own.loss, own.eta).weight_of_hinge is not exponential_weight:
            raise InputError(
                f"{where} knows the losses 'hinge' and 'rescaled_hinge'; for {own.loss!r} use device='cpu'.", owner=self
            )
        if own.max_hq_iter > _MOST_HQ:
            raise InputError(
                f"{where} takes max_hq_iter up to {_MOST_HQ}; got {own.max_hq_iter}. Or use device='cpu'.", owner=self
            )
        for name, known in self.on_device.items():
            value = getattr(self, name)
            if value not in known:
                words = " or ".join(f"{name}={one!r}" for one in known)
                raise InputError(f"{where} needs {words}; got {name}={value!r}. Or use device='cpu'.", owner=self)
        find(own.device, type(self).__name__)


@declare
class StartSettings:
    """Where learning begins."""

    C: float | str = aggressiveness("auto")
    init: str = setting(
        "discriminant", OneOf(("discriminant", "identity")),
        doc=""""discriminant" begins with a map that brings the neighbours of a row's class near, renewed as rows come;
        explicit triplets, which have no labels, begin with the identity. "identity" is the paper's form.""",
    )  # fmt: skip


@declare
class HedgeSettings:
    """How modalities lose weight."""

    beta: float = setting(
        0.9, Real(0.0, 1.0, open_low=True, open_high=True),
        doc="What is left of a modality's weight when it orders a triplet wrongly, in (0, 1); see `Hedge`.",
    )  # fmt: skip
    margin: float = setting(
        1.0, Real(0.0, np.inf, open_high=True),
        doc="A triplet is learned while the weighted sum of its margins is below this.",
    )  # fmt: skip
