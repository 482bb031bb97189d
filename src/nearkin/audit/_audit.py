"""What an audit found, and how it is made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from nearkin._version import __version__
from nearkin.audit._evidence import Evidence, Neighbour, Prototype, Space
from nearkin.audit._interval import LEVEL, rate_interval
from nearkin.audit._suggest import suggest
from nearkin.checks import Integer, OneOf
from nearkin.files import replacing, write_csv
from nearkin.labels import as_labels, sorted_classes
from nearkin.learners import OnlineLearner
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import Flips

__all__ = ["ASKED", "COLUMNS", "LabelAudit", "audit_labels", "truths", "votes_on"]

Array = NDArray[np.floating]
Codes = NDArray[np.int64]
Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

#: Share of the rows that the estimate of the rate asks at least; see `nearkin.noise.estimate_noise_rate`.
ASKED = 0.1

#: Columns of the tables; the last two are in tables of suspects only.
COLUMNS = (
    "row", "given_label", "suggested_label", "is_suspect", "plausibility", "confidence", "score",
    "near_rows", "near_labels",
)  # fmt: skip

#: Neighbours that stand in a table of suspects.
_NEAR = 5


def audit_labels(
    X: ArrayLike,
    y: ArrayLike,
    learner: OnlineLearner | RobustKNeighborsClassifier | str | None = None,
    random_state: Any = None,
    *,
    noise_rate: float | str = "auto",
) -> LabelAudit:
    """Say which labels are wrong, what they should be, and how many there are.

    One pass learns a measure that wrong labels move little; neighbours in several spaces then vote on every label.
    There is no model to bring and nothing is cross-validated.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Raw features or embeddings; no scaling is needed.
    y : array-like of shape (n_samples,)
        Labels of any hashable kind.
    learner : OnlineLearner, RobustKNeighborsClassifier, "auto" or None, default=None
        Measure to learn; None and "auto" take the classifier's own. A learner that is fitted already is used as it is.
        A classifier with ``n_neighbors="auto"`` that was fitted on these rows is not fitted again.
    random_state : int, Generator, RandomState or None, default=None
        Seed.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of wrong labels, if you know it; then as many rows are suspects.

    Returns
    -------
    LabelAudit
        What was found.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import nearkin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> noisy, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    >>> audit = nearkin.audit_labels(X, noisy, random_state=0)
    >>> round(audit.noise_rate, 1), bool(is_wrong[audit.is_suspect].mean() > 0.8)
    (0.2, True)
    """
    labels = as_labels(y, "audit_labels")
    n_classes = len(set(labels.tolist()))
    if len(labels) > 10 and 2 * n_classes > len(labels):
        raise ValueError(
            f"audit_labels: y holds {n_classes:,} different values in {len(labels):,} rows; is it a class at all? "
            "A label can be judged only by other rows that have it."
        )
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    if sparse.issparse(X):
        raise ValueError(
            "audit_labels: X is sparse, and neighbours are looked for among dense rows; reduce it first, for example "
            "with make_pipeline(TruncatedSVD(100), LabelAuditor())."
        )
    if isinstance(learner, OnlineLearner) and not learner._measure.is_distance:
        raise ValueError(
            f"audit_labels: {type(learner).__name__} learns a similarity; give a learner of a distance, such as "
            "RobustLODML."
        )
    if isinstance(learner, RobustKNeighborsClassifier):
        model = _ready(learner, labels, noise_rate)
    else:
        chosen = "auto" if learner is None else learner
        model = RobustKNeighborsClassifier(
            chosen, n_neighbors="auto", noise_rate=noise_rate, random_state=random_state
        ).fit(X, labels)
    if model._jury is None:
        raise ValueError(
            f"audit_labels: {type(model.learner_).__name__} has no one map into a space with distances; give another "
            "learner, such as RobustLODML."
        )
    return LabelAudit(model, X, labels)


def _ready(
    model: RobustKNeighborsClassifier, labels: NDArray[Any], noise_rate: float | str
) -> RobustKNeighborsClassifier:
    check_is_fitted(model)
    if not hasattr(model, "score_"):
        raise ValueError("audit_labels: a classifier is audited if it has n_neighbors='auto'; fit such a one.")
    if len(model.plausibility_) != len(labels):
        raise ValueError(
            f"audit_labels: the classifier was fitted on {len(model.plausibility_)} rows, y has {len(labels)} labels; "
            "give the rows and labels that it was fitted on."
        )
    if not OneOf(("auto",)).allows(noise_rate):
        raise ValueError("audit_labels: the rate of a fitted classifier is settled; leave out `noise_rate`.")
    return model


class LabelAudit:
    """What is known about every label; made by `audit_labels`.

    Parameters
    ----------
    classifier : RobustKNeighborsClassifier
        Fitted on ``X`` and ``y`` with ``n_neighbors="auto"``.
    X : array-like of shape (n_samples, n_features)
        The rows; kept, not copied, since `evidence` looks at them again.
    y : array-like of shape (n_samples,)
        The labels.

    Attributes
    ----------
    given_label : ndarray of shape (n_samples,)
        Labels as given.
    plausibility : ndarray of shape (n_samples,)
        Probability that the label is right, in (0, 1].
    score : ndarray of shape (n_samples,)
        Votes for the label against those for the best other one, in [0, 1]; suspects have the lowest. It tells rows
        apart that are equally implausible, so it is the order in which to look at rows.
    is_suspect : ndarray of bool of shape (n_samples,)
        Rows whose labels are probably wrong: about as many as the noise rate says, and some where another label has
        twice the votes.
    suggested_label : ndarray of shape (n_samples,)
        Label that fits best; the given one for rows that are no suspects.
    confidence : ndarray of shape (n_samples,)
        Probability that the suggested label is right.
    noise_rate : float
        Estimated share of wrong labels.
    noise_rates : ndarray of shape (n_classes,)
        Estimated share of wrong labels among the rows that belong to each class; all the same unless the data says
        clearly otherwise.
    noise_interval : tuple of float
        Interval that holds the rate with probability 0.95 if wrong labels do not follow the features; see
        `nearkin.audit.rate_interval`. Both ends are the rate itself where it was given.
    classes : ndarray
        Sorted classes.
    classifier : RobustKNeighborsClassifier
        The fitted classifier, which predicts as if the labels were clean.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import nearkin
    >>> X, y = load_iris(return_X_y=True)
    >>> y[[0, 99]] = 2  # two wrong labels
    >>> audit = nearkin.audit_labels(X, y, random_state=0)
    >>> bool(audit.plausibility[0] < 0.5), int(audit.suggested_label[0])
    (True, 0)
    >>> X_clean, y_clean = audit.clean(X, y)
    >>> len(y) - len(y_clean) == audit.n_suspects
    True
    """

    # The rows in the learned space, which are mapped again when somebody asks, and not saved.
    _transient = ("_held",)
    _held: Space | None = None

    def __init__(self, classifier: RobustKNeighborsClassifier, X: ArrayLike, y: ArrayLike):
        labels = as_labels(y, type(self).__name__)
        self.classifier = classifier
        self.given_label = labels
        self.classes = classifier.classes_
        found, codes = sorted_classes(labels)
        if found.tolist() != self.classes.tolist():
            raise ValueError(f"{type(self).__name__}: y is not what the classifier was fitted on; its classes differ.")
        self.plausibility: Array = classifier.plausibility_
        self.score: Array = classifier.score_
        self.is_suspect = np.ones(len(labels), dtype=bool)
        self.is_suspect[classifier.kept_] = False
        votes, flips = votes_on(classifier), classifier._flips
        best, self.confidence = suggest(
            lambda rows: truths(flips, votes(rows), codes[rows]),
            codes, self.plausibility, self.is_suspect, len(self.classes),
        )  # fmt: skip
        self.suggested_label = np.where(self.is_suspect, self.classes[best], labels)
        self.noise_rate = float(classifier.noise_rate_)
        self.noise_rates: Array = flips.rates
        self.noise_interval = (self.noise_rate, self.noise_rate)
        if self.rate_is_estimated:
            self.noise_interval = rate_interval(self.noise_rate, max(1, round(ASKED * len(labels))))
        self._codes, self._best = codes, best
        self._X: Any = X

    @property
    def rate_is_estimated(self) -> bool:
        """Whether the noise rate was estimated rather than given."""
        return isinstance(self.classifier.noise_rate, str)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.given_label)

    @property
    def n_suspects(self) -> int:
        """Number of suspects."""
        return int(self.is_suspect.sum())

    @property
    def order(self) -> NDArray[np.int64]:
        """Rows in the order in which to look at them: the most doubtful first."""
        return np.lexsort((self.plausibility, self.score, ~self.is_suspect))

    @property
    def noise_matrix(self) -> NDArray[np.int64]:
        """Rows by given class (down) and suggested class (across), in the order of `classes`.

        What is off the diagonal are the suspects. Of shape (n_classes, n_classes); with thousands of classes
        `noise_pairs` is smaller.
        """
        k = len(self.classes)
        return np.bincount(self._codes * k + self._best, minlength=k * k).reshape(k, k)

    def noise_pairs(self) -> list[tuple[Any, Any, int]]:
        """Given label, suggested label and number of suspects, the most frequent first."""
        k = len(self.classes)
        pairs, counts = np.unique((self._codes * k + self._best)[self.is_suspect], return_counts=True)
        at = np.argsort(-counts, kind="stable")
        names = self.classes.tolist()
        return [(names[p // k], names[p % k], int(n)) for p, n in zip(pairs[at].tolist(), counts[at], strict=True)]

    def evidence(self, i: int, n_neighbors: int = 5) -> Evidence:
        """Why the label of a row is doubted, or is not.

        Parameters
        ----------
        i : int
            Number of the row, from 0.
        n_neighbors : int, default=5
            Neighbours to show.

        Returns
        -------
        Evidence
            Print it, or read its parts.
        """
        if not Integer(0).allows(i) or i >= self.n_rows:
            raise ValueError(f"LabelAudit: row must be a whole number from 0 to {self.n_rows - 1}; got {i!r}.")
        if not Integer(1).allows(n_neighbors):
            raise ValueError(f"LabelAudit: `n_neighbors` must be {Integer(1)}; got {n_neighbors!r}.")
        row, space = np.array([i]), self._space
        typical, names = space.prototypes()[2], self.classes.tolist()
        near = []
        for codes in (self._codes[row], self._best[row]):
            which, distance = space.nearest_prototypes(row, codes)
            near.append(Prototype(names[codes[0]], int(typical[which[0]]), float(distance[0])))
        found, distances = space.neighbours(row, n_neighbors)
        neighbours = tuple(
            Neighbour(_plain(self.given_label[j]), int(j), float(distance), float(self.plausibility[j]))
            for j, distance in zip(found[0], distances[0], strict=True)
        )
        return Evidence(
            int(i), _plain(self.given_label[i]), _plain(self.suggested_label[i]), float(self.plausibility[i]),
            float(self.confidence[i]), near[0], near[1], neighbours, space.costliest(int(i)),
        )  # fmt: skip

    def clean(self, X: Any, y: ArrayLike, how: str = "drop") -> tuple[Any, NDArray[Any]]:
        """Rows and labels without the suspects, or with their suggested labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The rows, or anything with one entry a row (a frame, a list of texts).
        y : array-like of shape (n_samples,)
            The labels that were audited.
        how : {"drop", "relabel"}, default="drop"
            Leave suspects out, or give them the suggested label.

        Returns
        -------
        X : same kind as given
            Rows that stay.
        y : ndarray
            Their labels.
        """
        from sklearn.utils import _safe_indexing

        if not OneOf(("drop", "relabel")).allows(how):
            raise ValueError(f"LabelAudit: `how` must be 'drop' or 'relabel'; got {how!r}.")
        labels = as_labels(y, type(self).__name__)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n != self.n_rows or len(labels) != self.n_rows:
            raise ValueError(
                f"LabelAudit: {self.n_rows} rows were audited; X has {n} rows and y has {len(labels)} labels."
            )
        if labels.tolist() != self.given_label.tolist():
            raise ValueError("LabelAudit: y differs from the labels that were audited; audit these first.")
        if how == "relabel":
            return X, self.suggested_label.copy()
        kept = np.flatnonzero(~self.is_suspect)
        return _safe_indexing(X, kept), labels[kept]

    # ------------------------------------------------------------------ for other tools

    def knn_graph(self, n_neighbors: int = 10) -> sparse.csr_matrix:
        """Distances to the nearest other rows in the learned space, as cleanlab's ``knn_graph`` wants them.

        Parameters
        ----------
        n_neighbors : int, default=10
            Entries of each row, the nearest first.

        Returns
        -------
        CSR matrix of shape (n_samples, n_samples)
            Distances.
        """
        if not Integer(1).allows(n_neighbors) or n_neighbors >= self.n_rows:
            raise ValueError(
                f"LabelAudit: `n_neighbors` must be a whole number from 1 to {self.n_rows - 1}; got {n_neighbors!r}."
            )
        from sklearn.neighbors import NearestNeighbors

        rows = self._space.rows
        distances, index = NearestNeighbors(n_neighbors=n_neighbors).fit(rows).kneighbors()
        ends = np.arange(0, self.n_rows * n_neighbors + 1, n_neighbors)
        return sparse.csr_matrix((distances.ravel(), index.ravel(), ends), shape=(self.n_rows, self.n_rows))

    def to_cleanlab(self, n_neighbors: int = 10) -> dict[str, Any]:
        """What cleanlab asks for, from this audit instead of a cross-validated model.

        Parameters
        ----------
        n_neighbors : int, default=10
            Of the graph.

        Returns
        -------
        dict
            ``labels`` as whole numbers, ``pred_probs`` (n_samples, n_classes) as the neighbours vote with the row
            itself left out, ``label_quality`` (the `score`), and ``knn_graph``.
        """
        votes = votes_on(self.classifier)
        return {
            "labels": self._codes.copy(),
            "pred_probs": votes(np.arange(self.n_rows)),
            "label_quality": self.score.copy(),
            "knn_graph": self.knn_graph(n_neighbors),
        }

    # ------------------------------------------------------------------ tables and files

    def columns(self, ids: Columns | None = None, first_row: int = 0) -> dict[str, Any]:
        """All rows as named columns, in their order.

        Parameters
        ----------
        ids : mapping of str to sequence or None
            Columns to put first, such as an id.
        first_row : int, default=0
            Number of the first row.

        Returns
        -------
        dict
            ``row``, ``given_label``, ``suggested_label``, ``is_suspect``, ``plausibility``, ``confidence``,
            ``score``.
        """
        values = (
            np.arange(first_row, first_row + self.n_rows), self.given_label, self.suggested_label, self.is_suspect,
            self.plausibility, self.confidence, self.score,
        )  # fmt: skip
        return {**_checked_ids(ids, self.n_rows, COLUMNS), **dict(zip(COLUMNS, values, strict=False))}

    def to_frame(self) -> Any:
        """All rows as a pandas frame, with the index of X where that is a frame."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "LabelAudit.to_frame needs pandas (pip install pandas); `columns` gives the same as a dict."
            ) from None
        return pandas.DataFrame(self.columns(), index=getattr(self._X, "index", None))

    def to_csv(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Columns | None = None,
        suspects_only: bool = False,
        first_row: int = 0,
    ) -> None:
        """Write the rows as CSV, the most doubtful first.

        Parameters
        ----------
        path : path-like
            Destination; replaced only when the new file is complete.
        ids : mapping of str to sequence or None
            Columns to put first.
        suspects_only : bool, default=False
            Leave out the rows that are no suspects, and add the nearest plausible rows and their labels.
        first_row : int, default=0
            Number of the first row.
        """
        order = self.order[: self.n_suspects] if suspects_only else self.order
        columns = {name: _take(values, order) for name, values in self.columns(ids, first_row).items()}
        if suspects_only:
            near = self._space.neighbours(order, _NEAR)[0] if len(order) else np.empty((0, _NEAR), dtype=np.int64)
            labels = self.given_label[near]
            columns[COLUMNS[-2]] = [" ".join(map(str, one)) for one in (near + first_row).tolist()]
            columns[COLUMNS[-1]] = [" | ".join(map(str, one)) for one in labels.tolist()]
        with replacing(path) as file:
            write_csv(file, columns)

    def to_json(self, path: str | os.PathLike[str], *, ids: Columns | None = None) -> None:
        """Write everything as JSON: the rate, the pairs of confused classes, and all rows in their order.

        Parameters
        ----------
        path : path-like
            Destination; replaced only when the new file is complete.
        ids : mapping of str to sequence or None
            Columns to add to the rows.
        """
        held = {
            "nearkin": __version__,
            "n_rows": self.n_rows,
            "n_suspects": self.n_suspects,
            "noise_rate": self.noise_rate,
            "noise_interval": list(self.noise_interval),
            "interval_level": LEVEL,
            "noise_rates": self.noise_rates.tolist(),
            "rate_is_estimated": self.rate_is_estimated,
            "classes": [_jsonable(one) for one in self.classes.tolist()],
            "noise_pairs": [
                {"given": _jsonable(given), "suggested": _jsonable(other), "rows": n}
                for given, other, n in self.noise_pairs()
            ],
            "rows": {
                name: [_jsonable(one) for one in (values.tolist() if isinstance(values, np.ndarray) else values)]
                for name, values in self.columns(ids).items()
            },
        }
        with replacing(path) as file:
            file.write(json.dumps(held, ensure_ascii=False, allow_nan=False).encode())

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Label audit",
        ids: Columns | None = None,
        texts: Sequence[Any] | NDArray[Any] | None = None,
        images: Sequence[Any] | NDArray[Any] | None = None,
        notes: Mapping[str, str] | None = None,
        first_row: int = 0,
    ) -> None:
        """Write one page that needs nothing else: noise, map, suspects with evidence, noise matrix, cleaned labels.

        Parameters
        ----------
        path : path-like
            Destination; replaced only when the page is complete.
        title : str, default="Label audit"
            Heading.
        ids : mapping of str to sequence or None
            Columns that name the rows; the first is shown.
        texts : sequence of str or None
            A text for every row, shown beside it.
        images : sequence of path or None
            An image file for every row, shown small; needs Pillow.
        notes : mapping of str to str or None
            More lines for the list of what was done.
        first_row : int, default=0
            Number of the first row.
        """
        from nearkin.audit._page import page

        made = page(
            self,
            title=title,
            ids=_checked_ids(ids, self.n_rows, COLUMNS),
            texts=_checked_ids({"texts": texts} if texts is not None else None, self.n_rows).get("texts"),
            images=_checked_ids({"images": images} if images is not None else None, self.n_rows).get("images"),
            notes=notes or {},
            first_row=first_row,
        )
        with replacing(path) as file:
            file.write(made.encode())

    def summary(self) -> list[tuple[str, str]]:
        """A few lines for people: names and values."""
        low, high = self.noise_interval
        rate = f"{100 * self.noise_rate:.1f} %"
        rate += f" ({100 * low:.1f} to {100 * high:.1f})" if self.rate_is_estimated else " (as given)"
        pairs = [f"{_short(one)} \N{RIGHTWARDS ARROW} {_short(two)} ({n:,})" for one, two, n in self.noise_pairs()[:3]]
        by_class = np.bincount(self._codes[self.is_suspect], minlength=len(self.classes))
        size = np.bincount(self._codes, minlength=len(self.classes))
        worst = np.argsort(-by_class / np.maximum(size, 1), kind="stable")[:3]
        names = self.classes.tolist()
        shares = [f"{_short(names[c])} ({100 * by_class[c] / size[c]:.0f} %)" for c in worst if by_class[c]]
        sure = int((self.is_suspect & (self.confidence > 0.5)).sum())
        return [
            ("rows", f"{self.n_rows:,} with {self.classifier.n_features_in_:,} features"),
            ("classes", f"{len(self.classes):,}"),
            ("wrong labels", rate),
            ("suspects", f"{self.n_suspects:,}"),
            ("suggestions", f"{sure:,} more likely right than not"),
            ("confused", ", ".join(pairs) or "none"),
            ("worst classes", ", ".join(shares) or "none"),
        ]

    def __repr__(self) -> str:
        low, high = self.noise_interval
        return (
            f"LabelAudit({self.n_rows} rows, {len(self.classes)} classes, {self.n_suspects} suspects, "
            f"noise rate {self.noise_rate:.3f} [{low:.3f}, {high:.3f}])"
        )

    @property
    def _space(self) -> Space:
        if self._held is None:
            self._held = Space(self.classifier, self._X, self.given_label, self._codes)
        return self._held


