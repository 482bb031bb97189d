"""Labels of any hashable kind, numbered in order of first appearance so that nothing depends on their names."""

from __future__ import annotations

import contextlib
import numbers
import unicodedata
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from nearkin.arrays import Codes
from nearkin.errors import InputError
from nearkin.stored import Anything, Count, Items, Maybe, Table, stored

__all__ = [
    "Labels", "as_labels", "as_names", "check_labels", "find_missing", "first_appearance",
    "group_lookalikes", "refuse_several", "sorted_classes", "tell_lookalikes", "warn_of_lookalikes",
]  # fmt: skip

#: Signs that print as nothing and come along when text is copied: soft hyphen, zero-width space, word joiner, byte
#: order mark.
_HIDDEN = "\u00ad\u200b\u2060\ufeff"

#: Signs that join several labels in one text.
_JOINING = "|;,"
#: Groups of classes that print alike, and classes of one, that are named.
_GROUPS, _ALIKE = 10, 3


def check_labels(y: Any, n_rows: int, owner: str) -> NDArray[Any]:
    """Labels of rows, one for each."""
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None.")  # in scikit-learn's words
    labels = as_labels(y, owner)
    if len(labels) != n_rows:
        raise InputError(f"X has {n_rows} rows but y has {len(labels)} labels.", owner=owner)
    return labels


def as_names(values: Any, what: str) -> NDArray[Any]:
    """One-dimensional array of names of any hashable kind, one of each row; missing ones are refused.

    Examples
    --------
    >>> as_names(["a", None], "groups")
    Traceback (most recent call last):
    nearkin.errors.InputError: `groups` holds None at row 1; give every row one.
    """
    try:
        names = _one_array(values)
    except ValueError as error:
        raise InputError(f"`{what}`: {error}") from None
    names = _objects(list(names)) if names.dtype.kind in "mM" else names
    is_missing = np.isnan(names) if names.dtype.kind == "f" else np.array([_is_missing(one) for one in names], bool)
    if is_missing.any():
        row = int(np.argmax(is_missing))
        raise InputError(f"`{what}` holds {names[row]!r} at row {row}; give every row one.")
    return names


def find_missing(y: Any) -> NDArray[np.bool_]:
    """Return which labels are missing: None, NaN and the like.

    >>> find_missing(["a", None, float("nan")]).tolist()
    [False, True, True]
    """
    values = y.to_list() if hasattr(y, "to_list") else y.tolist() if isinstance(y, np.ndarray) else list(y)
    return np.array([_is_missing(one) for one in values], dtype=bool)


def as_labels(y: Any, owner: str) -> NDArray[Any]:
    """One-dimensional array of labels; missing, continuous and unhashable ones are refused with a clear message."""
    try:
        labels = _one_array(y)
    except ValueError as error:
        problem = "there are no labels: y is None" if y is None else _explain_columns(y) or str(error)
        raise InputError(problem, owner=owner) from None
    kind = labels.dtype.kind
    if kind in "mM":  # as scalars, or their numbers would take their place
        labels = _objects(list(labels))
    elif kind in "fc":
        bad = np.flatnonzero(~np.isfinite(labels))
        if len(bad):
            raise InputError(
                f"y holds {labels[bad[0]]} at row {bad[0]}; every row needs a label. Drop such rows.", owner=owner
            )
        fraction = np.flatnonzero(labels != np.floor(labels.real))
        if len(fraction):
            problem = f"y holds {labels[fraction[0]]} at row {fraction[0]}; a label names a class, not a quantity"
            hint = (
                "If these are classes, name them, for example with y.astype(str); divide a numeric target (regression) "
                "into classes first, for example with numpy.digitize."
            )
            raise InputError(f"{problem} (Unknown label type: continuous). {hint}", owner=owner)
    if labels.dtype.kind == "O":
        for row, label in enumerate(labels):
            if _is_missing(label):
                raise InputError(
                    f"y holds {label!r} at row {row}; every row needs a label. Drop such rows.", owner=owner
                )
            try:
                hash(label)
            except TypeError:
                several = ", several labels (multi-label): audit a column of yes and no for each label by itself."
                why = several if isinstance(label, (list, set)) else ", which cannot be hashed; use text or numbers."
                raise InputError(f"y holds {label!r} at row {row}{why}", owner=owner) from None
    return labels


def _explain_columns(y: Any) -> str:
    """Return what to do with labels in several columns; "" if there are not several."""
    if isinstance(y, (list, tuple)) and len({len(one) for one in y if isinstance(one, list)}) > 1:
        return "y holds lists, several labels per row (multi-label): audit a column of yes and no for each by itself."
    shape = np.shape(y)
    if len(shape) != 2 or shape[1] < 2:
        return ""
    return (
        f"y should be a 1d array, one label per row, but has {shape[1]} columns. If they are answers of several "
        "annotators, use find_consensus(X, answers); if they are several labels per row (multi-label), audit each "
        "column by itself."
    )


