"""One small interface to search: exact by matrix products, or faiss with its recall measured."""

from __future__ import annotations

import warnings
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nearkin.arrays import Array, Mask
from nearkin.arrays import Index as Positions
from nearkin.errors import InputError, Option, Row
from nearkin.search.engines import FaissCells, add_lengths, require_faiss, search_exactly
from nearkin.search.inputs import IdTable, as_ids, as_vectors, check_lengths, zero_rows
from nearkin.settings import Integer, OneOf, Real, all_or_nothing, check_argument, check_settings, declare, setting
from nearkin.stored import ArrayOf, Count, Maybe, Number, Text, Type, stored

__all__ = ["Index"]

#: Rows from which ``engine="auto"`` takes faiss, where it is installed.
_MANY = 100_000
#: Queries and results by which recall is measured.
_PROBES = 256
_DEPTH = 10
#: Share of kept rows below which a filtered search is exact; share of removed rows that triggers a clean-up.
_SPARSE = 0.05
_DEAD = 0.25


@stored(
    but=("_engine",),
    together=(
        "ids_", "n_features_in_", "_dtype", "_centre", "_rows", "plausibility_", "_alive", "_centroids", "_n_probe",
        "engine_", "recall_",
    ),
    _dtype=Type(),
    _centre=Maybe(ArrayOf("e")),
    _rows=ArrayOf("n", "w"),
    ids_=ArrayOf("n", of="labels"),
    plausibility_=ArrayOf("n", low=0.0, high=1.0),
    _alive=ArrayOf("n", of="flags"),
    _centroids=Maybe(ArrayOf(None, "e")),
    _n_probe=Count(1),
    engine_=Text("exact", "faiss"),
    recall_=Number(0.0, 1.0),
)  # fmt: skip
@declare
class Index(BaseEstimator):
    """Search among vectors under a plain or a learned measure.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    engine_ : {"exact", "faiss"}
        The engine in use.
    recall_ : float
        As measured when built; 1.0 for exact search.
    ids_ : ndarray of shape (n_rows,)
        Ids of the rows, in the order in which they were added.
    plausibility_ : ndarray of shape (n_rows,)
        Of the rows, for filtering.

    Examples
    --------
    >>> index = Index(measure="distance").fit([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], ids=["a", "b", "c"])
    >>> values, ids = index.query([[0.0, 0.2]], k=2)
    >>> ids.tolist(), values.round(6).tolist()
    ([['a', 'c']], [[0.2, 0.8]])
    >>> index.remove(["a"]).add([[0.0, 0.1]], ids=["d"]).query([[0.0, 0.2]], k=1)[1].tolist()
    [['d']]
    """

    learner: Any = setting(
        None, kind="fitted learner, SimilarityAdapter or None", kw_only=False,
        doc="Maps queries and items, and brings its measure; a low-rank learner makes the index smaller than the "
            "vectors. None compares vectors as they are.",
    )  # fmt: skip
    measure: str = setting(
        "auto", OneOf(("auto", "similarity", "distance", "cosine")),
        kind='{"auto", "similarity", "distance", "cosine"}',
        doc='For vectors as they are: inner product (which "auto" means), Euclidean distance, or cosine.',
    )  # fmt: skip
    engine: str = setting(
        "auto", OneOf(("auto", "exact", "faiss")), kind='{"auto", "exact", "faiss"}',
        doc='"exact": all rows by matrix products, in bounded memory. "faiss": a share of the rows (needs '
            "``pip install 'nearkin[faiss]'``). \"auto\": faiss from 100,000 rows on, where it is installed.",
    )  # fmt: skip
    min_recall: float = setting(
        0.95, Real(0.0, 1.0), kind="float",
        doc="Share of the ten true neighbours that faiss must find on a sample of queries. It visits more and more "
            "cells until it does; if half of them are not enough, the index falls back to exact search.",
    )  # fmt: skip
    random_state: int = setting(0, Integer(0, 2**31 - 2), kind="int", doc="Seed of the sample and of the cells.")

    # ------------------------------------------------------------------ building

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: Any = None, *, ids: ArrayLike | None = None, plausibility: ArrayLike | None = None,
        queries: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Build the index from raw item vectors, forgetting those before.

        Parameters
        ----------
        ids : array-like of shape (n_items,) or None, default=None
            Whole numbers or text, all different; None numbers the rows from 0.
        plausibility : array-like of shape (n_items,) or None, default=None
            In [0, 1], for filtering; None is 1 for all.
        queries : array-like of shape (n_queries, n_features) or None, default=None
            Raw queries on which to measure the recall of faiss; None takes some of the items.
        """
        check_settings(self)
        self._check_learner()
        if self.engine == "faiss":
            require_faiss()
        X = as_vectors(X, "items")
        if not len(X):
            raise InputError("at least one item is needed.", owner=self)
        self.n_features_in_ = X.shape[1]
        self._dtype = X.dtype
        rows = self._map_items(X)
        is_distance = self.measure == "distance" or (self.learner is not None and self.learner.measure.is_distance)
        self._centre: Array | None = rows.mean(axis=0) if is_distance else None
        self._rows = self._prepare(rows)
        self.ids_ = self._make_ids(ids, len(X), None)
        self.plausibility_ = self._check_plausibility(plausibility, len(X))
        self._alive = np.ones(len(X), dtype=bool)
        self._centroids: Array | None = None
        self._n_probe = 1
        self.__dict__.pop("_engine", None)
        self.engine_, self.recall_ = "exact", 1.0
        if self.engine == "faiss" or (self.engine == "auto" and len(X) >= _MANY and find_spec("faiss") is not None):
            if queries is None:
                own = np.sort(np.random.default_rng(self.random_state).permutation(len(X))[:_PROBES])
                self._build_cells(self._map_queries(X[own]), own)
            else:
                probes = self._map_queries(queries)[:_PROBES]
                self._build_cells(probes, np.full(len(probes), -1))
        return self

    def add(self, X: ArrayLike, *, ids: ArrayLike | None = None, plausibility: ArrayLike | None = None) -> Self:
        """Add raw item vectors, with new ids of the kind in use; without ids, numbers go on after the largest one."""
        check_is_fitted(self, "ids_")
        X = as_vectors(X, "items", self.n_features_in_, self._dtype)
        new = self._make_ids(ids, len(X), self.ids_[self._alive])
        plausibility = self._check_plausibility(plausibility, len(X))
        rows = self._map_items(X)
        stored = self._prepare(rows)
        if self.engine_ == "faiss":
            self._engine.add(rows)
        self._rows = np.concatenate([self._rows, stored])
        self.ids_ = np.concatenate([self.ids_, new])
        self.plausibility_ = np.concatenate([self.plausibility_, plausibility])
        self._alive = np.concatenate([self._alive, np.ones(len(X), dtype=bool)])
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove the items with these ids; their memory is freed when a quarter of the rows is gone."""
        check_is_fitted(self, "ids_")
        at = self._find(ids)
        if len(at) == len(self):
            raise InputError("all items would be gone; an index needs at least one.", owner=self)
        self._alive[at] = False
        if self._alive.mean() < 1 - _DEAD:
            kept = self._alive
            self._rows, self.ids_, self.plausibility_ = self._rows[kept], self.ids_[kept], self.plausibility_[kept]
            self._alive = np.ones(len(self._rows), dtype=bool)
            self.__dict__.pop("_engine", None)
        return self

    def set_plausibility(self, ids: ArrayLike, plausibility: ArrayLike) -> Self:
        """Change the plausibility, in [0, 1], of the items with these ids, without building anything again."""
        check_is_fitted(self, "ids_")
        at = self._find(ids)
        self.plausibility_[at] = self._check_plausibility(plausibility, len(at))
        return self

    # ------------------------------------------------------------------ searching

    def query(self, queries: ArrayLike, k: int = 10, *, min_plausibility: float = 0.0) -> tuple[Array, NDArray[Any]]:
        """Find the k best items of every query, best first.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features)
            Raw query vectors.
        k : int, default=10
            Number of results.
        min_plausibility : float, default=0.0
            Items below it are passed over.

        Returns
        -------
        values, ids : ndarray of shape (n_queries, k)
            Distances or similarities, and the ids of the items.
        """
        check_is_fitted(self, "ids_")
        check_argument(self, "k", k, Integer(1, 1_000_000_000))
        check_argument(self, "min_plausibility", min_plausibility, Real())
        mapped = self._map_queries(queries)
        keep = self._alive & (self.plausibility_ >= min_plausibility) if min_plausibility > 0 else self._alive
        n_kept = int(keep.sum())
        if k > n_kept:
            raise InputError(
                f"{k} results are wanted, but {n_kept:,} of {len(self):,} items have a plausibility of at least "
                f"{min_plausibility:g}. Lower k or min_plausibility.",
                owner=self,
            )
        if not len(mapped):
            return np.empty((0, k), mapped.dtype), np.empty((0, k), self.ids_.dtype)
        if self.engine_ == "exact" or n_kept < _SPARSE * len(keep):
            values, at = self._search_exactly(mapped, k, keep)
        else:
            values, at = self._engine.query(mapped, k, None if n_kept == len(keep) else keep)
            short = np.flatnonzero((at < 0).any(axis=1))
            if len(short):  # the cells visited hold too few
                values[short], at[short] = self._search_exactly(mapped[short], k, keep)
        return values, self.ids_[at]

    def __len__(self) -> int:
        check_is_fitted(self, "ids_")
        return int(self._alive.sum())

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it was built."""
        return hasattr(self, "ids_")

    # ------------------------------------------------------------------ inside: engines

    def check_stored(self) -> None:
        """Refuse rows and cells of other widths than the map gives them."""
        width = self._rows.shape[1] - (self._centre is not None)
        if self._centre is not None and len(self._centre) != width:
            raise ValueError(f"rows have {width} columns, their centre {len(self._centre)}")
        if self.learner is None and width != self.n_features_in_:
            raise ValueError(f"rows have {width} columns, queries {self.n_features_in_}")
        if self.engine_ == "faiss" and (self._centroids is None or self._centroids.shape[1] != width):
            raise ValueError("the cells have no centroids, or some of another width")

    def _prepare(self, rows: Array) -> Array:
        """Return mapped items as exact search needs them."""
        return rows if self._centre is None else add_lengths(rows, self._centre)

    def _search_exactly(self, mapped: Array, k: int, keep: Mask) -> tuple[Array, Positions]:
        return search_exactly(self._rows, self._centre, mapped, k, keep)

    @cached_property
    def _engine(self) -> FaissCells:
        """Cells, made again from rows and centroids after loading and after a clean-up."""
        rows = self._rows if self._centre is None else self._rows[:, :-1] + self._centre
        return FaissCells(rows, self._centre is not None, self._centroids, self.random_state, self._n_probe)

    def _build_cells(self, probes: Array, own: Positions) -> None:
        """Use faiss if its recall is high enough; ``own`` holds the rows that the probes are made of, or -1."""
        cells, k = self._engine, min(_DEPTH + 1, len(self._rows))
        _, best = self._search_exactly(probes, k, np.ones(len(self._rows), dtype=bool))
        recall = cells.reach_recall(self.min_recall, probes, best, own)
        if recall >= self.min_recall:
            self.engine_, self.recall_, self._n_probe = "faiss", recall, cells.n_probe
            self._centroids = cells.centroids
            return
        del self._engine
        if self.engine == "faiss":
            warnings.warn(
                f"Index: faiss finds {100 * recall:.1f} % of the true neighbours when it visits half of its cells, "
                f"less than min_recall ({100 * self.min_recall:g} %); search is exact instead.",
                stacklevel=4,
            )

    # ------------------------------------------------------------------ inside: vectors and ids

    def _check_learner(self) -> None:
        if self.learner is None:
            return
        if not all(hasattr(self.learner, name) for name in ("map_queries", "map_items", "transform")):
            raise InputError(
                f"{type(self.learner).__name__} has no map of queries and items; use a learner with one, such as "
                "RobustOASIS or RobustLODML, or a SimilarityAdapter.",
                owner=self,
            )
        check_is_fitted(self.learner)
        if self.measure != "auto":
            raise InputError(
                f"a learner brings its own measure; use {{auto}}, not {self.measure!r}.",
                owner=self, auto=Option("measure", "auto"),
            )  # fmt: skip

    def _map_items(self, X: Array) -> Array:
        return self._scale(X if self.learner is None else np.ascontiguousarray(self.learner.map_items(X)), "items")

    def _map_queries(self, queries: ArrayLike) -> Array:
        Q = as_vectors(queries, "queries", self.n_features_in_, self._dtype)
        return self._scale(Q if self.learner is None else np.ascontiguousarray(self.learner.map_queries(Q)), "queries")

    def _scale(self, X: Array, name: str) -> Array:
        """Give vectors unit length if the measure is cosine; for the others they must not be too long."""
        if self.measure != "cosine":
            check_lengths(X, name)
            return X
        zero = zero_rows(X)
        if len(zero):
            problem = f"{{row}} of {name} is a zero vector, which has no direction and no cosine."
            raise InputError(problem, owner=self, row=Row(zero[0]))
        X = X / np.abs(X).max(axis=1, keepdims=True)
        return X / np.sqrt(np.square(X).sum(axis=1, keepdims=True))

    def _make_ids(self, ids: ArrayLike | None, n: int, taken: NDArray[Any] | None) -> NDArray[Any]:
        """Return ids for n new rows beside those that are taken."""
        if ids is None:
            if taken is not None and taken.dtype.kind == "U":
                raise InputError("its items have text as ids, so new ones need {ids}.", owner=self, ids=Option("ids"))
            first = 0 if taken is None else int(taken.max()) + 1
            if first + n > 2**63:
                raise InputError(
                    f"no numbers follow its largest id, {first - 1}; give {{ids}}.", owner=self, ids=Option("ids")
                )
            return np.arange(first, first + n)
        new = IdTable(ids, "items").ids
        if len(new) != n:
            raise InputError(f"got {len(new)} ids for {n} items.", owner=self)
        if taken is None:
            return new
        if new.dtype.kind != taken.dtype.kind:
            raise InputError(f"ids must be of one kind; it holds {taken.dtype}, got {new.dtype}.", owner=self)
        repeated = np.flatnonzero(np.isin(new, taken))
        if len(repeated):
            problem = f"{{row}} has the id {new[repeated[0]].item()!r}, which is taken. Remove the old item first."
            raise InputError(problem, owner=self, row=Row(repeated[0]))
        return new

    def _find(self, ids: ArrayLike) -> Positions:
        """Return the rows of ids, each once."""
        wanted = as_ids(ids, "ids")
        alive = np.flatnonzero(self._alive)
        at = IdTable(self.ids_[alive], "items").find(wanted)
        if (at < 0).any():
            row = int((at < 0).argmax())
            raise InputError(f"no item has the id {wanted[row].item()!r} ({{row}}).", owner=self, row=Row(row))
        return alive[np.unique(at)] if len(np.unique(at)) < len(at) else alive[at]

    def _check_plausibility(self, values: ArrayLike | None, n: int) -> Array:
        if values is None:
            return np.ones(n)
        try:
            found = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("plausibility must be numbers in [0, 1], one per item.", owner=self) from None
        if found.shape != (n,):
            raise InputError(f"one plausibility per item is needed; got shape {found.shape} for {n} items.", owner=self)
        outside = np.flatnonzero(~((found >= 0) & (found <= 1)))
        if len(outside):
            problem = f"plausibility must be in [0, 1]; {{row}} holds {found[outside[0]]}."
            raise InputError(problem, owner=self, row=Row(outside[0]))
        return found
