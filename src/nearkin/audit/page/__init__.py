"""The page: what it shows, and what it leaves out to stay small."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin._version import __version__
from nearkin.arrays import Array, Index
from nearkin.audit.cleaning import MIN_CONFIDENCE
from nearkin.audit.map import choose_rows, draw_map
from nearkin.audit.page.packing import as_json, pack, pack_json, smallest
from nearkin.audit.page.thumbnails import require_pillow, thumbnails
from nearkin.noise.estimate import LEVEL
from nearkin.noise.model import split_rows

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["render_page", "require_pillow"]

#: Suspects whose evidence is in the page, neighbours of each, suspects that are listed, and points of the map.
_EXPLAINED, _NEIGHBOURS, _LISTED, _POINTS = 1500, 5, 30000, 4000
#: Characters that the whole page should take, and the labels of all rows, the ids, the texts and the pictures at most.
_PAGE, _LABELS, _IDS, _TEXTS, _PICTURES = 950_000, 300_000, 200_000, 100_000, 250_000
#: Characters of one text.
_TEXT = 280
#: Classes of the matrix; with more the most frequent pairs are listed.
_MATRIX, _PAIRS = 16, 24
#: Characters of a class that head a column of the matrix; a number takes the place of longer ones.
_HEAD = 8
#: Classes that are listed with their suspects.
_CLASSES = 10
_BINS = 20
#: Confidence from which suggested labels are taken, to choose from.
_BOUNDS = (0, 0.5, 0.7, MIN_CONFIDENCE, 0.9)
#: Steps into which a share is cut.
_STEPS = 1000


@dataclass(frozen=True)
class Bar:
    """One bar of the histogram, in the units of its picture."""

    x: float
    title: str
    rest: float
    suspects: float


def render_page(
    audit: LabelAudit,
    *,
    title: str,
    ids: Mapping[str, Sequence[Any] | NDArray[Any]],
    texts: Sequence[Any] | NDArray[Any] | None,
    images: Sequence[Any] | NDArray[Any] | None,
    notes: Mapping[str, str],
    first_row: int,
) -> str:
    """Return one HTML page that needs nothing else; see `LabelAudit.to_html`."""
    from jinja2 import Environment

    left_out: list[str] = []
    order = audit.order[: min(audit.n_suspects, _LISTED)]
    if audit.n_suspects > len(order):
        left_out.append(f"{audit.n_suspects - len(order):,} of the suspects; the CSV has all of them.")
    arrays, near = _arrays(audit, order, left_out)
    held = {name: (resources.files(__package__) / name).read_text("utf-8") for name in _FILES}
    data: dict[str, Any] = {
        "n": audit.n_rows,
        "first": first_row,
        "steps": _STEPS,
        "near": near.shape[1],
        "voters": [one.name for one in audit.decision.jury.voters],
        "neighbourVoters": [one.name for one in audit.decision.neighbourhoods],
        "classes": [str(one) for one in audit.classes.tolist()],
        "packed": pack(arrays),
    }

    def room(share: float) -> int:
        """Part of what is left of the page."""
        taken = len(as_json(data)) + sum(map(len, held.values()))
        return max(0, int(share * (_PAGE - taken)))

    shown = list(dict.fromkeys(chain(order.tolist(), near.ravel().tolist())))
    data |= _names(ids, shown, min(_IDS, room(0.4)), left_out)
    if texts is not None:
        data["texts"] = _texts(texts, shown, min(_TEXTS, room(0.4)), left_out)
    if images is not None:
        data["pictures"] = _pictures(images, order, near, min(_PICTURES, room(0.9)), left_out)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(held["page.html"]).render(
        title=title,
        version=__version__,
        audit=audit,
        level=round(100 * LEVEL),
        figures=_figures(audit),
        bars=_histogram(audit),
        matrix=_matrix(audit),
        numbered=max(len(str(one)) for one in audit.classes.tolist()) > _HEAD,
        pairs=None if len(audit.classes) <= _MATRIX else audit.noise_pairs()[:_PAIRS],
        by_class=audit.doubt_by_class()[:_CLASSES],
        notes=_notes(audit, first_row) | dict(notes),
        left_out=left_out,
        id_name=next(iter(ids), None),
        has_texts=texts is not None,
        bounds=_BOUNDS,
        bound=MIN_CONFIDENCE,
        has_pictures=images is not None,
        style=held["page.css"],
        script=held["page.js"],
        style_hash=_hash(held["page.css"]),
        script_hash=_hash(held["page.js"]),
        data=as_json(data),
    )


_FILES = ("page.html", "page.css", "page.js")


def _hash(text: str) -> str:
    """Hash by which a content security policy allows an inline script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _arrays(audit: LabelAudit, order: Index, left_out: list[str]) -> tuple[dict[str, NDArray[Any]], Index]:
    """Numbers for the page, and the neighbours of the suspects that are explained."""
    explained = order[:_EXPLAINED]
    if audit.n_suspects > len(explained):
        left_out.append(f"The evidence of all but the {len(explained):,} most doubtful rows.")
    evidence, near = _evidence(audit, explained)
    return {
        **_labels(audit, order, left_out),
        "row": order.astype(np.uint32),
        "best": smallest(audit.suggested_code)[order],
        "plausibility": _steps(audit.plausibility[order]),
        # Rounded down: what is below a bound must not reach it here.
        "confidence": np.floor(audit.confidence[order] * _STEPS + 1e-9).astype(np.uint16),
        **evidence,
        **_map(audit, left_out),
    }, near


