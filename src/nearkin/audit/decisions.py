"""Decisions of a reader of the page: the file that the page exports, and the labels that follow from it.

The file is JSON. ``decisions`` lists the decided rows, ``undecided`` the other suspects with what
the rules below the table make of them, ``sample`` the answers of a check by sample. Rows are positions among all rows
that were given, from 0; labels are text.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.audit.sample import ANSWERS
from nearkin.errors import InputError, printable
from nearkin.labels import sorted_classes
from nearkin.noise.model import spread_rows

__all__ = [
    "Decision", "Decisions", "ReviewedLabels", "digest_file", "digest_rows", "fingerprint", "join_decisions",
    "read_decisions", "review_labels",
]  # fmt: skip

#: Version of the file.
FORMAT = 1
#: What may be decided about a label.
FATES = ("suggested", "given", "drop", "label")
#: Bytes of a file that is read.
_LARGEST = 1 << 28
#: Rows that stand for all in a digest.
_DIGESTED = 100_000
_OWNER = "decisions"
#: What a file may tell about its data.
_FACTS = ("data", "label", "digest", "rows", "id_name")


def fingerprint(classes: Sequence[Any], codes: Codes) -> str:
    """Return 16 hexadecimal digits that stand for the labels of an audit.

    Examples
    --------
    >>> fingerprint(["cat", "dog"], np.array([0, 1, 1])) == fingerprint(["cat", "dog"], np.array([0, 1, 1]))
    True
    >>> fingerprint(["cat", "dog"], np.array([0, 1, 1])) == fingerprint(["cat", "dog"], np.array([0, 1, 0]))
    False
    """
    digest = hashlib.sha256(json.dumps([len(codes), [str(one) for one in classes]]).encode())
    digest.update(np.ascontiguousarray(codes, dtype="<u4").tobytes())
    return digest.hexdigest()[:16]


def digest_rows(rows: Array) -> str:
    """Return 16 hexadecimal digits that stand for the features of rows in their order.

    >>> digest_rows(np.array([[1.0], [2.0]])) == digest_rows(np.array([[2.0], [1.0]]))
    False
    """
    some = np.ascontiguousarray(rows[spread_rows(len(rows), _DIGESTED)], dtype="<f8") + 0.0
    digest = hashlib.sha256(json.dumps(rows.shape).encode())
    digest.update(some.tobytes())
    return digest.hexdigest()[:16]


def digest_file(path: Path) -> str | None:
    """Return 16 hexadecimal digits that stand for what a file holds; None for a folder."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@dataclass(frozen=True)
class Decision:
    """What became of a label: ``how`` it was decided, the label as ``given``, and the final one (None for a drop)."""

    how: str
    given: str
    label: str | None


@dataclass(frozen=True)
class Decisions:
    """What a file of decisions holds.

    Parameters
    ----------
    audit : str
        Fingerprint of the labels that were decided about.
    n_rows : int
        Number of audited rows.
    decided, undecided : dict of int to Decision
        By row: the decision, and what the rules make of the other suspects.
    answers : dict of int to str
        Answers of a check by sample, by row.
    data, label, digest : str or None, default=None
        Name of the file that was audited, of its label, and the digest of the file, where the page knew them.
    rows : str or None, default=None
        Digest of the features of the audited rows, where it is the same on every machine.
    id_name : str or None, default=None
        Column that named the rows.
    ids : dict of int to str
        What it called them, by row.
    """

    audit: str
    n_rows: int
    decided: dict[int, Decision]
    undecided: dict[int, Decision]
    answers: dict[int, str]
    data: str | None = None
    label: str | None = None
    digest: str | None = None
    rows: str | None = None
    id_name: str | None = None
    ids: dict[int, str] = field(default_factory=dict)

    def merge(self, other: Decisions) -> Decisions:
        """Return both, the other taking precedence; both must be about the same labels."""
        if (self.audit, self.n_rows) != (other.audit, other.n_rows):
            raise InputError("the files are about different labels; apply each to its own data.", owner=_OWNER)
        decided = self.decided | other.decided
        undecided = {row: one for row, one in (self.undecided | other.undecided).items() if row not in decided}
        ids = self.ids | other.ids
        return replace(self, decided=decided, undecided=undecided, answers=self.answers | other.answers, ids=ids)

    def conflicts(self, other: Decisions) -> list[int]:
        """Return the rows about which two files decide differently."""
        both = self.decided.keys() & other.decided.keys()
        return sorted(row for row in both if self.decided[row].label != other.decided[row].label)


