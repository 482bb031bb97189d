"""The columns of the tables: which learner, which triplets, which classifier, and what a search may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from nearkin.learners import LODML, LPAODML, ODML, OPML, Euclidean, RobustLODML, RobustODML
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets

__all__ = ["GRID", "METHODS", "PAPER", "Draw", "Method", "as_printed"]

Array = NDArray[Any]
Params = dict[str, Any]

#: ``build(params, rate, seed)`` returns a fresh estimator; ``rate`` is the share of wrong labels.
Build = Callable[[Params, float, int], Any]

#: ``classify(learner, rate, **votes)`` returns a classifier on top of a learner.
Classify = Callable[..., Any]

#: Share of the parameters that differ between a setting and a variant of it.
_CHANGED = 0.4


class Draw(Protocol):
    """Values that a parameter may take."""

    def __call__(self, n_features: int, rng: np.random.Generator) -> Any:
        """Draw any of them."""

    def near(self, value: Any, n_features: int, rng: np.random.Generator) -> Any:
        """Draw one close to ``value`` if values have an order."""


@dataclass(frozen=True)
class Method:
    """A column: how to build an estimator, and the space in which to search its parameters.

    ``raw`` says whether the method scales features itself. A search tries the settings ``first`` after the defaults.
    Untouched defaults are one of ``forms``, chosen by rows left out of training.
    """

    name: str
    build: Build
    space: Mapping[str, Draw] = field(default_factory=dict)
    raw: bool = False
    first: tuple[Params, ...] = ()
    forms: tuple[Params, ...] = ({},)

    def takes_raw(self, params: Params) -> bool:
        """Whether it takes features as they come, with these parameters."""
        return self.raw or params.get("rows") == "unit"

    def draw(self, n_features: int, rng: np.random.Generator) -> Params:
        """Draw a random setting."""
        return {name: one(n_features, rng) for name, one in self.space.items()}

    def vary(self, params: Params, n_features: int, rng: np.random.Generator) -> Params:
        """Draw a setting that shares most parameters with a given one."""
        changed = {
            name: one.near(params[name], n_features, rng) if name in params else one(n_features, rng)
            for name, one in self.space.items()
            if rng.random() < _CHANGED
        }
        return params | changed


@dataclass(frozen=True)
class _Log:
    """A positive number; all orders of magnitude are equally likely."""

    low: float
    high: float

    def __call__(self, n_features: int, rng: np.random.Generator) -> float:
        return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))

    def near(self, value: float, n_features: int, rng: np.random.Generator) -> float:
        return float(np.clip(value * np.exp(rng.normal(scale=0.7)), self.low, self.high))


@dataclass(frozen=True)
class _OneOf:
    """One of some values; a value listed twice is twice as likely."""

    values: tuple[Any, ...]

    def __call__(self, n_features: int, rng: np.random.Generator) -> Any:
        return self.values[rng.integers(len(self.values))]

    def near(self, value: Any, n_features: int, rng: np.random.Generator) -> Any:
        return self(n_features, rng)


@dataclass(frozen=True)
class _Rank(_OneOf):
    """A rank, as a share of the number of features."""

    def __call__(self, n_features: int, rng: np.random.Generator) -> int:
        return max(1, round(super().__call__(n_features, rng) * n_features))


#: How rows come: prepared as the protocol says, then also brought to length 1, or brought to length 1 as they come.
_ROWS = ("prepared", "prepared unit", "unit")

#: Ranges of section 4.2, and what the paper leaves open. lambda of OPML in (1e-6, 0.05) is C = lambda / 2 here. Rows of
#: length 1 are searched because only they give the paper's Table 1.
_OPEN: dict[str, Draw] = {"n_epochs": _OneOf((1, 2, 3, 5, 10)), "rows": _OneOf(_ROWS)}
_STEPS: dict[str, Draw] = {"C": _Log(1e-6, 30.0), **_OPEN}
_ETA: dict[str, Draw] = {"eta": _Log(0.01, 5.0)}
_OCTG: dict[str, Draw] = {
    "n_centers": _OneOf((1, 1, 2, 3, 5, 10, 20, "auto")),
    "max_impostors": _OneOf((None, None, 1, 3, 10)),
}
_LOW_RANK: dict[str, Draw] = {"n_components": _Rank((1.0, 0.75, 0.5, 0.25, 0.125)), "init": _OneOf(("pca", "identity"))}


#: What the paper's learners begin with and learn from; those of low rank begin with principal directions.
_PRINTED: Params = {"C": 0.1, "init": "identity", "triplets": "octg"}


def as_printed(learner: Callable[..., Any], **settings: Any) -> Any:
    """Make a learner in the paper's form, whatever its defaults are today.

    Examples
    --------
    >>> as_printed(RobustODML, eta=3.0)
    RobustODML(C=0.1, eta=3.0, init='identity', triplets='octg')
    """
    own = learner().get_params(deep=False)
    printed = {name: value for name, value in _PRINTED.items() if own.get(name) in ("auto", "discriminant")}
    if "n_components" in own and "init" in printed:
        printed["init"] = "auto"
    return learner(**printed | settings)


def _combine(learner: Callable[..., Any], source: Callable[..., Any] | None, classify: Classify, **usual: Any) -> Build:
    """Builder of a classifier on a learner that a source of triplets feeds; None is the learner's own source."""

    def build(params: Params, rate: float, seed: int) -> Any:
        given = usual | params
        rows = given.pop("rows", _ROWS[0])
        votes = {name: given.pop(name) for name in _VOTES if name in given}
        if source is not None:
            given["triplets"] = source(**{name: given.pop(name) for name in _OCTG if name in given})
        classifier = classify(as_printed(learner, **given, scale=None, random_state=seed), rate, **votes)
        return classifier if rows == _ROWS[0] else make_pipeline(Normalizer(), classifier)

    return build


