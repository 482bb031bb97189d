"""The page: figures and words around the data, in one file that needs nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearkin import progress
from nearkin._version import __version__
from nearkin.audit.decisions import digest_file
from nearkin.audit.exports import MIN_CONFIDENCE, NOTHING, Columns, Values, describe_rate
from nearkin.audit.page.contents import collect
from nearkin.errors import printable
from nearkin.noise.estimate import LEVEL
from nearkin.pages import Page

if TYPE_CHECKING:
    from nearkin.audit.consensus import Consensus
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["read_source", "render_page"]

#: Parts of the script, in the order in which they run.
_SCRIPTS = ("sample", "ledger", "map", "files", "review", "check", "page")
#: Classes of the matrix; with more the most frequent pairs are listed.
_MATRIX, _PAIRS = 16, 24
#: Characters of a class that head a column of the matrix; a number takes the place of longer ones.
_HEAD = 8
#: Classes that are listed with their suspects.
_CLASSES = 10
_BINS = 20
#: Bytes of a page, and more.
_LARGEST = 1 << 23
#: Columns of the table that are listed.
_COLUMNS = 500
#: Rows to ask again that are listed.
_ASKED = 20
#: Annotators that are listed, of the best and of the worst.
_SHOWN = 50
#: Confidence from which suggested labels are taken, to choose from.
_BOUNDS = (0, 0.5, 0.7, MIN_CONFIDENCE, 0.9)


def render_page(
    audit: LabelAudit, *, title: str, ids: Columns, texts: Values | None, images: Values | None,
    notes: Mapping[str, str], source: Path | None = None, consensus: Consensus | None = None,
) -> str:  # fmt: skip
    """Return one HTML page that needs nothing else; see `LabelAudit.to_html`."""
    page, sample = Page(__package__, "audit", _SCRIPTS), audit.review_sample()
    n_asked = len(sample.to_review)
    known = source.name if source else notes.get("Data"), notes.get("Label"), digest_file(source) if source else None
    progress.begin("looking at the data")
    findings = audit.findings
    data, left_out = collect(audit, ids, texts, images, sample, known, page.size)
    return page.render(
        title, audit=audit, level=round(100 * LEVEL), left_out=left_out, data=data,
        findings=findings, columns=_tell_columns(audit), sample_size=n_asked, enough=sample.n_enough,
        notes=_notes(audit) | dict(notes), **_figures(audit),
        id_name=next(iter(ids), None), has_texts=texts is not None, has_pictures=images is not None,
        bounds=_BOUNDS, bound=MIN_CONFIDENCE, answered=_answered(consensus, ids),
    )  # fmt: skip


def read_source(path: Path) -> tuple[str | None, str | None] | None:
    """Return the names of the data and of the label that a page was made of; None where a file is no such page."""
    with path.open("rb") as file:
        found = re.search(rb'"source":(\[(?:"(?:[^"\\]|\\.)*"|null|,)*\])', file.read(_LARGEST))
    try:
        data, label, _ = json.loads(found[1]) if found else (None, None, None)
    except ValueError:
        return None
    return (data, label) if found else None


def _notes(audit: LabelAudit) -> dict[str, str]:
    """What was done."""
    model, jury = audit.classifier, audit.decision.jury
    rate = describe_rate(audit)
    if audit.rate_is_estimated:
        rate += f"; counted on the rows on which the votes are most certain, {round(100 * LEVEL)} % interval"
    voters = [
        f"{one.name} ({share} %): {one.votes_with}" for one, share in zip(jury.voters, jury.percents, strict=True)
    ]
    learned = {} if isinstance(model.learner, str) else {"Learner": " ".join(f"{model.learner_!r}".split())}
    return {
        "Rows, features, classes": f"{audit.n_rows:,}, {model.n_features_in_:,}, {len(audit.classes):,}",
        "Voters": "; ".join(voters),
        **learned,
        "Noise rate": rate,
        "Noise by class": "differs" if audit.decision.noise.matrix is not None else "no sign that it differs",
        "Suspects": "rows whose label has few votes against the best other label",
        "Wrong": "suspects whose label is more likely wrong than right: plausibility below 0.5",
        "Worth a look": "all other suspects; cleaned labels keep them unless you decide otherwise",
        "Plausibility": "probability that the label is right, by Bayes' rule on the votes of all voters",
        "Confidence": "probability that the suggested label is right",
        "Map": "t-SNE of the rows in the learned space that votes",
        "Seed": f"{model.random_state}",
        "Numbers of rows": "count from 0, the first row of the data",
        "Made by": f"nearkin {__version__}",
    }


def _tell_columns(audit: LabelAudit) -> list[tuple[str, str]]:
    """What became of the columns of the table."""
    told = [(printable(one.name, 60), printable(one.told)) for one in audit.columns[:_COLUMNS]]
    more = len(audit.columns) - _COLUMNS
    return [*told, ("...", f"and {more:,} more")] if more > 0 else told


def _figures(audit: LabelAudit) -> dict[str, Any]:
    """What the page shows besides the table: the headline, the histogram, the classes that are doubted and confused."""
    return {
        "figures": _headline(audit),
        "bars": _histogram(audit),
        "matrix": _matrix(audit),
        "numbered": max(len(str(one)) for one in audit.classes.tolist()) > _HEAD,
        "pairs": None if len(audit.classes) <= _MATRIX else audit.noise_pairs()[:_PAIRS],
        "by_class": audit.doubt_by_class()[:_CLASSES],
        "codes": {name: code for code, name in enumerate(audit.classes.tolist())},
    }


def _answered(consensus: Consensus | None, ids: Columns) -> dict[str, Any] | None:
    """Who gave the answers, best first, and which rows to ask again; None for labels that were given as such."""
    if consensus is None:
        return None
    names = next(iter(ids.values()), None)
    order = sorted(consensus.annotators, key=lambda one: -one.quality)
    n_left_out = max(0, len(order) - 2 * _SHOWN)
    if n_left_out:
        order = [*order[:_SHOWN], *order[-_SHOWN:]]
    asked = consensus.ask_again[:_ASKED].tolist()
    return {
        "annotators": order,
        "n_left_out": n_left_out,
        "rows": [
            (
                names[i] if names is not None else i,
                consensus.label[i],
                f"{100 * consensus.confidence[i]:.0f}",
                consensus.n_answers[i],
            )
            for i in asked
        ],
        "n_asked": len(consensus.ask_again),
    }


def _headline(audit: LabelAudit) -> dict[str, Any]:
    """What the page says first, and the rate with its interval; the first must agree with the suspects below it."""
    low, high = (100 * one for one in audit.noise_interval)
    rate = 100 * audit.noise_rate
    digits = 0 if rate >= 9.5 else 1
    return {
        "words": _first_words(audit, f"{rate:.{digits}f}"),
        "rate": f"{rate:.{digits}f}",
        "low": f"{low:.{digits}f}",
        "high": f"{high:.{digits}f}",
        # The scale of the little bar ends at a round number beyond the interval.
        "end": 10 * int(np.ceil(max(high, 10.0) / 10 + 1e-9)),
        "bar": (rate, low, high),
    }


def _first_words(audit: LabelAudit, rate: str) -> tuple[str, str, str]:
    """Text before, in and after the figure of the headline."""
    n_wrong, n_look = audit.n_wrong, audit.n_suspects - audit.n_wrong
    if not audit.rate_is_estimated:
        return "The", f"{audit.n_suspects:,}", "most doubtful labels"
    if audit.decision.is_guessing:
        return "These features", "cannot tell", "which labels are wrong"
    if rate != "0.0":
        share = f"{rate}\N{NO-BREAK SPACE}%"
        if not n_wrong:
            return "Perhaps", share, "are wrong, none clearly so"
        is_certain = audit.noise_interval[0] >= NOTHING
        return ("About", share, "of labels look wrong") if is_certain else ("Perhaps", share, "are wrong, or none")
    if n_wrong:
        return "", f"{n_wrong:,}", "label looks wrong" if n_wrong == 1 else "labels look wrong"
    if n_look:
        return "Only", f"{n_look:,}", "label is worth a look" if n_look == 1 else "labels are worth a look"
    return "", "No sign", "of wrong labels"


@dataclass(frozen=True)
class Bar:
    """One bar of the histogram, in the units of its picture: where each part begins, from below, and its height."""

    x: float
    title: str
    parts: tuple[tuple[str, float, float], ...]


def _histogram(audit: LabelAudit) -> list[Bar]:
    """Rows by plausibility; heights are square roots, since hardly any row is doubted."""
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    place = np.minimum((audit.plausibility * _BINS).astype(np.int64), _BINS - 1)
    wrong, doubted = (np.bincount(place[one], minlength=_BINS) for one in (audit.is_wrong, audit.is_suspect))
    whole = np.bincount(place, minlength=_BINS)
    tops = np.sqrt([np.zeros(_BINS), wrong, doubted, whole]) * 100.0 / np.sqrt(whole.max())
    return [
        Bar(
            x=300.0 * i / _BINS,
            title=f"plausibility {edges[i]:.2f} to {edges[i + 1]:.2f}: {whole[i]:,} rows, {wrong[i]:,} of them wrong, "
            f"{doubted[i] - wrong[i]:,} worth a look",
            parts=tuple(
                (name, round(100.0 - top, 2), round(top - low, 2))
                for name, low, top in zip(("bad", "look", "rest"), tops[:3, i], tops[1:, i], strict=True)
            ),
        )
        for i in range(_BINS)
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
