"""What changed between two audits of the same rows: labels that were mended, suspects that are gone, and new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nearkin.arrays import Index
from nearkin.errors import InputError

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["AuditChange", "compare"]


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

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """For people."""
        told = [
            f"{100 * rate:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
            for rate, (low, high) in zip(self.noise_rate, self.noise_interval, strict=True)
        ]
        return "\n".join(
            [
                f"rows          {self.n_before:,} -> {self.n_after:,} ({self.n_common:,} in both, "
                f"{len(self.dropped):,} dropped, {len(self.added):,} added)",
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
        that both audits have, by the index of pandas frames, by their features, or by their place.

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
    keys = _name_rows(before, after) if ids is None else (_own_ids(before, ids[0]), _own_ids(after, ids[1]))
    place = {key: i for i, key in enumerate(keys[0])}
    pairs = [(place[key], j) for j, key in enumerate(keys[1]) if key in place]
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
    )


def _own_ids(audit: LabelAudit, ids: Sequence[Any]) -> list[Any]:
    """Return the names of the audited rows, each once."""
    n_all = audit.n_given
    if len(ids) not in (audit.n_rows, n_all):
        raise InputError(
            f"ids must name all {audit.n_rows:,} audited rows, or the {n_all:,} that were given; got {len(ids):,}.",
            owner="compare",
        )
    found = [str(ids[i]) for i in (audit.numbers() if len(ids) == n_all else range(audit.n_rows))]
    if len(set(found)) < len(found):
        raise InputError("ids must name each row once; some name two.", owner="compare")
    return found


def _name_rows(before: LabelAudit, after: LabelAudit) -> tuple[list[Any], list[Any]]:
    """Return keys by which rows of both audits are the same: names, features, or numbers if these tell more."""
    if before.names is not None and after.names is not None:
        return _own_ids(before, before.names), _own_ids(after, after.names)
    index = [one.index_of_frame for one in (before, after)]
    if all(one is not None and one.is_unique for one in index) and not all(map(_is_default, index)):
        return index[0].tolist(), index[1].tolist()
    rows = before.feature_rows, after.feature_rows
    numbers = before.numbers().tolist(), after.numbers().tolist()
    # Features that were learned from all rows (texts) or coded anew are not the same numbers in both.
    is_plain = not any(hasattr(one.classifier, "encoder_") for one in (before, after))
    is_alike = is_plain and rows[0] is not None and rows[1] is not None and rows[0].shape[1] == rows[1].shape[1]
    keys = (_number_repeats(rows[0]), _number_repeats(rows[1])) if is_alike else ([], [])
    n_equal = len(set(keys[0]) & set(keys[1]))
    if before.n_given == after.n_given:
        at = dict(zip(numbers[0], keys[0], strict=False))
        n_in_place = sum(at.get(i) == key for i, key in zip(numbers[1], keys[1], strict=False))
        # Rows that were put into another order are known by their features, rows that were mended by their place.
        return numbers if 2 * n_in_place >= n_equal else keys
    if 2 * n_equal < min(before.n_rows, after.n_rows):
        raise InputError(
            f"the audits are of {before.n_given:,} and {after.n_given:,} rows, of which {n_equal:,} have the same "
            "features, so it is not known which rows are the same; name them: ids=(before, after) in Python, --id COL "
            "in both audits on the command line.",
            owner="compare",
        )
    return keys


def _is_default(index: Any) -> bool:
    """Whether an index of pandas only counts the rows."""
    return bool(type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1)


def _number_repeats(rows: Any) -> list[Any]:
    """Return the bytes of each row and how many equal rows come before it."""
    seen: dict[bytes, int] = {}
    keys = []
    for row in np.ascontiguousarray(rows, dtype=np.float64) + 0.0:  # -0.0 becomes 0.0
        key = row.tobytes()
        seen[key] = seen.get(key, -1) + 1
        keys.append((key, seen[key]))
    return keys