def _labels(audit: LabelAudit, order: Index, left_out: list[str]) -> dict[str, NDArray[Any]]:
    """Labels of all rows and their confidence, or of the suspects only where these are too many."""
    codes = smallest(audit.given_code)
    labels: dict[str, NDArray[Any]] = {"codes": codes}
    if len(pack(labels)["data"]) > _LABELS:
        left_out.append("The labels of rows that are not suspects; cleaned labels are those of the suspects only.")
        return {"given": codes[order]}
    sure = {"sure": np.round(100 * audit.plausibility).astype(np.uint8)}  # hundredths compress well
    if len(pack(labels | sure)["data"]) <= _LABELS:
        return labels | sure
    left_out.append("The confidence of cleaned labels of rows that are not suspects.")
    return labels


def _evidence(audit: LabelAudit, rows: Index) -> tuple[dict[str, NDArray[Any]], Index]:
    """What the voters say about suspects, whose votes these are, and how far the centres of both classes lie."""
    cast = audit.decision.cast_left_out(rows, _NEIGHBOURS)
    given, best = audit.given_code[rows], audit.suggested_code[rows]
    said = np.empty((2, len(rows), len(audit.decision.jury.voters)))
    for part in split_rows(len(rows), said.shape[2] * len(audit.classes)):
        votes, at = audit.decision.left_out_votes(rows[part]).votes, np.arange(len(rows[part]))
        said[:, part] = votes[:, at, given[part]].T, votes[:, at, best[part]].T
    # Bit v is set where the row is among the nearest of the v-th voter by neighbours.
    by = (cast.is_nearest * (1 << np.arange(len(cast.voters)))[:, None, None]).sum(axis=0)
    return {
        "near": cast.rows.astype(np.uint32).ravel(),
        "nearCodes": smallest(audit.given_code)[cast.rows].ravel(),
        "nearShare": _steps(cast.total).ravel(),
        "nearBy": by.astype(np.uint8).ravel(),
        "saidGiven": _steps(said[0]).ravel(),
        "saidBest": _steps(said[1]).ravel(),
        "voterShare": _steps(np.array(audit.decision.jury.shares)),
        "toGiven": audit.prototypes.distances(rows, given).astype(np.float32),
        "toBest": audit.prototypes.distances(rows, best).astype(np.float32),
    }, cast.rows


def _map(audit: LabelAudit, left_out: list[str]) -> dict[str, NDArray[Any]]:
    """Where the rows of the map are drawn."""
    drawn = choose_rows(audit.is_suspect, audit.order, _POINTS)
    if len(drawn) < audit.n_rows:
        left_out.append(f"{audit.n_rows - len(drawn):,} of the {audit.n_rows:,} rows in the map.")
    flat = draw_map(audit.prototypes.rows[drawn])
    return {
        "mapRow": drawn.astype(np.uint32),
        "mapX": (flat[:, 0] * 4095).astype(np.uint16),
        "mapY": (flat[:, 1] * 4095).astype(np.uint16),
        "mapGiven": smallest(audit.given_code)[drawn],
        "mapSuspect": audit.is_suspect[drawn].astype(np.uint8),
    }


def _steps(shares: Array) -> NDArray[np.uint16]:
    return np.round(shares * _STEPS).astype(np.uint16)


def _names(
    ids: Mapping[str, Sequence[Any] | NDArray[Any]], shown: list[int], budget: int, left_out: list[str]
) -> dict[str, Any]:
    """Names of all rows if they are short, otherwise of those that are shown."""
    if not ids:
        return {}
    name, values = next(iter(ids.items()))
    texts = [str(one) for one in (values.tolist() if isinstance(values, np.ndarray) else values)]
    packed = pack_json(texts)
    if len(packed) <= budget:
        return {"idName": name, "ids": packed}
    packed, n_found = _within({row: texts[row] for row in shown}, budget)
    left_out.append(f"{name} of all but {n_found:,} rows; cleaned labels are numbered by row instead.")
    return {"idName": name, "someIds": packed}


def _texts(texts: Sequence[Any] | NDArray[Any], shown: list[int], budget: int, left_out: list[str]) -> str:
    """Beginnings of texts, by row."""
    cut = {row: text if len(text := str(texts[row])) <= _TEXT else text[: _TEXT - 1] + "…" for row in shown}
    packed, n_found = _within(cut, budget)
    left_out.append(f"Texts of all but {n_found:,} rows, and what is longer than {_TEXT} characters.")
    return packed


