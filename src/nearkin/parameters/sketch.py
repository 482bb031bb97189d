"""What LSMDML learns: small matrices in sketches, and from their steps the metrics themselves in bounded memory."""

from __future__ import annotations

import copy
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from nearkin.arrays import Array
from nearkin.measures import DISTANCE, Measure
from nearkin.parameters.contract import LearningRule, MappedParameter, feed
from nearkin.parameters.modalities import Modal, Modalities
from nearkin.rows import Rows
from nearkin.sketch import random_pair
from nearkin.stored import ArrayOf, Count, Flag, Items, Maybe, Number, Part, stored
from nearkin.triplets import Triplets

__all__ = ["Recovered", "Sketched"]


@stored(
    rank=Count(1),
    total=ArrayOf("t", "t", of="doubles"),
    vectors=ArrayOf("e", "d", dtype="T"),
    values=ArrayOf("e", of="doubles"),
    taus=ArrayOf("b", of="doubles"),
    steps=ArrayOf(2, "b", "d", dtype="T"),
    n_steps=Count(most="b"),
)
class Recovered:
    """The positive semi-definite part of ``I + sum_t tau_t A_t`` in bounded memory.

    Kept are r eigenpairs ``U diag(values) U'`` of the sum and the newest steps as they came. When there are
    ``buffer`` of these, both become the r eigenpairs of largest magnitude of all, the best approximation of that rank.
    Where r is the number of features, the matrix of the sum takes no more memory than all its eigenpairs and is kept
    instead, exactly. Vectors have the type of the rows, values are in double precision.
    """

    _root: tuple[Array, Array] | None = None  # eigenpairs of what is kept now, once read

    def __init__(self, d: int, rank: int, buffer: int, dtype: np.dtype):
        self.rank = min(rank, d)
        self.total: Array = np.zeros((d, d) if rank >= d else (0, 0))
        self.vectors = np.zeros((0, d), dtype=dtype)
        self.values: Array = np.zeros(0)
        self.taus = np.zeros(buffer)
        self.steps = np.zeros((2, buffer, d), dtype=dtype)  # g and h
        self.n_steps = 0

    def check_stored(self) -> None:
        """Refuse a sum of another size, or without room for steps."""
        if len(self.total) not in (0, self.steps.shape[2]) or not len(self.taus):
            raise ValueError(f"the sum has shape {self.total.shape}, its steps {self.steps.shape}")

    def add(self, taus: Array, g: Array, h: Array) -> None:
        """Steps ``tau A``, ``A = (g h' + h g') / 2``, one per row."""
        self._root = None
        at = 0
        while at < len(taus):
            if self.n_steps == len(self.taus):
                self._merge()
            n = min(len(taus) - at, len(self.taus) - self.n_steps)
            here, there = slice(self.n_steps, self.n_steps + n), slice(at, at + n)
            self.taus[here], self.steps[0, here], self.steps[1, here] = taus[there], g[there], h[there]
            self.n_steps += n
            at += n

    def embed(self, X: Array) -> Array:
        """``X M^(1/2)`` without a matrix of size d x d."""
        vectors, values = self.eigenpairs
        change = np.sqrt(np.maximum(1.0 + values, 0.0)) - 1.0
        return X + ((X @ vectors.T) * change.astype(X.dtype)) @ vectors

    def margins(self, g: Array, h: Array) -> Array:
        """``g' M h`` of every row."""
        vectors, values = self.eigenpairs
        change = np.maximum(values, -1.0).astype(g.dtype)
        return (g * h).sum(axis=1) + ((g @ vectors.T) * change * (h @ vectors.T)).sum(axis=1)

    @property
    def eigenpairs(self) -> tuple[Array, Array]:
        """Orthonormal rows and values of everything but the identity."""
        if self._root is None:
            self._root = self._eigenpairs()
        return self._root

    @property
    def metric(self) -> Array:
        """M, of shape (d, d)."""
        return self._matrix(lambda values: np.maximum(values, -1.0))

    @property
    def components(self) -> Array:
        """``M^(1/2)``, of shape (d, d)."""
        return self._matrix(lambda values: np.sqrt(np.maximum(1.0 + values, 0.0)) - 1.0)

    def copy(self) -> Recovered:
        """A sum that goes on alone; eigenpairs are replaced, never written to."""
        other = copy.copy(self)
        other.taus, other.steps = self.taus.copy(), self.steps.copy()
        return other

    def _merge(self) -> None:
        """Make room for new steps."""
        if len(self.total):
            self.total = self._whole()
        else:
            vectors, self.values = self._eigenpairs(self.rank)
            self.vectors = np.ascontiguousarray(vectors)
        self.n_steps = 0

    def _whole(self) -> Array:
        n = self.n_steps
        half = (self.steps[0, :n].T * (0.5 * self.taus[:n])) @ self.steps[1, :n]
        return self.total + half + half.T

    def _eigenpairs(self, most: int | None = None) -> tuple[Array, Array]:
        """All, or those of largest magnitude."""
        n = self.n_steps
        if len(self.total):
            values, vectors = np.linalg.eigh(self._whole())
            return np.ascontiguousarray(vectors.T, dtype=self.steps.dtype), values
        if n == 0:
            return self.vectors, self.values
        basis = np.concatenate([self.vectors, self.steps[0, :n], self.steps[1, :n]]).T
        Q, R = linalg.qr(basis, mode="economic", overwrite_a=True, check_finite=False)
        kept = len(self.values)
        old, g, h = (part.astype(np.float64) for part in np.split(R, [kept, kept + n], axis=1))
        half = (g * (0.5 * self.taus[:n])) @ h.T
        values, vectors = np.linalg.eigh((old * self.values) @ old.T + half + half.T)
        largest = np.argsort(-np.abs(values), kind="stable")[:most]
        return (Q @ vectors[:, largest].astype(Q.dtype)).T, values[largest]

    def _matrix(self, change: object) -> Array:
        vectors, values = self.eigenpairs
        changed = change(values).astype(vectors.dtype)  # type: ignore[operator]
        return np.eye(vectors.shape[1], dtype=vectors.dtype) + (vectors.T * changed) @ vectors


