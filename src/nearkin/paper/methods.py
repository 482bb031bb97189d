"""The columns of the tables: which learner, which triplets, which classifier, and what may be searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

__all__ = ["GRID", "METHODS", "PAPER", "RIVALS", "Method"]

Array = NDArray[Any]
Params = dict[str, Any]


class Draw(Protocol):
    """Values that a parameter may take."""

    def __call__(self, n_features: int, rng: np.random.Generator) -> Any:
        """Any of them."""

    def near(self, value: Any, n_features: int, rng: np.random.Generator) -> Any:
        """Another that is not far from ``value``, where values have an order."""


#: Share of the parameters that differ between a setting and one made from it.
_CHANGED = 0.4

#: ``build(params, rate, seed)`` gives an estimator; ``rate`` is the share of wrong labels.
Build = Callable[[Params, float, int], Any]


@dataclass(frozen=True)
class Method:
    """A column: how an estimator is made, and the space in which its parameters are searched.

    Parameters
    ----------
    name : str
        Heading of the column.
    build : callable
        ``build(params, rate, seed)`` gives a fresh estimator.
    space : mapping of str to Draw
        Values to search; empty where there is nothing to search.
    raw : bool
        Whether the method scales features itself.
    """

    name: str
    build: Build
    space: Mapping[str, Draw] = field(default_factory=dict)
    raw: bool = False

    def draw(self, n_features: int, rng: np.random.Generator) -> Params:
        """One random setting."""
        return {name: one(n_features, rng) for name, one in self.space.items()}

    def vary(self, params: Params, n_features: int, rng: np.random.Generator) -> Params:
        """A setting that shares most parameters with a given one."""
        changed = {
            name: one.near(params[name], n_features, rng) if name in params else one(n_features, rng)
            for name, one in self.space.items()
            if rng.random() < _CHANGED
        }
        return params | changed


@dataclass(frozen=True)
class _Log:
    """A positive number, all orders of magnitude alike."""

    low: float
    high: float

    def __call__(self, n_features: int, rng: np.random.Generator) -> float:
        return float(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))

    def near(self, value: float, n_features: int, rng: np.random.Generator) -> float:
        return float(np.clip(value * np.exp(rng.normal(scale=0.7)), self.low, self.high))


@dataclass(frozen=True)
class _OneOf:
    """One of some values, listed more than once where it is to be drawn more often."""

    values: tuple[Any, ...]

    def __call__(self, n_features: int, rng: np.random.Generator) -> Any:
        return self.values[rng.integers(len(self.values))]

    def near(self, value: Any, n_features: int, rng: np.random.Generator) -> Any:
        return self(n_features, rng)


@dataclass(frozen=True)
class _Rank(_OneOf):
    """A share of the features, as a rank."""

    def __call__(self, n_features: int, rng: np.random.Generator) -> int:
        return max(1, round(super().__call__(n_features, rng) * n_features))


#: Ranges of section 4.2, and what the paper leaves open. lambda of OPML in (1e-6, 0.05) is C = lambda / 2 here. Rows of
#: length 1 are searched because only they give the paper's Table 1.
_OPEN: dict[str, Draw] = {"n_epochs": _OneOf((1, 2, 3, 5, 10)), "unit_rows": _OneOf((False, True))}
_STEPS: dict[str, Draw] = {"C": _Log(1e-6, 30.0), **_OPEN}
_ROBUST: dict[str, Draw] = {
    **_STEPS,
    "eta": _Log(0.01, 5.0),
    "n_centers": _OneOf((1, 1, 2, 3, 5, 10, "auto")),
    "max_impostors": _OneOf((None, None, 1, 3, 10)),
}
_LOW_RANK: dict[str, Draw] = {"n_components": _Rank((1.0, 0.75, 0.5, 0.25, 0.125)), "init": _OneOf(("pca", "identity"))}


def _on_rows(classifier: Any, unit_rows: bool) -> Any:
    """The classifier, behind rows of length 1 where they are asked for."""
    if not unit_rows:
        return classifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    return make_pipeline(Normalizer(), classifier)


def _robust(learner: str, **usual: Any) -> Build:
    """Algorithm 5 on a learner that is fed by OCTG, told the noise rate as in the paper."""

    def build(params: Params, rate: float, seed: int) -> Any:
        from nearkin import learners
        from nearkin.neighbors import RobustKNeighborsClassifier
        from nearkin.triplets import OCTG

        given = usual | params
        unit_rows = given.pop("unit_rows", False)
        triplets = OCTG(given.pop("n_centers", "auto"), max_impostors=given.pop("max_impostors", None))
        fresh = getattr(learners, learner)(**given, triplets=triplets, scale=None, random_state=seed)
        return _on_rows(RobustKNeighborsClassifier.algorithm5(fresh, noise_rate=rate), unit_rows)

    return build


def _plain(learner: str, **usual: Any) -> Build:
    """Three neighbours of equal weight under a learner that is fed by the one-pass triplets of OPML."""

    def build(params: Params, rate: float, seed: int) -> Any:
        from nearkin import learners
        from nearkin.neighbors import RobustKNeighborsClassifier

        given = usual | params
        unit_rows = given.pop("unit_rows", False)
        fresh = getattr(learners, learner)(**given, scale=None, random_state=seed)
        plain = RobustKNeighborsClassifier(fresh, n_neighbors=3, noise_rate=0.0, weights="uniform")
        return _on_rows(plain, unit_rows)

    return build


def _untouched(params: Params, rate: float, seed: int) -> Any:
    from nearkin.neighbors import RobustKNeighborsClassifier

    return RobustKNeighborsClassifier(n_neighbors="auto", random_state=seed)


#: Columns of Tables 3 and 4. The proposed methods are in the paper's form, the last one is ours: untouched and not told
#: how many labels are wrong.
PAPER = ("Robust-LODML", "Robust-ODML", "LPA-ODML", "ODML", "OPML", "Euclidean", "nearkin")

_COLUMNS = (
    # Three passes, as in the classifier's own default.
    Method("Robust-LODML", _robust("RobustLODML", n_epochs=3), {**_ROBUST, **_LOW_RANK}),
    Method("Robust-ODML", _robust("RobustODML", n_epochs=3), _ROBUST),
    Method("LPA-ODML", _plain("LPAODML", triplets="one_pass"), {**_STEPS, "mu": _Log(0.01, 100.0)}),
    Method("ODML", _plain("ODML", triplets="one_pass"), _STEPS),
    Method("OPML", _plain("OPML"), {"C": _Log(0.5e-6, 0.025), **_OPEN}),
    Method("Euclidean", _plain("Euclidean")),
    Method("nearkin", _untouched, raw=True),
)

#: Sources of triplets in the grid; impostors of a batch are capped, since all of them are n^2 many.
_SOURCES = ("OCTG", "one-pass", "batch")
_LOSSES = {"hinge": "hinge", "rescaled": "rescaled_hinge"}
_CLASSIFIERS = ("3-NN", "Robust-kNN")
_MAX_IMPOSTORS = 3


class _Rescored(BaseEstimator):
    """Algorithm 5 with plausibility by the rescaled hinge, whichever loss the learner was fitted with.

    Under the plain hinge every row is equally plausible, and Robust-kNN would be plain kNN.
    """

    def __init__(self, learner: Any, rate: float):
        self.learner, self.rate = learner, rate

    def fit(self, X: Array, y: Array) -> Self:
        from nearkin.neighbors import RobustKNeighborsClassifier

        fitted = self.learner.fit(X, y).set_params(loss="rescaled_hinge")
        self.classifier_ = RobustKNeighborsClassifier.algorithm5(fitted, noise_rate=self.rate).fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        return self.classifier_.predict(X)


def _of_grid(source: str, loss: str, classifier: str) -> Build:
    def build(params: Params, rate: float, seed: int) -> Any:
        from nearkin.learners import LODML
        from nearkin.neighbors import RobustKNeighborsClassifier
        from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets

        given: Params = {"n_epochs": 3} | params
        unit_rows = given.pop("unit_rows", False)
        octg = OCTG(given.pop("n_centers", 1), max_impostors=given.pop("max_impostors", None))
        triplets = {
            "OCTG": octg,
            "one-pass": OnePassTriplets(),
            "batch": BatchTriplets(max_impostors=_MAX_IMPOSTORS),
        }[source]
        learner = LODML(loss=_LOSSES[loss], triplets=triplets, scale=None, random_state=seed, **given)
        if classifier == "Robust-kNN":
            return _on_rows(_Rescored(learner, rate), unit_rows)
        plain = RobustKNeighborsClassifier(learner, n_neighbors=3, noise_rate=0.0, weights="uniform")
        return _on_rows(plain, unit_rows)

    return build


def _grid_space(source: str, loss: str, classifier: str) -> dict[str, Draw]:
    space = {**_STEPS, **_LOW_RANK}
    if loss == "rescaled" or classifier == "Robust-kNN":
        space["eta"] = _ROBUST["eta"]
    if source == "OCTG":
        space |= {name: _ROBUST[name] for name in ("n_centers", "max_impostors")}
    return space


_GRID_COLUMNS = tuple(
    Method(f"{source}, {loss}, {classifier}", _of_grid(source, loss, classifier), _grid_space(source, loss, classifier))
    for source in _SOURCES
    for loss in _LOSSES
    for classifier in _CLASSIFIERS
)
#: LODML in every combination of triplets, loss and classifier.
GRID = tuple(method.name for method in _GRID_COLUMNS)


def _neighbours(k: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(k)


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def _cleaned(make: Callable[[], Any]) -> Build:
    """A classifier on the rows that cleanlab does not find mislabelled, by out-of-fold logistic regression."""

    def build(params: Params, rate: float, seed: int) -> Any:
        from nearkin.paper.cleaning import Cleaned

        return Cleaned(_logistic(), make(), seed)

    return build


#: What a user could do without metric learning.
RIVALS = ("10-NN", "25-NN", "logistic", "cleanlab > 3-NN", "cleanlab > logistic")

_RIVAL_COLUMNS = (
    Method("10-NN", lambda params, rate, seed: _neighbours(10)),
    Method("25-NN", lambda params, rate, seed: _neighbours(25)),
    Method("logistic", lambda params, rate, seed: _logistic()),
    Method("cleanlab > 3-NN", _cleaned(lambda: _neighbours(3))),
    Method("cleanlab > logistic", _cleaned(_logistic)),
)

METHODS: dict[str, Method] = {method.name: method for method in (*_COLUMNS, *_GRID_COLUMNS, *_RIVAL_COLUMNS)}
