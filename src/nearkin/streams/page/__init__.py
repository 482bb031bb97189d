"""The page of a log: rates and alarms over time, what became of every file, and the same as tables."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nearkin._version import __version__
from nearkin.files import replacing
from nearkin.pages import Page
from nearkin.streams.logbook import LogBook, LogEntry, share_lines

__all__ = ["render_log", "write_page"]

#: Points of a line, files that are listed, alarms that are listed, and classes that have a line of their own.
_POINTS, _FILES, _ALARMS, _CLASSES = 300, 500, 200, 6
#: Times the median beyond which a time is drawn at the edge.
_OUTLIER = 4.0
#: Size of a picture in its own units; the plot leaves room for the axes.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 240, 44, 8, 22, 34


def write_page(book: LogBook, path: str | os.PathLike[str], *, title: str | None = None) -> None:
    """Write a page about a log: one HTML file that needs nothing else.

    Parameters
    ----------
    book : LogBook
        From `nearkin.streams.read_log`.
    path : path
        The page, which ends in ``.html``.
    title : str or None, default=None
        Heading; None for the name of the log.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import nearkin
    >>> from nearkin import streams
    >>> rng = np.random.default_rng(0)
    >>> chunks = [(rng.normal(size=(100, 2)), np.arange(100) % 2) for _ in range(4)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = f"{folder}/metrics.jsonl"
    ...     streams.fit_stream(nearkin.RobustLODML(random_state=0), streams.open(chunks), log=log)
    ...     streams.write_page(streams.read_log(log), f"{folder}/watch.html")
    RobustLODML(random_state=0)
    """
    text = render_log(book, Path(book.path).name if title is None else title)
    with replacing(path, "watch") as file:
        file.write(text.encode())


def render_log(book: LogBook, title: str) -> str:
    """Return one HTML page that needs nothing else."""
    points = book.thinned(_POINTS)
    files, left_out = book.by_file()[::-1], []
    if len(book.learned) > len(points):
        left_out.append(f"Single lines: {len(book.learned):,} are drawn as {len(points):,} points, means over rows.")
    for what, n, most in (("files", len(files), _FILES), ("alarms", len(book.alarms), _ALARMS)):
        if n > most:
            left_out.append(f"All but the latest {most:,} of {n:,} {what} in the tables; the log has them.")
    if book.n_damaged:
        left_out.append(f"{book.n_damaged:,} of {book.n_lines:,} lines, which are damaged.")
    return Page(__package__, "watch").render(
        title, book=book, headline=_headline(book), stats=_stats(book, points), charts=_charts(book, points),
        alarms=[(one, _when(one.time)) for one in book.alarms[: -_ALARMS - 1 : -1]],
        files=[(one, _when(one.time), _describe(one)) for one in files[:_FILES]],
        notes=_notes(book), left_out=left_out, width=_WIDTH, height=_HEIGHT,
    )  # fmt: skip


def _headline(book: LogBook) -> tuple[str, str, str]:
    rows = f"in {book.n_rows:,} rows"
    if not book.alarms:
        return "", "No alarm", rows
    return "", f"{len(book.alarms):,} alarm{'s' if len(book.alarms) > 1 else ''}", rows


def _stats(book: LogBook, points: list[LogEntry]) -> list[tuple[str, str, str]]:
    """What the page says first: name, value, and a class that colours it."""
    last = points[-1] if points else LogEntry("learned")
    found = [("Rows", f"{book.n_rows:,}", ""), ("Files", f"{len({one.file for one in book.learned}):,}", "")]
    if last.accuracy is not None:
        found.append(("Accuracy, lately", _percent(last.accuracy), ""))
    if last.plausibility is not None:
        found.append(("Plausibility, lately", f"{last.plausibility:.2f}", ""))
    found.append(("Files put aside", f"{len(book.put_aside):,}", "look" if book.put_aside else ""))
    found.append(("Runs refused", f"{len(book.refused):,}", "look" if book.refused else ""))
    if last.n_waiting is not None:
        found.append(("Rows that wait for a label", f"{last.n_waiting:,}", ""))
    return found


def _notes(book: LogBook) -> dict[str, str]:
    times = [one.time for one in book.entries if one.time]
    return {
        "Accuracy": "share of labels predicted correctly before the row was learned",
        "Plausibility": "mean weight with which rows were learned; low where labels contradict their neighbours",
        "Alarms": "a signal has left its past; the bound on false alarms is a setting of the model (nearkin info)",
        "From, to": f"{_when(times[0])}, {_when(times[-1])}" if times else "the log tells no times",
        "Lines": f"{book.n_lines:,}" + (f", of which {book.n_damaged:,} are damaged" if book.n_damaged else ""),
        "Made by": f"nearkin {__version__}"
        + (f"; the log by {book.version}" if book.version not in ("", __version__) else ""),
    }


def _describe(one: LogEntry) -> dict[str, str]:
    """Cells of a file in the table."""
    if one.event != "learned":
        return {"event": one.event, "reason": one.reason}
    return {
        "rows": f"{one.n_rows:,}" + (f" ({one.n_dropped:,} dropped)" if one.n_dropped else ""),
        "accuracy": "" if one.accuracy is None else _percent(one.accuracy),
        "plausibility": "" if one.plausibility is None else f"{one.plausibility:.2f}",
        "speed": "" if not one.seconds or not one.n_rows else f"{1e6 * one.seconds / one.n_rows:,.0f} µs",
        "alarms": f"{one.n_alarms:,}" if one.n_alarms else "",
    }


def _when(time: str) -> str:
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M") if time else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


# ---------------------------------------------------------------------- pictures


@dataclass
class Line:
    """A line of a picture: its name, a class for its looks, and its stretches as paths."""

    name: str
    look: str
    path: str
    end: tuple[float, float]
    last: str


@dataclass
class Chart:
    """A picture of lines over rows, with ticks and alarms, all in the units of the picture."""

    title: str
    words: str
    lines: list[Line]
    ticks_x: list[tuple[float, str, str]]
    ticks_y: list[tuple[float, str]]
    alarms: list[tuple[float, str]]


def _charts(book: LogBook, points: list[LogEntry]) -> list[Chart]:
    if not points:
        return []
    total = points[-1].at
    rates = {
        "accuracy": [one.accuracy for one in points],
        "plausibility": [one.plausibility for one in points],
    }
    shares = dict(sorted(share_lines(points, _CLASSES), key=lambda one: (one[0] in ("all others", "(others)"), one[0])))
    speed = [1e6 * one.seconds / one.n_rows if one.seconds is not None and one.n_rows else None for one in points]
    waiting = [None if one.n_waiting is None else float(one.n_waiting) for one in points]
    found = [_chart("Accuracy and plausibility", rates, points, book, as_share=True)]
    if shares and any(len(one.shares) > 1 for one in points):
        found.append(_chart("Share of each class", shares, points, book, as_share=True))
    if any(one is not None for one in speed):
        found.append(_chart("Microseconds a row", {"time": speed}, points, book, as_share=False))
    if any(one is not None for one in waiting):
        found.append(_chart("Rows that wait for a label", {"waiting": waiting}, points, book, as_share=False))
    return [one for one in found if one.lines and total]


def _chart(
    title: str, lines: dict[str, list[float | None]], points: list[LogEntry], book: LogBook, *, as_share: bool
) -> Chart:
    total = points[-1].at
    known = sorted(one for line in lines.values() for one in line if one is not None)
    if not as_share and known:  # a call that had to compile first would hide all others
        n_known = len(known)
        known = known[: bisect_right(known, _OUTLIER * known[n_known // 2])]
        if n_known > len(known):
            title = f"{title} (without {n_known - len(known)} much larger, see the table)"
    low, high, step = _scale(known, as_share=as_share)

    def across(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / total, 1)

    def up(value: float) -> float:
        inside = min(1.0, max(0.0, (value - low) / (high - low)))
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * inside, 1)

    drawn = []
    for number, (name, values) in enumerate(lines.items()):
        # A point stands in the middle of its rows.
        spots = [
            None if one is None or (known and one > known[-1]) else (across(at.at - 0.5 * at.n_rows), up(one))
            for at, one in zip(points, values, strict=True)
        ]
        if any(spots):
            last = next(one for one in reversed(values) if one is not None)
            shown = f"{last:.2f}" if name == "plausibility" else _percent(last) if as_share else f"{last:,.0f}"
            drawn.append(Line(name, f"l{number}", _path(spots), next(one for one in reversed(spots) if one), shown))
    ticks = [low + i * step for i in range(round((high - low) / step) + 1)]
    alarms: dict[float, list[str]] = {}
    for one in book.alarms:
        alarms.setdefault(round(across(one.at)), []).append(f"{_when(one.time)} {one.file}: {one.text}".strip(" :"))
    return Chart(
        title, _words(title, drawn, book), drawn, _row_ticks(points, across),
        [(up(one), f"{100 * one:.0f} %" if as_share else _short(one)) for one in ticks],
        [(at, "; ".join(texts[:5])) for at, texts in alarms.items()],
    )  # fmt: skip


def _path(spots: list[tuple[float, float] | None]) -> str:
    """Return an SVG path that leaves gaps where a value is missing; a point alone is a dot."""
    words, is_down = [], False
    for one in spots:
        if one is None:
            is_down = False
            continue
        words.append(f"{'L' if is_down else 'M'}{one[0]} {one[1]}")
        if not is_down:
            words.append("h0.01")
        is_down = True
    return "".join(words)


def _scale(values: list[float], *, as_share: bool) -> tuple[float, float, float]:
    """Return a round range that holds all values, and the step of its ticks."""
    low, high = (min(values, default=0.0), max(values, default=1.0)) if as_share else (0.0, max(values, default=1.0))
    step = next(
        one * 10.0**power
        for power in range(-9, 16)
        for one in (1.0, 2.0, 5.0)
        if one * 10.0**power * 5 >= max(high - low, 1e-9 if not as_share else 0.05)
    )
    begin = int(low / step + 1e-9) * step
    end = begin + step * max(1, -int(-(high - begin) / step // 1 - 1e-9) if high > begin else 1)
    while end < high - 1e-12:
        end += step
    return begin, min(end, max(1.0, begin + step)) if as_share else end, step


def _row_ticks(points: list[LogEntry], across: Any) -> list[tuple[float, str, str]]:
    """Return places on the axis of rows: where, how many rows, and when that was."""
    total = points[-1].at
    days = {_when(one.time)[:10] for one in points}
    shown = slice(11, 16) if len(days) == 1 else slice(0, 10)
    found = []
    for part in range(5):
        at = total * part // 4
        near = next((one for one in points if one.at >= at), points[-1])
        found.append((across(at), _short(at), _when(near.time)[shown]))
    return found


def _short(value: float) -> str:
    """Return a number in few characters: 20, 20k, 20M."""
    for least, size, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / size:.3g}{unit}"
    return f"{value:,.4g}"


def _words(title: str, lines: list[Line], book: LogBook) -> str:
    """Return what a picture shows, for those who do not see it."""
    ends = ", ".join(f"{one.name} at the end {one.last}" for one in lines)
    marked = f"{len(book.alarms):,} alarms are marked"
    return f"{title} over {book.n_rows:,} rows: {ends}; {marked}. The tables have the numbers."
