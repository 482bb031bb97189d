"""What an audit found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.arrays import Array, Index
from nearkin.audit import exports
from nearkin.audit.evidence import Evidence, PrototypeMap, explain
from nearkin.audit.exports import COLUMNS, DEFAULT_HOW, Cleaning, Columns, Values, check_ids, take_rows
from nearkin.audit.page import render_page
from nearkin.errors import InputError
from nearkin.files import claim, replacing
from nearkin.jury import JuryDecision
from nearkin.labels import as_labels, sorted_classes
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import rate_interval, suggest_labels
from nearkin.settings import Integer, check_argument
from nearkin.stored import Anything, ArrayOf, Items, Number, Part, stored

__all__ = ["COUNTED", "LabelAudit"]

#: Share of the rows that the estimate of the rate counts at least; see `nearkin.noise.estimate_noise_rate`.
COUNTED = 0.1


@stored(
    classifier=Part(RobustKNeighborsClassifier, n="n", c="c", d="d"),
    decision=Part(JuryDecision, n="n", c="c"),
    given_label=ArrayOf("n", of="labels"),
    classes=ArrayOf("c", of="labels"),
    plausibility=ArrayOf("n", low=0.0, high=1.0),
    score=ArrayOf("n", low=0.0, high=1.0),
    is_suspect=ArrayOf("n", of="flags"),
    confidence=ArrayOf("n", low=0.0, high=1.0),
    suggested_label=ArrayOf("n", of="labels"),
    noise_rate=Number(0.0, 1.0),
    noise_rates=ArrayOf("c", low=0.0, high=1.0),
    noise_interval=Items(Number(0.0, 1.0), least=2),
    given_code=ArrayOf("n", of="codes", low=0, below="c"),
    suggested_code=ArrayOf("n", of="codes", low=0, below="c"),
    _X=Anything(),
)
class LabelAudit:
    """What an audit found about every label; made by `audit_labels`.

    Parameters
    ----------
    classifier : RobustKNeighborsClassifier
        Fitted on ``X`` and ``y`` with ``n_neighbors="auto"``.
    X : array-like of shape (n_samples, n_features)
        The rows; kept, not copied, since the map and the prototypes need them again.
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
        Label that fits best; the given one for rows that are not suspects.
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
    given_code, suggested_code : ndarray of int64 of shape (n_samples,)
        The labels as positions in `classes`.
    classes : ndarray
        Sorted classes.
    classifier : RobustKNeighborsClassifier
        The fitted classifier, which predicts as if the labels were clean. Its `left_out_votes` has the votes of every
        voter on every row.

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

    def __init__(self, classifier: RobustKNeighborsClassifier, X: ArrayLike, y: ArrayLike):
        labels = as_labels(y, type(self).__name__)
        if not isinstance(classifier.decision_, JuryDecision):
            raise InputError("the classifier has no jury; fit one with n_neighbors='auto'.", owner=self)
        self.classifier, self.decision = classifier, classifier.decision_
        self.given_label, self.classes = labels, classifier.classes_
        found, codes = sorted_classes(labels)
        if found.tolist() != self.classes.tolist():
            raise InputError("y is not what the classifier was fitted on; its classes differ.", owner=self)
        self.plausibility: Array = self.decision.plausibility
        self.score: Array = self.decision.score
        self.is_suspect = self.decision.is_suspect
        noise, is_estimated = self.decision.noise, self.rate_is_estimated
        best, self.confidence = suggest_labels(
            lambda rows: noise.joint(self.decision.left_out_shares(rows), codes[rows]),
            codes, self.plausibility, self.is_suspect, len(self.classes),
        )  # fmt: skip
        self.suggested_label = np.where(self.is_suspect, self.classes[best], labels)
        self.noise_rate = float(noise.rate)
        self.noise_rates: Array = noise.rates
        self.noise_interval = (self.noise_rate, self.noise_rate)
        if is_estimated:
            self.noise_interval = rate_interval(self.noise_rate, max(1, round(COUNTED * len(labels))))
        self.given_code, self.suggested_code = codes, best
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
    def n_likely_suggestions(self) -> int:
        """Number of suspects whose suggested label is more likely right than not."""
        return int((self.is_suspect & (self.confidence > 0.5)).sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings: sentences about data that is too small, or tells too little, for its figures."""
        return exports.warn_of(self)

    @property
    def order(self) -> Index:
        """Rows in the order in which to look at them: the most doubtful first."""
        return np.lexsort((self.plausibility, self.score, ~self.is_suspect))

    @property
    def noise_matrix(self) -> NDArray[np.int64]:
        """Rows by given class (down) and suggested class (across); the suspects are off the diagonal.

        With thousands of classes `noise_pairs` is smaller.
        """
        k = len(self.classes)
        return np.bincount(self.given_code * k + self.suggested_code, minlength=k * k).reshape(k, k)

    def noise_pairs(self) -> list[tuple[Any, Any, int]]:
        """Given label, suggested label and number of suspects, the most frequent first."""
        k = len(self.classes)
        pairs, counts = np.unique((self.given_code * k + self.suggested_code)[self.is_suspect], return_counts=True)
        at = np.argsort(-counts, kind="stable")
        names = self.classes.tolist()
        return [(names[p // k], names[p % k], int(n)) for p, n in zip(pairs[at].tolist(), counts[at], strict=True)]

    def doubt_by_class(self) -> list[tuple[Any, int, int]]:
        """Given label, number of rows and number of suspects, the largest share of suspects first."""
        n_classes = len(self.classes)
        size = np.bincount(self.given_code, minlength=n_classes)
        bad = np.bincount(self.given_code[self.is_suspect], minlength=n_classes)
        names = self.classes.tolist()
        return [(names[c], int(size[c]), int(bad[c])) for c in np.lexsort((-bad, -bad / size))]

    def evidence(self, i: int, n_neighbors: int = 5) -> Evidence:
        """Return why the label of row ``i`` is doubted, or is not, with that many neighbours; print it, or read it."""
        if not Integer(0).allows(i) or i >= self.n_rows:
            raise InputError(f"row must be a whole number from 0 to {self.n_rows - 1}; got {i!r}.", owner=self)
        check_argument(self, "n_neighbors", n_neighbors, Integer(1, 1_000_000))
        return explain(self, int(i), n_neighbors)

    @cached_property
    def prototypes(self) -> PrototypeMap:
        """Rows in the learned space that votes, with the centres of the classes."""
        return PrototypeMap(self.classifier.embed(self._X), self.given_code, self.is_suspect)

    def clean(self, X: Any, y: Any, how: str = DEFAULT_HOW, *, min_confidence: float | None = None) -> tuple[Any, Any]:
        """Return rows and labels without the suspects, or with the suggested labels that are likely right.

        Dropping makes no right label wrong. A suggested label is taken only where its confidence is high; other
        suspects are dropped in either case, since their given labels are in doubt, too.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The rows, or anything with one entry a row (a frame, a list of texts).
        y : array-like of shape (n_samples,)
            The labels that were audited.
        how : {"drop", "relabel"}, default="drop"
            Leave all suspects out, or give those with a confident suggestion the suggested label.
        min_confidence : float in [0, 1] or None, default=None
            With "relabel": least confidence of a suggestion that is taken; None is 0.8, and 0 relabels every suspect.

        Returns
        -------
        X, y : same kinds as given
            Rows that stay and their labels; a frame keeps its index.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nearkin
        >>> X, y = load_iris(return_X_y=True)
        >>> y[[0, 99]] = 2
        >>> audit = nearkin.audit_labels(X, y, random_state=0)
        >>> _, labels = audit.clean(X, y.tolist(), how="relabel", min_confidence=0)
        >>> type(labels).__name__, len(labels), labels[0]
        ('list', 150, 0)
        """
        cleaning = Cleaning(how, min_confidence)
        labels = as_labels(y, type(self).__name__)
        if not hasattr(X, "__len__") and not hasattr(X, "shape"):
            raise InputError(f"X must have one entry a row, like the rows that were audited; got {X!r}.", owner=self)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if n != self.n_rows or len(labels) != self.n_rows:
            raise InputError(
                f"{self.n_rows} rows were audited; X has {n} rows and y has {len(labels)} labels.", owner=self
            )
        if labels.tolist() != self.given_label.tolist():
            raise InputError("y differs from the labels that were audited; audit these first.", owner=self)
        stays, relabelled = cleaning.apply(self.is_suspect, self.confidence)
        kept = np.flatnonzero(stays)
        # A new label is taken from a row that has it, so that y keeps its kind whatever that is.
        first_of_class = np.unique(self.given_code, return_index=True)[1]
        donors = np.where(relabelled, first_of_class[self.suggested_code], np.arange(self.n_rows))[kept]
        return X if len(kept) == n else take_rows(X, kept), take_rows(y, donors, kept)

    def summary(self) -> list[tuple[str, str]]:
        """A few lines for people: names and values."""
        return exports.summarise(self)

    def __repr__(self) -> str:
        low, high = self.noise_interval
        return (
            f"LabelAudit({self.n_rows} rows, {len(self.classes)} classes, {self.n_suspects} suspects, "
            f"noise rate {self.noise_rate:.3f} [{low:.3f}, {high:.3f}])"
        )

    # ------------------------------------------------------------------ tables and files

    def columns(self, ids: Columns | None = None, first_row: int = 0) -> dict[str, Any]:
        """Return all rows as named columns, in their order.

        ``ids`` are columns to put first, ``first_row`` is the number of the first row. The others are ``row``,
        ``given_label``, ``suggested_label``, ``is_suspect``, ``plausibility``, ``confidence`` and ``score``.
        """
        return exports.list_rows(self, ids, first_row)

    def cleaned_columns(
        self, ids: Columns | None = None, first_row: int = 0, *, how: str = DEFAULT_HOW,
        min_confidence: float | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return cleaned labels as the columns ``row``, ``label``, ``given_label`` and ``confidence``; see `clean`."""
        return exports.list_cleaned(self, Cleaning(how, min_confidence), ids, first_row)

    def to_frame(self) -> Any:
        """Return all rows as a pandas frame, with the index of X where that is a frame."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "LabelAudit.to_frame needs pandas (pip install pandas); `columns` gives the same as a dict."
            ) from None
        return pandas.DataFrame(self.columns(), index=getattr(self._X, "index", None))

    def to_csv(
        self, path: str | os.PathLike[str], *, ids: Columns | None = None, suspects_only: bool = False,
        first_row: int = 0,
    ) -> None:  # fmt: skip
        """Write the rows as CSV, the most doubtful first; an old file is replaced only when the new one is complete.

        A table of suspects only has two more columns: the rows that cast most of the votes, and their labels.
        """
        with replacing(path, "suspects_csv" if suspects_only else "csv") as file:
            exports.write_table(self, file, ids=ids, suspects_only=suspects_only, first_row=first_row)

    def to_json(self, path: str | os.PathLike[str], *, ids: Columns | None = None) -> None:
        """Write everything as JSON: the rate, the pairs of confused classes, and all rows in their order."""
        with replacing(path, "audit_json") as file:
            exports.write_json(self, file, ids)

    def to_html(
        self, path: str | os.PathLike[str], *, title: str = "Label audit", ids: Columns | None = None,
        texts: Values | None = None, images: Values | None = None, notes: Mapping[str, str] | None = None,
        first_row: int = 0,
    ) -> None:  # fmt: skip
        """Write one page that needs nothing else: noise, map, suspects with evidence, noise matrix, cleaned labels.

        Parameters
        ----------
        path : path-like
            Destination; replaced only when the page is complete.
        title : str, default="Label audit"
            Heading.
        ids : mapping of str to sequence or None
            Columns that name the rows; the page shows the first.
        texts, images : sequence or None
            A text, or the path of a picture (needs Pillow), to show beside every row.
        notes : mapping of str to str or None
            More lines for the list of what was done.
        first_row : int, default=0
            Number of the first row.
        """
        claim([(path, "page")])  # before the work
        shown = {name: one for name, one in (("texts", texts), ("images", images)) if one is not None}
        check_ids(shown, self.n_rows)
        made = render_page(
            self, title=title, ids=check_ids(ids, self.n_rows, COLUMNS), texts=texts, images=images, notes=notes or {},
            first_row=first_row,
        )  # fmt: skip
        with replacing(path, "page") as file:
            file.write(made.encode())

    # ------------------------------------------------------------------ for other tools

    def knn_graph(self, n_neighbors: int = 10) -> sparse.csr_matrix:
        """Return distances to the nearest other rows in the learned space, as cleanlab's ``knn_graph``."""
        from sklearn.neighbors import NearestNeighbors

        n = self.n_rows
        if not Integer(1).allows(n_neighbors) or n_neighbors >= n:
            raise InputError(
                f"`n_neighbors` must be a whole number from 1 to {n - 1}; got {n_neighbors!r}.", owner=self
            )
        distances, index = NearestNeighbors(n_neighbors=n_neighbors).fit(self.prototypes.rows).kneighbors()
        ends = np.arange(0, n * n_neighbors + 1, n_neighbors)
        return sparse.csr_matrix((distances.ravel(), index.ravel(), ends), shape=(n, n))

    def to_cleanlab(self, n_neighbors: int = 10) -> dict[str, Any]:
        """Return the input of cleanlab, from this audit instead of a cross-validated model.

        ``labels`` are whole numbers, ``pred_probs`` come from the votes with each row itself left out,
        ``label_quality`` is the `score`, and ``knn_graph`` has ``n_neighbors`` entries in each row.
        """
        return {
            "labels": self.given_code.copy(),
            "pred_probs": self.decision.left_out_shares(np.arange(self.n_rows)),
            "label_quality": self.score.copy(),
            "knn_graph": self.knn_graph(n_neighbors),
        }
