"""What changed between two audits of the same rows: labels that were mended, suspects that are gone, and new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nearkin.arrays import Array, Index
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit
    from nearkin.tables import LabelledRows, TableEncoder

__all__ = ["AuditChange", "KnownRows", "compare", "match_rows"]

#: How rows are matched, in words.
_BY_NAME, _BY_REPEATED, _BY_INDEX = "by name", "by features under a repeated name", "by the index of the frame"
_BY_FEATURES, _BY_PLACE = "by features", "by place"


@dataclass(frozen=True, eq=False, repr=False)
class AuditChange:
    """How one audit differs from an earlier one; made by `compare`.

    Rows are counted as the audits count them, from 0 among all rows that were given: ``dropped``, ``relabelled`` and
    ``resolved`` as in the audit before, the others as in the audit after.

    Parameters
    ----------
    n_before, n_after, n_common : int
        Audited rows before, after, and in both.
    noise_rate : tuple of float
        Estimated share of wrong labels before and after.
    noise_interval : tuple of tuple of float
        The intervals of both.
    n_suspects : tuple of int
        Suspects before and after.
    dropped, added : ndarray of int
        Rows that only the audit before has, and those that only the one after has.
    relabelled : ndarray of int
        Rows with another label now.
    n_as_suggested : int
        How many of these took the label that the audit before suggested.
    resolved : ndarray of int
        Suspects before that are in both audits and are not suspects now.
    remaining : ndarray of int
        Suspects of both audits.
    new : ndarray of int
        Suspects now that were none before, or were not there.
    matched : dict of str to int
        How rows were found to be the same, and how many: "by name", "by features", "by place" and so on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import nearkin
    >>> X, y = load_iris(return_X_y=True)
    >>> before, after = (nearkin.audit_labels(X[some], y[some], random_state=0) for some in (slice(150), slice(140)))
    >>> change = nearkin.audit.compare(before, after)
    >>> change.n_before, change.n_after, len(change.dropped)
    (150, 140, 10)
    """

    n_before: int
    n_after: int
    n_common: int
    noise_rate: tuple[float, float]
    noise_interval: tuple[tuple[float, float], tuple[float, float]]
    n_suspects: tuple[int, int]
    dropped: Index
    added: Index
    relabelled: Index
    n_as_suggested: int
    resolved: Index
    remaining: Index
    new: Index
    matched: dict[str, int]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """For people."""
        told = [
            f"{100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
            for rate, (low, high) in zip(self.noise_rate, self.noise_interval, strict=True)
        ]
        how = ", ".join(f"{n:,} {one}" for one, n in self.matched.items() if n) or "none"
        return "\n".join(
            [
                f"rows          {self.n_before:,} -> {self.n_after:,} ({self.n_common:,} in both, "
                f"{len(self.dropped):,} dropped, {len(self.added):,} added)",
                f"matched       {how}",
                f"wrong labels  {told[0]} -> {told[1]}",
                f"suspects      {self.n_suspects[0]:,} -> {self.n_suspects[1]:,} ({len(self.remaining):,} remain, "
                f"{len(self.resolved):,} resolved, {len(self.new):,} new)",
                f"relabelled    {len(self.relabelled):,}, {self.n_as_suggested:,} of them as suggested",
            ]
        )


def compare(
    before: LabelAudit, after: LabelAudit, ids: tuple[Sequence[Any], Sequence[Any]] | None = None
) -> AuditChange:
    """Return what changed between two audits, for example before and after labels were mended.

    Parameters
    ----------
    before, after : LabelAudit
        The audits.
    ids : tuple of two sequences or None, default=None
        Names of the audited rows, or of all rows that were given, before and after. Without them rows go by the names
        that both audits have, by the index of pandas frames, by their features, or by their place. Rows that share a
        name go by their features among those of that name.

    Returns
    -------
    AuditChange
        Counts and rows; print it, or read its parts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import nearkin
    >>> X, y = load_iris(return_X_y=True)
    >>> given, _ = nearkin.flip_labels(y, 0.1, random_state=0)
    >>> before = nearkin.audit_labels(X, given, random_state=0)
    >>> X_clean, y_clean = before.clean(X, given)
    >>> change = compare(before, nearkin.audit_labels(X_clean, y_clean, random_state=0))
    >>> len(change.dropped) == before.n_wrong, len(change.added)
    (True, 0)
    >>> change.noise_rate[1] < change.noise_rate[0]
    True
    """
    known = [KnownRows.of(one) for one in (before, after)]
    if ids is not None:
        for one, names in zip(known, ids, strict=True):
            one.names = one.cut(names)
    found = match_rows(*known)
    pairs = sorted(((i, j) for matched in found.values() for i, j in matched), key=lambda pair: pair[1])
    old, new = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    numbers = before.numbers(), after.numbers()
    was, now = before.given_label[old], after.given_label[new]
    changed = np.array([str(one) != str(other) for one, other in zip(was, now, strict=True)], dtype=bool)
    suggested = before.suggested_label[old]
    taken = [str(one) == str(other) for one, other in zip(suggested[changed], now[changed], strict=True)]
    stays = np.zeros(after.n_rows, dtype=bool)
    stays[new] = before.is_suspect[old]
    return AuditChange(
        n_before=before.n_rows,
        n_after=after.n_rows,
        n_common=len(old),
        noise_rate=(before.noise_rate, after.noise_rate),
        noise_interval=(before.noise_interval, after.noise_interval),
        n_suspects=(before.n_suspects, after.n_suspects),
        dropped=np.delete(numbers[0], old),
        added=np.delete(numbers[1], new),
        relabelled=numbers[0][old[changed]],
        n_as_suggested=sum(taken),
        resolved=numbers[0][old[before.is_suspect[old] & ~after.is_suspect[new]]],
        remaining=numbers[1][np.flatnonzero(after.is_suspect & stays)],
        new=numbers[1][np.flatnonzero(after.is_suspect & ~stays)],
        matched={how: len(matched) for how, matched in found.items()},
    )


@dataclass(eq=False)
class KnownRows:
    """What is known about the rows of an audit, or of one to come, by which those of another are the same.

    ``names``, ``index``, ``features`` and ``labels`` are of the audited rows, ``numbers`` their places among the
    ``n_given`` rows that were given.
    """

    numbers: list[int]
    n_given: int
    features: Array | None
    labels: Any
    encoder: TableEncoder | None
    names: list[str] | None = None
    index: Any = None

    @classmethod
    def of(cls, audit: LabelAudit) -> Self:
        """Return what an audit knows about its rows."""
        known = cls(
            audit.numbers().tolist(), audit.n_given, audit.feature_rows, audit.given_label,
            getattr(audit.classifier, "encoder_", None), index=audit.index_of_frame,
        )  # fmt: skip
        known.names = None if audit.names is None else known.cut(audit.names)
        return known

    @classmethod
    def of_table(cls, rows: LabelledRows, names: Sequence[Any] | None) -> Self:
        """Return what is known about the rows of a file before they are audited."""
        n_given = len(rows.X) + (0 if rows.unlabelled is None else len(rows.unlabelled.X))
        numbers = list(range(len(rows.X))) if rows.numbers is None else rows.numbers.tolist()
        known = cls(numbers, n_given, rows.X, rows.y, rows.needed_encoder)
        known.names = None if names is None else known.cut(names)
        return known

    def cut(self, ids: Sequence[Any]) -> list[str]:
        """Return the names of the audited rows, from theirs or from those of all rows that were given."""
        n_rows, n_all = len(self.numbers), self.n_given
        if len(ids) not in (n_rows, n_all):
            raise InputError(
                f"ids must name all {n_rows:,} audited rows, or the {n_all:,} that were given; got {len(ids):,}.",
                owner="compare",
            )
        return [str(ids[i]) for i in (self.numbers if len(ids) == n_all else range(n_rows))]


def match_rows(before: KnownRows, after: KnownRows) -> dict[str, list[tuple[int, int]]]:
    """Return pairs of rows that are the same before and after, by how this is known.

    Names come first, then the index of frames, then features, or places if these tell more.
    """
    if before.names is not None and after.names is not None:
        return _match_names(before, after, before.names, after.names)
    if _has_index(before) and _has_index(after) and not (_is_default(before.index) and _is_default(after.index)):
        return {_BY_INDEX: _match(before.index.tolist(), after.index.tolist())}
    keys = _by_features(before, after)
    n_equal = len(set(keys[0]) & set(keys[1]))
    if before.n_given == after.n_given:
        at = dict(zip(before.numbers, keys[0], strict=False))
        n_in_place = sum(at.get(i) == key for i, key in zip(after.numbers, keys[1], strict=False))
        # Rows that were put into another order are known by their features, rows that were mended by their place.
        if 2 * n_in_place >= n_equal:
            return {_BY_PLACE: _match(before.numbers, after.numbers)}
    elif 2 * n_equal < min(len(before.numbers), len(after.numbers)):
        raise InputError(
            f"the audits are of {before.n_given:,} and {after.n_given:,} rows, of which {n_equal:,} have the same "
            "features, so it is not known which rows are the same; name them: ids=(before, after) in Python, --id COL "
            "in both audits on the command line.",
            owner="compare",
        )
    return {_BY_FEATURES: _match(*keys)}


def _match(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the places of equal keys, each of which is there once."""
    place = {key: i for i, key in enumerate(before)}
    return [(place[key], j) for j, key in enumerate(after) if key in place]


