"""From several answers per row to one label, with the quality of everybody who answered."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array, Index, Mask
from nearkin.audit.answers import Answers
from nearkin.audit.auditor import audit_labels
from nearkin.audit.exports import Columns, take_rows
from nearkin.audit.label_audit import LabelAudit
from nearkin.errors import InputError, owned_by
from nearkin.noise import PooledAnswers, pool_answers

__all__ = ["ANNOTATORS", "CONSENSUS", "Annotator", "Consensus", "find_consensus"]

#: Columns of the tables.
CONSENSUS = ("row", "label", "confidence", "n_answers", "agreement", "ask_again")
ANNOTATORS = ("annotator", "n_answers", "quality", "low", "high", "agreement", "mistake")

#: Rounds in which a jury learns from the labels of the last one and votes on every row.
_ROUNDS = 2
#: Confidence below which a row is worth another answer.
_SURE = 0.8
#: Answers of an annotator to rows of a class from which on a mistake is told.
_TOLD = 3


def find_consensus(
    X: Any, answers: Any, random_state: Any = None, *, missing: Any = None, groups: ArrayLike | None = None,
    device: str = "cpu",
) -> Consensus:  # fmt: skip
    """Find the label of every row that several annotators answered, and how far each annotator can be trusted.

    The answers of a row are weighed by what their annotators confuse (Dawid and Skene), together with the votes of a
    jury that judges the row by its features and has not seen its answers. Both are found in turns: labels teach the
    jury, the jury improves the labels.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features) or None
        Raw features or embeddings, as for `audit_labels`; None leaves the jury out.
    answers : array-like or frame of shape (n_rows, n_annotators), Answers, or list of str
        A column per annotator; None, NaN and empty text do not count as answers. `Answers.from_list` takes the long
        form. A list of names means columns of the frame ``X``.
    random_state : int, Generator, RandomState or None, default=None
        Seed.
    missing : label or None, default=None
        One more value that does not count as an answer, such as -1.
    groups : array-like of shape (n_rows,) or None, default=None
        As in `audit_labels`: rows of a group do not vouch for each other.
    device : str, default="cpu"
        As in `audit_labels`: "cuda" or "cuda:N" lets the jury vote on an NVIDIA GPU.

    Returns
    -------
    Consensus
        Labels, confidence, annotators, and the rows to ask again.

    See Also
    --------
    audit_labels : For one label per row.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> import nearkin
    >>> X, y = load_wine(return_X_y=True)
    >>> rng = np.random.default_rng(0)
    >>> right = rng.random((178, 3)) < [0.9, 0.7, 0.4]
    >>> answers = np.where(right, y[:, None], rng.integers(0, 3, (178, 3)))
    >>> found = nearkin.find_consensus(X, answers, random_state=0)
    >>> bool((found.label == y).mean() > 0.95), [one.name for one in found.annotators]
    (True, [0, 1, 2])
    >>> found.annotators[0].quality > found.annotators[2].quality
    True
    """
    owner = "find_consensus"
    if _are_columns_of(X, answers):
        X, answers = _without(X, answers), X[answers]
    with owned_by(owner, instead_of="Answers"):
        held = answers if isinstance(answers, Answers) else Answers.from_table(answers, missing=missing)
    n = held.codes.n_rows
    if X is not None:
        n_given = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_given != n:
            raise InputError(f"X has {n_given} rows, but the answers are about {n}.", owner=owner)
    pooled = pool_answers(held.codes)
    for _ in range(_ROUNDS if X is not None else 0):
        votes = _ask_jury(X, held, pooled, random_state, groups, device, owner)
        if votes is None:
            break
        pooled = pool_answers(held.codes, votes)
    return Consensus(held, pooled, X, random_state, groups, device)


def _are_columns_of(X: Any, answers: Any) -> bool:
    """Whether answers are the names of columns of a frame."""
    if not isinstance(answers, (list, tuple)) or not answers or not all(isinstance(one, str) for one in answers):
        return False
    held = list(getattr(X, "columns", ()))
    unknown = [one for one in answers if one not in held]
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is not a column of X; give answers as a table with a column per annotator, or the names "
            "of columns of a frame.",
            owner="find_consensus",
        )
    return True


def _without(X: Any, names: Sequence[str]) -> Any:
    """Return a frame without some columns."""
    return X[[one for one in X.columns if one not in names]]


def _ask_jury(
    X: Any,
    answers: Answers,
    pooled: PooledAnswers,
    random_state: Any,
    groups: ArrayLike | None,
    device: str,
    owner: str,
) -> Array | None:
    """Return the votes on every row by a jury that has learned the labels of the others; None if there is one class."""
    n, k = answers.codes.n_rows, answers.codes.n_classes
    answered = np.unique(answers.codes.row)
    labels = pooled.shares[answered].argmax(axis=1)
    if len(np.unique(labels)) < 2:
        return None
    own = X if len(answered) == n else take_rows(X, answered)
    kept = None if groups is None else np.asarray(groups)[answered]
    with owned_by(owner, instead_of="audit_labels"):
        audit = audit_labels(own, labels, random_state=random_state, groups=kept, device=device)
    votes = np.zeros((n, k))
    known = audit.classes.astype(np.int64)  # classes that nobody is thought to have get no votes
    votes[np.ix_(answered, known)] = audit.decision.left_out_shares(np.arange(len(answered)))
    others = np.setdiff1d(np.arange(n), answered)
    if len(others):
        votes[np.ix_(others, known)] = audit.classifier.predict_proba(take_rows(X, others))
    return votes


@dataclass(frozen=True)
class Annotator:
    """One who answered.

    Parameters
    ----------
    name : hashable
        As given.
    n_answers : int
        Rows answered.
    quality, low, high : float
        Probability that an answer is right, with its 95 % interval.
    agreement : float
        Share of the answers that are the consensus label.
    mistake : str
        The most frequent mistake in words, "" if none is frequent.

    Examples
    --------
    >>> print(Annotator("ann", 120, 0.914, 0.85, 0.95, 0.93, "rock for blues (12 %)"))
    ann: 91 % right [85, 95], 120 answers, rock for blues (12 %)
    """

    name: Any
    n_answers: int
    quality: float
    low: float
    high: float
    agreement: float
    mistake: str = ""

    def __str__(self) -> str:
        also = f", {self.mistake}" if self.mistake else ""
        answers = "1 answer" if self.n_answers == 1 else f"{self.n_answers:,} answers"
        interval = f"[{100 * self.low:.0f}, {100 * self.high:.0f}]"
        return f"{self.name}: {100 * self.quality:.0f} % right {interval}, {answers}{also}"


@dataclass(frozen=True, eq=False)
class Consensus:
    """Labels that several annotators and a jury agree on; made by `find_consensus`.

    Parameters
    ----------
    answers : Answers
        What was answered.
    pooled : PooledAnswers
        What the answers say together: shares of the classes, and what annotators confuse.
    X, random_state, groups, device
        As given to `find_consensus`; `audit` needs them.

    Attributes
    ----------
    label : ndarray of shape (n_rows,)
        Consensus label of every row, also of rows without an answer, which the jury labels.
    confidence : ndarray of shape (n_rows,)
        Probability that the label is right.
    shares : ndarray of shape (n_rows, n_classes)
        Probability of each of `classes`.
    annotators : list of Annotator
        In the order of the answers.
    ask_again : ndarray of int64
        Rows whose confidence is below 0.8, in the order in which another answer helps most.
    n_answers, agreement : ndarray of shape (n_rows,)
        Answers to the row, and the share of them that are the label.

    Examples
    --------
    >>> found = find_consensus(None, [["a", "a"], ["b", "b"], ["a", "b"], ["b", None]])
    >>> found.label.tolist()[:2], found.n_answers.tolist()
    (['a', 'b'], [2, 2, 2, 1])
    """

    answers: Answers
    pooled: PooledAnswers
    X: Any = None
    random_state: Any = None
    groups: Any = None
    device: str = "cpu"

    @property
    def classes(self) -> NDArray[Any]:
        """Sorted classes."""
        return self.answers.classes

    @property
    def shares(self) -> Array:
        """Probability of every class."""
        return self.pooled.shares

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.shares)

    @cached_property
    def code(self) -> NDArray[np.int64]:
        """The labels as positions in `classes`."""
        return self.shares.argmax(axis=1)

    @property
    def label(self) -> NDArray[Any]:
        """Consensus labels."""
        return self.classes[self.code]

    @property
    def confidence(self) -> Array:
        """Probability that the label is right."""
        return self.shares.max(axis=1)

    @cached_property
    def n_answers(self) -> Index:
        """Answers to every row."""
        return np.bincount(self.answers.codes.row, minlength=self.n_rows)

    @property
    def _agrees(self) -> Mask:
        """Which answers are the label of their row."""
        found: Mask = self.answers.codes.code == self.code[self.answers.codes.row]
        return found

    @property
    def agreement(self) -> Array:
        """Share of the answers that are the label; 0 without an answer."""
        same = np.bincount(self.answers.codes.row, weights=self._agrees, minlength=self.n_rows)
        return same / np.maximum(self.n_answers, 1)

    @cached_property
    def ask_again(self) -> Index:
        """Rows that are worth another answer, the most doubtful first; of equal ones those with fewer answers."""
        order = np.lexsort((self.n_answers, self.confidence))
        return order[self.confidence[order] < _SURE]

    @cached_property
    def annotators(self) -> list[Annotator]:
        """Who answered."""
        codes, pooled = self.answers.codes, self.pooled
        m = codes.n_annotators
        n = np.bincount(codes.annotator, minlength=m)
        answers_of = np.split(np.argsort(codes.annotator, kind="stable"), np.cumsum(n)[:-1])
        same = np.bincount(codes.annotator, weights=self._agrees, minlength=m) / np.maximum(n, 1)
        return [
            Annotator(
                name, int(n[a]), float(pooled.quality[a]), float(pooled.low[a]), float(pooled.high[a]), float(same[a]),
                self._name_mistake(answers_of[a]),
            )
            for a, name in enumerate(self.answers.annotators)
        ]  # fmt: skip

    def _name_mistake(self, mine: Index) -> str:
        """Return the mistake that is made most often in some answers."""
        codes, k = self.answers.codes, len(self.classes)
        true, given = self.code[codes.row[mine]], codes.code[mine]
        pairs, counts = np.unique((true * k + given)[true != given], return_counts=True)
        if not len(counts) or counts.max() < _TOLD:
            return ""
        (at, answer), most = divmod(int(pairs[counts.argmax()]), k), int(counts.max())
        names = self.classes[[answer, at]].tolist()
        return f"{names[0]} for {names[1]} ({100 * most / int((true == at).sum()):.0f} %)"

    @cached_property
    def audit(self) -> LabelAudit:
        """Audit of the consensus labels, with evidence, tables and the page of `LabelAudit`."""
        if self.X is None:
            raise InputError("without features there is no jury that could judge the labels.", owner=self)
        return audit_labels(self.X, self.label, random_state=self.random_state, groups=self.groups, device=self.device)

    def to_columns(self) -> dict[str, Any]:
        """Return all rows as named columns, those of `CONSENSUS`.

        ``row`` counts from 0. ``ask_again`` counts the rows to ask again from 1, and is 0 for all others.
        """
        place = np.zeros(self.n_rows, dtype=np.int64)
        place[self.ask_again] = np.arange(1, len(self.ask_again) + 1)
        values = np.arange(self.n_rows), self.label, self.confidence, self.n_answers, self.agreement, place
        return dict(zip(CONSENSUS, values, strict=True))

    def annotators_to_columns(self) -> dict[str, Any]:
        """Return the annotators as columns, the best first."""
        order = sorted(self.annotators, key=lambda one: -one.quality)
        values = [[getattr(one, "name" if name == "annotator" else name) for one in order] for name in ANNOTATORS]
        return dict(zip(ANNOTATORS, values, strict=True))

    def to_html(
        self, path: str | os.PathLike[str], *, title: str = "Consensus", ids: Columns | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Write the page of `audit`, with the annotators and the rows to ask again; see `LabelAudit.to_html`."""
        self.audit.to_html(path, title=title, ids=ids, notes=notes, consensus=self)

    def summary(self) -> list[tuple[str, str]]:
        """A few lines for people: names and values."""
        order = sorted(self.annotators, key=lambda one: -one.quality)
        told = order if len(order) <= 6 else [*order[:3], *order[-3:]]
        unanswered = int((self.n_answers == 0).sum())
        several = int((self.n_answers > 1).sum())
        split = int(((self.agreement < 1.0) & (self.n_answers > 1)).sum())
        lines = [
            ("rows", f"{self.n_rows:,}, {several:,} with several answers, {unanswered:,} without any"),
            ("classes", f"{len(self.classes):,}"),
            ("answers", f"{len(self.answers):,} of {len(order):,} annotators"),
            ("not agreed", f"{split:,} of the rows with several answers"),
            ("confidence", f"{100 * float(self.confidence.mean()):.1f} % on average"),
            ("ask again", f"{len(self.ask_again):,} rows with a confidence below {_SURE:g}"),
        ]
        names = ["annotators"] if len(told) == len(order) else ["best", "", "", "worst"]
        return lines + [(names[i] if i < len(names) else "", str(one)) for i, one in enumerate(told)]

    def __repr__(self) -> str:
        return (
            f"Consensus({self.n_rows} rows, {len(self.answers.annotators)} annotators, {len(self.classes)} classes, "
            f"{len(self.ask_again)} rows to ask again)"
        )