@dataclass(frozen=True)
class ReviewedLabels:
    """Labels after a review; made by `LabelAudit.apply`.

    Parameters
    ----------
    label : ndarray of shape (n_samples,)
        Final label of every audited row; of a dropped row the given one.
    kept, changed : ndarray of bool of shape (n_samples,)
        Rows that stay, and those of them whose label changed.
    n_decided : int
        Rows with a decision.
    n_by_rule : int
        Rows that were dropped by the rules of the page, as nobody had decided about them.
    new_labels : tuple
        Labels that no row had before.
    answers : dict of int to str
        Answers of the check by sample, by audited row, for `LabelAudit.verified`.
    """

    label: NDArray[Any]
    kept: Mask
    changed: Mask
    n_decided: int
    n_by_rule: int
    new_labels: tuple[Any, ...]
    answers: dict[int, str]

    def __str__(self) -> str:
        by_rule = f" ({self.n_by_rule:,} by the rules, not looked at)" if self.n_by_rule else ""
        new = ", ".join(_short(one) for one in self.new_labels)
        return (
            f"{self.n_decided:,} rows decided, {int(self.changed.sum()):,} labels changed, "
            f"{int((~self.kept).sum()):,} rows dropped{by_rule}, {int(self.kept.sum()):,} left"
            + (f"; labels that no row had before: {new}" if new else "")
        )


def read_decisions(source: str | os.PathLike[str] | Mapping[str, Any]) -> Decisions:
    """Read and check a file of decisions, or what such a file holds.

    Examples
    --------
    >>> one = {"row": 3, "given": "cat", "decision": "suggested", "label": "dog"}
    >>> held = {"nearkin": "decisions", "format": 1, "audit": "0" * 16, "n_rows": 5, "decisions": [one]}
    >>> read_decisions(held).decided
    {3: Decision(how='suggested', given='cat', label='dog')}
    """
    if not isinstance(source, (str, os.PathLike, Mapping)):
        raise InputError(f"a file that the page exports is needed, or what it holds; got {source!r}.", owner=_OWNER)
    held, name = (source, "decisions") if isinstance(source, Mapping) else (_read_json(Path(source)), str(source))
    if not isinstance(held, Mapping) or held.get("nearkin") != "decisions":
        raise InputError(f"{name} holds no decisions; export them from the page of an audit.", owner=_OWNER)
    version = held.get("format")
    if version != FORMAT:
        raise InputError(f"{name} has format {version!r}, this nearkin reads {FORMAT}.", owner=_OWNER)
    n_rows: Any = held.get("n_rows")
    if not isinstance(held.get("audit"), str) or not _is_row(n_rows, 1 << 40):
        raise InputError(f"{name} lacks `audit` or `n_rows`; export it again.", owner=_OWNER)
    decided = _read_entries(held, "decisions", name)
    undecided = {row: one for row, one in _read_entries(held, "undecided", name).items() if row not in decided}
    answers: dict[int, str] = {}
    for one in _list_of(held, "sample", name):
        if not _is_row(one.get("row")) or one.get("answer") not in tuple(ANSWERS):
            raise InputError(f"{name}: a `sample` entry needs `row` and `answer`; got {_told(one)}.", owner=_OWNER)
        answers[one["row"]] = one["answer"]
    facts = {key: held[key] for key in _FACTS if isinstance(held.get(key), str) and held[key]}
    named = chain(_list_of(held, "decisions", name), _list_of(held, "undecided", name))
    ids = {one["row"]: one["id"] for one in named if isinstance(one.get("id"), str)}
    return Decisions(held["audit"], int(n_rows), decided, undecided, answers, **facts, ids=ids)