def _match_names(
    before: KnownRows, after: KnownRows, named: Sequence[str], called: Sequence[str]
) -> dict[str, list[tuple[int, int]]]:
    """Match rows by names that no two rows share, and the others by features among the rows of a name."""
    times = Counter(named), Counter(called)
    shared = {name for one in times for name, n in one.items() if n > 1}
    old = [None if name in shared else name for name in named]
    pairs = [(i, j) for i, j in _match(old, called) if called[j] not in shared]
    features = _feature_bytes(before, after)
    if not shared or features is None:
        return {_BY_NAME: pairs, _BY_REPEATED: []}
    rest = [
        [(i, (name, rows[i]), str(labels[i])) for i, name in enumerate(names) if name in shared]
        for names, rows, labels in ((named, features[0], before.labels), (called, features[1], after.labels))
    ]
    # Of equal rows those with the same label are the same; the others are taken in their order.
    more: list[tuple[int, int]] = []
    for with_label in (True, False):
        keys = [_number([(key, label) if with_label else key for _, key, label in one]) for one in rest]
        found = _match(*keys)
        more += [(rest[0][i][0], rest[1][j][0]) for i, j in found]
        gone = {i for i, _ in found}, {j for _, j in found}
        rest = [[row for i, row in enumerate(one) if i not in out] for one, out in zip(rest, gone, strict=True)]
    return {_BY_NAME: pairs, _BY_REPEATED: more}


