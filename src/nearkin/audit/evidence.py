"""Why a label is doubted: what each voter says, whose votes these are, which columns tell, and rows to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Index
from nearkin.audit.contrast import Feature
from nearkin.errors import printable
from nearkin.jury.jury import whole_percents
from nearkin.kernels import one_blas_thread
from nearkin.measures import DISTANCE
from nearkin.neighbors.search import BlockSearch, NeighbourSearch

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["Evidence", "Neighbour", "Opinion", "Prototype", "PrototypeMap", "TrustedRow", "explain", "find_other"]


#: Trusted rows of each class beside a row, and the share of its length by which a copy may differ.
N_TRUSTED, _SAME = 2, 1e-6
#: Most rows that are compared with each other row without a search.
_FEW = 4096


@dataclass(frozen=True)
class Opinion:
    """What one voter says about a label."""

    #: Name of the voter, what its votes rest on, and how much it counts in the jury.
    voter: str
    votes_with: str
    share: float
    #: Shares of its votes for the given and for the suggested label (where none is suggested, for the best other).
    for_given: float
    for_suggested: float


@dataclass(frozen=True)
class Neighbour:
    """A row whose label votes on the doubted one."""

    label: Any
    row: int
    #: Its share of the whole jury's vote, and the voters for which it is among the nearest rows.
    share: float
    voters: tuple[str, ...]
    #: Of its own label.
    plausibility: float
    is_suspect: bool


@dataclass(frozen=True)
class Prototype:
    """Centre of a class in the learned space that votes, and the row that stands for it."""

    label: Any
    #: The row of the class nearest to the centre that is not a suspect: the one to look at.
    row: int
    #: From the doubted row to the centre.
    distance: float


@dataclass(frozen=True)
class TrustedRow:
    """A row that is not a suspect, to hold the doubted one against."""

    label: Any
    row: int
    #: From the doubted row, in the learned space that votes.
    distance: float


@dataclass(frozen=True, repr=False)
class Evidence:
    """Everything that speaks for and against one label.

    Parameters
    ----------
    row : int
        Number of the row.
    given_label, suggested_label : object
        The same for a row that is not a suspect.
    plausibility : float
        Of the given label.
    confidence : float
        Of the suggested one.
    opinions : tuple of Opinion
        What each voter says: ``voter``, ``votes_with``, its ``share``, and the shares of its votes ``for_given``
        and ``for_suggested`` (for a row that is not a suspect, for the best other label).
    neighbours : tuple of Neighbour
        Rows that cast most of the votes, the largest share first; each is among the nearest of at least one voter. Each
        has ``label``, ``row``, its ``share`` of the jury's vote, the ``voters`` for which it is near, and the
        ``plausibility`` of its own label, which may be doubted too (``is_suspect``).
    given, suggested : Prototype
        Of either class (for a row that is not a suspect, of the best other): ``label``, the typical ``row`` nearest to
        the centre of the class, and the ``distance`` to that centre.
    is_suspect : bool
        Whether the label is doubted.
    is_wrong : bool
        Whether it is more likely wrong than right; other suspects are worth a look.
    features : tuple of Feature
        Columns that speak most for either label, at most five: ``name``, ``value`` of the row, ``score`` (above 0 for
        the other label, below 0 for the given one; a log-likelihood ratio, see `nearkin.audit.contrast`), and what is
        usual among the trusted rows of both classes (``usual_given``, ``usual_other``). Empty for more than 100 columns
        without names, and for modalities.
    trusted : tuple of TrustedRow
        Rows nearest to this one in the learned space, up to two of each class, that are neither suspects nor copies of
        it: ``label``, ``row`` and ``distance``.
    called : mapping of int to str
        What the rows above are called in text: their names, or their numbers among all rows that were given, from 0.
        ``row`` and the rows of all parts are positions among the audited rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import nearkin
    >>> X, y = load_iris(return_X_y=True)
    >>> y[0] = 2  # a wrong label
    >>> why = nearkin.audit_labels(X, y, random_state=0).evidence(0)
    >>> why.given_label, why.suggested_label, [one.label for one in why.neighbours[:3]]
    (2, 0, [0, 0, 0])
    >>> [one.for_suggested > one.for_given for one in why.opinions]
    [True, True, True, True, True]
    """

    row: int
    given_label: Any
    suggested_label: Any
    plausibility: float
    confidence: float
    opinions: tuple[Opinion, ...]
    neighbours: tuple[Neighbour, ...]
    given: Prototype
    suggested: Prototype
    is_suspect: bool
    is_wrong: bool
    features: tuple[Feature, ...] = ()
    trusted: tuple[TrustedRow, ...] = ()
    called: Mapping[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """For people."""
        label, other = _name(self.given_label), _name(self.suggested.label)
        if self.is_suspect:
            tier = "probably wrong" if self.is_wrong else "worth a look"
            verdict = f"{tier}: suggested {other}, {100 * self.confidence:.0f} % sure"
        else:
            verdict = f"not a suspect; compared with {other}, the best other label"
        lines = [
            f"row {self._call(self.row)}: label {label} is {100 * self.plausibility:.1f} % plausible",
            f"  {verdict}",
            f"  {'voter':<20} {'share':>6}  for {label}, for {other}",
        ]
        lines += [
            f"  {one.voter:<20} {share:4} %  {100 * one.for_given:.0f} %, {100 * one.for_suggested:.0f} %"
            for one, share in zip(self.opinions, whole_percents([one.share for one in self.opinions]), strict=True)
        ]
        lines += ["  neighbours that cast most of the votes"]
        lines += [
            f"    {_name(one.label)} (row {self._call(one.row)}): {100 * one.share:.1f} %, "
            f"near in {' and '.join(one.voters)}" + (", itself a suspect" if one.is_suspect else "")
            for one in self.neighbours
        ]
        lines += [
            f"  the centre of {label} lies {self.given.distance:.3g} away (typical row {self._call(self.given.row)}), "
            f"that of {other} {self.suggested.distance:.3g} (typical row {self._call(self.suggested.row)})",
        ]
        if self.features:
            lines += [f"  columns that speak most for {other} (+) or {label} (-)"]
            lines += [f"    {one.score:+.1f}  {_tell(one, label, other)}" for one in self.features]
        if self.trusted:
            rows = ", ".join(f"{self._call(one.row)} ({_name(one.label)})" for one in self.trusted)
            lines += [f"  nearest trusted rows: {rows}"]
        return "\n".join(lines)

    def _call(self, row: int) -> str:
        return printable(self.called.get(row, row), 40)


def _name(label: Any) -> str:
    """A label as Python writes it, cut where it is long."""
    return printable(repr(label), 60)


def _tell(feature: Feature, label: str, other: str) -> str:
    """What a column says, on one line."""
    words = f"{printable(feature.name, 40)} is {printable(feature.value, 40)}"
    if not feature.usual_given:
        return words
    return f"{words}; usual for {label} {printable(feature.usual_given, 40)}, for {other} " + printable(
        feature.usual_other, 40
    )


def find_other(audit: LabelAudit, rows: Index) -> Codes:
    """Labels that those of rows are compared with: of suspects the suggested one, otherwise the best other label."""
    found = audit.suggested_code[rows].copy()
    alone = np.flatnonzero(found == audit.given_code[rows])
    if len(alone):
        given = audit.given_code[rows[alone]]
        shares = audit.decision.left_out_joint(rows[alone], given).copy()
        shares[np.arange(len(alone)), given] = -1.0
        found[alone] = shares.argmax(axis=1)
    return found


def explain(audit: LabelAudit, row: int, n_neighbors: int) -> Evidence:
    """Collect the evidence about one label."""
    decision, at, names = audit.decision, np.array([row]), audit.classes.tolist()
    given, best = int(audit.given_code[row]), int(find_other(audit, at)[0])
    said, cast = decision.left_out_votes(at), decision.cast_left_out(at, n_neighbors)
    opinions = tuple(
        Opinion(voter.name, voter.votes_with, float(share), float(votes[0, given]), float(votes[0, best]))
        for voter, share, votes in zip(decision.jury.voters, said.shares, said.votes, strict=True)
    )
    neighbours = tuple(
        Neighbour(
            names[audit.given_code[j]],
            int(j),
            float(cast.total[0, i]),
            tuple(name for name, is_near in zip(cast.voters, cast.is_nearest[:, 0, i], strict=True) if is_near),
            float(audit.plausibility[j]),
            bool(audit.is_suspect[j]),
        )
        for i, j in enumerate(cast.rows[0])
    )
    given_prototype, best_prototype = (
        Prototype(
            names[code], int(audit.prototypes.typical[code]), float(audit.prototypes.distances(at, at * 0 + code)[0])
        )
        for code in (given, best)
    )
    trusted = _find_trusted(audit, row, (given, best))
    told = [row, given_prototype.row, best_prototype.row]
    told += [*(one.row for one in neighbours), *(one.row for one in trusted)]
    return Evidence(
        int(row), names[given], names[int(audit.suggested_code[row])], float(audit.plausibility[row]),
        float(audit.confidence[row]), opinions, neighbours, given_prototype, best_prototype,
        bool(audit.is_suspect[row]), bool(audit.is_wrong[row]),
        audit.contrast.features_of(row, given, best), trusted,
        dict(zip(told, audit.call_rows(np.array(told)), strict=True)),
    )  # fmt: skip


def _find_trusted(audit: LabelAudit, row: int, codes: tuple[int, ...]) -> tuple[TrustedRow, ...]:
    names, mapped, at = audit.classes.tolist(), audit.prototypes.rows, np.array([row])
    found = [(code, audit.prototypes.nearest(at, np.array([code]))[0]) for code in codes]
    return tuple(
        TrustedRow(names[code], int(j), float(np.linalg.norm(mapped[j] - mapped[row])))
        for code, rows in found
        for j in rows[rows >= 0]
    )


def _search_among(rows: Array) -> BlockSearch | NeighbourSearch:
    """Return a search for the nearest of some rows; among few it is without scikit-learn, which takes long to load."""
    if len(rows) > _FEW:
        return NeighbourSearch(rows, DISTANCE)
    return BlockSearch(rows.astype(np.float64), np.zeros(len(rows), np.int64), _minus_squares, DISTANCE)


def _minus_squares(queries: Array, items: Array, _: Codes) -> Array:
    """Squared distances of all pairs, with a minus."""
    queries = queries.astype(np.float64)
    norms = [np.einsum("ij,ij->i", one, one) for one in (queries, items)]
    found: Array = 2.0 * queries @ items.T - norms[0][:, None] - norms[1]
    return found


class PrototypeMap:
    """Rows in the learned space that votes, with the centre of every class and the typical row nearest to it.

    Suspects do not count; every class has other rows.
    """

    def __init__(self, rows: Array, codes: Codes, is_suspect: Any):
        self.rows, self._codes = rows, codes
        kept, n_classes = np.flatnonzero(~is_suspect), int(codes.max()) + 1
        self.centres = np.zeros((n_classes, rows.shape[1]))
        np.add.at(self.centres, codes[kept], rows[kept])
        self.centres /= np.maximum(np.bincount(codes[kept], minlength=n_classes), 1)[:, None]
        self._trusted = kept
        far = self.distances(kept, codes[kept])
        order = np.lexsort((far, codes[kept]))
        self.typical: Index = kept[order[np.searchsorted(codes[kept][order], np.arange(n_classes))]]

    def distances(self, which: Index, codes: Codes) -> Array:
        """Distance of rows to the centres of classes."""
        difference = self.rows[which] - self.centres[codes]
        return np.sqrt(np.einsum("ij,ij->i", difference, difference))

    def nearest(self, which: Index, codes: Codes, n: int = N_TRUSTED) -> Index:
        """Return the n nearest trusted rows of classes, of each row in its class; -1 where there are no more.

        A row and its copies do not count.
        """
        found = np.full((len(which), n), -1, dtype=np.int64)
        with one_blas_thread():  # there is too little work in each class to share
            for code in np.unique(codes):
                members = self._trusted[self._codes[self._trusted] == code]
                asked = np.flatnonzero(codes == code)
                found[asked] = self._nearest(which[asked], members, n)
        return found

    def _nearest(self, which: Index, members: Index, n: int) -> Index:
        """Return the n nearest members of rows; -1 where there are no more."""
        found, left = np.full((len(which), n), -1, dtype=np.int64), np.arange(len(which))
        search, k = _search_among(self.rows[members]), n + 2
        while len(left) and len(members):
            k = min(k, len(members))
            near = members[search.query(self.rows[which[left]], k)[1]]
            differs = self._differ(which[left], near)
            first = np.argsort(~differs, axis=1, kind="stable")[:, :n]
            rows = np.where(np.take_along_axis(differs, first, axis=1), np.take_along_axis(near, first, axis=1), -1)
            found[left, : rows.shape[1]] = rows
            # Among many copies the others are further away.
            left = left[differs.sum(axis=1) < n] if k < len(members) else left[:0]
            k *= 8
        return found

    def _differ(self, which: Index, others: Index) -> NDArray[np.bool_]:
        """Whether other rows differ from a row by more than rounding."""
        own = self.rows[which].astype(np.float64)
        far = np.linalg.norm(self.rows[others] - own[:, None], axis=2)
        found: NDArray[np.bool_] = far > _SAME * np.linalg.norm(own, axis=1)[:, None]
        return found & (others != which[:, None])
