"""Click logs as people have them, read in batches: rows or lists, several files, odd rows counted."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import progress
from nearkin.arrays import Array, Index
from nearkin.errors import InputError, Option, placed_at, quote_names
from nearkin.search.feedback import Entries, Feedback, arrange, mark_clicks
from nearkin.search.inputs import IdTable, Log, Tally
from nearkin.settings import Integer, OneOf, check_argument
from nearkin.tables import LogFile, LogPart, open_log

__all__ = ["FORMS", "GRADES", "read_feedback"]

#: Columns of each form of feedback, and which of them may be missing.
FORMS = {
    "triplets": ("query", "clicked", "skipped"),
    "impressions": ("impression", "query", "item", "clicked", "dwell", "rank", "time"),
    "lists": ("query", "items", "clicks", "time"),
    "judgements": ("query", "item", "relevant"),
    "clicks": ("query", "item", "dwell", "time"),
}
_OPTIONAL = {"impression", "rank", "time", "dwell", "clicks"}

#: Other names under which columns are known.
_ALIASES = {
    "query": ("query_id", "qid"),
    "item": ("item_id", "doc_id", "docid", "document_id", "product_id"),
    "impression": ("impression_id", "search_id", "request_id", "serp_id"),
    "clicked": ("click", "is_click", "is_clicked"),
    "relevant": ("relevance", "rating"),
    "rank": ("position", "pos"),
    "time": ("timestamp", "ts"),
    "dwell": ("dwell_time", "dwell_seconds"),
    "items": ("results", "item_ids", "doc_ids", "shown"),
    "clicks": ("clicked_items", "clicked_ids", "clicked_positions"),
}

#: What says how much a click counts.
GRADES = ("auto", "dwell")
#: Seconds on a result that make a whole click.
_WHOLE = 30.0

_CLICKS_AS = ("auto", "ids", "positions", "positions0", "flags")
_SEPARATORS = ("|", ";", ",", "\t", " ")

#: Share of the rows that may be odd.
_MOST_ODD = 0.5


def read_feedback(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, query_ids: ArrayLike | int,
    item_ids: ArrayLike | int, form: str = "auto", column: Mapping[str, str] | None = None, grade: str = "auto",
    clicks_as: str = "auto", bad: str = "skip", duplicates: str | None = None, max_rows: int = 4_000_000,
) -> Feedback:  # fmt: skip
    r"""Read a log of feedback, one file or several, in batches.

    A row that is incomplete or odd is left out and counted (`Feedback.skipped`); if more than half of the rows are, the
    log is refused.

    Parameters
    ----------
    path : path-like or list of path-like
        CSV, JSON lines (one object a line), Parquet or npz; CSV and JSON lines may be compressed (``.gz``).
    query_ids, item_ids : array-like or int
        Ids of all queries and items in the order of their vectors; a number stands for 0, 1, 2, ...
    form : {"auto", "triplets", "impressions", "lists", "judgements", "clicks"}, default="auto"
        What a row says; "auto" tells by the columns, which `FORMS` names.
    column : mapping of str to str or None, default=None
        Names of columns in the file, where they are called otherwise there; ``a.b`` is the value b of an object a in
        JSON.
    grade : {"auto", "dwell"}, default="auto"
        "dwell" lets the column of dwell times (in seconds) say what a click counts: 30 seconds and more are a whole
        click, less counts in proportion, and a click of unknown time is whole. "auto" takes clicks as they are, or as
        grades if any is neither 0 nor 1.
    clicks_as : {"auto", "ids", "positions", "positions0", "flags"}, default="auto"
        What ``clicks`` of a list holds: ids of items, positions from 1 or from 0, or a number for every item. "auto"
        tells by the first rows, and refuses those that leave it open.
    bad : {"skip", "raise"}, default="skip"
        Whether to count odd rows, or to stop at the first.
    duplicates : {"raise", "skip", "keep"} or None, default=None
        What to do with repeated rows; None keeps them in triplets and clicks, where two users may agree, and skips
        them otherwise.
    max_rows : int, default=4_000_000
        Most rows held in memory. Of a longer log, whole lists are drawn at random, the same ones every time.

    Returns
    -------
    Feedback
        All lists in order of appearance.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clicks.csv"
    ...     _ = path.write_text("who,clicked,skipped\n0,2,1\n1,0,2\nnobody,1,2\n")
    ...     found = read_feedback(path, query_ids=2, item_ids=3, column={"query": "who"})
    >>> found.form, len(found), found.skipped
    ('triplets', 2, {'unknown query': 1})
    """
    check_argument("read_feedback", "form", form, OneOf(("auto", *FORMS)))
    check_argument("read_feedback", "grade", grade, OneOf(GRADES))
    check_argument("read_feedback", "clicks_as", clicks_as, OneOf(_CLICKS_AS))
    check_argument("read_feedback", "bad", bad, OneOf(("raise", "skip")))
    check_argument("read_feedback", "duplicates", duplicates, OneOf((None, "raise", "skip", "keep")))
    check_argument("read_feedback", "max_rows", max_rows, Integer(1, 1_000_000_000))
    roles = {role for columns in FORMS.values() for role in columns}
    for role in column or ():
        if role not in roles:
            raise InputError(f"{role!r} is not a column of feedback; the columns are {quote_names(sorted(roles))}.")
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not paths:
        raise InputError("no file of feedback was given.", owner="read_feedback")
    queries, items = IdTable(query_ids, "queries"), IdTable(item_ids, "items")
    reader = _Reader(queries, items, form, dict(column or {}), grade, clicks_as, bad, duplicates, max_rows)
    for number, one in enumerate(paths, 1):
        reader.read(open_log(Path(one)))
        progress.advance("files", number, len(paths))
    with placed_at(", ".join(str(one) for one in paths)):
        return reader.feedback()


@dataclass
class _Reader:
    """Reads files, and holds their rows by number."""

    queries: IdTable
    items: IdTable
    form: str
    names: dict[str, str]
    grade: str
    clicks_as: str
    bad: str
    duplicates: str | None
    max_rows: int
    tally: Tally = field(default_factory=Tally)
    n_rows: int = 0  # read, odd ones included
    n_odd: int = 0
    n_lists: int = 0  # numbered so far
    share: float = 1.0  # of the lists that are held
    separators: dict[str, str] = field(default_factory=dict)
    last: tuple[Any, ...] = ()  # how the list began whose rows may go on
    held: list[Entries] = field(default_factory=list)
    files: list[tuple[int, Path]] = field(default_factory=list)  # and how many rows stand in those before
    n_seen: int = 0  # rows of all files

    def __post_init__(self) -> None:
        self.tally.name_row = self._name_row

    def read(self, file: LogFile) -> None:
        """Read one file."""
        with placed_at(file.path):
            held = self._name_columns(file)
            self.form = _recognise_form(self.form, held, file.names, self.grade)
        roles = {role: held[role] for role in FORMS[self.form] if role in held}
        if self.grade != "dwell":
            roles.pop("dwell", None)
        self.last = ()
        self.files.append((self.n_seen, file.path))
        for part in file.parts(list(roles.values())):
            rows = part.rows
            if self.bad == "raise" and part.odd:  # the first odd row is named, so those before it are read first
                rows = rows[rows < part.odd[0][0]]
            columns = {role: part.columns[name][: len(rows)] for role, name in roles.items()}
            if self.bad == "skip":
                self._note_odd(part, file.path)
            if len(rows):
                self.n_seen = self.files[-1][0] + int(rows[-1]) + 1
                with placed_at(file.path):
                    self._take(columns, rows, str(file.path))
            if self.bad == "raise" and part.odd:
                row, reason = part.odd[0]
                raise InputError(f"{file.path}, data row {row + 1:,}: {reason}.")

    def _name_columns(self, file: LogFile) -> dict[str, str]:
        """Return the names of the columns in a file by role."""
        missing = [one for one in self.names.values() if one not in file.names]
        if missing:
            raise InputError(f"there is no column {missing[0]!r}; it holds {quote_names(file.names)}.")
        held = {}
        for role in {role for columns in FORMS.values() for role in columns}:
            known = (self.names[role],) if role in self.names else (role, *_ALIASES.get(role, ()))
            found = next((one for one in known if one in file.names), None)
            if found is not None:
                held[role] = found
        return held

    def _note_odd(self, part: LogPart, path: Path) -> None:
        self.n_rows += len(part.odd)
        self.n_odd += len(part.odd)
        for row, reason in part.odd:
            self.tally.add(reason, 1, f"{path}, data row {row + 1:,}")

    def _take(self, columns: dict[str, Any], rows: Index, place: str) -> None:
        """Hold the rows of a part by number."""
        wrong = None
        if self.form == "lists":
            columns, rows, wrong = self._flatten(columns, rows, place)
        if len(rows):
            self._take_rows(columns, rows, place)
        if wrong is not None:
            raise wrong

    def _take_rows(self, columns: dict[str, Any], rows: Index, place: str) -> None:
        log = Log(self.queries, self.items, self.bad, columns, self.tally, rows, place)
        self.n_rows += log.n_rows
        if self.form == "triplets":
            found = Entries.from_triplets(log, self.n_lists)
            self.n_lists += log.n_rows
        elif self.form == "judgements":
            found = Entries.from_judgements(log)
        else:
            query = log.find("query")
            found = Entries.from_rows(log, self._number_lists(log, query), query, self._grades(log))
        self.n_odd += int(np.count_nonzero(~log.kept))
        self._hold(found)

    def _grades(self, log: Log) -> Array | None:
        """Return what a click counts by its dwell time; None leaves it to the column of clicks."""
        if self.grade != "dwell":
            return None
        if "clicked" not in log.columns:
            return np.minimum(log.grades("dwell", missing=0.0), _WHOLE) / _WHOLE
        clicked = log.grades("clicked", missing=0.0) > 0
        seconds = log.grades("dwell", missing=_WHOLE)
        return np.where(clicked, np.minimum(seconds, _WHOLE) / _WHOLE, 0.0)

    # ------------------------------------------------------------------ which rows are one list

    def _number_lists(self, log: Log, query: Index) -> Index:
        """Return a number for the list of every row."""
        if self.form == "clicks":
            first, self.n_lists = self.n_lists, self.n_lists + log.n_rows
            return np.arange(first, self.n_lists)
        if "impression" in log.columns:
            log.need("impression")
            return _number_impressions(log.columns["impression"], query)
        if self.form == "lists":
            return np.asarray(log.columns["list"])
        return self._number_runs(log, query)

    def _number_runs(self, log: Log, query: Index) -> Index:
        """Number lists without an id: a run of rows of one query, and of one time if there are any.

        Where ranks do not rise, or an item occurs again, the next list begins.
        """
        rank = log.ranks("rank") if "rank" in log.columns else None
        time = log.times("time") if "time" in log.columns else None
        item = self.items.find(log.columns["item"])
        begins = np.ones(len(query), dtype=bool)
        begins[1:] = query[1:] != query[:-1]
        if rank is not None:
            begins[1:] |= rank[1:] <= rank[:-1]
        if time is not None:
            begins[1:] |= time[1:] != time[:-1]
        now = (query[0], None if rank is None else rank[0], None if time is None else time[0])
        if self.last:
            begins[0] = now[0] != self.last[0] or now[2] != self.last[2]
            begins[0] |= rank is not None and rank[0] <= self.last[1]
        self.last = (query[-1], None if rank is None else rank[-1], None if time is None else time[-1])
        group = np.cumsum(begins)
        if rank is None:  # the second appearance of an item belongs to a second list, and so on
            order = np.lexsort((np.arange(len(item)), item, group))
            same = (group[order[1:]] == group[order[:-1]]) & (item[order[1:]] == item[order[:-1]])
            at = np.arange(len(order))
            first = np.maximum.accumulate(np.where(np.concatenate([[True], ~same]), at, 0))
            again = np.empty(len(order), np.int64)
            again[order] = at - first
            if again.any():
                _, group = np.unique(np.column_stack([group, again]), axis=0, return_inverse=True)
                group = group.ravel() + int(begins[0])
        number = self.n_lists + group - 1
        self.n_lists = int(number.max()) + 1
        return number

    # ------------------------------------------------------------------ a list per row

    def _flatten(
        self, columns: dict[str, Any], rows: Index, place: str
    ) -> tuple[dict[str, Any], Index, InputError | None]:
        """Make one row per item of lists, up to the first odd one if that is an error, which comes too."""
        shown = self._split("items", columns["items"])
        clicked = self._split("clicks", columns["clicks"]) if "clicks" in columns else [[] for _ in shown]
        if "clicks" in columns:
            self._settle_clicks(shown, clicked)
        elif not any(isinstance(one, dict) for shown_ in shown for one in shown_ or ()):
            raise InputError(
                "there is no column 'clicks', which says which items of a list were clicked; name it with {column}.",
                column=Option("column", "clicks=COL"),
            )
        flat: dict[str, list[Any]] = {"item": [], "clicked": []}
        source: list[int] = []
        wrong = None
        for at, (one, clicks) in enumerate(zip(shown, clicked, strict=True)):
            ids, flags, reason = self._read_list(one, clicks)
            if reason:
                self.n_rows += 1
                self.n_odd += 1
                if self.bad == "raise":
                    wrong = InputError(f"data row {rows[at] + 1:,}: {reason}.")
                    break
                self.tally.add(reason, 1, f"{place}, data row {rows[at] + 1:,}")
                continue
            flat["item"] += ids
            flat["clicked"] += flags
            source += [at] * len(ids)
        of_row = np.array(source, dtype=np.int64)
        more: dict[str, Any] = {name: _pick(columns[name], of_row) for name in ("query", "time") if name in columns}
        found: dict[str, Any] = {**flat, **more, "list": self.n_lists + of_row}
        self.n_lists += len(rows)
        return found, rows[of_row], wrong

    def _read_list(self, shown: Any, clicks: Any) -> tuple[list[Any], list[float], str]:
        """Return items and clicks of a list, or why there are none."""
        if not shown:
            return [], [], "list without items"
        if isinstance(shown[0], dict):
            names = (self.names.get("item", "item"), "id", *_ALIASES["item"])
            marks = (self.names.get("clicked", "clicked"), *_ALIASES["clicked"])
            ids = [next((one[name] for name in names if name in one), None) for one in shown]
            return ids, [next((one[name] for name in marks if name in one), 0) or 0 for one in shown], ""
        flags = None if clicks is None else mark_clicks(shown, clicks, self.clicks_as)
        return (list(shown), flags, "") if flags is not None else ([], [], "clicks that are not in the list")

    def _split(self, role: str, values: Sequence[Any] | NDArray[Any]) -> list[list[Any] | None]:
        """Return lists, however they are written; None for what is not a list."""
        if role not in self.separators:
            texts = [one for one in values if isinstance(one, str) and not one.lstrip().startswith("[")]
            found = next((one for one in _SEPARATORS if any(one in text for text in texts)), "|")
            self.separators[role] = found
        return [_as_list(one, self.separators[role]) for one in values]

    def _settle_clicks(self, shown: Sequence[Any], clicked: Sequence[Any]) -> None:
        """Tell by the first rows what clicks hold."""
        if self.clicks_as != "auto":
            return
        lists = [(one, two) for one, two in zip(shown, clicked, strict=True) if one and two]
        if not lists or isinstance(lists[0][0][0], dict):
            return
        fits: dict[str, int] = {how: sum(mark_clicks(*one, how) is not None for one in lists) for how in _CLICKS_AS[1:]}
        flags = all(str(one).lower() in ("0", "1", "true", "false") for _, two in lists for one in two)
        if not flags or (fits["flags"] == fits["ids"] and max(len(one) for one, _ in lists) == 1):
            fits.pop("flags")
        lowest = min((int(one) for _, two in lists for one in two if str(one).isdecimal()), default=1)
        fits.pop("positions" if lowest == 0 else "positions0")
        best = max(fits.values())
        likely = [how for how, count in fits.items() if count == best]
        if "flags" in likely:
            likely = ["flags"]
        if len(likely) > 1 or not best:
            words = f"may be {' or '.join(likely)}" if best else "fit no item of their lists"
            problem = f"clicks {words}; say what they are with {{how}}."
            raise InputError(problem, how=Option("clicks_as", "|".join(_CLICKS_AS[1:])))
        self.clicks_as = likely[0]

    # ------------------------------------------------------------------ what is held

    def _hold(self, found: Entries) -> None:
        found = replace(
            found, query=found.query.astype(np.int32), item=found.item.astype(np.int32),
            grade=found.grade.astype(np.float32), row=self._number_rows(found),
            rank=None if found.rank is None else np.clip(found.rank, -(2**31), 2**31 - 1).astype(np.int32),
        )  # fmt: skip
        self.held.append(_sample(found, self.share) if self.share < 1.0 else found)
        while sum(len(one.group) for one in self.held) > self.max_rows:
            self.share /= 2.0
            self.held = [_sample(_join(self.held), self.share)]

    def _tell_left_out(self) -> str:
        parts = []
        for reason, n in self.tally.counts.items():
            first = self.tally.first.get(reason, "")
            parts.append(f"{n:,} x {reason}" + (f" (first: {first})" if first else ""))
        return "; ".join(parts)

    def _number_rows(self, found: Entries) -> Index | None:
        """Return what names repeated rows: numbers in their file, or of judgements, which are few, in all files."""
        if found.row is None or self.duplicates == "raise":
            return found.row
        return found.row + self.files[-1][0] if self.form == "judgements" else None

    def _name_row(self, row: int) -> str:
        first, path = next(one for one in reversed(self.files) if one[0] <= row)
        return f"{path}, data row {row - first + 1:,}"

    def feedback(self) -> Feedback:
        """Return all that was read."""
        if not self.n_rows:
            raise InputError("there are no rows to learn from.")
        if self.n_odd > _MOST_ODD * self.n_rows:
            n_unknown = sum(self.tally.counts.get(f"unknown {one}", 0) for one in ("query", "item"))
            hint = " Are these the right ids?" if 2 * n_unknown > self.n_odd else ""
            problem = f"{self.n_odd:,} of {self.n_rows:,} rows cannot be used: {self._tell_left_out()}.{hint}"
            raise InputError(problem)
        form = "impressions" if self.form == "lists" else self.form
        duplicates = self.duplicates or ("keep" if form in ("triplets", "clicks") else "skip")
        found = _join(self.held)
        self.held = []
        how = "share" if self.grade == "dwell" and self.form in ("impressions", "clicks") else "auto"
        done = replace(arrange(found, form, len(self.items), duplicates, self.tally, grade=how), share=self.share)
        if not done.n_clicks:
            left = f" Left out: {self._tell_left_out()}." if self.tally.counts else ""
            raise InputError(f"there is no click in {len(done):,} lists, so there is nothing to learn from.{left}")
        return done


def _recognise_form(form: str, held: Collection[str], names: Collection[str], grade: str) -> str:
    if grade == "dwell" and "dwell" not in held:
        problem = f"there is no column 'dwell' of seconds among {quote_names(names)}; name it with {{column}}."
        raise InputError(problem, column=Option("column", "dwell=COL"))
    for one in FORMS if form == "auto" else (form,):
        needed = {*FORMS[one]} - _OPTIONAL
        if one == "impressions" and grade == "dwell":
            needed -= {"clicked"}
            needed |= {"impression"} if form == "auto" and "clicked" not in held else set()
        if not needed - {*held}:
            return one
    if form == "auto":
        forms = "; ".join(f"{one}: {', '.join(columns)}" for one, columns in FORMS.items())
        wanted = f"fit no form of feedback. The forms are {forms}"
    else:
        wanted = f"do not fit {form}, which need {', '.join(one for one in FORMS[form] if one not in _OPTIONAL)}"
    problem = f"the columns {quote_names(names)} {wanted}. Rename columns, or say which is which with {{column}}."
    raise InputError(problem, column=Option("column"))


def _number_impressions(values: Sequence[Any] | NDArray[Any], query: Index) -> Index:
    """Return a number for every impression, the same in all parts: a hash of its id and of its query."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    number = np.empty(len(plain), np.int64)
    last, code = object(), 0
    for at, one in enumerate(plain):
        if one != last:
            text = str(one).encode("utf-8", "surrogateescape")
            code = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
            last = one
        number[at] = code
    return (number ^ _mix(query)) & np.int64(2**63 - 1)