def _one_array(y: Any) -> NDArray[Any]:
    """Labels as an array that does not turn one kind into another."""
    if type(y) is np.ndarray and y.ndim == 1:
        return y
    if isinstance(y, (list, tuple)):
        plain = all(isinstance(one, str) for one in y) or all(
            isinstance(one, (numbers.Number, np.generic)) for one in y
        )
        if not plain and not all(isinstance(one, (list, np.ndarray)) for one in y):
            return _objects(y)
    return column_or_1d(np.asarray(y), warn=True)


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":
        return True
    differs = label != label
    return isinstance(differs, (bool, np.bool_)) and bool(differs)


def warn_of_lookalikes(labels: NDArray[Any], what: str) -> None:
    """Warn of classes that print alike but for spaces and capitals.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_lookalikes(np.array(["setosa", "virginica", "Setosa "]), "y")
    >>> print(caught[0].message)
    y: the labels 'setosa' and 'Setosa ' look the same and are two classes; is that meant?
    """
    if problem := tell_lookalikes(first_appearance(labels)[0]):
        warnings.warn(f"{what}: {problem}", stacklevel=3)


def tell_lookalikes(classes: Sequence[Any]) -> str:
    """Return a sentence about classes that print alike but for spaces and capitals; "" if there are none.

    >>> tell_lookalikes(["Gentoo", "gentoo", "GENTOO", "Adelie", "Adelie "])
    "5 labels look like 2 and are 5 classes ('Gentoo' like 'gentoo', 'GENTOO'; 'Adelie' like 'Adelie '); is that meant?"
    """
    groups = group_lookalikes(classes)
    if not groups:
        return ""
    n = sum(map(len, groups))
    if n == 2:
        return f"the labels {groups[0][0]!r} and {groups[0][1]!r} look the same and are two classes; is that meant?"
    told = []
    for first, *rest in groups[:_GROUPS]:
        others = ", ".join(repr(one) for one in rest[:_ALIKE])
        told.append(f"{first!r} like {others}" + f" and {len(rest) - _ALIKE:,} more" * (len(rest) > _ALIKE))
    more = f"; and {len(groups) - _GROUPS:,} more" if len(groups) > _GROUPS else ""
    return f"{n:,} labels look like {len(groups):,} and are {n:,} classes ({'; '.join(told)}{more}); is that meant?"


def group_lookalikes(classes: Sequence[Any]) -> list[list[Any]]:
    """Return groups of classes that print alike but for blanks, capitals, forms of the same letter and hidden signs.

    >>> group_lookalikes(["Grey  seal", "grey seal", "cat", 1, "1 "])
    [['Grey  seal', 'grey seal'], [1, '1 ']]
    """
    alike: dict[str, list[Any]] = {}
    for one in classes:
        seen = "".join(sign for sign in str(one) if sign not in _HIDDEN)
        alike.setdefault(" ".join(unicodedata.normalize("NFKC", seen).casefold().split()), []).append(one)
    return [some for some in alike.values() if len(some) > 1]


def refuse_several(labels: NDArray[Any], owner: str) -> None:
    """Refuse texts that are lists of labels: some name one label, others the same ones joined by a sign.

    >>> refuse_several(np.array(["big", "old", "big|old", "big|red|old"]), "audit_labels")
    Traceback (most recent call last):
    nearkin.errors.InputError: audit_labels: 'big|old' is several labels in one (multi-label): 'big' and 'old'. Audit \
    a column of yes and no for each label by itself, or write combinations that are classes without '|'.
    """
    names = first_appearance(labels)[0]
    if not all(isinstance(one, str) for one in names):
        return
    for sign in _JOINING:
        alone = {one.strip() for one in names if sign not in one}
        joined = [(one, [part.strip() for part in one.split(sign)]) for one in names if sign in one]
        known = [one for one, parts in joined if alone.issuperset(parts)]
        if known and len({len(parts) for _, parts in joined}) + len(known) > 2:
            parts = [part.strip() for part in known[0].split(sign)]
            raise InputError(
                f"{known[0]!r} is several labels in one (multi-label): {parts[0]!r} and {parts[1]!r}. Audit a column "
                f"of yes and no for each label by itself, or write combinations that are classes without {sign!r}.",
                owner=owner,
            )


