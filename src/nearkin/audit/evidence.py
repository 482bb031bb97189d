"""Why a label is doubted: what is near the row, in the learned space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.losses import as_loss
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.rows import Rows

__all__ = ["Evidence", "Neighbour", "Prototype", "Space", "TripletCost"]

Array = NDArray[np.floating]
Index = NDArray[np.int64]

#: Numbers of distances held at once.
_TABLE = 1 << 22


@dataclass(frozen=True)
class Prototype:
    """Centre of a class, and the row that stands for it.

    Parameters
    ----------
    label : object
        Class.
    row : int
        Plausible row of the class that lies nearest to the centre: the one to look at.
    distance : float
        From the doubted row to the centre, in the learned space.

    Examples
    --------
    >>> Prototype("cat", 17, 0.5).row
    17
    """

    label: Any
    row: int
    distance: float


@dataclass(frozen=True)
class Neighbour:
    """A plausible row near the doubted one.

    Parameters
    ----------
    label : object
        Its label as given.
    row : int
        Its number.
    distance : float
        In the learned space.
    plausibility : float
        Of its label.

    Examples
    --------
    >>> Neighbour("dog", 3, 0.25, 0.99).label
    'dog'
    """

    label: Any
    row: int
    distance: float
    plausibility: float


@dataclass(frozen=True)
class TripletCost:
    """The triplet of a row that cost most: it should be nearer to its own class than to another, and is not.

    Parameters
    ----------
    positive : Prototype
        Of the row's own class, as the learner's triplet source saw it.
    negative : Prototype
        Of the other class.
    loss : float
        What the triplet costs under the learned measure.
    weight : float
        How much the learner trusts it, in (0, 1].

    Examples
    --------
    >>> TripletCost(Prototype("cat", 17, 1.5), Prototype("dog", 4, 0.3), 0.9, 0.4).negative.label
    'dog'
    """

    positive: Prototype
    negative: Prototype
    loss: float
    weight: float


@dataclass(frozen=True)
class Evidence:
    """Everything that speaks for and against one label.

    Parameters
    ----------
    row : int
        Number of the row.
    given_label, suggested_label : object
        The same for a row that is no suspect.
    plausibility : float
        Of the given label.
    confidence : float
        Of the suggested one.
    given, suggested : Prototype
        Nearest prototype of either class.
    neighbours : tuple of Neighbour
        Nearest plausible rows, the nearest first.
    triplet : TripletCost or None
        The costliest triplet; None for a row that lies well inside its class.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import nearkin
    >>> X, y = load_iris(return_X_y=True)
    >>> y[0] = 2  # a wrong label
    >>> why = nearkin.audit_labels(X, y, random_state=0).evidence(0)
    >>> why.given_label, why.suggested_label, [one.label for one in why.neighbours[:3]]
    (2, 0, [0, 0, 0])
    """

    row: int
    given_label: Any
    suggested_label: Any
    plausibility: float
    confidence: float
    given: Prototype
    suggested: Prototype
    neighbours: tuple[Neighbour, ...]
    triplet: TripletCost | None

    def __str__(self) -> str:
        """For people."""
        lines = [
            f"row {self.row}: label {self.given_label!r} is {100 * self.plausibility:.1f} % plausible",
            f"  suggested   {self.suggested_label!r}, {100 * self.confidence:.0f} % sure",
            f"  {self.given.label!r} lies {self.given.distance:.3g} away (typical row {self.given.row}), "
            f"{self.suggested.label!r} {self.suggested.distance:.3g} (typical row {self.suggested.row})",
            "  neighbours  " + ", ".join(f"{one.label!r} (row {one.row})" for one in self.neighbours),
        ]
        if self.triplet is not None:
            lines.append(
                f"  costliest triplet: nearer to {self.triplet.negative.label!r} than to "
                f"{self.triplet.positive.label!r}, loss {self.triplet.loss:.3g}"
            )
        return "\n".join(lines)


class Space:
    """The learned space of a fitted classifier, with the rows of its training data in it.

    Parameters
    ----------
    model : RobustKNeighborsClassifier
        Fitted on ``X``.
    X : array-like
        The rows as given.
    labels : ndarray
        The labels as given.
    codes : ndarray of int64
        Their places in ``model.classes_``.
    """

    def __init__(self, model: RobustKNeighborsClassifier, X: Any, labels: NDArray[Any], codes: Index):
        self.model, self.labels, self.codes = model, labels, codes
        self._X = X
        self.rows: Array = model.learner_.map_items(X)
        self._prototypes: tuple[Array, Index, Index] | None = None

    def take(self, rows: Index) -> Any:
        """Some of the rows as they were given."""
        from sklearn.utils import _safe_indexing

        return _safe_indexing(self._X, rows)

    def prototypes(self) -> tuple[Array, Index, Index]:
        """Centres of the classes, their classes, and the plausible row nearest to each; -1 where a class has none.

        The centres of the learner's triplet source, or the means of plausible rows where the source has none.
        """
        if self._prototypes is None:
            centers, owners = self._centers()
            kept = self.model.kept_
            of_class = kept[np.argsort(self.codes[kept], kind="stable")]
            first = np.searchsorted(self.codes[of_class], np.arange(len(self.model.classes_) + 1))
            typical = np.full(len(centers), -1, dtype=np.int64)
            for i, (center, owner) in enumerate(zip(centers, owners, strict=True)):
                members = of_class[first[owner] : first[owner + 1]]
                if len(members):
                    typical[i] = members[_squares(self.rows[members], center).argmin()]
            self._prototypes = centers, owners, typical
        return self._prototypes

    def _centers(self) -> tuple[Array, Index]:
        learner, classes = self.model.learner_, self.model.classes_
        source: Any = learner.triplet_source_
        if hasattr(source, "centers_"):
            place = {label: code for code, label in enumerate(classes.tolist())}
            numbered = {code: place.get(label, -1) for label, code in learner.state_.labels.codes.items()}
            owners = np.array([numbered[int(code)] for code in source.center_codes_], dtype=np.int64)
            known = owners >= 0
            if len(np.unique(owners[known])) == len(classes):
                centers = np.asarray(learner.state_.parameter.embed(source.centers_[known]))
                return centers, owners[known]
        kept = self.model.kept_ if len(np.unique(self.codes[self.model.kept_])) == len(classes) else slice(None)
        size = np.bincount(self.codes[kept], minlength=len(classes))
        means = np.zeros((len(classes), self.rows.shape[1]))
        np.add.at(means, self.codes[kept], self.rows[kept])
        return means / size[:, None], np.arange(len(classes), dtype=np.int64)

    def nearest_prototypes(self, rows: Index, codes: Index) -> tuple[Index, Array]:
        """Number of the nearest prototype of a class for every row, and the distance to its centre."""
        centers, owners, _ = self.prototypes()
        which, distance = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        for code in np.unique(codes):
            asked, there = np.flatnonzero(codes == code), np.flatnonzero(owners == code)
            squares = np.stack([_squares(self.rows[rows[asked]], centers[one]) for one in there], axis=1)
            which[asked] = there[squares.argmin(axis=1)]
            distance[asked] = np.sqrt(squares.min(axis=1))
        return which, distance

    def neighbours(self, rows: Index, k: int) -> tuple[Index, Array]:
        """The k nearest plausible rows of some rows, themselves left out, and their distances."""
        k = min(k, len(self.model.kept_) - 1)
        values, index = self.model.kneighbors(self.take(rows), k + 1)
        others = index != rows[:, None]
        others[others.all(axis=1), -1] = False  # a suspect is not among the voting rows, so one is too many
        return index[others].reshape(len(rows), k), values[others].reshape(len(rows), k)

    def costliest(self, row: int) -> TripletCost | None:
        """The triplet of a row with the largest loss under the learned measure."""
        learner = self.model.learner_
        state = learner.state_
        if state.source is None:
            return None
        scaled = state.scaling.apply(np.asarray(self.take(np.array([row])), dtype=state.dtype))
        code = state.labels.encode(self.labels[row : row + 1], "LabelAudit", grow=False)
        loss = as_loss(learner.loss, learner.eta)
        worst: tuple[float, Array, Array] | None = None
        for triplets in state.source.probe(Rows(scaled), code, state):
            if not len(triplets):
                continue
            margins = state.parameter.margins(triplets)
            at = int(margins.argmin())
            if worst is None or margins[at] < worst[0]:
                pair = triplets.pool.take(np.array([triplets.positive[at], triplets.negative[at]]))
                worst = float(margins[at]), *np.asarray(state.parameter.embed(pair))
        if worst is None:
            return None
        z, positive, negative = worst
        if loss.plausibility(np.array([z]))[0] == 1.0 and loss.value(np.array([z]))[0] == 0.0:
            return None
        other = self._like(negative, self.codes != self.codes[row], row)
        return TripletCost(
            self._like(positive, self.codes == self.codes[row], row),
            other,
            float(loss.value(np.array([z]))[0]),
            float(loss.plausibility(np.array([z]))[0]),
        )

    def _like(self, point: Array, allowed: NDArray[np.bool_], row: int) -> Prototype:
        """The plausible row nearest to a point, as its stand-in."""
        plausible = np.zeros(len(self.codes), dtype=bool)
        plausible[self.model.kept_] = True
        members = np.flatnonzero(allowed & plausible)
        if not len(members):
            members = np.flatnonzero(allowed)
        found = int(members[_squares(self.rows[members], point).argmin()])
        label = self.model.classes_.tolist()[self.codes[found]]
        return Prototype(label, found, float(np.sqrt(_squares(self.rows[row : row + 1], point)[0])))


def _squares(rows: Array, point: Array) -> Array:
    """Squared distances of rows to a point, a bounded block at a time."""
    out = np.empty(len(rows))
    for part in _parts(len(rows), rows.shape[1]):
        difference = rows[part] - point
        out[part] = np.einsum("ij,ij->i", difference, difference)
    return out


def _parts(n: int, width: int) -> Iterator[slice]:
    step = max(1, _TABLE // max(1, width))
    return (slice(start, start + step) for start in range(0, n, step))
