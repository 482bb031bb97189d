"""Several answers per row, as a table of annotators or as a list, brought into one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Index
from nearkin.errors import InputError
from nearkin.labels import first_appearance, sorted_classes, warn_of_lookalikes
from nearkin.noise import AnswerCodes

__all__ = ["Answers"]

_OWNER = "Answers"
#: Texts that mean a missing answer.
_BLANK = ("", "nan", "NaN", "NA", "N/A", "null", "None")


@dataclass(frozen=True)
class Answers:
    """Answers of several annotators, some of which may be missing; made by `from_table` or `from_list`.

    Parameters
    ----------
    codes : AnswerCodes
        Row, annotator and class of every answer, as numbers.
    annotators : list
        Names of the annotators.
    classes : ndarray
        Sorted classes.

    Examples
    --------
    >>> answers = Answers.from_table([["cat", "dog"], ["cat", None]], annotators=["ann", "bob"])
    >>> len(answers), answers.annotators, answers.classes.tolist()
    (3, ['ann', 'bob'], ['cat', 'dog'])
    """

    codes: AnswerCodes
    annotators: list[Any]
    classes: NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes.row)

    @classmethod
    def from_table(cls, table: Any, annotators: Sequence[Any] | None = None, *, missing: Any = None) -> Answers:
        """Take a row per row and a column per annotator.

        Parameters
        ----------
        table : array-like or frame of shape (n_rows, n_annotators)
            Labels of any hashable kind; None, NaN and empty text do not count as answers.
        annotators : sequence or None, default=None
            Names of the columns; None takes those of the frame, or numbers.
        missing : label or None, default=None
            One more value that does not count as an answer, such as -1.
        """
        columns, names = _columns_of(table, annotators)
        n = len(columns[0])
        if type(table) is np.ndarray and table.dtype.kind in "iuf":
            is_given = np.isfinite(table) if missing is None else np.isfinite(table) & (table != missing)
            row, annotator = np.nonzero(is_given)
            return cls._of(row, annotator, table[row, annotator].tolist(), names, n)
        rows, who, labels = [], [], []
        for number, column in enumerate(columns):
            answered = np.flatnonzero([not _is_blank(one, missing) for one in column])
            rows.append(answered)
            who.append(np.full(len(answered), number))
            labels += [column[i] for i in answered.tolist()]
        return cls._of(np.concatenate(rows), np.concatenate(who), labels, names, n)

    @classmethod
    def from_list(
        cls, rows: ArrayLike, annotators: Iterable[Any], labels: Iterable[Any], n_rows: int | None = None
    ) -> Answers:
        """Take three columns: row, annotator and label of every answer.

        Parameters
        ----------
        rows : array-like of int of shape (n_answers,)
            Rows by number, from 0.
        annotators, labels : sequence of shape (n_answers,)
            Who answered, and what. If someone answers a row again, the last answer counts.
        n_rows : int or None, default=None
            Number of rows, also of those without an answer; None is one more than the largest number.

        Examples
        --------
        >>> Answers.from_list([0, 0, 1], ["ann", "bob", "ann"], ["cat", "dog", "cat"]).codes.n_rows
        2
        """
        at, who, said = np.asarray(rows), list(annotators), list(labels)
        if not len(at) == len(who) == len(said):
            raise InputError(
                f"rows, annotators and labels must be equally many; got {len(at)}, {len(who)} and {len(said)}.",
                owner=_OWNER,
            )
        if at.ndim != 1 or at.dtype.kind not in "iu" or (len(at) and int(at.min()) < 0):
            raise InputError("rows must be whole numbers from 0.", owner=_OWNER)
        n = int(at.max(initial=-1)) + 1 if n_rows is None else n_rows
        if len(at) and int(at.max()) >= n:
            raise InputError(f"an answer is about row {int(at.max())}, but there are {n} rows.", owner=_OWNER)
        kept = [i for i, one in enumerate(said) if not _is_blank(one, None) and not _is_blank(who[i], None)]
        names, codes = first_appearance(_objects([who[i] for i in kept]))
        last = {(int(at[i]), int(code)): i for i, code in zip(kept, codes.tolist(), strict=True)}
        annotator = np.array([one for _, one in last], dtype=np.int64)
        row = np.array([one for one, _ in last], dtype=np.int64)
        return cls._of(row, annotator, [said[i] for i in last.values()], names, n)

    @classmethod
    def _of(cls, row: Index, annotator: Index, labels: list[Any], names: list[Any], n_rows: int) -> Answers:
        if not labels:
            raise InputError("every answer is missing.", owner=_OWNER)
        classes, codes = sorted_classes(_check_labels(labels))
        if len(classes) < 2:
            raise InputError(f"all answers are {classes.tolist()[0]!r}; at least two classes are needed.", owner=_OWNER)
        warn_of_lookalikes(classes, "answers")
        shape = (n_rows, len(names), len(classes))
        return cls(AnswerCodes(row.astype(np.int64), annotator.astype(np.int64), codes, *shape), names, classes)


def _columns_of(table: Any, annotators: Sequence[Any] | None) -> tuple[list[list[Any]], list[Any]]:
    """Return the columns of a table as lists, and their names."""
    named = hasattr(table, "columns") and not isinstance(table, np.ndarray)
    if named:
        names = list(table.columns)
        columns = [_as_list(table[name]) for name in names]
    else:
        held = table if isinstance(table, np.ndarray) else _objects_2d(table)
        if held.ndim != 2:
            raise InputError(
                f"answers must have a row per row and a column per annotator; got shape {held.shape}. For one label "
                "per row use audit_labels; for a list of row, annotator and label use Answers.from_list.",
                owner=_OWNER,
            )
        if isinstance(held, np.ma.MaskedArray):
            gaps, held = np.ma.getmaskarray(held), held.data.astype(object)
            held[gaps] = None
        columns, names = [held[:, j].tolist() for j in range(held.shape[1])], list(range(held.shape[1]))
    if annotators is not None:
        if len(annotators) != len(columns):
            problem = f"{len(columns)} columns of answers have {len(annotators)} names of annotators."
            raise InputError(problem, owner=_OWNER)
        names = list(annotators)
    if not columns or not len(columns[0]):
        raise InputError("there are no answers.", owner=_OWNER)
    return columns, names


def _as_list(column: Any) -> list[Any]:
    found: list[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return found


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def _objects_2d(table: Any) -> NDArray[Any]:
    rows = list(table)
    lengths = {len(one) if hasattr(one, "__len__") and not isinstance(one, str) else -1 for one in rows}
    if lengths == {-1} or not rows:
        return np.empty(len(rows), dtype=object)
    if len(lengths) > 1:
        raise InputError("rows of answers have different lengths; write None where there is none.", owner=_OWNER)
    made = np.empty((len(rows), lengths.pop()), dtype=object)
    for i, one in enumerate(rows):
        for j, label in enumerate(one):
            made[i, j] = label
    return made


def _is_blank(label: Any, missing: Any) -> bool:
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, str):
        return label.strip() in _BLANK or label == missing
    if isinstance(label, (float, np.floating)) and label != label:
        return True
    return missing is not None and isinstance(label, (int, float, bool, np.generic)) and bool(label == missing)


def _check_labels(labels: list[Any]) -> NDArray[Any]:
    """Return labels as an array of one kind; quantities and several labels in one answer are refused."""
    for one in labels:
        if isinstance(one, (list, tuple, set, frozenset, dict, np.ndarray)):
            raise InputError(
                f"the answer {one!r} is several labels (multi-label). Find a consensus for each label by itself: one "
                "table of yes and no per label.",
                owner=_OWNER,
            )
    if all(isinstance(one, (bool, np.bool_)) for one in labels):
        return np.array(labels, dtype=bool)
    if all(isinstance(one, (int, float, np.number)) for one in labels):
        fraction = next((one for one in labels if one != int(one)), None)
        if fraction is not None:
            raise InputError(
                f"the answer {fraction!r} is a quantity, not a class (regression). Average such answers, or divide "
                "their range into classes first, for example with numpy.digitize.",
                owner=_OWNER,
            )
        return np.array([int(one) for one in labels], dtype=np.int64)
    if all(isinstance(one, str) for one in labels):
        return np.array(labels)
    return _objects([one.item() if isinstance(one, np.generic) else one for one in labels])