@stored(
    modalities=Part(Modalities, K="K", d="d"),
    measure=Part(Measure),
    theta=ArrayOf("K", of="doubles", low=0.0),
    C_weights=Number(0.0),
    simplex=Flag(),
    projections=Items(Maybe(Items(ArrayOf(None, None, dtype="T"), least=2)), "K"),
    hats=Items(ArrayOf(None, None, of="doubles"), "K"),
    blocks=Items(Part(Recovered, T="T"), "K"),
)
class Sketched(Modal, MappedParameter):
    """Matrices in the sketches of all modalities, their weights, and what is recovered from the steps.

    A modality with no more columns than ``n_projections`` is not sketched. ``ranks`` and ``buffer`` are those of
    `Recovered`. With ``simplex`` weights come back to the nearest ones, otherwise they are clipped and normalised.
    """

    moving: ClassVar[tuple[str, ...]] = ("theta", "hats", "blocks")  # the projections never change
    bounded: ClassVar[dict[str, float]] = {"hats": 0.5}

    def __init__(
        self, modalities: Modalities, dtype: np.dtype, n_projections: int, ranks: list[int], buffer: int,
        C_weights: float, simplex: bool, rng: np.random.Generator,
    ):  # fmt: skip
        blocks = [Recovered(d, r, buffer, dtype) for d, r in zip(modalities.sizes, ranks, strict=True)]
        super().__init__(modalities, blocks)
        self.C_weights = float(C_weights)
        self.simplex = bool(simplex)
        self.projections = [
            None if d <= n_projections else random_pair(d, n_projections, dtype, rng) for d in modalities.sizes
        ]
        self.hats = [
            np.eye(d) if pair is None else (pair[0].T @ pair[1]).astype(np.float64)
            for d, pair in zip(modalities.sizes, self.projections, strict=True)
        ]

    def check_stored(self) -> None:
        """Refuse sketches and sums of other sizes than their modalities: the sweep finds their numbers by address."""
        for d, pair, hat, block in zip(self.modalities.sizes, self.projections, self.hats, self.blocks, strict=True):
            m = d if pair is None else pair[0].shape[1]
            if hat.shape != (m, m) or block.steps.shape[2] != d or any(one.shape != (d, m) for one in pair or ()):
                raise ValueError("sketches and modalities differ in size")

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """Steps in the sketch, then the same steps in the original space."""
        from nearkin.kernels import sketch
        from nearkin.kernels.machine.pack import addresses

        self.modalities.check_width(triplets.rows.n_features)
        taus = np.empty((len(triplets), len(self.hats)))
        sizes = np.array([len(hat) for hat in self.hats])
        places = np.array([addresses(np.float64, "m m", hat)[0] for hat in self.hats], dtype=np.intp)
        sketches = sketch.Sketches(places, sizes, self.theta, self.C_weights, self.simplex)

        run = sketch.sweep.run
        learned = feed(
            self._sketched(triplets), rule,
            lambda rows, step, found: run(rule.loss, sketches, rows, step, taus, found),
        )  # fmt: skip
        for part, g, h in triplets.directions(DISTANCE):
            parts = zip(self.blocks, self.modalities.split(g), self.modalities.split(h), taus[part].T, strict=True)
            for recovered, g_k, h_k, tau in parts:
                moved = tau > 0.0
                recovered.add(tau[moved], g_k[moved], h_k[moved])
        return learned

    def margins(self, triplets: Triplets) -> Array:
        """``sum_k theta_k g_k' M_k h_k`` with the recovered metrics."""
        z = np.empty(len(triplets))
        for part, g, h in triplets.directions(DISTANCE):
            parts = zip(self.theta, self.blocks, self.modalities.split(g), self.modalities.split(h), strict=True)
            z[part] = sum(weight * recovered.margins(g_k, h_k) for weight, recovered, g_k, h_k in parts)
        return z

    def _sketched(self, triplets: Triplets) -> Triplets:
        """The same triplets of sketched rows."""
        if triplets.pool is triplets.rows:
            every = self._sketch_rows(triplets.rows, triplets.anchor, triplets.positive, triplets.negative)
            return triplets.of(every, every)
        if triplets.others is not None:
            return triplets.of(
                self._sketch_rows(triplets.rows, triplets.anchor),
                self._sketch_rows(triplets.pool, triplets.positive),
                self._sketch_rows(triplets.others, triplets.negative),
            )
        return triplets.of(
            self._sketch_rows(triplets.rows, triplets.anchor),
            self._sketch_rows(triplets.pool, triplets.positive, triplets.negative),
        )

    def _sketch_rows(self, rows: Rows, *which: NDArray[np.int64]) -> Array:
        """Sketch only the rows that occur in triplets, which may be few."""
        wanted = np.unique(np.concatenate(which))
        if len(wanted) == len(rows):
            return np.concatenate([self._sketch(block) for _, block in rows.blocks()])
        out = np.zeros((len(rows), 2 * sum(map(len, self.hats))), dtype=rows.dtype)
        for start in range(0, len(wanted), rows.block_size):
            part = wanted[start : start + rows.block_size]
            out[part] = self._sketch(rows.take(part))
        return out

    def _sketch(self, X: Array) -> Array:
        """Both sketches of every modality, side by side."""
        halves: list[Array] = []
        for part, pair in zip(self.modalities.split(X), self.projections, strict=True):
            halves += [part, part] if pair is None else [part @ R for R in pair]
        return np.concatenate(halves, axis=1)
