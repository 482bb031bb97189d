"""A global matrix and one local part per class: what LPA-ODML learns."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from nearkin.arrays import Array, Codes
from nearkin.kernels import StepRule, TripletRows
from nearkin.measures import DISTANCE, Measure
from nearkin.memory import check_memory
from nearkin.parameters.contract import LearningRule, MappedParameter, feed, steps_at_once
from nearkin.parameters.full import FullMatrix, from_eigenpairs
from nearkin.stored import ArrayOf, Number, Part, stored
from nearkin.triplets import Triplets

__all__ = ["NAMELESS", "LocalMetrics"]


#: Code of triplets whose anchors have no class.
NAMELESS = -1


@stored(
    measure=Part(Measure),
    mu=Number(0.0, is_open=True),
    shared=Part(FullMatrix, d="d", i="i"),
    codes=ArrayOf("c", of="codes", low=NAMELESS),
    local=ArrayOf("c", "d", "d", of="doubles"),
    marks=ArrayOf("c", 3, of="doubles"),
    clock=ArrayOf(1, of="doubles"),
)
class LocalMetrics(MappedParameter):
    """``M + L_c`` for every class c, with M begun at the identity and every L_c at zero.

    Where a class is not known or does not matter, M alone answers. Local parts are shown as if their class were used
    next, which clips ``M + L_c``; learning goes on with what it has.
    """

    by_class = True
    has_one_space = False
    _shown: dict[int, FullMatrix] = {}  # noqa: RUF012 -- metrics of classes, once read; replaced, never written to
    moving: ClassVar[tuple[str, ...]] = ("shared", "codes", "local", "marks", "clock")
    bounded: ClassVar[dict[str, float]] = {"shared": 0.5, "local": 0.5}

    def __init__(self, n_features: int, dtype: np.dtype, mu: float):
        self.measure = DISTANCE
        self.mu = float(mu)
        self.shared = FullMatrix(n_features, dtype, DISTANCE, "project")
        self.codes = np.zeros(0, np.int64)
        self.local = np.zeros((0, n_features, n_features))
        # State of the sweep (nearkin.kernels.local).
        self.marks = np.zeros((0, 3))
        self.clock = np.zeros(1)

    def check_stored(self) -> None:
        """Refuse a shared matrix off the cone, and a class that occurs twice."""
        if self.shared.psd != "project" or len(np.unique(self.codes)) < len(self.codes):
            raise ValueError("the shared matrix is not on the cone, or a class occurs twice")

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep; the class of an anchor chooses the local part that moves with M."""
        from nearkin.kernels import local

        codes = _codes_of(triplets)
        self._make_room(codes)
        at = np.argsort(self.codes)
        classes = at[np.searchsorted(self.codes, codes, sorter=at)]
        one, place = self.shared, 0

        def sweep(rows: TripletRows, step: StepRule, plausibility: Array) -> int:
            nonlocal place
            here, place = classes[place : place + len(plausibility)], place + len(plausibility)
            return local.sweep.run(rule.loss, one.M, parts, here, rows, step, one.tracked, plausibility)

        one.forget_root()
        self._shown = {}
        parts = local.LocalParts(self.local, self.marks, self.clock, 1.0 / self.mu)
        local.restart_clock(parts)
        return feed(triplets, rule, sweep, steps_at_once(len(one.M)) // 4)

    def _make_room(self, codes: Codes) -> None:
        """Begin a zero local part for every new class; until it moves, M's bound is its bound."""
        from nearkin.kernels.local import new_marks

        new = np.setdiff1d(codes, self.codes)
        if not len(new):
            return
        n, d = len(self.codes) + len(new), len(self.shared.M)
        what = f"a matrix of {d:,} features for each of {n:,} classes"
        check_memory(16.0 * n * d**2, what, "Use a learner of one metric, such as RobustLODML.", None)
        self.codes = np.concatenate([self.codes, new])
        self.local = np.pad(self.local, ((0, len(new)), (0, 0), (0, 0)))
        self.marks = np.concatenate([self.marks, new_marks(len(new), self.shared.tracked, self.clock)])

    def of_class(self, code: int) -> FullMatrix:
        """``M + L_c`` on the cone; M for a class that had no triplet."""
        if code not in self._shown:
            where = np.flatnonzero(self.codes == code)
            found = self._on_the_cone(int(where[0])) if len(where) else self.shared
            self._shown = {**self._shown, code: found}
        return self._shown[code]

    def _on_the_cone(self, place: int) -> FullMatrix:
        made = FullMatrix(len(self.shared.M), np.dtype(self.shared.dtype), DISTANCE, "none")
        made.M = self.shared.M + self.local[place]
        values, vectors = np.linalg.eigh(made.M)
        if values[0] < 0.0:
            made.M = from_eigenpairs(vectors, np.maximum(values, 0.0))
        return made

    def margins(self, triplets: Triplets) -> Array:
        """``g' (M + L_c) h`` with c the class of the anchor."""
        codes = _codes_of(triplets)
        z = np.empty(len(triplets))
        for code in np.unique(codes):
            at = np.flatnonzero(codes == code)
            members = {name: getattr(triplets, name)[at] for name in ("anchor", "positive", "negative")}
            z[at] = self.of_class(int(code)).margins(replace(triplets, **members, classes=None))
        return z

    def item_scores(self, queries: Array, items: Array, codes: Codes) -> Array:
        """Minus the squared distances of all pairs, by the metric of the item's class."""
        out = np.empty((len(queries), len(items)), queries.dtype)
        for code in np.unique(codes):
            at = np.flatnonzero(codes == code)
            metric = self.of_class(int(code))
            out[:, at] = DISTANCE.scores(metric.embed(queries), metric.embed(items[at]))
        return out

    def anchor_scores(self, anchors: Array, codes: Codes, others: Array) -> Array:
        """The same for a triplet source, by the metric of the anchor's class."""
        return np.ascontiguousarray(self.item_scores(others, anchors, codes).T)

    def scores(self, left: Array, right: Array) -> Array:
        """By M."""
        return self.shared.scores(left, right)

    def embed(self, X: Array) -> Array:
        """By M."""
        return self.shared.embed(X)

    @property
    def metric(self) -> Array:
        """M."""
        return self.shared.metric

    @property
    def components(self) -> Array:
        """Of M."""
        return self.shared.components


def _codes_of(triplets: Triplets) -> Codes:
    return np.full(len(triplets), NAMELESS) if triplets.classes is None else triplets.classes