def _within(texts: dict[int, str], budget: int) -> tuple[str, int]:
    """As many of the first texts as fit, packed, and how many those are."""
    packed = pack_json(texts)
    while len(packed) > budget and texts:
        n_kept = int(0.95 * len(texts) * budget / len(packed))
        texts = dict(islice(texts.items(), n_kept))
        packed = pack_json(texts)
    return packed, len(texts)


def _pictures(
    images: Sequence[Any] | NDArray[Any],
    order: Index,
    near: Index,
    budget: int,
    left_out: list[str],
) -> dict[int, str]:
    # A suspect and what it is compared with, before the next suspect.
    pairs = zip(order.tolist(), [*near.tolist(), *([()] * len(order))], strict=False)
    found, unread = thumbnails(images, (one for row, others in pairs for one in (row, *others)), budget)
    left_out.append(f"Pictures of all but {len(found):,} rows.")
    if unread:
        left_out.append(f"{len(unread):,} pictures that could not be read, the first {str(images[unread[0]])!r}.")
    return found


def _figures(audit: LabelAudit) -> dict[str, Any]:
    """The headline."""
    low, high = (100 * one for one in audit.noise_interval)
    rate = 100 * audit.noise_rate
    digits = 0 if rate >= 9.5 else 1
    return {
        "rate": f"{rate:.{digits}f}",
        "low": f"{low:.{digits}f}",
        "high": f"{high:.{digits}f}",
        # The scale of the little bar ends at a round number beyond the interval.
        "end": 10 * int(np.ceil(max(high, 10.0) / 10 + 1e-9)),
        "bar": (rate, low, high),
    }


def _histogram(audit: LabelAudit) -> list[Bar]:
    """Rows by plausibility; heights are square roots, since hardly any row is doubted."""
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    place = np.minimum((audit.plausibility * _BINS).astype(np.int64), _BINS - 1)
    whole = np.bincount(place, minlength=_BINS)
    doubted = np.bincount(place[audit.is_suspect], minlength=_BINS)
    unit = 100.0 / np.sqrt(whole.max())
    return [
        Bar(
            x=300.0 * i / _BINS,
            title=f"plausibility {edges[i]:.2f} to {edges[i + 1]:.2f}: {n:,} rows, {bad:,} of them suspects",
            rest=round(unit * (np.sqrt(n) - np.sqrt(bad)), 2),
            suspects=round(unit * np.sqrt(bad), 2),
        )
        for i, (n, bad) in enumerate(zip(whole.tolist(), doubted.tolist(), strict=True))
    ]


def _matrix(audit: LabelAudit) -> list[dict[str, Any]] | None:
    """Rows of the noise matrix with a shade from 0 to 5; None where classes are too many to show."""
    if len(audit.classes) > _MATRIX:
        return None
    counts = audit.noise_matrix
    off = counts - np.diag(np.diag(counts))
    shade = np.ceil(5.0 * np.sqrt(off / max(1, off.max()))).astype(int)
    return [
        {"name": name, "cells": [(int(n), int(s), i == j) for j, (n, s) in enumerate(zip(*row, strict=True))]}
        for i, (name, row) in enumerate(zip(audit.classes.tolist(), zip(counts, shade, strict=True), strict=True))
    ]


def _notes(audit: LabelAudit, first_row: int) -> dict[str, str]:
    """What was done."""
    model, jury = audit.classifier, audit.decision.jury
    low, high = audit.noise_interval
    rate = f"{100 * audit.noise_rate:.2f} %"
    if audit.rate_is_estimated:
        rate += (
            f", counted on the rows on which the votes are most certain; {round(100 * LEVEL)} % interval "
            f"{100 * low:.2f} to {100 * high:.2f} (Jeffreys)"
        )
    else:
        rate += ", as given"
    voters = [
        f"{one.name} ({100 * share:.0f} %): {one.votes_with}"
        for one, share in zip(jury.voters, jury.shares, strict=True)
    ]
    learned = {} if isinstance(model.learner, str) else {"Learner": f"{model.learner_!r}"}
    return {
        "Rows, features, classes": f"{audit.n_rows:,}, {model.n_features_in_:,}, {len(audit.classes):,}",
        "Voters": "; ".join(voters),
        **learned,
        "Noise rate": rate,
        "Noise by class": "differs" if audit.decision.noise.matrix is not None else "no sign that it differs",
        "Suspects": "rows whose label has few votes against the best other label: about as many as the rate says, and "
        "those where another label has twice the votes",
        "Plausibility": "probability that the label is right, by Bayes' rule on the votes of all voters",
        "Confidence": "probability that the suggested label is right",
        "Map": "t-SNE of the rows in the learned space that votes",
        "Seed": f"{model.random_state}",
        "Numbers of rows": f"begin with {first_row}",
        "Made by": f"nearkin {__version__}",
    }