def first_appearance(labels: NDArray[Any]) -> tuple[list[Any], Codes]:
    """Distinct labels in order of first appearance, and the number of each row's label.

    Examples
    --------
    >>> first_appearance(np.array(["b", "a", "b"]))
    (['b', 'a'], array([0, 1, 0]))
    """
    if labels.dtype.kind == "O":
        seen: dict[Any, int] = {}
        codes = np.array([seen.setdefault(label, len(seen)) for label in labels.tolist()], dtype=np.int64)
        return list(seen), codes
    distinct, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order].tolist(), rank[inverse.ravel()].astype(np.int64)


def sorted_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], Codes]:
    """Distinct labels as an array, sorted where they can be, and the place of each row's label in it.

    Examples
    --------
    >>> sorted_classes(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    if labels.dtype.kind != "O":
        classes, codes = np.unique(labels, return_inverse=True)
        return classes, codes.ravel().astype(np.int64)
    distinct, codes = first_appearance(labels)
    classes = _sorted(distinct)
    place = {one: i for i, one in enumerate(classes.tolist())}
    return classes, np.array([place[one] for one in distinct], dtype=np.int64)[codes]


def _sorted(distinct: list[Any]) -> NDArray[Any]:
    """As an array; sorted if the labels are of one kind that has an order."""
    kinds = {type(one) for one in distinct}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.asarray(sorted(distinct))
    if len(kinds) == 1 and not kinds & {set, frozenset}:  # sets have an order, but not a total one
        with contextlib.suppress(TypeError):
            distinct = sorted(distinct)
    return _objects(distinct)


@stored(codes=Table(Anything(), Count()), n_forgotten=Count(), allowed=Maybe(Items(Anything())))
class Labels:
    """Numbers given to labels, growing as new ones appear unless all classes were declared.

    Examples
    --------
    >>> labels = Labels()
    >>> labels.encode(np.array(["b", "a", "b"]), "Demo").tolist(), labels.classes.tolist()
    ([0, 1, 0], ['a', 'b'])
    """

    def __init__(self, declared: Iterable[Any] | None = None):
        self.codes: dict[Any, int] = {}
        self.n_forgotten = 0
        self.allowed: list[Any] | None = None if declared is None else list(dict.fromkeys(declared))

    def check_stored(self) -> None:
        """Refuse numbers that were never given, or given twice."""
        given = set(self.codes.values())
        if len(given) < len(self.codes) or any(code >= self.n_given for code in given):
            raise ValueError("labels have numbers that were never given, or share one")

    def copy(self) -> Labels:
        """Independent copy."""
        other = Labels(self.allowed)
        other.codes, other.n_forgotten = dict(self.codes), self.n_forgotten
        return other

    @property
    def classes(self) -> NDArray[Any]:
        """All classes known or declared, sorted where they can be."""
        return _sorted(list(self.codes) if self.allowed is None else self.allowed)

    @property
    def n_given(self) -> int:
        """How many numbers were given, also to labels that are forgotten."""
        return len(self.codes) + self.n_forgotten

    def add(self, label: Any) -> None:
        """Give the next number to a label that has none."""
        if label not in self.codes:
            self.codes[label] = self.n_given

    def keep(self, codes: Codes) -> None:
        """Forget the labels of all other numbers; these are not given again."""
        kept, before = set(codes.tolist()), len(self.codes)
        self.codes = {label: code for label, code in self.codes.items() if code in kept}
        self.n_forgotten += before - len(self.codes)

    def check_declared(self, declared: list[Any], owner: str) -> None:
        """Refuse a later declaration that differs from the first."""
        if self.allowed is not None and set(declared) != set(self.allowed):
            raise InputError("`classes` differs from the one of the first call; leave it out.", owner=owner)

    def encode(self, labels: NDArray[Any], owner: str, *, grow: bool = True) -> Codes:
        """Numbers of the labels; new labels get new numbers, or are refused."""
        distinct, inverse = first_appearance(labels)
        unknown = [one for one in distinct if one not in self.codes]
        if self.allowed is not None:
            strange = [one for one in distinct if one not in self.allowed]
            if strange:
                raise InputError(
                    f"y holds {strange[:5]}, which are not among the declared classes {self.classes.tolist()[:20]}. "
                    "Declare them in `classes` at the first call, or leave `classes` out to let new classes appear.",
                    owner=owner,
                )
        if unknown and not grow:
            raise InputError(
                f"y holds {unknown[:5]}, which were not in training; known classes are "
                f"{self.classes.tolist()[:20]}. Learn them first with partial_fit.",
                owner=owner,
            )
        for one in unknown:
            self.add(one)
        return np.array([self.codes[one] for one in distinct], dtype=np.int64)[inverse]
