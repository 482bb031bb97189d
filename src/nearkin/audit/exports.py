"""What an audit gives to others: a summary in words, cleaned labels, columns, CSV and JSON.

`nearkin.audit.page` makes the page.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from nearkin._version import __version__
from nearkin.arrays import Array, Index, Mask
from nearkin.errors import InputError, printable
from nearkin.noise.estimate import LEVEL
from nearkin.settings import OneOf, Real
from nearkin.tables import write_csv

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit, Unlabelled

__all__ = [
    "CLEANED", "COLUMNS", "DEFAULT_HOW", "DEFAULT_TIER", "MIN_CONFIDENCE", "NOTHING", "TIERS", "WAYS", "Cleaning",
    "Columns", "Values", "check_ids", "count_suspects", "describe_rate", "list_cleaned", "list_rows", "summarise",
    "take_rows", "tell_names", "warn_of", "write_json", "write_table",
]  # fmt: skip

#: One value for each row, and columns of them by name.
Values = Sequence[Any] | NDArray[Any]
Columns = Mapping[str, Values]

#: Columns of the tables; the last two are in tables of suspects only.
COLUMNS = (
    "row", "given_label", "suggested_label", "is_suspect", "tier", "plausibility", "confidence", "score",
    "near_rows", "near_labels",
)  # fmt: skip

#: Columns of cleaned labels.
CLEANED = ("row", "label", "given_label", "confidence")

#: Neighbours listed in a table of suspects.
_NEAR = 5

#: What may be done. Dropping never makes a right label wrong, which relabelling does where classes overlap.
WAYS = ("drop", "relabel")
DEFAULT_HOW = "drop"

#: To whom: suspects that are called wrong, or all of them. A row that is only worth a look stays unless asked for.
TIERS = ("wrong", "all")
DEFAULT_TIER = "wrong"

#: Confidence from which suggestions leave about as few wrong labels as dropping does; docs/audit.md has figures.
MIN_CONFIDENCE = 0.8

#: Rows below which a note calls the figures uncertain, rows of one class up to which its labels can hardly be judged,
#: and up to which its suspects rest on few rows.
_FEW, _FEW_OF_CLASS, _SOME_OF_CLASS = 50, 2, 10

#: Share of suspects in a class from which a note points it out.
_MUCH_OF_CLASS = 0.4

#: Estimated rate above which a note says that the features tell too little about the classes, and share of the labels
#: that guesses contradict above which votes do no better.
_HOPELESS = 0.4
_GUESSED = 0.65

#: Lower end of the interval below which the rate cannot be told from zero.
NOTHING = 5e-4


class Figures(Protocol):
    """Figures that any audit has, wherever it ran."""

    @property
    def noise_rate(self) -> float:
        """Share of wrong labels."""

    @property
    def noise_interval(self) -> tuple[float, float]:
        """Interval of that share."""

    @property
    def rate_is_estimated(self) -> bool:
        """Whether it was estimated."""

    @property
    def n_suspects(self) -> int:
        """Suspects of both tiers."""

    @property
    def n_wrong(self) -> int:
        """Suspects of the first tier."""


def summarise(audit: LabelAudit) -> list[tuple[str, str]]:
    """Names and values."""
    pairs = [f"{_short(one)} \N{RIGHTWARDS ARROW} {_short(two)} ({n:,})" for one, two, n in audit.noise_pairs()[:3]]
    worst = [one for one in audit.doubt_by_class()[:3] if one[2]]
    shares = [f"{_short(name)} ({100 * wrong / size:.0f} %)" for name, size, wrong, _ in worst]
    jury = audit.decision.jury
    voters = [f"{one.name} {share} %" for one, share in zip(jury.voters, jury.percents, strict=True)]
    return [
        ("rows", f"{audit.n_rows:,} with {audit.classifier.n_features_in_:,} features"),
        ("classes", f"{len(audit.classes):,}"),
        ("voters", ", ".join(voters)),
        ("wrong labels", describe_rate(audit)),
        ("suspects", count_suspects(audit)),
        ("suggestions", f"{audit.n_likely_suggestions:,} more likely right than not"),
        ("confused", ", ".join(pairs) or "none"),
        ("worst classes", ", ".join(shares) or "none"),
        *tell_names({} if audit.names is None else {"id": audit.names}),
        *(("note", one) for one in audit.notes),
        *(("found", one.tell()) for one in audit.findings),
    ]


def tell_names(ids: Columns) -> list[tuple[str, str]]:
    """Return a line about rows that share a name or have none."""
    names = [tuple("" if one is None else str(one).strip() for one in row) for row in zip(*ids.values(), strict=True)]
    times = Counter(one for one in names if any(one))
    shared = [one for one, n in times.items() if n > 1]
    told = []
    if shared:
        such = printable(" ".join(shared[0]), 40)
        told.append(f"{sum(times[one] for one in shared):,} rows share their names (such as {such!r})")
    if ids and len(names) > times.total():
        n = len(names) - times.total()
        told.append(f"{n:,} row{'s' * (n > 1)} without a name")
    return [("names", ", ".join(told) + "; the files number rows as well (row)")] if told else []


def describe_rate(audit: Figures) -> str:
    """The share of wrong labels in words."""
    if not audit.rate_is_estimated:
        return f"{100 * audit.noise_rate:.1f} % (as given)"
    low, high = audit.noise_interval
    if audit.noise_rate < NOTHING:
        return f"at most {100 * high:.1f} %, perhaps none"
    words = f"{100 * audit.noise_rate:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    return f"{words}, perhaps none" if low < NOTHING else words


def count_suspects(audit: Figures) -> str:
    """The suspects of both tiers in words."""
    return f"{audit.n_wrong:,} wrong, {audit.n_suspects - audit.n_wrong:,} worth a look"


def warn_of(audit: LabelAudit) -> tuple[str, ...]:
    """Sentences about figures that say less than they seem to: what the decision notes, and what the data lacks."""
    found = list(audit.decision.notes)
    known = [one for one in audit.doubt_by_class() if one[1] > _FEW_OF_CLASS]
    lost = [name for name, size, wrong, look in known if wrong + look > _MUCH_OF_CLASS * size]
    if audit.decision.is_guessing:
        pass  # that is said already
    elif audit.rate_is_estimated and (audit.noise_rate > _HOPELESS or _is_hardly_told(audit)):
        found.append(
            "these features hardly tell the classes apart, so the share of wrong labels says more about the features "
            "than about the labels."
        )
    elif lost:
        found.append(
            f"much of {_short(lost[0])}{' and others' if len(lost) > 1 else ''} is doubted: classes overlap, or many "
            "labels strayed into a small one. Look at some suspects before you drop them all."
        )
    is_settled = not audit.decision.notes  # otherwise that says the same
    if audit.rate_is_estimated and is_settled and audit.noise_interval[0] < NOTHING and audit.n_suspects:
        found.append(
            "the share of wrong labels cannot be told from zero, so every suspect may be right: look at each before "
            "you act."
        )
    leaks = [item for one in audit.findings if one.kind == "leaks" for item in one.items]
    if leaks and audit.rate_is_estimated:
        found.append(
            f"a column gives the label away ({_list_some(leaks)}), so wrong labels look right and the share of wrong "
            "labels may be far too low. Find out where it comes from; if it is the label in another form, leave it out "
            "and audit again."
        )
    if audit.n_rows < _FEW:
        found.append(f"{audit.n_rows} rows are few: every figure here is uncertain, so look at each suspect yourself.")
    size = np.bincount(audit.given_code, minlength=len(audit.classes))
    small = np.flatnonzero(size <= _FEW_OF_CLASS)
    if len(small):
        names = _list_some(audit.classes[small].tolist())
        those = "a class has" if len(small) == 1 else f"{len(small):,} classes have"
        found.append(
            f"{those} one or two rows ({names}): there is little to judge such labels by, and they are never suspects."
        )
    scarce = [name for name, size, wrong, look in known if size <= _SOME_OF_CLASS and wrong + look]
    if scarce:
        names = _list_some(scarce)
        found.append(f"small classes ({names}) have suspects that few rows can judge: look at each of these yourself.")
    return tuple(one[0].upper() + one[1:] for one in found)


def _is_hardly_told(audit: LabelAudit) -> bool:
    """Whether the votes contradict labels nearly as often as guesses would."""
    shares = np.bincount(audit.given_code) / audit.n_rows
    chance = 1.0 - float((shares * shares).sum())
    return float(np.mean(audit.score < 0.5)) > _GUESSED * chance


def _list_some(labels: Sequence[Any]) -> str:
    """The first labels, and how many more there are."""
    more = f" and {len(labels) - 3:,} more" if len(labels) > 3 else ""
    return ", ".join(map(_short, labels[:3])) + more


def _short(label: Any) -> str:
    """A label in a sentence, whatever it holds."""
    return printable(label, 30)


@dataclass(frozen=True)
class Cleaning:
    """What happens to suspects: drop them, or relabel those with a confident suggestion and drop the others.

    A row whose suggestion is below the bound is dropped, not kept: it is a suspect, so its label is in doubt too.

    Parameters
    ----------
    how : {"drop", "relabel"}
        Leave suspects out, or give them the suggested label.
    min_confidence : float in [0, 1] or None
        Least confidence of a suggestion that is taken; None is 0.8. Only for "relabel".
    tier : {"wrong", "all"}
        Which suspects: those called wrong, or also those worth a look, which otherwise keep their labels.

    Examples
    --------
    >>> rule = Cleaning("relabel", 0.8)
    >>> is_suspect, confidence = np.array([False, True, True, True]), np.array([0.9, 0.9, 0.3, 0.2])
    >>> kept, relabelled = rule.apply(np.array([False, True, True, False]), is_suspect, confidence)
    >>> kept.tolist(), relabelled.tolist()
    ([True, True, False, True], [False, True, False, False])
    """

    how: str = DEFAULT_HOW
    min_confidence: float | None = None
    tier: str = DEFAULT_TIER

    def __post_init__(self) -> None:
        if not OneOf(TIERS).allows(self.tier):
            raise InputError(f"`tier` must be 'wrong' or 'all'; got {self.tier!r}.", owner="LabelAudit")
        if not OneOf(WAYS).allows(self.how):
            raise InputError(f"`how` must be 'drop' or 'relabel'; got {self.how!r}.", owner="LabelAudit")
        if self.min_confidence is None:
            return
        if not Real(0.0, 1.0).allows(self.min_confidence):
            raise InputError(
                f"`min_confidence` must be {Real(0.0, 1.0)} or None; got {self.min_confidence!r}.", owner="LabelAudit"
            )
        if self.how != "relabel":
            raise InputError(
                "`min_confidence` is for how='relabel'; 'drop' asks for no suggestion.", owner="LabelAudit"
            )

    def apply(self, is_wrong: Mask, is_suspect: Mask, confidence: Array) -> tuple[Mask, Mask]:
        """Which rows stay, and which of them take the suggested label."""
        least = MIN_CONFIDENCE if self.min_confidence is None else self.min_confidence
        cleaned = is_suspect if self.tier == "all" else is_wrong
        relabelled = cleaned & (confidence >= least) & (self.how == "relabel")
        return ~cleaned | relabelled, relabelled


def take_rows(values: Any, rows: Index, index: Index | None = None) -> Any:
    """Entries of an array, frame, series, list or tuple, as the same kind of thing.

    ``index`` are rows whose names the entries get where these have names (pandas); None leaves them their own.
    """
    if isinstance(values, (list, tuple)):
        return type(values)([values[i] for i in rows.tolist()])
    if type(values).__module__.startswith("pandas.") and not hasattr(values, "iloc"):
        return values.take(rows)  # the arrays behind its columns, which scikit-learn does not index
    from sklearn.utils import _safe_indexing

    found = _safe_indexing(values, rows)
    if index is not None and hasattr(values, "iloc"):
        found.index = values.index[index]
    return found


def list_rows(audit: LabelAudit, ids: Columns | None) -> dict[str, Any]:
    """All rows as named columns, in their order."""
    values = (
        audit.numbers(), audit.given_label, audit.suggested_label, audit.is_suspect,
        audit.tier, audit.plausibility, audit.confidence, audit.score,
    )  # fmt: skip
    return {**check_ids(ids, audit.n_rows, COLUMNS), **dict(zip(COLUMNS, values, strict=False))}


def list_cleaned(audit: LabelAudit, cleaning: Cleaning, ids: Columns | None) -> dict[str, Any]:
    """Labels that are left, with the given ones and the probability that they are right."""
    stays, relabelled = cleaning.apply(audit.is_wrong, audit.is_suspect, audit.confidence)
    kept = np.flatnonzero(stays)
    numbers = audit.numbers()
    label = np.where(relabelled, audit.suggested_label, audit.given_label)
    values = (numbers, label, audit.given_label, np.where(relabelled, audit.confidence, audit.plausibility))
    found = {**check_ids(ids, audit.n_rows, CLEANED), **dict(zip(CLEANED, values, strict=True))}
    return {name: _take(one, kept) for name, one in found.items()}


def write_table(audit: LabelAudit, file: BinaryIO, *, ids: Columns | None, suspects_only: bool) -> None:
    """Rows as CSV, the most doubtful first."""
    order = audit.order[: audit.n_suspects] if suspects_only else audit.order
    columns = {name: _take(values, order) for name, values in audit.to_columns(ids).items()}
    if suspects_only:
        near = audit.decision.cast_left_out(order, _NEAR).rows
        labels, numbers = audit.given_label[near], audit.numbers()
        columns[COLUMNS[-2]] = [" ".join(map(str, one)) for one in numbers[near].tolist()]
        columns[COLUMNS[-1]] = [" | ".join(map(str, one)) for one in labels.tolist()]
        if audit.unlabelled is not None:
            columns = _add_unlabelled(audit.unlabelled, columns, ids)
    write_csv(file, columns)


def _add_unlabelled(found: Unlabelled, columns: Columns, ids: Columns | None) -> dict[str, Any]:
    """Put rows without a label below the suspects."""
    n = len(found)
    own: dict[str, Any] = {
        "row": found.rows, "suggested_label": found.suggested_label, "is_suspect": [False] * n,
        "tier": ["no label"] * n, "confidence": found.confidence,
    }  # fmt: skip
    for name, values in (ids or {}).items():
        own[name] = take_rows(values, found.rows) if len(values) > int(found.rows.max()) else [""] * n
    return {name: [*_plain(values), *_plain(own.get(name, [""] * n))] for name, values in columns.items()}


def _plain(values: Values) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def write_json(audit: LabelAudit, file: BinaryIO, ids: Columns | None) -> None:
    """Everything as JSON."""
    held = {
        "nearkin": __version__,
        "n_rows": audit.n_rows,
        "n_suspects": audit.n_suspects,
        "n_wrong": audit.n_wrong,
        "noise_rate": audit.noise_rate,
        "noise_interval": list(audit.noise_interval),
        "interval_level": LEVEL,
        "noise_rates": audit.noise_rates.tolist(),
        "rate_is_estimated": audit.rate_is_estimated,
        "notes": list(audit.notes),
        "findings": [
            {
                "kind": one.kind,
                "title": one.title,
                "count": one.count,
                "meaning": one.meaning,
                "advice": one.advice,
                "rows": one.numbers.tolist(),
                "items": list(one.items),
            }
            for one in audit.findings
        ],
        "columns": [asdict(one) for one in audit.columns],
        "unlabelled": {}
        if audit.unlabelled is None
        else {name: [_jsonable(one) for one in values.tolist()] for name, values in vars(audit.unlabelled).items()},
        "classes": [_jsonable(one) for one in audit.classes.tolist()],
        "noise_pairs": [
            {"given": _jsonable(given), "suggested": _jsonable(other), "rows": n}
            for given, other, n in audit.noise_pairs()
        ],
        "rows": {
            name: [_jsonable(one) for one in (values.tolist() if isinstance(values, np.ndarray) else values)]
            for name, values in list_rows(audit, ids).items()
        },
    }
    # Half a character, which UTF-8 does not have, becomes an escape of JSON.
    file.write(json.dumps(held, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace"))


def check_ids(ids: Columns | None, n: int, taken: Sequence[str] = ()) -> dict[str, Any]:
    """Columns of the user, one value a row, under names that are free."""
    for name, values in (ids or {}).items():
        if name in taken:
            raise InputError(f"a column {name!r} is there already; rename yours.", owner="LabelAudit")
        if len(values) != n:
            raise InputError(f"{name!r} has {len(values)} values for {n} rows.", owner="LabelAudit")
    return dict(ids or {})


def _take(values: Values, rows: Index) -> Values:
    return values[rows] if isinstance(values, np.ndarray) else [values[i] for i in rows]


def _jsonable(value: Any) -> Any:
    """Finite numbers, text and truth values as they are, other numbers as null, anything else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