def _has_index(known: KnownRows) -> bool:
    return known.index is not None and bool(known.index.is_unique)


def _by_features(before: KnownRows, after: KnownRows) -> tuple[list[Any], list[Any]]:
    """Return a key for each row from its features, equal rows numbered; none where features cannot be compared."""
    features = _feature_bytes(before, after)
    return ([], []) if features is None else (_number(features[0]), _number(features[1]))


def _feature_bytes(before: KnownRows, after: KnownRows) -> tuple[list[bytes], list[bytes]] | None:
    """Return the bytes of all rows; None where the features of both are not the same."""
    rows = before.features, after.features
    if rows[0] is None or rows[1] is None or rows[0].shape[1] != rows[1].shape[1]:
        return None
    # Columns of two tables may be coded as other features, such as a category that is gone from one.
    coded = [None if one.encoder is None else one.encoder.get_feature_names_out().tolist() for one in (before, after)]
    if coded[0] != coded[1]:
        return None
    return _as_bytes(rows[0]), _as_bytes(rows[1])


def _as_bytes(rows: Any) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(rows, dtype=np.float64) + 0.0]  # -0.0 becomes 0.0


def _is_default(index: Any) -> bool:
    """Whether an index of pandas only counts the rows."""
    return bool(type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1)


def _number(keys: Sequence[Any]) -> list[Any]:
    """Return each key and how many equal ones come before it."""
    seen: Counter[Any] = Counter()
    numbered = []
    for key in keys:
        numbered.append((key, seen[key]))
        seen[key] += 1
    return numbered
