"""The page of clicks: what a map gains beside its rivals, and which clicks look wrong, with evidence and decisions."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nearkin._version import __version__
from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.files import replacing
from nearkin.pages import Page, as_json
from nearkin.search.adaptation import Adaptation
from nearkin.search.evidence import Names, find_suspects
from nearkin.search.inputs import as_vectors
from nearkin.search.ranking import Interval

__all__ = ["write_click_page"]

#: Suspects of a page, and bars of the histogram.
_SUSPECTS, _BINS = 300, 20
#: Size of the picture of intervals in its own units: width, height of a line, and room at the sides.
_WIDTH, _LINE, _SIDE = 720, 58, 24


def write_click_page(
    done: Adaptation, queries: ArrayLike, items: ArrayLike, path: str | os.PathLike[str], *,
    query_ids: ArrayLike | int | None = None, item_ids: ArrayLike | int | None = None,
    query_texts: Sequence[str] | None = None, item_texts: Sequence[str] | None = None,
    kept: Collection[tuple[int, int]] = (), title: str = "Clicks",
) -> None:  # fmt: skip
    """Write a page about an adaptation: one HTML file that needs nothing else.

    It shows the report, and the clicks that look wrong with what speaks against them. Decisions about them are made in
    the page and downloaded; `read_decisions` reads them.

    Parameters
    ----------
    done : Adaptation
        From `adapt`.
    queries, items : array-like of shape (n, n_features)
        The vectors that it had.
    path : path-like
        The page, which ends in ``.html``.
    query_ids, item_ids : array-like, int or None, default=None
        Ids of the rows; None for 0, 1, 2, ...
    query_texts, item_texts : list of str or None, default=None
        Texts to show beside the ids.
    kept : collection of tuple of int, default=()
        Clicks (query and item by row number) that were looked at and are right; they are not shown again.
    title : str, default="Clicks"
        Heading.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from nearkin.search import Feedback, adapt, write_click_page
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(100, 4))
    >>> wanted = rng.integers(0, 100, size=100)
    >>> queries = items[wanted] + 0.1 * rng.normal(size=(100, 4))
    >>> clicks = np.repeat(np.arange(100), 5)
    >>> feedback = Feedback.from_triplets(
    ...     clicks, wanted[clicks], rng.integers(0, 100, size=500), query_ids=100, item_ids=100, bad="skip")
    >>> done = adapt(queries, items, feedback, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_click_page(done, queries, items, f"{folder}/clicks.html")
    """
    if done.feedback is None:
        raise InputError("the adaptation does not hold its feedback, so its clicks cannot be shown.", owner="page")
    items = as_vectors(items, "items")
    queries = as_vectors(queries, "queries", items.shape[1], items.dtype)
    names = Names(query_ids, item_ids, query_texts, item_texts, len(queries), len(items))
    suspects, n_pairs, n_doubted = find_suspects(done, queries, items, kept, _SUSPECTS)
    data = as_json({"suspects": [one.as_facts() for one in suspects], **names.of(suspects)})
    left_out = [f"{n:,} x {reason}{_place(done, reason)}" for reason, n in done.skipped.items()]
    if n_doubted > len(suspects):
        left_out.append(f"All but the {len(suspects):,} least plausible of {n_doubted:,} doubtful clicks.")
    text = Page(__package__, "clicks").render(
        title, done=done, headline=_headline(done), stats=_stats(done, n_pairs, n_doubted), picture=_picture(done),
        table=done.table(), bars=_histogram(done.plausibility), data=data, n_suspects=len(suspects),
        has_texts=query_texts is not None or item_texts is not None, few=done.n_held_out < 50, notes=_notes(done),
        left_out=left_out,
    )  # fmt: skip
    with replacing(path, "clicks") as file:
        file.write(text.encode())


def _place(done: Adaptation, reason: str) -> str:
    first = {} if done.feedback is None else done.feedback.first_skipped
    return f" (first: {first[reason]})" if reason in first else ""


def _headline(done: Adaptation) -> tuple[str, str, str]:
    if done.kept_identity or done.still_served:
        return "", "No gain", f"of {done.measure} was shown"
    return "", f"{100 * done.gain[done.metric].mean:+.1f}", f"points of {done.measure}"


def _stats(done: Adaptation, n_pairs: int, n_doubted: int) -> list[tuple[str, str, str]]:
    assert done.feedback is not None
    learned, tested = f"{done.n_learned:,}", f"{done.n_held_out:,}"
    return [
        ("Lists" if done.feedback.form != "triplets" else "Triplets", f"{len(done.feedback):,}", ""),
        ("Clicks", f"{done.feedback.n_clicks:,}", ""),
        ("Queries that taught", learned, ""),
        ("Queries that tested", tested, "look" if done.n_held_out < 50 else ""),
        ("Pairs clicked and learned", f"{n_pairs:,}", ""),
        ("Pairs less plausible than not", f"{n_doubted:,}", "look" if n_doubted else ""),
    ]


def _notes(done: Adaptation) -> dict[str, str]:
    needed = ", ".join(f"{n:,} for a gain of {100 * gain:g}" for gain, n in done.needed.items())
    log = "the same feedback" if done.n_looks == 1 else "this log alone (nearkin also from those before)"
    others = "1 other query" if done.n_chosen == 1 else f"{done.n_chosen:,} other queries"
    return {
        "Result": done.verdict,
        "Test queries": f"{done.n_held_out:,} that were never learned from; it takes {needed} points of {done.measure}",
        "Maps": f"identity, ridge regression and a plain softmax learned from {log}, and measured on the same queries; "
        f"nearkin chose its learner ({done.learner}) on {others}",
        "Plausibility": "what near queries, other impressions and the learned map say of a click, without that click",
        "Made by": f"nearkin {__version__}",
    }


# ---------------------------------------------------------------------- pictures


@dataclass(frozen=True)
class Bar:
    """One interval of the picture, in its units."""

    name: str
    y: float
    low: float
    mean: float
    high: float
    words: str
    look: str


def _picture(done: Adaptation) -> dict[str, Any]:
    """Return intervals of all maps on one axis."""
    maps = {**done.rivals, f"nearkin ({done.learner})": done.after[done.metric]}
    ends = [end for one in maps.values() for end in (one.low, one.high)]
    low, high, step = _scale(min(ends), max(ends))

    def across(value: float) -> float:
        return round(_SIDE + (_WIDTH - 2 * _SIDE) * (value - low) / (high - low), 1)

    bars = [
        Bar(name, 42.0 + _LINE * at, across(one.low), across(one.mean), across(one.high), str(one), _look(name))
        for at, (name, one) in enumerate(maps.items())
    ]
    ticks = [(across(low + i * step), f"{low + i * step:.3g}") for i in range(round((high - low) / step) + 1)]
    words = "; ".join(f"{one.name} {one.words}" for one in bars)
    at_identity = maps.get("identity", Interval(0.0, 0.0, 0.0)).mean
    return {
        "bars": bars, "ticks": ticks, "width": _WIDTH, "height": _LINE * len(bars) + 34, "words": words,
        "base": across(at_identity) if "identity" in maps else None,
    }  # fmt: skip


def _look(name: str) -> str:
    return "ours" if name.startswith("nearkin") else "rival"


def _scale(low: float, high: float) -> tuple[float, float, float]:
    """Return a round range that holds both, and the step of its ticks."""
    sizes = (one * 10.0**power for power in range(-6, 3) for one in (1.0, 2.0, 5.0))
    step = next((one for one in sizes if 6 * one >= max(high - low, 1e-6)), 1.0)
    begin = np.floor(low / step + 1e-9) * step
    end = np.ceil(high / step - 1e-9) * step
    return float(begin), float(end if end > begin else begin + step), step


def _histogram(plausibility: Array) -> list[tuple[float, float, float, str, str]]:
    """Return bars of clicks by plausibility: x, y, height, look and words; heights are square roots."""
    known = plausibility[np.isfinite(plausibility)]
    counts = np.bincount(np.minimum((known * _BINS).astype(np.int64), _BINS - 1), minlength=_BINS)
    tops = 100.0 * np.sqrt(counts / max(1, counts.max()))
    width = 300.0 / _BINS
    return [
        (round(width * i, 2), round(100.0 - top, 2), round(float(top), 2), "look" if i < _BINS // 2 else "rest",
         f"plausibility {i / _BINS:.2f} to {(i + 1) / _BINS:.2f}: {n:,} clicks")
        for i, (n, top) in enumerate(zip(counts, tops, strict=True))
    ]  # fmt: skip