def _read_json(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.", owner=_OWNER)
    if path.stat().st_size > _LARGEST:
        raise InputError(f"{path} is larger than {_LARGEST >> 20} MiB, which no page exports.", owner=_OWNER)
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {printable(str(error), 100)}", owner=_OWNER) from error


def _list_of(held: Mapping[str, Any], key: str, name: str) -> list[Mapping[str, Any]]:
    found = held.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise InputError(f"{name}: `{key}` must be a list of objects.", owner=_OWNER)
    return found


def _read_entries(held: Mapping[str, Any], key: str, name: str) -> dict[int, Decision]:
    found: dict[int, Decision] = {}
    for one in _list_of(held, key, name):
        parts: list[Any] = [one.get(part) for part in ("row", "decision", "given", "label")]
        row, how, given, label = parts
        is_whole = _is_row(row) and how in FATES and isinstance(given, str)
        if not is_whole or (how == "drop") != (label is None) or not isinstance(label, str | None):
            raise InputError(
                f"{name}: an entry of `{key}` needs `row`, `given`, `decision` ({', '.join(FATES)}) and, unless it "
                f"drops the row, `label`; got {_told(one)}.",
                owner=_OWNER,
            )
        entry = Decision(how, given, label)
        if found.setdefault(row, entry) != entry:
            raise InputError(f"{name} decides twice and differently about row {row}.", owner=_OWNER)
    return found


def _is_row(value: Any, most: int = 1 << 40) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _told(one: Any) -> str:
    return printable(repr(dict(one)), 120)


def join_decisions(
    sources: Iterable[str | os.PathLike[str] | Mapping[str, Any] | Decisions],
) -> tuple[Decisions, list[int]]:
    """Read the decisions of some reviewers, later ones taking precedence; and the rows about which they differ."""
    found, *others = (one if isinstance(one, Decisions) else read_decisions(one) for one in sources)
    conflicts: set[int] = set()
    for one in others:
        conflicts.update(found.conflicts(one))
        found = found.merge(one)
    return found, sorted(conflicts)


def review_labels(found: Decisions, given: NDArray[Any], classes: NDArray[Any], numbers: Index) -> ReviewedLabels:
    """Return the labels that follow from decisions; the file says as well what the rules make of other suspects.

    Parameters
    ----------
    found : Decisions
        The decisions.
    given : ndarray of shape (n,)
        Labels as given.
    classes : ndarray
        Sorted classes.
    numbers : ndarray of int of shape (n,)
        Position of each row among all that the page counted.
    """
    if len(given) != found.n_rows:
        raise InputError(
            f"the page was made of {found.n_rows:,} labelled rows, and there are {len(given):,} here: these are other "
            "data, or they changed since.",
            owner=_OWNER,
        )
    by_text = {str(one): one for one in classes.tolist()}
    final, kept = given.astype(object), np.ones(len(given), dtype=bool)
    places = {number: i for i, number in enumerate(numbers.tolist())}
    for row, one in (found.undecided | found.decided).items():
        i = places.get(row)
        if i is None or str(given[i]) != one.given:
            now = "there is no such row with a label" if i is None else f"it is {_short(given[i])} here"
            raise InputError(
                f"row {row} had the label {_short(one.given)} in the page, and {now}: these are other data, or they "
                "changed since.",
                owner=_OWNER,
            )
        kept[i] = one.label is not None
        final[i] = given[i] if one.label is None else _as_label(one.label, by_text, given, row)
    if fingerprint(classes.tolist(), sorted_classes(given)[1]) != found.audit:
        raise InputError(
            "these decisions are about other labels than those here; take the data that the page was made of, or make "
            "a new page.",
            owner=_OWNER,
        )
    changed = kept & np.array([new != old for new, old in zip(final.tolist(), given.tolist(), strict=True)], dtype=bool)
    answers = {places[row]: one for row, one in found.answers.items() if row in places}
    label = final if given.dtype.kind == "O" else np.array(final.tolist())
    by_rule = sum(one.label is None for row, one in found.undecided.items() if row not in found.decided)
    new = sorted({one for one in final[kept].tolist() if str(one) not in by_text}, key=str)
    return ReviewedLabels(label, kept, changed, len(found.decided), by_rule, tuple(new), answers)


def _as_label(text: str, by_text: Mapping[str, Any], given: NDArray[Any], row: int) -> Any:
    """Return the class with that text; a new one only where classes are text."""
    if text in by_text:
        return by_text[text]
    if given.dtype.kind in "US" or all(isinstance(one, str) for one in by_text.values()):
        return text
    try:
        return np.array([text]).astype(given.dtype)[0]
    except (ValueError, TypeError):
        kinds = type(next(iter(by_text.values()))).__name__
        raise InputError(f"row {row} was decided to be {_short(text)}, but labels are {kinds}.", owner=_OWNER) from None


def _short(label: Any) -> str:
    return repr(printable(label, 60))
