"""Rows that come in several modalities: which columns belong to which, and one block for each under one set of weights.

OMDML, LOMDML and LSMDML learn such blocks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Index
from nearkin.errors import InputError
from nearkin.kernels import TripletRows
from nearkin.measures import DISTANCE, LinearScores, Measure
from nearkin.parameters.contract import LearningRule, MappedParameter, feed, steps_at_once, weighted_mean
from nearkin.parameters.full import FullMatrix
from nearkin.parameters.lowrank import LowRank
from nearkin.stored import Anything, ArrayOf, Count, Items, Maybe, Number, Part, stored
from nearkin.triplets import Triplets

__all__ = ["EqualShares", "Hedged", "Modal", "ModalFull", "ModalLowRank", "Modalities"]


@stored(n_modalities=Count(1))
@dataclass(frozen=True)
class EqualShares(Measure):
    """Distance before learning where K modalities have weight 1 / K each: the mean of theirs, not the sum."""

    n_modalities: int = 1

    def scores(self, left: Array, right: Array) -> Array:
        """All pairs."""
        return super().scores(left, right) / self.n_modalities

    def linear(self, right: Array) -> LinearScores:
        """With a smaller unit."""
        form = super().linear(right)
        return form._replace(unit=form.unit / self.n_modalities)

    def pair_scores(self, left: Array, right: Array) -> Array:
        """Row by row."""
        return super().pair_scores(left, right) / self.n_modalities


@stored(
    names=Items(Anything(), "K", least=1),
    columns=Items(ArrayOf(None, of="codes", low=0), "K"),
    starts=ArrayOf("K+1", of="codes"),
    order=Maybe(ArrayOf("d", of="codes")),
)
class Modalities:
    """Disjoint sets of columns that together are all, each with a name."""

    def __init__(self, names: Sequence[Any], columns: Sequence[Index]):
        self.names = list(names)
        self.columns = [np.asarray(one, dtype=np.int64) for one in columns]
        self.starts = np.cumsum([0, *map(len, self.columns)])
        order = np.concatenate(self.columns)
        self.order = None if np.array_equal(order, np.arange(len(order))) else order

    def check_stored(self) -> dict[str, int]:
        """Refuse sets that miss a column or share one; return the number of columns."""
        again = Modalities(self.names, self.columns)
        n, same = int(again.starts[-1]), np.array_equal(again.starts, self.starts)
        same &= (again.order is None) == (self.order is None) and (
            self.order is None or np.array_equal(again.order, self.order)  # type: ignore[arg-type]
        )
        if not same or min(again.sizes) == 0 or not np.array_equal(np.sort(np.concatenate(self.columns)), np.arange(n)):
            raise ValueError("modalities must hold every column once")
        return {"d": n}

    def __len__(self) -> int:
        return len(self.columns)

    def check_width(self, n_features: int) -> None:
        """Refuse rows of another width: compiled loops go by the modalities'."""
        if n_features != self.starts[-1]:
            raise InputError(f"the modalities have {self.starts[-1]} columns together; these rows have {n_features}.")

    @property
    def sizes(self) -> list[int]:
        """Columns of each."""
        return [len(one) for one in self.columns]

    @property
    def measure(self) -> Measure:
        """Distance before learning, as triplet sources see it."""
        K = len(self)
        return DISTANCE if K == 1 else EqualShares(DISTANCE.name, is_distance=True, n_modalities=K)

    def grouped(self, X: Array) -> Array:
        """Rows with the columns of each modality side by side."""
        return X if self.order is None else np.ascontiguousarray(X[:, self.order])

    def split(self, X: Array) -> list[Array]:
        """The columns of each modality."""
        X = X if self.order is None else X[:, self.order]
        return [X[:, a:b] for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    def block_diagonal(self, blocks: Sequence[Array]) -> Array:
        """Matrix whose columns are those of the rows; block k has the columns of modality k."""
        out = np.zeros((sum(map(len, blocks)), int(self.starts[-1])), dtype=blocks[0].dtype)
        row = 0
        for block, columns in zip(blocks, self.columns, strict=True):
            out[row : row + len(block), columns] = block
            row += len(block)
        return out

    def square(self, blocks: Sequence[Array]) -> Array:
        """The same where rows are features too."""
        out = self.block_diagonal(blocks)
        if self.order is None:
            return out
        back = np.empty_like(out)
        back[self.order] = out
        return back

    @classmethod
    def of(cls, given: Any, n_features: int, feature_names: Any = None) -> Modalities:
        """From the parameter `modalities` of a learner; every message tells the rule and the value."""
        if given is None:
            return cls(["all"], [np.arange(n_features)])
        if isinstance(given, Mapping):
            names, specs = list(given), list(given.values())
        elif isinstance(given, Sequence) and not isinstance(given, str):
            names, specs = list(range(len(given))), list(given)
        else:
            raise _wrong(given, "None, a list or a dict")
        if not specs:
            raise _wrong(given, "at least one modality")
        if all(_is_count(one) for one in specs):
            ends = np.cumsum(specs)
            columns = [np.arange(end - n, end) for end, n in zip(ends, specs, strict=True)]
        else:
            columns = [_columns(one, n_features, feature_names, given) for one in specs]
        every = np.concatenate(columns)
        if min(map(len, columns)) == 0 or not np.array_equal(np.sort(every), np.arange(n_features)):
            raise _wrong(given, f"sets of columns, none of them empty, that hold each of the {n_features} columns once")
        return cls(names, columns)


def _wrong(given: Any, rule: str) -> InputError:
    return InputError(f"parameter `modalities` must be {rule}; got {given!r}.")


def _is_count(one: Any) -> bool:
    return isinstance(one, (int, np.integer)) and not isinstance(one, (bool, np.bool_))


def _columns(spec: Any, n_features: int, feature_names: Any, given: Any) -> Index:
    if isinstance(spec, slice):
        return np.arange(n_features)[spec]
    rule = "counts of columns, slices, lists of column numbers or, for a data frame, of column names"
    if isinstance(spec, str) or not isinstance(spec, (Sequence, np.ndarray)):
        raise _wrong(given, rule)
    if all(isinstance(one, str) for one in spec):
        known = {} if feature_names is None else {name: i for i, name in enumerate(feature_names)}
        missing = [one for one in spec if one not in known]
        if missing:
            raise _wrong(given, f"made of columns that are there, which {missing[0]!r} is not")
        return np.array([known[one] for one in spec], dtype=np.int64)
    if not all(_is_count(one) and -n_features <= one < n_features for one in spec):
        raise _wrong(given, rule)
    return np.arange(n_features)[np.asarray(spec, dtype=np.int64)]


class Modal:
    """Distance ``sum_k theta_k d2_k`` of blocks that each have a map, one for each modality."""

    measure: Measure

    def __init__(self, modalities: Modalities, blocks: list[Any]):
        self.modalities = modalities
        self.measure = modalities.measure
        self.theta = np.full(len(modalities), 1.0 / len(modalities))
        self.blocks = blocks

    def embed(self, X: Array) -> Array:
        """``sqrt(theta_k) L_k' x_k``, one after the other."""
        return np.concatenate(
            [
                block.embed(part) * part.dtype.type(weight)
                for block, part, weight in zip(self.blocks, self.modalities.split(X), np.sqrt(self.theta), strict=True)
            ],
            axis=1,
        )

    def scores(self, left: Array, right: Array) -> Array:
        """Score all pairs by the distance between mapped rows; the map holds the weights."""
        return DISTANCE.scores(self.embed(left), self.embed(right))

    @property
    def metric(self) -> Array:
        """Block-diagonal, ``theta_k M_k``."""
        return self.modalities.square(self._weighted("metric", self.theta))

    @property
    def components(self) -> Array:
        """Block-diagonal, ``sqrt(theta_k) L_k'``."""
        return self.modalities.block_diagonal(self._weighted("components", np.sqrt(self.theta)))

    def _weighted(self, name: str, weights: Array) -> list[Array]:
        found = [getattr(block, name) for block in self.blocks]
        return [np.asarray(one * one.dtype.type(weight)) for one, weight in zip(found, weights, strict=True)]


class Hedged(Modal):
    """Blocks that move together in one sweep, with weights by Hedge.

    A mistake leaves the share ``beta`` of a weight; triplets are learned while the sum of margins is below ``margin``.
    """

    has_mean = True
    moving: ClassVar[tuple[str, ...]] = ("theta", "blocks")
    bounded: ClassVar[dict[str, float]] = {"blocks": 0.5}

    def check_stored(self) -> None:
        """Refuse blocks of other sizes than their modalities: the sweep finds their numbers by address."""
        arrays = [block.M if isinstance(block, FullMatrix) else block.L for block in self.blocks]
        if [one.shape[1] for one in arrays] != self.modalities.sizes:
            raise ValueError("blocks and modalities differ in size")

    def __init__(self, modalities: Modalities, blocks: list[Any], beta: float, margin: float):
        super().__init__(modalities, blocks)
        self.beta = float(beta)
        self.margin = float(margin)

    @abstractmethod
    def _sweep(self, dtype: np.dtype) -> tuple[Any, NDArray[np.intp], int | None]:
        """The loop for rows of this type, the addresses of the blocks, and how many triplets to take at once."""

    def learn(self, triplets: Triplets, rule: LearningRule) -> tuple[Array, int]:
        """One sweep over all modalities."""
        from nearkin.kernels.modalities import Hedging

        self.modalities.check_width(triplets.rows.n_features)
        kernel, places, at_once = self._sweep(triplets.rows.dtype)
        run, hedging = kernel.run, Hedging(self.modalities.starts, self.theta, self.beta, self.margin)
        return feed(
            triplets, rule,
            lambda rows, step, found: run(rule.loss, places, hedging, self._grouped(rows), step, found), at_once,
        )  # fmt: skip

    def _grouped(self, v: TripletRows) -> TripletRows:
        group = self.modalities.grouped
        positives = group(v.positives)
        negatives = positives if v.negatives is v.positives else group(v.negatives)
        return v._replace(anchors=group(v.anchors), positives=positives, negatives=negatives)

    @classmethod
    def merge(cls, shards: Sequence[Self], weights: Sequence[float]) -> Self:
        """Means of the weights and of each block."""
        merged: Any = shards[0].copy()  # type: ignore[attr-defined]
        merged.theta = weighted_mean([one.theta for one in shards], weights)
        merged.blocks = [
            block.merge([one.blocks[i] for one in shards], weights) for i, block in enumerate(merged.blocks)
        ]
        return merged


#: What files hold of both kinds of hedged blocks.
_HEDGED: dict[str, Any] = {
    "modalities": Part(Modalities, K="K", d="d"),
    "measure": Part(Measure),
    "theta": ArrayOf("K", of="doubles", low=0.0),
    "beta": Number(0.0, 1.0),
    "margin": Number(),
}


@stored(blocks=Items(Part(FullMatrix), "K"), **_HEDGED)
class ModalFull(Hedged, MappedParameter):
    """A full matrix on the cone for each modality."""

    def __init__(self, modalities: Modalities, dtype: np.dtype, beta: float, margin: float):
        blocks = [FullMatrix(d, dtype, DISTANCE, "project") for d in modalities.sizes]
        super().__init__(modalities, blocks, beta, margin)

    def _sweep(self, dtype: np.dtype) -> tuple[Any, NDArray[np.intp], int | None]:
        from nearkin.kernels import modalities

        for block in self.blocks:
            block.forget_root()
        matrices, states = [block.M for block in self.blocks], [block.tracked for block in self.blocks]
        places = modalities.matrix_addresses(self.modalities.starts, matrices, states)
        return modalities.full, places, steps_at_once(max(self.modalities.sizes))

    def margins(self, triplets: Triplets) -> Array:
        """``sum_k theta_k g_k' M_k h_k``."""
        z, M = np.empty(len(triplets)), self.metric
        for part, g, h in triplets.directions(DISTANCE):
            z[part] = ((g @ M) * h).sum(axis=1)
        return z

    def scores(self, left: Array, right: Array) -> Array:
        """Sum of the modalities'."""
        parts = zip(self.blocks, self.modalities.split(left), self.modalities.split(right), strict=True)
        scores = [block.scores(one, other) for block, one, other in parts]
        total = scores[0] * left.dtype.type(self.theta[0])
        for weight, one in zip(self.theta[1:], scores[1:], strict=True):
            total += left.dtype.type(weight) * one
        return total


@stored(blocks=Items(Part(LowRank, T="T"), "K"), **_HEDGED)
class ModalLowRank(Hedged, MappedParameter):
    """A factor for each modality, begun at the given components."""

    def __init__(self, modalities: Modalities, starts: list[Array], dtype: np.dtype, beta: float, margin: float):
        blocks = [LowRank(start.astype(dtype), DISTANCE, "subgradient") for start in starts]
        super().__init__(modalities, blocks, beta, margin)

    def _sweep(self, dtype: np.dtype) -> tuple[Any, NDArray[np.intp], int | None]:
        from nearkin.kernels import modalities

        factors = [block.L for block in self.blocks]
        return modalities.low_rank, modalities.factor_addresses(self.modalities.starts, factors, dtype), None