def votes_on(model: RobustKNeighborsClassifier) -> Callable[[Codes], Array]:
    """Shares of the true classes of some training rows, as plausible other rows have it."""
    assert model._jury is not None
    ask = model._jury.left_out(model.plausibility_)
    return lambda rows: model._flips.settled(ask(rows))


def truths(flips: Flips, shares: Array, codes: Codes) -> Array:
    """Shares of the true classes times the probability that a row of each is labelled as the row is."""
    return shares if flips.matrix is None else shares * flips.matrix[:, codes].T


def _checked_ids(ids: Columns | None, n: int, taken: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of the user, one value a row, under names that are free."""
    for name, values in (ids or {}).items():
        if name in taken:
            raise ValueError(f"LabelAudit: a column {name!r} is there already; rename yours.")
        if len(values) != n:
            raise ValueError(f"LabelAudit: {name!r} has {len(values)} values for {n} rows.")
    return dict(ids or {})


def _take(values: Sequence[Any] | NDArray[Any], order: NDArray[np.int64]) -> Sequence[Any] | NDArray[Any]:
    return values[order] if isinstance(values, np.ndarray) else [values[i] for i in order]


def _short(label: Any, most: int = 30) -> str:
    """A label on one line of a terminal, whatever it holds."""
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(label))
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _jsonable(value: Any) -> Any:
    """Numbers, text and truth values as they are, a number that is none as null, anything else as text."""
    value = _plain(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
