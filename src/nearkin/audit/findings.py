"""What else is wrong with the data, besides single labels: copies, far rows, classes that are one, leaks, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nearkin.arrays import Array, Codes, Index, Mask
from nearkin.audit.copied_rows import CopiedRows, find_copied_rows
from nearkin.audit.leaks import find_leaks
from nearkin.audit.row_order import find_period, find_runs
from nearkin.audit.stray_values import find_stray_values
from nearkin.errors import printable
from nearkin.jury import NeighbourVoter
from nearkin.labels import group_lookalikes

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["Finding", "find_all"]

#: Rows or items that a line names.
_NAMED = 5

#: Far rows: rank of the neighbour whose distance counts and the candidates among which it is; how many quartile ranges
#: a row must lie above the upper quartile, in the logarithm of its distance relative to its neighbours'; the least
#: ratio, and the fewest rows. Of clean normal, uniform and Student's t(3) rows at most one in a hundred is called far.
_RANK, _AMONG = 10, 30
_RANGES, _LEAST_RATIO = 5.0, 2.5
_FEWEST = 40

#: Fewest rows of a class that is compared with others, or told by columns.
_OF_CLASS = 30

#: Alike classes: most rows of each, most votes that are counted for them, least ratio of mean votes in both
#: directions, and how well votes may tell the classes apart (0 not at all, 1 fully): as seen, and with two standard
#: errors.
_ASKED_OF_CLASS, _VOTES = 200, 1 << 22
_SAME_VOTES, _APART, _SURELY_APART = 0.5, 0.15, 0.35

#: Leaks: rows and classes on which columns are tried.
_TRIED_ROWS, _TRIED_CLASSES = 2048, 64

#: Imbalance: how many times as many rows the largest class has.
_TIMES = 20


def _no_rows() -> Index:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """One thing that is wrong, or may be, with the data; see ``findings`` of `LabelAudit`.

    Parameters
    ----------
    kind : str
        Short key that stays the same: "conflicts", "leaks", "alike", "order", "far", "values", "copies",
        "spellings", "imbalance", "unlabelled" or "sorted".
    title : str
        A few words.
    count : int
        How many rows, sets of rows, classes, pairs of classes or columns are concerned.
    meaning : str
        What it means.
    advice : str
        What to do.
    rows : ndarray of int
        Positions among the audited rows, the most important first; empty where classes or columns are concerned.
    numbers : ndarray of int
        The same rows counted among all rows that were given.
    items : tuple of str
        Classes, columns, pairs or ranges.
    names : tuple of str
        What the rows are called, where they have names.
    codes : ndarray of int
        Classes that are concerned, as positions in ``classes`` of the audit; empty where rows or columns are.

    Examples
    --------
    >>> print(Finding("far", "rows far from all others", 2, "They are odd.", "Look at them.", numbers=np.array([7, 3])))
    Rows far from all others (2; rows 7, 3): They are odd. Look at them.
    """

    kind: str
    title: str
    count: int
    meaning: str
    advice: str
    rows: Index = field(default_factory=_no_rows)
    numbers: Index = field(default_factory=_no_rows)
    items: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    codes: Index = field(default_factory=_no_rows)

    def __repr__(self) -> str:
        return f"Finding({self.tell()})"

    def __str__(self) -> str:
        """One paragraph for people."""
        text = self.tell()
        return f"{text[0].upper()}{text[1:]}: {self.meaning} {self.advice}"

    def tell(self) -> str:
        """Return a short line: title, count, and the first items or rows.

        >>> Finding("leaks", "columns that give the label away", 1, "", "", items=("price",)).tell()
        'columns that give the label away (1; price)'
        """
        named = self.items or tuple(map(_name, self.names[: _NAMED + 1])) or tuple(map(str, self.numbers[: _NAMED + 1]))
        if not named:
            return f"{self.title} ({self.count:,})"
        n_more = len(self.items or self.numbers) - _NAMED
        shown = ", ".join(named[:_NAMED]) + (f" and {n_more:,} more" if n_more > 0 else "")
        return f"{self.title} ({self.count:,}; {'' if self.items else 'row' + 's' * (len(named) > 1) + ' '}{shown})"


def find_all(audit: LabelAudit) -> tuple[Finding, ...]:
    """Return everything that was found, the most important kinds first."""
    rows = audit.feature_rows
    sets = None if rows is None else find_copied_rows(audit.decision, rows)
    searches: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _find_conflicts(audit, sets),
        lambda: _find_leaks(audit, rows),
        lambda: _find_alike(audit),
        lambda: _find_runs(audit),
        lambda: _find_far(audit),
        lambda: _find_stray(audit, rows),
        lambda: _find_copies(audit, sets),
        lambda: _find_spellings(audit),
        lambda: _find_imbalance(audit),
        lambda: _find_unlabelled(audit),
        lambda: _find_sorted(audit),
    )
    found = (one for search in searches for one in search())
    if audit.names is None:
        return tuple(found)
    return tuple(replace(one, names=tuple(audit.call_rows(one.rows))) for one in found)


def _name(label: Any) -> str:
    return printable(label, 40)


def _count(n: int, noun: str, plural: str = "") -> str:
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


# ---------------------------------------------------------------------- rows


def _order_by_set(group: Index, is_chosen: Mask) -> Index:
    """Rows of the chosen sets, the largest sets first, each set together."""
    size, rows = np.bincount(group), np.flatnonzero(is_chosen[group])
    return rows[np.lexsort((rows, group[rows], -size[group[rows]]))]


def _find_conflicts(audit: LabelAudit, sets: CopiedRows | None) -> Iterator[Finding]:
    if sets is None:
        return
    group = sets.group
    codes, n_sets = audit.given_code, int(group.max()) + 1
    low, high = np.full(n_sets, codes.max()), np.zeros(n_sets, codes.dtype)
    np.minimum.at(low, group, codes)
    np.maximum.at(high, group, codes)
    n = int(np.count_nonzero(low < high))
    if n:
        rows = _order_by_set(group, low < high)
        yield Finding(
            "conflicts", "copies with different labels", n,
            f"{_count(n, 'set')} of equal or nearly equal rows {'has' if n == 1 else 'have'} different labels. At "
            "least one label of each is wrong, or the features leave out what decides.",
            "Compare the copies and settle on one label.",
            rows, audit.numbers()[rows],
        )  # fmt: skip


def _find_copies(audit: LabelAudit, sets: CopiedRows | None) -> Iterator[Finding]:
    if sets is None:
        return
    group, size = sets.group, np.bincount(sets.group)
    n_sets, n = int(np.count_nonzero(size > 1)), int((size - 1).sum())
    kinds = [f"{one:,} {how}" for one, how in ((n - sets.n_near, "equal"), (sets.n_near, "nearly equal")) if one]
    rows = _order_by_set(group, size > 1)
    yield Finding(
        "copies", "copies of rows", n,
        f"{_count(n, 'row is a copy', 'rows are copies')} of others ({', '.join(kinds)}; {_count(n_sets, 'set')}). "
        "A copy in the test part of a split makes a model look better than it is.",
        "Drop the copies, or keep each set on one side of every split.",
        rows, audit.numbers()[rows],
    )  # fmt: skip


def _find_far(audit: LabelAudit) -> Iterator[Finding]:
    """Rows that vote (at most 49,152, one of several copies) whose 10th neighbour is much farther than usual around."""
    decision = audit.decision
    voter = next(iter(decision.neighbourhoods), None)
    if not isinstance(voter, NeighbourVoter) or len(voter.codes) < _FEWEST or voter.among.shape[1] < _RANK:
        return
    found = voter.among[:, :_AMONG]
    reach = np.partition(voter.near.distances(found), _RANK - 1, axis=1)[:, _RANK - 1]
    usual = float(np.median(reach))
    if not 0.0 < usual < np.inf:  # half of the rows are equal to others, so nearness means nothing
        return
    reach = np.maximum(reach, 1e-3 * usual)
    # Far rows may be neighbours of each other, so the nearest part of the neighbours tells what is usual.
    ratio = np.log(reach / np.quantile(reach[found], 0.25, axis=1))
    low, high = np.quantile(ratio, [0.25, 0.75])
    far = np.flatnonzero(ratio > max(high + _RANGES * (high - low), np.log(_LEAST_RATIO)))
    if not len(far):
        return
    rows = far[np.argsort(-ratio[far], kind="stable")]
    rows = rows if decision.jury.copies is None else decision.jury.copies.first[rows]
    rows = rows if decision.judged is None else decision.judged.members[rows]
    n = len(rows)
    yield Finding(
        "far", "rows far from all others", n,
        f"{_count(n, 'row lies', 'rows lie')} at least {np.exp(ratio[far].min()):.1f} times as far from others as the "
        "rows around. Such a row may be a mistake of measurement, a wrong unit or a rare case, and its neighbours tell "
        "little about its label.",
        "Look at the values of these rows first, then at their labels.",
        rows, audit.numbers()[rows],
    )  # fmt: skip


def _find_stray(audit: LabelAudit, rows: Array | None) -> Iterator[Finding]:
    if rows is None or len(rows) < _FEWEST:
        return
    columns = _name_columns(audit, rows.shape[1])
    single = [(name, int(at[0])) for name, at in columns if len(at) == 1]
    cells = [(row, at, name) for name, at in single for row in find_stray_values(rows[:, at])]
    if not cells:
        return
    found = np.array(list(dict.fromkeys(row for row, _, _ in cells)))
    called = dict(zip(found.tolist(), audit.call_rows(found), strict=True))
    yield Finding(
        "values", "values far from all others of their column", len(cells),
        f"{_count(len(cells), 'value lies', 'values lie')} at least ten times as far from the middle of the column as "
        "any other. Often the decimal point slipped, the unit is another one, or a number stands for a missing value.",
        "Look at these cells; mend them or leave them empty, and audit again.",
        found, audit.numbers()[found],
        tuple(f"{name} is {rows[row, at]:g} in row {_name(called[row])}" for row, at, name in cells),
    )  # fmt: skip


def _find_runs(audit: LabelAudit) -> Iterator[Finding]:
    runs, is_doubted = find_runs(audit.is_suspect, audit.given_code), audit.is_suspect
    if not runs:
        return
    rows = np.concatenate([start + np.flatnonzero(is_doubted[start:end]) for start, end in runs])
    yield Finding(
        "order", "doubted labels that stand together", len(rows),
        f"Labels in {_count(len(runs), 'stretch', 'stretches')} of rows are doubted far more often than elsewhere "
        f"({100.0 * float(is_doubted.mean()):.0f} % of all labels are). A batch was probably labelled badly, or lines "
        "slipped.",
        "Find out where these rows come from, and check or label the whole stretch again.",
        rows, audit.numbers()[rows],
        tuple(
            f"rows {' to '.join(map(_name, audit.call_rows(np.array([start, end - 1]))))}: "
            f"{is_doubted[start:end].sum():,} of {end - start:,} doubted"
            for start, end in runs
        ),
    )  # fmt: skip


def _find_sorted(audit: LabelAudit) -> Iterator[Finding]:
    found = find_period(audit.given_code)
    if found is None:
        return
    period, agree = found
    order, before = ("stand in blocks", "row") if period == 1 else (f"repeat every {period} rows", f"row {period}")
    yield Finding(
        "sorted", "labels that follow the order of the rows", round(agree * (audit.n_rows - period)),
        f"The labels {order}: {100.0 * agree:.0f} % are those of the {before} before. That is not a mistake, but the "
        "number of a row gives its label away, and parts of an unshuffled split have different classes.",
        "Shuffle the rows before you split them, and keep row numbers out of the features.",
    )  # fmt: skip


def _find_unlabelled(audit: LabelAudit) -> Iterator[Finding]:
    n = 0 if audit.unlabelled is None else len(audit.unlabelled)
    if n:
        yield Finding(
            "unlabelled", "rows without a label", n,
            f"{n:,} of {n + audit.n_rows:,} rows ({100.0 * n / (n + audit.n_rows):.1f} %) "
            f"{'has no label and was' if n == 1 else 'have no label and were'} not audited.",
            "The table of suspects ends with a suggestion for each.",
        )  # fmt: skip


# ---------------------------------------------------------------------- classes


def _draw_by_class(codes: Codes, classes: Index, most: int) -> Index:
    """At most that many rows of each of some classes, class after class, each in random order."""
    order = np.random.default_rng(11).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    ends = np.cumsum(np.bincount(codes))
    starts = ends - np.bincount(codes)
    return np.concatenate([order[starts[one] : min(ends[one], starts[one] + most)] for one in classes.tolist()])


def _find_alike(audit: LabelAudit) -> Iterator[Finding]:
    """Pairs of classes whose rows get the same votes.

    With ``v_b(a)`` the mean left-out vote for b on rows labelled a, two classes are alike if ``v_b(a)`` is at least
    half of ``v_b(b)`` and the other way round, and if the votes for a against those for b do not tell rows labelled a
    from rows labelled b: the area under the curve is about 0.5. Uneven classes are compared fairly that way, and wrong
    labels only lower the area, for clearly different classes to about 0.8 at 20 % of wrong labels.
    """
    codes, n_classes = audit.given_code, len(audit.classes)
    known = np.flatnonzero(np.bincount(codes, minlength=n_classes) >= _OF_CLASS)
    most = min(_ASKED_OF_CLASS, _VOTES // (n_classes * max(1, len(known))))
    # With two classes, and where votes are guesses, nothing is told apart; a note says so.
    if audit.decision.is_guessing or n_classes < 3 or len(known) < 2 or most < _OF_CLASS:
        return
    asked = _draw_by_class(codes, known, most)
    votes, own = audit.decision.left_out_shares(asked), codes[asked]
    of_class = [np.flatnonzero(own == one) for one in known.tolist()]
    mean = np.stack([votes[some].mean(axis=0)[known] for some in of_class])
    same = mean >= _SAME_VOTES * np.diag(mean)
    pairs = []
    for i, j in zip(*np.nonzero(np.triu(same & same.T, 1)), strict=True):
        a, b = known[i], known[j]
        one, other = (votes[some][:, [a, b]] for some in (of_class[i], of_class[j]))
        apart = 2.0 * _area(one[:, 0] / one.sum(axis=1), other[:, 0] / other.sum(axis=1)) - 1.0
        error = np.sqrt((1.0 / len(one) + 1.0 / len(other)) / 3.0)
        if apart <= _APART and apart + 2.0 * error <= _SURELY_APART:
            pairs.append((apart, f"{_name(audit.classes[a])} and {_name(audit.classes[b])}", a, b))
    if pairs:
        yield Finding(
            "alike", "pairs of classes that look like one", len(pairs),
            f"The rows of {_count(len(pairs), 'pair')} of classes get the same votes, so these features do not tell "
            "the classes apart: two names of one class, or a difference that the features leave out. Suspects of these "
            "classes say little.",
            "Merge classes that mean the same, or add features that tell them apart.",
            items=tuple(name for _, name, _, _ in sorted(pairs)),
            codes=np.unique([one[2:] for one in pairs]),
        )  # fmt: skip


def _area(positive: Array, negative: Array) -> float:
    """Area under the curve: how often a value of the first kind is above one of the second."""
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, side="left") + np.searchsorted(ranked, positive, side="right")
    return float(below.mean()) / (2.0 * len(negative))


def _find_spellings(audit: LabelAudit) -> Iterator[Finding]:
    place = {one: code for code, one in enumerate(audit.classes.tolist())}
    groups = group_lookalikes(list(place))
    n = sum(map(len, groups))
    if n:
        yield Finding(
            "spellings", "classes that differ only in spelling", n,
            f"{n:,} classes look like {len(groups):,}, but for capitals, blanks or signs that print alike. The audit "
            "takes each spelling for a class of its own.",
            "Give each class one spelling and audit again.",
            items=tuple(" / ".join(printable(repr(one), 40) for one in some) for some in groups),
            codes=np.array([place[one] for some in groups for one in some]),
        )  # fmt: skip


def _find_imbalance(audit: LabelAudit) -> Iterator[Finding]:
    size = np.bincount(audit.given_code, minlength=len(audit.classes))
    small = np.flatnonzero(size * _TIMES <= size.max())
    if not len(small):
        return
    small, largest = small[np.argsort(size[small], kind="stable")], int(size.argmax())
    yield Finding(
        "imbalance", "classes with very few rows", len(small),
        f"{_count(len(small), 'class has', 'classes have')} at most 1/{_TIMES} of the rows of the largest, "
        f"{_name(audit.classes[largest])} ({size[largest]:,} rows). A model can ignore such classes and still look "
        "good.",
        "Collect more rows of them, and judge models by each class, not by accuracy alone.",
        items=tuple(f"{_name(audit.classes[one])}: {size[one]:,}" for one in small.tolist()),
        codes=small,
    )  # fmt: skip


# ---------------------------------------------------------------------- columns


def _find_leaks(audit: LabelAudit, rows: Array | None) -> Iterator[Finding]:
    size = np.bincount(audit.given_code, minlength=len(audit.classes))
    tried = np.argsort(-size, kind="stable")[:_TRIED_CLASSES]
    tried = tried[size[tried] >= _OF_CLASS]
    if rows is None or len(tried) < 2:
        return
    asked = _draw_by_class(audit.given_code, tried, max(_OF_CLASS, _TRIED_ROWS // len(tried)))
    codes = np.unique(audit.given_code[asked], return_inverse=True)[1]
    columns = _name_columns(audit, rows.shape[1])
    found, best = find_leaks(rows[asked].astype(np.float64), codes, [at for _, at in columns])
    n = len(found)
    if n:
        it, its = ("it", "comes") if n == 1 else ("them", "come")
        yield Finding(
            "leaks", "columns that give the label away", n,
            f"{_count(n, 'column')} alone nearly always {'tells' if n == 1 else 'tell'} the label; the best other one "
            f"is right in {100.0 * best:.0f} %. Such a column is probably the label in another form, or was known only "
            "after it. Wrong labels then look right.",
            f"Find out where {'it' if n == 1 else 'they'} {its} from; if it is so, leave {it} out and audit again.",
            items=tuple(columns[one][0] for one in found),
        )  # fmt: skip


def _name_columns(audit: LabelAudit, n_features: int) -> list[tuple[str, Index]]:
    """Columns as they were given, with the features that each became."""
    used = [(one.name, one.n_features) for one in audit.columns if one.n_features]
    if sum(n for _, n in used) != n_features:
        names: Sequence[Any] = getattr(audit.classifier, "feature_names_in_", ())
        names = names if len(names) == n_features else [f"feature {i}" for i in range(n_features)]
        used = [(name, 1) for name in names]
    ends = np.cumsum([n for _, n in used])
    return [(_name(name), np.arange(end - n, end)) for (name, n), end in zip(used, ends.tolist(), strict=True)]