def _vote_plainly(learner: Any, rate: float) -> Any:
    """Three neighbours of equal weight."""
    return RobustKNeighborsClassifier(learner, n_neighbors=3, noise_rate=0.0, weights="uniform")


def _vote_robustly(learner: Any, rate: float, **votes: Any) -> Any:
    """Algorithm 5, told the noise rate as in the paper."""
    return RobustKNeighborsClassifier.algorithm5(learner, noise_rate=rate, **votes)


class _Rescored(BaseEstimator):
    """Algorithm 5 with the plausibility of the rescaled hinge, whichever loss the learner was fitted with.

    Under the plain hinge every row is equally plausible, and Robust-kNN would be plain kNN.
    """

    def __init__(self, learner: Any, rate: float):
        self.learner, self.rate = learner, rate

    def fit(self, X: Array, y: Array) -> Self:
        fitted = self.learner.fit(X, y).set_params(loss="rescaled_hinge")
        self.classifier_ = _vote_robustly(fitted, self.rate).fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        return self.classifier_.predict(X)


def _untouched(params: Params, rate: float, seed: int) -> Any:
    return RobustKNeighborsClassifier(n_neighbors="auto", random_state=seed)


#: Three passes and three impostors, which the paper leaves open.
_USUAL: Params = {"n_epochs": 3, "n_centers": "auto", "max_impostors": 3}

#: How rows come by default: as the protocol prepares them, or of length 1 as they come.
_FORMS: tuple[Params, ...] = ({}, {"rows": "unit"})
_VOTES: dict[str, Draw] = {"weights": _OneOf(("plausibility", "uniform"))}
_ROBUST: dict[str, Draw] = {**_STEPS, **_ETA, **_OCTG, **_VOTES}

#: Settings that a search tries early: many centres where classes fall into parts, and unit rows as they come.
_MANY_CENTERS: Params = {"C": 0.3, "eta": 1.0, "n_centers": 20, "max_impostors": 3, "weights": "uniform"}
_UNIT_ROWS: Params = {
    "C": 0.1, "eta": 1.0, "n_centers": 5, "max_impostors": None, "rows": "unit", "weights": "uniform",
}  # fmt: skip
_FIRST = (_MANY_CENTERS, _UNIT_ROWS)

_COLUMNS = (
    Method(
        "Robust-LODML",
        _combine(RobustLODML, OCTG, _vote_robustly, **_USUAL),
        {**_ROBUST, **_LOW_RANK},
        first=_FIRST,
        forms=_FORMS,
    ),
    Method("Robust-ODML", _combine(RobustODML, OCTG, _vote_robustly, **_USUAL), _ROBUST, first=_FIRST, forms=_FORMS),
    Method("LPA-ODML", _combine(LPAODML, OnePassTriplets, _vote_plainly), {**_STEPS, "mu": _Log(0.01, 100.0)}),
    Method("ODML", _combine(ODML, OnePassTriplets, _vote_plainly), _STEPS),
    Method("OPML", _combine(OPML, None, _vote_plainly), {"C": _Log(0.5e-6, 0.025), **_OPEN}),
    Method("Euclidean", _combine(Euclidean, None, _vote_plainly)),
    Method("nearkin", _untouched, raw=True),
)
#: Columns of Tables 3 and 4. The proposed methods are in the paper's form; the last column is ours: untouched, and not
#: told how many labels are wrong.
PAPER = tuple(method.name for method in _COLUMNS)

#: Sources of triplets in the grid. Impostors of a batch are capped, since there are n^2 of them.
_SOURCES: dict[str, tuple[Callable[..., Any], Params, dict[str, Draw]]] = {
    "OCTG": (OCTG, {"n_centers": 1}, _OCTG),
    "one-pass": (OnePassTriplets, {}, {}),
    "batch": (BatchTriplets, {"max_impostors": 3}, {}),
}
_LOSSES = {"hinge": "hinge", "rescaled": "rescaled_hinge"}
_CLASSIFIERS: dict[str, Classify] = {"3-NN": _vote_plainly, "Robust-kNN": _Rescored}


def _make_grid_column(source: str, loss: str, classifier: str) -> Method:
    make, usual, space = _SOURCES[source]
    eta = _ETA if loss == "rescaled" or classifier == "Robust-kNN" else {}
    build = _combine(LODML, make, _CLASSIFIERS[classifier], loss=_LOSSES[loss], n_epochs=3, **usual)
    return Method(f"{source}, {loss}, {classifier}", build, {**_STEPS, **_LOW_RANK, **eta, **space})


_GRID_COLUMNS = tuple(_make_grid_column(*names) for names in product(_SOURCES, _LOSSES, _CLASSIFIERS))
#: LODML in every combination of triplets, loss and classifier.
GRID = tuple(method.name for method in _GRID_COLUMNS)

METHODS: dict[str, Method] = {method.name: method for method in (*_COLUMNS, *_GRID_COLUMNS)}
