"""What the page holds, as text that it can read without help: arrays and strings, deflated and in base 64.

Everything has a budget, and what is left out to stay within it is listed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin import progress
from nearkin.arrays import Array, Codes, Index
from nearkin.audit.contrast import LARGEST
from nearkin.audit.evidence import find_other
from nearkin.audit.exports import Values
from nearkin.audit.page.layout import lay_out
from nearkin.audit.page.thumbnails import thumbnails
from nearkin.audit.page.values import choose_values
from nearkin.audit.sample import ReviewSample, sample_arrays
from nearkin.kernels import one_blas_thread
from nearkin.noise.estimate import LEVEL
from nearkin.noise.model import split_rows
from nearkin.pages import as_json

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["choose_rows", "collect", "draw_map", "pack"]

#: Suspects whose evidence is in the page, neighbours of each, suspects that are listed, and points of the map.
_EXPLAINED, _NEIGHBOURS, _LISTED, _POINTS = 2000, 5, 30000, 4000
#: Characters that the whole page should take, and the labels of all rows, the ids, the texts and the pictures at most.
_PAGE, _LABELS, _IDS, _TEXTS, _PICTURES = 4_000_000, 500_000, 500_000, 600_000, 1_500_000
#: And what columns say about rows, and all values of rows.
_FEATURES, _VALUES = 600_000, 1_000_000
#: Characters of one text, the most that leave room for all; of one label where labels are cut, and of all that are not.
_TEXT, _NAME, _NAMES = (4000, 2000, 1000, 500, 280), 100, 250_000
#: Characters of text that one of the page may hold, at best.
_DEFLATED = 6
#: Rows of a finding that are named, and suspects of it that can be shown in the table.
_NAMED, _FOUND = 20, 2000
#: Steps into which a share is cut, and one point of the score of a column.
_STEPS, _SCORE_STEPS = 1000, 15
#: Rows of the map laid out by t-SNE, and how; and between how many of them each other row is placed.
_LANDMARKS, _PERPLEXITY, _BESIDE = 600, 30.0, 3
#: Points of the map beyond these percentiles are drawn at the edge.
_EDGES = (0.5, 99.5)


def collect(
    audit: LabelAudit, ids: Mapping[str, Values], texts: Values | None, images: Values | None, sample: ReviewSample,
    source: tuple[str | None, str | None, str | None], taken: int,
) -> tuple[str, list[str]]:  # fmt: skip
    """Return the data of the page as JSON, and what was left out; ``taken`` characters of the page are used already.

    ``source`` is the name of the file, of its label, and its digest, for the file of decisions.

    The rows of the page are the suspects in their order, then other rows of the sample and those that findings name.
    """
    progress.begin("collecting the evidence")
    left_out: list[str] = []
    order = audit.order[: min(audit.n_suspects, _LISTED)]
    named = np.concatenate([sample.to_review, *(one.rows[:_NAMED] for one in audit.findings)])
    named = named[np.sort(np.unique(named, return_index=True)[1])]
    others = named[~np.isin(named, order)]
    listed = np.concatenate([order, others])
    best = find_other(audit, listed)
    if audit.n_suspects > len(order):
        left_out.append(f"{audit.n_suspects - len(order):,} of the suspects; the CSV has all of them.")
    explained = order[:_EXPLAINED]
    if audit.n_suspects > len(explained):
        left_out.append(f"The evidence and the values of all but the {len(explained):,} most doubtful rows.")
    has_evidence = np.r_[: len(explained), len(order) : len(listed)]
    evidence, near = _evidence(audit, listed[has_evidence], best[has_evidence])
    trusted = _trusted(audit, listed[has_evidence], best[has_evidence])
    numbers = {} if audit.row_index is None else {"number": audit.row_index.astype(np.uint32)}
    arrays = {
        **numbers,
        **_labels(audit, listed, left_out),
        **_suspects(audit, listed, best),
        **evidence,
        "trusted": trusted.astype(np.uint32).ravel(),  # -1 becomes the largest number
        **_map(audit, left_out),
    }
    data: dict[str, Any] = {
        "n": audit.n_rows,
        "suspects": len(order),
        "explained": len(explained),
        "fingerprint": audit.fingerprint,
        "rows": audit.row_digest,
        "source": source,
        "sample": {name: values.tolist() for name, values in sample_arrays(sample).items()},
        "level": round(100 * LEVEL),
        "enough": sample.n_enough,
        "steps": _STEPS,
        "near": near.shape[1],
        "trusted": trusted.shape[1],
        "voters": [one.name for one in audit.decision.jury.voters],
        "neighbourVoters": [one.name for one in audit.decision.neighbourhoods],
        **_classes(audit, left_out),
        "findings": _findings(audit, order),
        "packed": pack(arrays),
    }

    def room(share: float) -> int:
        """Part of what is left of the page."""
        return max(0, int(share * (_PAGE - taken - len(as_json(data)))))

    beside = np.hstack([near, np.where(trusted < 0, near[:, :1], trusted)])
    data |= _features(audit, listed[has_evidence], best[has_evidence], trusted, min(_FEATURES, room(0.3)), left_out)
    shown = list(dict.fromkeys(chain(named.tolist(), order.tolist(), beside.ravel().tolist())))
    if ids:
        name, values = next(iter(ids.items()))
        data |= _names(name[:_NAME], values, shown, min(_IDS, room(0.4)), left_out)
    judged = np.concatenate([named, explained[~np.isin(explained, named)]])
    data |= _cells(audit, judged, min(_VALUES, room(0.4)), left_out)
    if texts is not None:
        data["words"] = _words(audit, texts, listed[has_evidence], best[has_evidence])
        data["texts"] = _texts(texts, shown, sample.to_review, min(_TEXTS, room(0.4)), left_out)
    if images is not None:
        data["pictures"] = _pictures(images, order, beside, min(_PICTURES, room(0.9)), left_out)
    return as_json(data), left_out


def _findings(audit: LabelAudit, suspects: Index) -> list[dict[str, Any]]:
    """Rows of every finding: the first, which are named, how many more there are, and those that are in the table.

    Of a finding about classes those in the table bear one of these labels.
    """
    in_table = np.zeros(audit.n_rows, dtype=bool)
    in_table[suspects] = True

    def of_classes(codes: Codes) -> Index:
        return suspects[np.isin(audit.given_code[suspects], codes)]

    return [
        {
            "named": one.rows[:_NAMED].tolist(),
            "more": max(0, len(one.rows) - _NAMED),
            "suspects": (one.rows[in_table[one.rows]] if len(one.rows) else of_classes(one.codes))[:_FOUND].tolist(),
        }
        for one in audit.findings
    ]


def _classes(audit: LabelAudit, left_out: list[str]) -> dict[str, Any]:
    """Labels as text, cut where they would fill the page."""
    names = [str(one) for one in audit.classes.tolist()]
    if sum(map(len, names)) <= _NAMES:
        return {"classes": names}
    left_out.append(f"What is longer than {_NAME} characters of a label, and cleaned labels; the CSV has them whole.")
    return {"classes": [_shorten(one, _NAME) for one in names], "cut": True}


def _suspects(audit: LabelAudit, order: Index, best: Codes) -> dict[str, NDArray[Any]]:
    return {
        "row": order.astype(np.uint32),
        "wrong": audit.is_wrong[order].astype(np.uint8),
        "best": smallest(best),
        # A suspect never has plausibility 1, also when it is rounded.
        "plausibility": np.minimum(
            _steps(audit.plausibility[order]), np.where(audit.is_suspect[order], _STEPS - 1, _STEPS).astype(np.uint16)
        ),
        # Rounded down: what is below a bound must not reach it here.
        "confidence": np.floor(audit.confidence[order] * _STEPS + 1e-9).astype(np.uint16),
    }


def _evidence(audit: LabelAudit, rows: Index, best: Codes) -> tuple[dict[str, NDArray[Any]], Index]:
    """What the voters say about rows, whose votes these are, and how far the centres of both classes lie."""
    cast = audit.decision.cast_left_out(rows, _NEIGHBOURS)
    total, percents = cast.total, audit.decision.jury.percents
    given = audit.given_code[rows]
    said = np.empty((2, len(rows), len(audit.decision.jury.voters)))
    for part in split_rows(len(rows), said.shape[2] * len(audit.classes)):
        votes, at = audit.decision.left_out_votes(rows[part]).votes, np.arange(len(rows[part]))
        said[:, part] = votes[:, at, given[part]].T, votes[:, at, best[part]].T
    # Bit v is set where the row is among the nearest of the v-th voter by neighbours.
    by = (cast.is_nearest * (1 << np.arange(len(cast.voters)))[:, None, None]).sum(axis=0)
    return {
        "near": cast.rows.astype(np.uint32).ravel(),
        "nearCodes": smallest(audit.given_code)[cast.rows].ravel(),
        "nearShare": _steps(total).ravel(),
        "nearBy": by.astype(np.uint8).ravel(),
        "nearDoubt": audit.is_suspect[cast.rows].astype(np.uint8).ravel(),
        "saidGiven": _steps(said[0]).ravel(),
        "saidBest": _steps(said[1]).ravel(),
        "voterShare": np.array(percents, dtype=np.uint8),
        "toGiven": audit.prototypes.distances(rows, given).astype(np.float32),
        "toBest": audit.prototypes.distances(rows, best).astype(np.float32),
    }, cast.rows


def _trusted(audit: LabelAudit, rows: Index, best: Codes) -> Index:
    """Nearest trusted rows of the given class, then as many of the best other one; -1 where there are no more."""
    return np.hstack([audit.prototypes.nearest(rows, codes) for codes in (audit.given_code[rows], best)])


def _features(
    audit: LabelAudit, rows: Index, best: Codes, trusted: Index, budget: int, left_out: list[str]
) -> dict[str, Any]:
    """What the columns say about rows: which speak most, their scores, and the texts of five cells for each of them.

    The cells are those of the row, what is usual in the given and in the other class, and those of the nearest trusted
    rows of both.
    """
    contrast, given = audit.contrast, audit.given_code[rows]
    if not contrast.columns or not len(rows):
        return {}
    columns, scores = contrast.choose(rows, given, best)
    cells = np.full((*columns.shape, 5), "", dtype=object)
    beside = trusted[:, :: trusted.shape[1] // 2]
    for c in np.unique(columns[columns < len(contrast.columns)]).tolist():
        at, place = np.nonzero(columns == c)
        cells[at, place, 0] = contrast.values(c, rows[at])
        for i, codes in enumerate((given, best)):
            usual = {code: contrast.usual(c, code) for code in np.unique(codes[at]).tolist()}
            cells[at, place, 1 + i] = [usual[code] for code in codes[at].tolist()]
            has = beside[at, i] >= 0
            cells[at[has], place[has], 3 + i] = contrast.values(c, beside[at[has], i])
    names = [one.name[:_NAME] for one in contrast.columns]

    def packed(n: int) -> dict[str, Any]:
        words, codes = np.unique(cells[:n].ravel().astype(np.str_), return_inverse=True)
        steps = np.round((scores[:n] + LARGEST) * _SCORE_STEPS).astype(np.uint8)
        arrays = {"column": smallest(columns[:n]), "score": steps, "cell": smallest(codes)}
        return {"packed": pack(arrays), "words": pack_json([names, words.tolist()])}

    n, found = len(rows), packed(len(rows))
    while n and (size := sum(len(one) for one in (found["packed"]["data"], found["words"]))) > budget:
        n = int(0.95 * n * budget / size)
        found = packed(n)
    if n < len(rows):
        left_out.append(f"What columns say about all but {n:,} rows.")
    facts = {"rows": n, "perRow": columns.shape[1], "most": LARGEST, "steps": _SCORE_STEPS}
    return {"features": found | facts} if n else {}


def _cells(audit: LabelAudit, rows: Index, budget: int, left_out: list[str]) -> dict[str, Any]:
    """All values of rows that a person may judge, by row, and the names of their columns."""
    less = choose_values(audit, rows)
    names, values, n_more = next(less)
    packed = pack_json(values)
    while len(packed) > budget and (found := next(less, None)):
        names, values, n_more = found
        packed = pack_json(values)
    if len(packed) > budget:
        packed, n_found = _within(values, budget)
        left_out.append(f"The values of all but {n_found:,} of the rows that can be judged.")
    if n_more:
        left_out.append(f"The values of the last {n_more:,} columns.")
    return {"cells": packed, "cellNames": pack_json(names), "cellsMore": n_more}


def _words(audit: LabelAudit, texts: Values, rows: Index, best: Codes) -> str:
    """Words that speak most for either label of rows, with their scores."""
    contrast = audit.contrast_words(texts)
    pairs = zip(rows.tolist(), audit.given_code[rows].tolist(), best.tolist(), strict=True)
    return pack_json(
        [
            [(word[:_NAME], round(score, 1)) for word, score in contrast.words_of(texts[row], given, other)]
            for row, given, other in pairs
        ]
        if contrast
        else []
    )


def _steps(shares: Array) -> NDArray[np.uint16]:
    return np.round(shares * _STEPS).astype(np.uint16)


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
        # 1 is worth a look, 2 is wrong.
        "mapTier": audit.is_suspect[drawn].astype(np.uint8) + audit.is_wrong[drawn],
    }


def draw_map(rows: Array, seed: int = 0) -> Array:
    """Return two coordinates in [0, 1] for every row, by t-SNE of some; the others lie beside their nearest ones."""
    n, rng = len(rows), np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(n)[:_LANDMARKS])
    points, perplexity = rows[chosen].astype(np.float32), min(_PERPLEXITY, (len(chosen) - 1) / 3)
    with one_blas_thread():  # there is too little work to share
        flat = lay_out(points, perplexity, seed)
    out = np.empty((n, 2), dtype=np.float32)
    out[chosen] = flat
    others = np.setdiff1d(np.arange(n), chosen)
    if len(others):
        out[others] = _place_beside(rows[others].astype(np.float32), points, flat, rng)
    return fit_frame(out)


def _place_beside(rows: Array, points: Array, flat: Array, rng: np.random.Generator) -> Array:
    """Place rows between their nearest landmarks, spread a little so that they do not hide each other."""
    norms = (rows * rows).sum(axis=1)[:, None] + (points * points).sum(axis=1)
    far = np.maximum(norms - 2.0 * rows @ points.T, 0.0)
    near = np.argpartition(far, _BESIDE - 1, axis=1)[:, :_BESIDE]
    closeness = 1.0 / (np.take_along_axis(far, near, axis=1) + 1e-12)
    closeness /= closeness.sum(axis=1, keepdims=True)
    middle = (closeness[:, :, None] * flat[near]).sum(axis=1)
    spread = np.abs(flat[near] - middle[:, None]).mean(axis=(1, 2))
    found: Array = middle + 0.5 * spread[:, None] * rng.normal(size=(len(rows), 2))
    return found


def fit_frame(flat: Array) -> Array:
    """Scale coordinates to [0, 1]; the few that are far out are drawn at the edge."""
    low, high = np.percentile(flat, _EDGES, axis=0)
    return np.clip((flat - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)


def choose_rows(is_suspect: NDArray[np.bool_], order: Index, most: int, seed: int = 0) -> Index:
    """Choose rows to draw: the most doubtful suspects, up to a third, and a uniform sample of the others, shuffled."""
    suspects = order[: min(int(is_suspect.sum()), most // 3)]
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.flatnonzero(~is_suspect))[: most - len(suspects)]
    return rng.permutation(np.concatenate([suspects, others]))


def _names(name: str, values: Values, shown: list[int], budget: int, left_out: list[str]) -> dict[str, Any]:
    """Names of all rows if they are short, otherwise of those that are shown."""
    texts = [str(one) for one in (values.tolist() if isinstance(values, np.ndarray) else values)]
    packed = pack_json(texts)
    if len(packed) <= budget:
        return {"idName": name, "ids": packed}
    packed, n_found = _within({row: texts[row] for row in shown}, budget)
    left_out.append(f"{name} of all but {n_found:,} rows; cleaned labels are numbered by row instead.")
    return {"idName": name, "someIds": packed}


def _texts(texts: Values, shown: list[int], judged: Index, budget: int, left_out: list[str]) -> str:
    """Beginnings of texts, by row: long ones of rows to judge, of the others as long as there is room for all."""
    is_judged = set(judged.tolist())
    for longest in _TEXT:
        cut = {row: _shorten(str(texts[row]), _TEXT[0] if row in is_judged else longest) for row in shown}
        if longest > _TEXT[-1] and sum(map(len, cut.values())) > _DEFLATED * budget:
            continue
        packed, n_found = _within(cut, budget)
        if n_found == len(shown):
            break
    left_out.append(f"Texts of all but {n_found:,} rows, and what is longer than {longest:,} characters.")
    return packed


def _shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _within(texts: dict[int, Any], budget: int) -> tuple[str, int]:
    """As many of the first texts as fit, packed, and how many those are."""
    packed = pack_json(texts)
    while len(packed) > budget and texts:
        n_kept = int(0.95 * len(texts) * budget / len(packed))
        texts = dict(islice(texts.items(), n_kept))
        packed = pack_json(texts)
    return packed, len(texts)


def _pictures(images: Values, order: Index, near: Index, budget: int, left_out: list[str]) -> dict[int, str]:
    # A suspect and what it is compared with, before the next suspect.
    pairs = zip(order.tolist(), [*near.tolist(), *([()] * len(order))], strict=False)
    found, unread = thumbnails(images, (one for row, others in pairs for one in (row, *others)), budget)
    left_out.append(f"Pictures of all but {len(found):,} rows.")
    if unread:
        left_out.append(f"{len(unread):,} pictures that could not be read, the first {str(images[unread[0]])!r}.")
    return found


def smallest(values: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return whole numbers from 0 on in as few bytes as they need."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def pack(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Pack arrays one after the other, little-endian; ``layout`` says name, kind and length of each."""
    layout, parts = [], []
    for name, values in arrays.items():
        kind = values.dtype.newbyteorder("<")
        layout.append([name, f"{kind.kind}{kind.itemsize}", int(values.size)])
        parts.append(np.ascontiguousarray(values, dtype=kind).tobytes())
    return {"layout": layout, "data": _deflated(b"".join(parts))}


def pack_json(value: Any) -> str:
    """A JSON value as deflated text."""
    return _deflated(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace"))


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()
