"""What an audit found."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.arrays import Array, Index, Mask
from nearkin.audit import exports
from nearkin.audit.contrast import INEXACT, ClassContrast, list_columns
from nearkin.audit.decisions import (
    Decisions,
    ReviewedLabels,
    digest_rows,
    fingerprint,
    join_decisions,
    review_labels,
)
from nearkin.audit.evidence import Evidence, PrototypeMap, explain
from nearkin.audit.exports import COLUMNS, DEFAULT_HOW, DEFAULT_TIER, Cleaning, Columns, Values, check_ids, take_rows
from nearkin.audit.findings import Finding, find_all
from nearkin.audit.notebook import ShownPage, show_page, summarise_as_html
from nearkin.audit.page import render_page
from nearkin.audit.sample import CheckedLabels, ReviewSample, check_sample, draw_sample
from nearkin.audit.words import WordContrast
from nearkin.bars import notebook_bars
from nearkin.errors import InputError
from nearkin.files import claim, replacing
from nearkin.jury import JuryDecision
from nearkin.jury.cost import announce_page
from nearkin.labels import as_labels, sorted_classes
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.noise import suggest_labels
from nearkin.settings import Integer, check_argument
from nearkin.stored import Anything, ArrayOf, Items, Maybe, Number, Part, Table, Text, stored
from nearkin.tables import ColumnUse, OriginalCells, ShownColumns

if TYPE_CHECKING:
    from nearkin.audit.consensus import Consensus

__all__ = ["LabelAudit", "Unlabelled"]


@stored(
    rows=ArrayOf("m", of="codes", low=0), suggested_label=ArrayOf("m", of="labels"), confidence=ArrayOf("m", low=0.0)
)
@dataclass(frozen=True)
class Unlabelled:
    """Rows without a label: their positions, the label that the classifier predicts, and its probability."""

    rows: Index
    suggested_label: NDArray[Any]
    confidence: Array

    def __len__(self) -> int:
        return len(self.rows)


@stored(
    classifier=Part(RobustKNeighborsClassifier, n="n", c="c", d="d"),
    decision=Part(JuryDecision, n="n", c="c"),
    given_label=ArrayOf("n", of="labels"),
    classes=ArrayOf("c", of="labels"),
    plausibility=ArrayOf("n", low=0.0, high=1.0),
    score=ArrayOf("n", low=0.0, high=1.0),
    is_suspect=ArrayOf("n", of="flags"),
    is_wrong=ArrayOf("n", of="flags"),
    confidence=ArrayOf("n", low=0.0, high=1.0),
    suggested_label=ArrayOf("n", of="labels"),
    noise_rate=Number(0.0, 1.0),
    noise_rates=ArrayOf("c", low=0.0, high=1.0),
    noise_interval=Items(Number(0.0, 1.0), least=2),
    given_code=ArrayOf("n", of="codes", low=0, below="c"),
    suggested_code=ArrayOf("n", of="codes", low=0, below="c"),
    columns=Items(Part(ColumnUse)),
    row_index=Maybe(ArrayOf("n", of="codes", low=0)),
    unlabelled=Maybe(Part("Unlabelled", c="c")),
    originals=Maybe(Table(Text(), Part(OriginalCells, n="n"))),
    names=Maybe(Items(Text())),
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
    columns : sequence of ColumnUse, default=()
        What became of the columns of the table behind ``X``.
    row_index : array-like of int or None, default=None
        Positions of these rows among all that were given, where some of those have no label.
    unlabelled : tuple of (positions, rows) or None, default=None
        The rows without a label.
    names : sequence of str or None, default=None
        What all rows that were given are called: tables, the page and all that is printed call them so, and `compare`
        matches rows by it.
    originals : mapping of str to OriginalCells or None, default=None
        What ``X`` cannot tell about the cells of the table behind it, of all rows that were given, by column.

    Attributes
    ----------
    columns : list of ColumnUse
        What became of every column of a frame or file, one line each when printed; empty for plain arrays.
    unlabelled : Unlabelled or None
        Rows without a label, which were not audited: ``rows``, ``suggested_label`` and ``confidence``.
    row_index : ndarray of int or None
        Position of every audited row among all that were given, where some have no label; all attributes below are of
        the audited rows.
    given_label : ndarray of shape (n_samples,)
        Labels as given.
    plausibility : ndarray of shape (n_samples,)
        Probability that the label is right, in (0, 1].
    score : ndarray of shape (n_samples,)
        Votes for the label against those for the best other one, in [0, 1]; suspects have the lowest. It tells rows
        apart that are equally implausible, so it is the order in which to look at rows.
    is_suspect : ndarray of bool of shape (n_samples,)
        Rows whose labels are in doubt, of both tiers.
    is_wrong : ndarray of bool of shape (n_samples,)
        The first tier: suspects whose labels are more likely wrong than right. The other suspects are worth a look; no
        method drops them unless you ask for it.
    suggested_label : ndarray of shape (n_samples,)
        Of a suspect the best other label; the given one for other rows.
    confidence : ndarray of shape (n_samples,)
        Probability that the suggested label is right.
    noise_rate : float
        Estimated share of wrong labels.
    noise_rates : ndarray of shape (n_classes,)
        Estimated share of wrong labels among the rows that belong to each class; all the same unless the data says
        clearly otherwise.
    noise_interval : tuple of float
        Interval of the rate: chance, and what the votes leave open. It should hold the rate with probability 0.95
        unless wrong labels follow a rule that the voters follow too. Both ends are the rate itself where it was given.
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
    >>> len(y) - len(y_clean) == audit.n_wrong
    True
    """

    columns: Sequence[ColumnUse] = ()
    row_index: Index | None = None
    unlabelled: Unlabelled | None = None
    originals: Mapping[str, OriginalCells] | None = None
    names: Sequence[str] | None = None
    #: Index of the audited rows of a pandas frame; files do not hold it.
    index_of_frame: Any = None
    #: Columns of the table, of all rows that were given, for whoever judges a row; files do not hold them.
    shown_columns: ShownColumns | None = None

    def __init__(
        self, classifier: RobustKNeighborsClassifier, X: ArrayLike, y: ArrayLike, *, columns: Sequence[ColumnUse] = (),
        row_index: Index | None = None, unlabelled: tuple[Index, Array] | None = None,
        originals: Mapping[str, OriginalCells] | None = None, names: Sequence[str] | None = None,
    ):  # fmt: skip
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
        self.is_suspect: Mask = self.decision.is_suspect
        self.is_wrong: Mask = self.decision.is_wrong
        noise = self.decision.noise
        best, self.confidence = suggest_labels(
            lambda rows: self.decision.left_out_joint(rows, codes[rows]),
            codes, self.plausibility, self.is_suspect, len(self.classes),
        )  # fmt: skip
        self.suggested_label = np.where(self.is_suspect, self.classes[best], labels)
        self.noise_rate = float(noise.rate)
        self.noise_rates: Array = noise.rates
        self.noise_interval = self.decision.rate_interval
        self.given_code, self.suggested_code = codes, best
        self._X: Any = dict(X) if isinstance(X, Mapping) else np.asarray(X)
        self.index_of_frame = getattr(X, "index", None) if hasattr(X, "iloc") else None
        self.columns = list(columns)
        self.row_index = None if row_index is None else np.asarray(row_index, dtype=np.int64)
        if names is not None:
            self.names = [str(one) for one in names]
        if originals:
            at = self.row_index
            self.originals = {name: one if at is None else one.take(at) for name, one in originals.items()}
        self.unlabelled = None
        if unlabelled is not None:
            shares = classifier.predict_proba(unlabelled[1])
            best = self.classes[shares.argmax(axis=1)]
            self.unlabelled = Unlabelled(np.asarray(unlabelled[0], dtype=np.int64), best, shares.max(axis=1))

    def numbers(self) -> Index:
        """Return the positions of the audited rows among all that were given; the first of all is row 0."""
        return np.arange(self.n_rows) if self.row_index is None else self.row_index

    def call_rows(self, rows: Index) -> list[str]:
        """Return what audited rows are called: their names, or their numbers among all rows that were given.

        A name that several rows share is followed by the number: "C-7 [12]".
        """
        names = self.names if self.names is not None and len(self.names) == self.n_given else None
        numbers = self.numbers()[rows].tolist()
        if names is None:
            return [str(one) for one in numbers]
        return [f"{names[one]} [{one}]" if names[one] in self._shared_names else names[one] for one in numbers]

    @cached_property
    def _shared_names(self) -> set[str]:
        return {name for name, n in Counter(self.names or ()).items() if n > 1}

    def _named(self, ids: Columns | None) -> Columns | None:
        """Return the columns that name the rows; without any the names of the audit."""
        return {"id": self.names} if ids is None and self.names is not None else ids

    def _own(self, given: Columns | None) -> dict[str, Values]:
        """Return columns of the audited rows; those of all rows are cut."""
        n_all = self.n_given
        own = dict(given or {})
        if self.row_index is not None:
            for name, values in own.items():
                own[name] = take_rows(values, self.row_index) if len(values) == n_all else values
        return own

    @property
    def rate_is_estimated(self) -> bool:
        """Whether the noise rate was estimated rather than given."""
        return isinstance(self.classifier.noise_rate, str)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.given_label)

    @property
    def n_given(self) -> int:
        """Number of rows that were given, also those without a label."""
        return self.n_rows + (0 if self.unlabelled is None else len(self.unlabelled))

    @property
    def feature_rows(self) -> Array | None:
        """Audited rows as numbers, those of modalities side by side; None where they are not such rows."""
        given = self._X
        try:
            rows = np.concatenate(list(given.values()), axis=1) if isinstance(given, Mapping) else np.asarray(given)
            rows = rows if rows.dtype.kind == "f" else rows.astype(np.float64)
        except (TypeError, ValueError):
            return None
        return rows if rows.ndim == 2 and len(rows) == self.n_rows and rows.shape[1] else None

    @property
    def n_suspects(self) -> int:
        """Number of suspects of both tiers."""
        return int(self.is_suspect.sum())

    @property
    def n_wrong(self) -> int:
        """Number of suspects of the first tier, whose labels are more likely wrong than right."""
        return int(self.is_wrong.sum())

    @property
    def tier(self) -> NDArray[np.str_]:
        """Tier of every row: "wrong", "look" for suspects that are worth a look, or "" for other rows."""
        return np.where(self.is_wrong, "wrong", np.where(self.is_suspect, "look", ""))

    @property
    def n_likely_suggestions(self) -> int:
        """Number of suspects whose suggested label is more likely right than not."""
        return int((self.is_suspect & (self.confidence > 0.5)).sum())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures should know: small classes, features that tell too little, and so on."""
        return exports.warn_of(self)

    @property
    def order(self) -> Index:
        """Rows in the order in which to look at them: wrong labels, then those worth a look, then all others.

        Within a tier the most doubtful come first.
        """
        return np.lexsort((self.plausibility, self.score, ~self.is_suspect, ~self.is_wrong))

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

    def doubt_by_class(self) -> list[tuple[Any, int, int, int]]:
        """Given label, rows, wrong labels and labels worth a look; the largest share of wrong ones first."""
        names, whole = self.classes.tolist(), np.ones(self.n_rows, dtype=bool)
        size, wrong, doubted = (
            np.bincount(self.given_code[one], minlength=len(names)) for one in (whole, self.is_wrong, self.is_suspect)
        )
        order = np.lexsort((-doubted / size, -wrong, -wrong / size))
        return [(names[c], int(size[c]), int(wrong[c]), int(doubted[c] - wrong[c])) for c in order]

    def evidence(self, i: int, n_neighbors: int = 5) -> Evidence:
        """Return why the label of row ``i`` is doubted, or is not, with that many neighbours; print it, or read it."""
        if not Integer(0).allows(i) or i >= self.n_rows:
            raise InputError(f"row must be a whole number from 0 to {self.n_rows - 1}; got {i!r}.", owner=self)
        check_argument(self, "n_neighbors", n_neighbors, Integer(1, 1_000_000))
        return explain(self, int(i), n_neighbors)

    @cached_property
    def prototypes(self) -> PrototypeMap:
        """Rows in the learned space that votes, with the centres of the classes."""
        with warnings.catch_warnings():  # the rows of a frame are kept without its names
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            mapped = self.classifier.embed(self._X)
        return PrototypeMap(mapped, self.given_code, self.is_suspect)

    @cached_property
    def contrast(self) -> ClassContrast:
        """How the columns of the table tell the classes apart; empty where a person could not read them."""
        columns = list_columns(self.classifier, self._X, self.columns, self.originals or {})
        return ClassContrast(self._X, columns, self.given_code, self.is_suspect)

    def contrast_words(self, texts: Values) -> WordContrast:
        """Return how the words of texts tell the classes apart; ``texts`` has one for every audited row.

        Examples
        --------
        >>> import nearkin
        >>> texts = ["a ripe red cherry", "some red apple pie", "the deep blue sea", "a calm blue sky"] * 10
        >>> X = [[float("red" in one), float(i % 7)] for i, one in enumerate(texts)]
        >>> y = [0 if "red" in one else 1 for one in texts]
        >>> y[0] = 1  # a wrong label
        >>> audit = nearkin.audit_labels(X, y, random_state=0)
        >>> words = audit.contrast_words(texts).words_of(texts[0], 1, 0)
        >>> sorted(word for word, score in words if score > 0)
        ['cherry', 'red', 'ripe']
        """
        return WordContrast(texts, self.given_code, self.is_suspect)

    def clean(
        self, X: Any, y: Any, how: str = DEFAULT_HOW, *, min_confidence: float | None = None, tier: str = DEFAULT_TIER
    ) -> tuple[Any, Any]:
        """Return rows and labels without the wrong labels, or with the suggested labels that are likely right.

        Dropping makes no right label wrong. A suggested label is taken only where its confidence is high; other wrong
        labels are dropped in either case. Suspects that are worth a look keep their labels unless you ask for more.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The rows, or anything with one entry a row (a frame, a list of texts).
        y : array-like of shape (n_samples,)
            The labels that were audited.
        how : {"drop", "relabel"}, default="drop"
            Leave rows with wrong labels out, or give those with a confident suggestion the suggested label.
        min_confidence : float in [0, 1] or None, default=None
            With "relabel": least confidence of a suggestion that is taken; None is 0.8, and 0 takes every suggestion.
        tier : {"wrong", "all"}, default="wrong"
            Which suspects this is done to: those called wrong, or also those worth a look.

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
        cleaning = Cleaning(how, min_confidence, tier)
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
        stays, relabelled = cleaning.apply(self.is_wrong, self.is_suspect, self.confidence)
        kept = np.flatnonzero(stays)
        # A new label is taken from a row that has it, so that y keeps its kind whatever that is.
        first_of_class = np.unique(self.given_code, return_index=True)[1]
        donors = np.where(relabelled, first_of_class[self.suggested_code], np.arange(self.n_rows))[kept]
        return X if len(kept) == n else take_rows(X, kept), take_rows(y, donors, kept)

    def summary(self) -> list[tuple[str, str]]:
        """A few lines for people: names and values."""
        return exports.summarise(self)

    def __repr__(self) -> str:
        low, high = (f"{100 * one:.1f}" for one in self.noise_interval)
        return (
            f"LabelAudit({self.n_rows} rows, {len(self.classes)} classes, {self.n_wrong} wrong, "
            f"{self.n_suspects - self.n_wrong} worth a look, "
            f"wrong labels {100 * self.noise_rate:.1f} % ({low} to {high}))"
        )

    # ------------------------------------------------------------------ tables and files

    def to_columns(self, ids: Columns | None = None) -> dict[str, Any]:
        """Return all rows as named columns, in their order.

        ``ids`` are columns to put first. The others are ``row`` (counted from 0), ``given_label``,
        ``suggested_label``, ``is_suspect``, ``tier``, ``plausibility``, ``confidence`` and ``score``.
        """
        return exports.list_rows(self, self._own(self._named(ids)))

    def cleaned_columns(
        self, ids: Columns | None = None, *, how: str = DEFAULT_HOW, min_confidence: float | None = None,
        tier: str = DEFAULT_TIER,
    ) -> dict[str, Any]:  # fmt: skip
        """Return cleaned labels as the columns ``row``, ``label``, ``given_label`` and ``confidence``; see `clean`."""
        return exports.list_cleaned(self, Cleaning(how, min_confidence, tier), self._own(self._named(ids)))

    def to_frame(self) -> Any:
        """Return all rows as a pandas frame, with the index of X where that is a frame."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "LabelAudit.to_frame needs pandas: pip install 'nearkin[pandas]'; `to_columns` gives the same columns."
            ) from None
        return pandas.DataFrame(self.to_columns(), index=self.index_of_frame)

    def to_csv(self, path: str | os.PathLike[str], *, ids: Columns | None = None, suspects_only: bool = False) -> None:
        """Write the rows as CSV, the most doubtful first; an old file is replaced only when the new one is complete.

        A table of suspects only (of both tiers) has two more columns: the rows that cast most of the votes, and their
        labels. Rows without a label follow them, in the tier "no label", with the suggested one.
        """
        with replacing(path, "suspects_csv" if suspects_only else "csv") as file:
            exports.write_table(self, file, ids=self._named(ids), suspects_only=suspects_only)

    def to_json(self, path: str | os.PathLike[str], *, ids: Columns | None = None) -> None:
        """Write everything as JSON: the rate, the pairs of confused classes, and all rows in their order."""
        with replacing(path, "audit_json") as file:
            exports.write_json(self, file, self._own(self._named(ids)))

    def to_html(
        self, path: str | os.PathLike[str], *, title: str = "Label audit", ids: Columns | None = None,
        texts: Values | None = None, images: Values | None = None, notes: Mapping[str, str] | None = None,
        source: str | os.PathLike[str] | None = None, consensus: Consensus | None = None,
    ) -> None:  # fmt: skip
        """Write one page that needs nothing else: noise, map, suspects with evidence, noise matrix, cleaned labels.

        Parameters
        ----------
        path : path-like
            Destination; replaced only when the page is complete.
        title : str, default="Label audit"
            Heading.
        ids : mapping of str to sequence or None
            Columns that name the rows; the page shows the first. None takes the ``names`` of the audit.
        texts, images : sequence or None
            A text, or the path of a picture (needs Pillow), to show beside every row.
        notes : mapping of str to str or None
            More lines for the list of what was done.
        source : path-like or None, default=None
            The file that was audited: ``nearkin apply`` then finds it, and takes no other.
        consensus : Consensus or None, default=None
            Shows the annotators whose answers the labels come from, and the rows to ask again.
        """
        claim([(path, "page")])  # before the work
        shown = self._own({name: one for name, one in (("texts", texts), ("images", images)) if one is not None})
        check_ids(shown, self.n_rows)
        named = check_ids(self._own(self._named(ids)), self.n_rows, COLUMNS)
        with announce_page(self.n_rows, self.classifier.n_features_in_):
            made = render_page(
                self, title=title, ids=named, texts=shown.get("texts"), images=shown.get("images"), notes=notes or {},
                source=None if source is None else Path(source), consensus=consensus,
            )  # fmt: skip
        with replacing(path, "page") as file:
            file.write(made.encode())

    def show(self, path: str | os.PathLike[str] | None = None, **page: Any) -> ShownPage:
        """Write the page and open it in the browser; a notebook shows it below the cell.

        Parameters
        ----------
        path : path-like or None, default=None
            Where to write it; None takes a new temporary folder. Decisions are kept by the browser and can be exported,
            so they outlive the file.
        **page
            Passed to `to_html`: ``title``, ``ids``, ``texts``, ``images``, ``notes``.

        Returns
        -------
        ShownPage
            With the ``path`` of the file.
        """
        with notebook_bars():
            return show_page(lambda target: self.to_html(target, **page), path)

    def _repr_html_(self) -> str:
        return summarise_as_html(self)

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

    # ------------------------------------------------------------------ rows checked by hand

    def review_sample(self, n: int = 50, random_state: Any = None) -> ReviewSample:
        """Draw ``n`` random rows to check by hand, in the order in which to answer; `verified` takes the answers.

        Without ``random_state`` the labels are the seed: the page draws the same rows, a larger sample begins with
        them, and once labels were mended another audit draws others. An answer counts for the audit that drew its row:
        rows that were mended because they were checked say nothing about the others.
        """
        seed = int(self.fingerprint, 16) if random_state is None else random_state
        return draw_sample(1.0 - self.plausibility, self.order, n, seed)

    def verified(self, answers: Mapping[int, Any], sample: ReviewSample | None = None) -> CheckedLabels:
        """Return what rows that a person checked say about all labels, whatever made labels wrong.

        Parameters
        ----------
        answers : mapping of int to {"right", "wrong", "unsure"} or bool
            Answer about the label of each row; True is right. Rows are positions among the audited rows.
        sample : ReviewSample or None, default=None
            The rows that were drawn; None is ``review_sample()``.

        Returns
        -------
        CheckedLabels
            The share of wrong labels with an interval that holds, the precision of the ranking, and where to stop.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nearkin
        >>> X, y = load_iris(return_X_y=True)
        >>> given, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
        >>> audit = nearkin.audit_labels(X, given, random_state=0)
        >>> sample = audit.review_sample()
        >>> found = audit.verified({row: bool(given[row] == y[row]) for row in sample.to_review}, sample)
        >>> low, high = found.noise_interval
        >>> bool(low <= (given != y).mean() <= high), found.n_answered
        (True, 50)
        """
        return check_sample(self.review_sample() if sample is None else sample, answers)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that stand for the labels; a page keeps its decisions under them."""
        return fingerprint(self.classes.tolist(), self.given_code)

    @cached_property
    def row_digest(self) -> str | None:
        """Sixteen hexadecimal digits that stand for the rows; None where features differ from machine to machine."""
        rows = self.feature_rows
        is_exact = all(one.kind not in INEXACT for one in self.columns)
        return digest_rows(rows) if rows is not None and is_exact else None

    def apply(
        self, decisions: str | os.PathLike[str] | Mapping[str, Any] | Decisions,
        *more: str | os.PathLike[str] | Mapping[str, Any] | Decisions,
    ) -> ReviewedLabels:  # fmt: skip
        """Return the labels that follow from decisions made in the page.

        Parameters
        ----------
        decisions : path-like, mapping or Decisions
            What the page exports. Suspects without a decision follow the rules that the page had below the table.
        *more : path-like, mapping or Decisions
            Decisions of other reviewers; later ones take precedence.

        Returns
        -------
        ReviewedLabels
            ``label`` and ``kept`` of every audited row: ``X[done.kept], done.label[done.kept]`` is clean.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> import nearkin
        >>> X, y = load_iris(return_X_y=True)
        >>> y[0] = 2  # a wrong label
        >>> audit = nearkin.audit_labels(X, y, random_state=0)
        >>> one = {"row": 0, "given": "2", "decision": "suggested", "label": "0"}
        >>> held = {"nearkin": "decisions", "format": 1, "audit": audit.fingerprint, "n_rows": 150, "decisions": [one]}
        >>> done = audit.apply(held)
        >>> int(done.label[0]), int(done.changed.sum())
        (0, 1)
        """
        found, _ = join_decisions((decisions, *more))
        if None not in (found.rows, self.row_digest) and found.rows != self.row_digest:
            raise InputError(
                "these decisions are about other rows, or about these in another order; take the audit that the page "
                "was made of, or make a new page.",
                owner="decisions",
            )
        return review_labels(found, self.given_label, self.classes, self.numbers())

    # ------------------------------------------------------------------ beyond labels

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What else is wrong with the data, the most important kinds first; print each, or read its parts.

        Copies and conflicts among them, rows far from all others, classes that look like one, spellings, columns that
        give the label away, rare classes, runs of bad labels, rows without a label, and labels in order of the rows.
        """
        return find_all(self)