def _mix(number: Index) -> Index:
    """Return numbers that look random and differ where the given ones do (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = number.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def _sample(found: Entries, share: float) -> Entries:
    """Return the rows of a share of all lists."""
    kept = _mix(found.group) < np.int64(share * 2.0**62) * 2
    held: dict[str, Any] = {name: None if one is None else one[kept] for name, one in vars(found).items()}
    return Entries(**held)


def _join(parts: Sequence[Entries]) -> Entries:
    """Return the rows of all parts, which are emptied column by column to save memory."""
    if not parts:
        none = np.empty(0, np.int64)
        return Entries(none, none, none, np.empty(0))
    joined: dict[str, Any] = {}
    for name in vars(parts[0]):
        held = [vars(one)[name] for one in parts]
        joined[name] = None if any(one is None for one in held) else np.concatenate(held)
        for one in parts:
            setattr(one, name, None)
    return Entries(**joined)


def _as_list(value: Any, separator: str) -> list[Any] | None:
    if value is None or value != value:
        return []
    if isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, str):
        return [value]
    text = value.strip()
    if text.startswith("["):
        for parse in (json.loads, ast.literal_eval):
            try:
                found = parse(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            return list(found) if isinstance(found, (list, tuple)) else None
        return text.strip("[]").replace(",", " ").replace("'", "").split() or None
    return [one for part in text.split(separator) if (one := part.strip())]


def _pick(values: Sequence[Any] | NDArray[Any], rows: Index) -> Any:
    return values[rows] if isinstance(values, np.ndarray) else [values[at] for at in rows]
