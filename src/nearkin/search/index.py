"""One small interface to search: exact by matrix products, or faiss with its recall measured."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from nearkin.checks import Integer, OneOf, Real, Rule, check_parameters
from nearkin.measures import DISTANCE, SIMILARITY, Measure
from nearkin.neighbors import BlockSearch
from nearkin.search.cells import FaissCells, has_faiss, require_faiss
from nearkin.search.vectors import Places, as_ids, as_vectors, zero_rows
from nearkin.transactions import all_or_nothing

__all__ = ["Index"]

Array = NDArray[np.floating]

#: Rows from which ``engine="auto"`` takes faiss, where it is installed.
_MANY = 100_000
#: Queries and results by which recall is measured.
_PROBES = 256
_DEPTH = 10
#: Share of rows below which a filtered search looks at them one by one, and share of removed rows that are kept.
_SPARSE = 0.05
_DEAD = 0.25


class Index(BaseEstimator):
    """Search among vectors under a plain or a learned measure.

    Parameters
    ----------
    learner : fitted learner, SimilarityAdapter or None, default=None
        Maps queries and items; its measure is used. With a low-rank learner the index is smaller than the vectors.
        None compares vectors as they are.
    measure : {"auto", "similarity", "distance", "cosine"}, default="auto"
        For vectors as they are: inner product (which "auto" means), Euclidean distance, or cosine.
    engine : {"auto", "exact", "faiss"}, default="auto"
        "exact": all rows by matrix products, in bounded memory. "faiss": a share of the rows (needs
        ``pip install 'nearkin[faiss]'``). "auto": faiss from 100,000 rows on, where it is installed.
    min_recall : float, default=0.95
        Share of the ten true neighbours that faiss must find on a sample of queries. More and more cells are looked
        into until it does; if half of them are not enough, the index falls back to exact search.
    random_state : int, default=0
        Seed of the sample and of the cells.

    Attributes
    ----------
    engine_ : str
        "exact" or "faiss": what is used.
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

    _transient = ("_cells",)
    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "measure": (OneOf(("auto", "similarity", "distance", "cosine")),),
        "engine": (OneOf(("auto", "exact", "faiss")),),
        "min_recall": (Real(0.0, 1.0),),
        "random_state": (Integer(0),),
    }

    _cells: FaissCells | None = None
    _centroids: Array | None

    def __init__(
        self,
        learner: Any = None,
        *,
        measure: str = "auto",
        engine: str = "auto",
        min_recall: float = 0.95,
        random_state: int = 0,
    ):
        self.learner = learner
        self.measure = measure
        self.engine = engine
        self.min_recall = min_recall
        self.random_state = random_state

    # ------------------------------------------------------------------ building

    @all_or_nothing
    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        ids: ArrayLike | None = None,
        plausibility: ArrayLike | None = None,
        queries: ArrayLike | None = None,
    ) -> Self:
        """Build from items, forgetting those before.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Raw item vectors.
        y : ignored
            There for scikit-learn.
        ids : array-like of shape (n_items,) or None, default=None
            Whole numbers or text, each once; None numbers the rows from 0.
        plausibility : array-like of shape (n_items,) or None, default=None
            In [0, 1], for filtering; None is 1 for all.
        queries : array-like of shape (n_queries, n_features) or None, default=None
            Raw queries by which faiss's recall is measured; None takes some of the items.

        Returns
        -------
        self
            Ready to be asked.
        """
        check_parameters(self, self._rules)
        self._check_learner()
        if self.engine == "faiss":
            require_faiss()
        X = as_vectors(X, "items")
        if not len(X):
            raise ValueError("Index: no items came; at least one is needed.")
        self.n_features_in_ = X.shape[1]
        self._dtype = X.dtype
        rows = self._mapped_items(X)
        self._centre = rows.mean(axis=0) if self._is_distance else np.zeros(rows.shape[1], rows.dtype)
        self._rows = self._stored(rows)
        self.ids_ = self._new_ids(ids, len(X), None)
        self.plausibility_ = _shares(plausibility, len(X))
        self._alive = np.ones(len(X), dtype=bool)
        self._cells, self._centroids = None, None
        self.engine_, self.recall_, self._n_probe = "exact", 1.0, 0
        if self.engine == "faiss" or (self.engine == "auto" and len(X) >= _MANY and has_faiss()):
            if queries is None:
                some = np.sort(np.random.default_rng(self.random_state).permutation(len(X))[:_PROBES])
                self._build_cells(self._mapped_queries(X[some]), some)
            else:
                probes = self._mapped_queries(queries)[:_PROBES]
                self._build_cells(probes, np.full(len(probes), -1))
        return self

    def add(self, X: ArrayLike, *, ids: ArrayLike | None = None, plausibility: ArrayLike | None = None) -> Self:
        """More items; without ids they are numbered on from the largest.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Raw item vectors.
        ids : array-like of shape (n_items,) or None, default=None
            Of the kind of those that are there; none may be there already.
        plausibility : array-like of shape (n_items,) or None, default=None
            For filtering.

        Returns
        -------
        self
            With the items.
        """
        check_is_fitted(self, "ids_")
        X = as_vectors(X, "items", self.n_features_in_, self._dtype)
        taken = self.ids_[self._alive]
        new = self._new_ids(ids, len(X), taken)
        shares = _shares(plausibility, len(X))
        mapped = self._mapped_items(X)
        stored = self._stored(mapped)
        if self._uses_faiss:
            self._engine.add(mapped)
        self._rows = np.concatenate([self._rows, stored])
        self.ids_ = np.concatenate([self.ids_, new])
        self.plausibility_ = np.concatenate([self.plausibility_, shares])
        self._alive = np.concatenate([self._alive, np.ones(len(X), dtype=bool)])
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Take items out.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Ids that are there.

        Returns
        -------
        self
            Without them. Their space is given back when a quarter of the rows is gone.
        """
        check_is_fitted(self, "ids_")
        at = self._places(ids)
        if len(at) == int(self._alive.sum()):
            raise ValueError("Index: all items would be gone; an index needs at least one.")
        self._alive[at] = False
        if self._alive.mean() < 1 - _DEAD:
            kept = self._alive
            self._rows, self.ids_, self.plausibility_ = self._rows[kept], self.ids_[kept], self.plausibility_[kept]
            self._alive = np.ones(len(self._rows), dtype=bool)
            self._cells = None
        return self

    def set_plausibility(self, ids: ArrayLike, plausibility: ArrayLike) -> Self:
        """Change the plausibility of items; nothing is built again.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Ids that are there.
        plausibility : array-like of shape (n,)
            In [0, 1].

        Returns
        -------
        self
            With the new values.
        """
        check_is_fitted(self, "ids_")
        at = self._places(ids)
        self.plausibility_[at] = _shares(plausibility, len(at))
        return self

    # ------------------------------------------------------------------ asking

    def query(self, queries: ArrayLike, k: int = 10, *, min_plausibility: float = 0.0) -> tuple[Array, NDArray[Any]]:
        """The k best items of every query, best first.

        Parameters
        ----------
        queries : array-like of shape (n_queries, n_features)
            Raw query vectors.
        k : int, default=10
            Results.
        min_plausibility : float, default=0.0
            Items below it are passed over.

        Returns
        -------
        values : ndarray of shape (n_queries, k)
            Distances, or similarities.
        ids : ndarray of shape (n_queries, k)
            Whose they are.
        """
        check_is_fitted(self, "ids_")
        if not Integer(1).allows(k):
            raise ValueError(f"Index: `k` must be {Integer(1)}; got {k!r}.")
        mapped = self._mapped_queries(queries)
        keep = self._alive & (self.plausibility_ >= min_plausibility) if min_plausibility > 0 else self._alive
        n_kept = int(keep.sum())
        if k > n_kept:
            raise ValueError(
                f"Index: {k} results were asked for, but {n_kept:,} of {int(self._alive.sum()):,} items "
                f"have a plausibility of at least {min_plausibility:g}. Lower k or min_plausibility."
            )
        if self._uses_faiss and n_kept >= _SPARSE * len(keep):
            values, at = self._engine.query(mapped, k, None if n_kept == len(keep) else keep)
            short = np.flatnonzero((at < 0).any(axis=1))
            if len(short):  # the cells that were looked into held too few
                values[short], at[short] = self._exact(mapped[short], k, keep)
        else:
            values, at = self._exact(mapped, k, keep)
        return values, self.ids_[at]

    def __len__(self) -> int:
        check_is_fitted(self, "ids_")
        return int(self._alive.sum())

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it was built."""
        return hasattr(self, "ids_")

    # ------------------------------------------------------------------ inside: exact search

    @property
    def _is_distance(self) -> bool:
        measure: Measure = self.learner._measure if self.learner is not None else SIMILARITY
        return measure.is_distance or self.measure == "distance"

    def _stored(self, rows: Array) -> Array:
        """Rows whose inner product with a stored query ranks them.

        With ``y~ = (y - c, -|y - c|^2 / 2)`` and ``q~ = (q - c, 1)``, ``q~' y~`` falls as the distance grows.
        """
        if not self._is_distance:
            return rows
        rows = rows - self._centre
        return np.column_stack([rows, -0.5 * np.einsum("ij,ij->i", rows, rows)])

    def _exact(self, mapped: Array, k: int, keep: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
        if self._is_distance:
            mapped = np.column_stack([mapped - self._centre, np.ones(len(mapped), mapped.dtype)])
        search = BlockSearch(self._rows, keep.astype(np.int64), _kept_scores, SIMILARITY)
        values, at = search.query(mapped, k)
        if not self._is_distance:
            return values, at
        # From the differences of the few found: the sum above loses the digits of small distances.
        values = np.sqrt(np.square(mapped[:, None, :-1] - self._rows[at, :-1]).sum(axis=2))
        order = np.argsort(values, axis=1, kind="stable")
        return np.take_along_axis(values, order, axis=1), np.take_along_axis(at, order, axis=1)

    # ------------------------------------------------------------------ inside: faiss

    @property
    def _uses_faiss(self) -> bool:
        return self.engine_ == "faiss"

    @property
    def _engine(self) -> FaissCells:
        """Cells; made again from the rows and the centroids after loading and after rows were taken out."""
        if self._cells is None:
            rows = self._rows[:, :-1] + self._centre if self._is_distance else self._rows
            measure = DISTANCE if self._is_distance else SIMILARITY
            self._cells = FaissCells(rows, measure, self._centroids, self.random_state)
            self._cells.n_probe = max(1, self._n_probe)
        return self._cells

    def _build_cells(self, probes: Array, own: NDArray[np.integer]) -> None:
        """Look into more cells until the recall is high enough, or fall back; a row that finds itself is no proof."""
        cells, k = self._engine, min(_DEPTH + 1, len(self._rows))
        self._centroids = cells.centroids
        keep = np.ones(len(self._rows), dtype=bool)
        _, true = self._exact(probes, k, keep)
        others = true != own[:, None]
        recall, n_probe = 0.0, 1
        while n_probe <= max(1, len(cells.centroids) // 2):
            cells.n_probe = n_probe
            _, found = cells.query(probes, k, None)
            recall = float((true[:, :, None] == found[:, None, :]).any(axis=2)[others].mean()) if others.any() else 1.0
            if recall >= self.min_recall:
                self.engine_, self.recall_, self._n_probe = "faiss", recall, n_probe
                return
            n_probe *= 2
        self._cells = self._centroids = None
        if self.engine == "faiss":
            warnings.warn(
                f"Index: faiss finds {100 * recall:.1f} % of the true neighbours when it looks into half of its cells, "
                f"and {100 * self.min_recall:g} % are asked for; search is exact instead. Lower min_recall for speed.",
                stacklevel=4,
            )

    # ------------------------------------------------------------------ inside: vectors and ids

    def _check_learner(self) -> None:
        if self.learner is None:
            return
        if not all(hasattr(self.learner, name) for name in ("map_queries", "map_items", "_measure", "transform")):
            raise ValueError(
                f"Index: {type(self.learner).__name__} has no map of queries and items; use a learner with one, "
                "such as RobustOASIS or RobustLODML, or a SimilarityAdapter."
            )
        check_is_fitted(self.learner)
        if self.measure != "auto":
            raise ValueError(f"Index: a learner brings its own measure; leave measure='auto', not {self.measure!r}.")

    def _mapped_items(self, X: Array) -> Array:
        if self.learner is not None:
            return np.ascontiguousarray(self.learner.map_items(X))
        return self._plain(X, "items")

    def _mapped_queries(self, queries: ArrayLike) -> Array:
        Q = as_vectors(queries, "queries", self.n_features_in_, self._dtype)
        mapped = (
            np.ascontiguousarray(self.learner.map_queries(Q)) if self.learner is not None else self._plain(Q, "queries")
        )
        return mapped

    def _plain(self, X: Array, name: str) -> Array:
        if self.measure != "cosine":
            return X
        zero = zero_rows(X)
        if len(zero):
            raise ValueError(f"Index: row {zero[0]} of {name} is a zero vector, which has no direction and no cosine.")
        X = X / np.abs(X).max(axis=1, keepdims=True)
        return X / np.sqrt(np.square(X).sum(axis=1, keepdims=True))

    def _new_ids(self, ids: ArrayLike | None, n: int, taken: NDArray[Any] | None) -> NDArray[Any]:
        if ids is None:
            if taken is not None and taken.dtype.kind == "U":
                raise ValueError("Index: its items are named by text, so that new ones need `ids`.")
            first = 0 if taken is None else int(taken.max()) + 1
            return np.arange(first, first + n)
        new = Places(ids, "items").ids
        if len(new) != n:
            raise ValueError(f"Index: {len(new)} ids came for {n} items.")
        if taken is None:
            return new
        if new.dtype.kind != taken.dtype.kind:
            raise ValueError(f"Index: ids must be of one kind; it holds {taken.dtype}, and {new.dtype} came.")
        again = np.flatnonzero(np.isin(new, taken))
        if len(again):
            raise ValueError(
                f"Index: row {again[0]} has the id {new[again[0]].item()!r}, which is there already "
                f"({len(again)} such). Remove the old one first."
            )
        return new

    def _places(self, ids: ArrayLike) -> NDArray[np.intp]:
        asked = as_ids(ids, "ids")
        alive = np.flatnonzero(self._alive)
        at = Places(self.ids_[alive], "items").of(asked)
        missing = np.flatnonzero(at < 0)
        if len(missing):
            raise ValueError(
                f"Index: no item has the id {asked[missing[0]].item()!r} (row {missing[0]}, {len(missing)} such)."
            )
        return alive[np.unique(at)] if len(np.unique(at)) < len(at) else alive[at]


def _kept_scores(queries: Array, items: Array, keep: NDArray[np.int64]) -> Array:
    """Inner products; rows that are not kept come last."""
    scores = queries @ items.T
    if not keep.all():
        scores[:, keep == 0] = -np.inf
    return scores


def _shares(values: ArrayLike | None, n: int) -> Array:
    if values is None:
        return np.ones(n)
    found = np.array(values, dtype=np.float64)
    if found.shape != (n,):
        raise ValueError(f"Index: one plausibility per item is needed; got shape {found.shape} for {n} items.")
    outside = np.flatnonzero(~((found >= 0) & (found <= 1)))
    if len(outside):
        raise ValueError(f"Index: plausibility must be in [0, 1]; row {outside[0]} holds {found[outside[0]]}.")
    return found
