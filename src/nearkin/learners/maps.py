"""What learners offer whose parameter has a map: rows embedded, distances, the matrix itself."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from nearkin.accelerator import find
from nearkin.arrays import Array
from nearkin.errors import InputError, owned_by
from nearkin.measures import Measure
from nearkin.parameters import MappedParameter, check_metric_fits
from nearkin.rows import LARGEST
from nearkin.settings import at_one_moment

__all__ = ["MapMixin"]

#: Numbers from which rows are mapped on the device.
_MANY_NUMBERS = 1 << 22


class MapMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """`transform`, pair distances and scores, and the maps as arrays; goes before `OnlineLearner` among the bases.

    Examples
    --------
    >>> from nearkin.learners import OKS, ODML
    >>> issubclass(ODML, MapMixin), issubclass(OKS, MapMixin)  # a Mercer kernel has no finite map
    (True, False)
    """

    fitted = """
    metric_ : ndarray of shape (n_features, n_features)
        M on the learner's scale, ``L L'`` for low rank, with the start's map in it (made when read).
    components_ : ndarray of shape (n_components, n_features)
        ``transform(X) == scaling_.apply(X) @ components_.T``. After the discriminant start of a similarity, which
        brings mapped rows to one length, all matrices act on ``state_.start.place(scaling_.apply(X))`` instead.
    query_map_, item_map_ : ndarray of shape (n_components, n_features)
        The two sides whose inner product is the score of a similarity.
    """

    _fitted: Any
    _learned: Any
    _name: str
    measure: ClassVar[Measure]
    map_blocks: Any
    check_rows: Any
    device: Any
    _check_pairs: Any

    def transform(self, X: ArrayLike) -> Array:
        """Map rows so that the measure becomes Euclidean distance (or inner product), start included.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Raw features.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Mapped rows.
        """
        return self.embed(X)

    @at_one_moment
    def embed(self, X: ArrayLike) -> Array:
        """Do as `transform`, but return a plain array whatever output scikit-learn was told to make."""
        with owned_by(self):
            parameter = self._fitted.parameter
            is_elsewhere = self.device != "cpu" and parameter.has_matrix
            found = self._embed_on_device(X) if is_elsewhere else None
            return self.map_blocks(X, parameter.embed) if found is None else found

    def _embed_on_device(self, X: ArrayLike) -> Array | None:
        """Map many rows there; None leaves few rows, and rows that are wrong, to the processor."""
        state = self._fitted
        if (
            not isinstance(X, np.ndarray)
            or X.size < _MANY_NUMBERS
            or (state.start is not None and state.start.length > 0.0)
        ):
            return None
        from nearkin.accelerator.device_search import map_rows

        rows = self.check_rows(X)
        limit = LARGEST[np.dtype(state.dtype)]
        return map_rows(rows, state.scaling, self.components_, limit, find(self.device, type(self).__name__))

    @at_one_moment
    def pair_score(self, X1: ArrayLike, X2: ArrayLike) -> Array:
        """Score of row i of X1 with row i of X2; larger is closer.

        Returns
        -------
        ndarray of shape (n_samples,)
            ``x1' M x2`` for similarities, minus `pair_distance` for distances.
        """
        if self.measure.is_distance:
            return -self.pair_distance(X1, X2)
        left, right = self.map_queries(X1), self.map_items(X2)
        self._check_pairs(left, right)
        return (left * right).sum(axis=1)

    @at_one_moment
    def pair_distance(self, X1: ArrayLike, X2: ArrayLike) -> Array:
        """Distance between row i of X1 and row i of X2, ``sqrt((x1 - x2)' M (x1 - x2))`` (Eq. 1).

        Returns
        -------
        ndarray of shape (n_samples,)
            Distances; only for learners whose measure is one.
        """
        if not self.measure.is_distance:
            raise TypeError(f"{type(self).__name__} learns a similarity, which is not a distance: use pair_score.")
        left, right = self.embed(X1), self.embed(X2)
        self._check_pairs(left, right)
        return np.sqrt(-self.measure.pair_scores(left, right))

    def map_queries(self, X: ArrayLike) -> Array:
        """Left side of the score, by `query_map_`. Inner products with `map_items` are the scores."""
        return self._side(X, "query_map")

    def map_items(self, X: ArrayLike) -> Array:
        """Right side of the score, by `item_map_`."""
        return self._side(X, "item_map")

    @at_one_moment
    def _side(self, X: ArrayLike, name: str) -> Array:
        parameter = self._fitted.parameter
        if self.measure.is_distance:
            return self.embed(X)
        matrix = getattr(parameter, name)
        return self.map_blocks(X, lambda block: block @ matrix.T)

    def _map(self, attribute: str) -> MappedParameter:
        found: MappedParameter = self._learned(attribute).parameter
        return found

    def _through_start(self, matrix: Array) -> Array:
        """A map of the rows that are learned as a map of scaled rows; what a start has normalised has none."""
        start = self._fitted.start
        return matrix if start is None or start.length > 0.0 else matrix @ start.map

    def _metric_through_start(self, matrix: Array) -> Array:
        """The same of a matrix of pairs; that of a distance, which is symmetric."""
        start = self._fitted.start
        if start is None or start.length > 0.0:
            return matrix
        check_metric_fits(start.map.shape[1], start.map.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            found = start.map.T @ matrix @ start.map
        if not np.isfinite(found).all():
            raise InputError("the metric of rows as small as these overflows. Use scale='auto'.", owner=self)
        return 0.5 * (found + found.T)

    @property
    @at_one_moment
    def metric_(self) -> Array:
        """M on the learner's scale."""
        return self._metric_through_start(self._map("metric_").metric)

    @property
    @at_one_moment
    def components_(self) -> Array:
        """Map of shape (n_components, n_features); ``transform(X) == scaling_.apply(X) @ components_.T``.

        After the discriminant start of a similarity: ``state_.start.place(scaling_.apply(X)) @ components_.T``.
        """
        with owned_by(self):
            return self._through_start(self._map("components_").components)

    @property
    @at_one_moment
    def query_map_(self) -> Array:
        """Left side of the score, of shape (n_components, n_features)."""
        return self._through_start(self._map("query_map_").query_map)

    @property
    @at_one_moment
    def item_map_(self) -> Array:
        """Right side of the score, of shape (n_components, n_features)."""
        return self._through_start(self._map("item_map_").item_map)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        """Keeps float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
