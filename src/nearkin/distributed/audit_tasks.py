"""What a worker does for an audit: pure functions of plain values and files, so that any worker can do it again.

Batches lie on a grid of row numbers that neither files nor workers change, and each is computed by itself; so its bits
are the same whoever does it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin._version import __version__
from nearkin.arrays import Array, Codes, Index
from nearkin.distributed.counts import Cells, Survey, draw_keys
from nearkin.distributed.tasks import read_batches
from nearkin.errors import InputError
from nearkin.jury import JudgedRows, JuryDecision, SuspectRules
from nearkin.jury.local_scaling import narrow
from nearkin.labels import sorted_classes
from nearkin.noise import rate_labels, suggest_labels
from nearkin.noise.model import split_rows
from nearkin.rows import Rows, Scaling, check_range
from nearkin.saving import read_tree, write_tree
from nearkin.streams import Batch

__all__ = ["DOUBTED", "Judge", "draw_share", "judge_share", "survey_share"]

#: What is kept of an outvoted label: number of the row, label, the best other one and its share of the votes, and what
#: `rate_labels` says.
DOUBTED = np.dtype(
    [("row", "<i8"), ("code", "<i4"), ("best", "<i4"), ("share", "<f8"), ("plausibility", "<f8"), ("score", "<f8")]
)

#: The jury that this worker has read last, by its digest.
_judges: dict[str, Judge] = {}


@dataclass
class Judge:
    """A jury that judges rows other than its own: how rows are scaled, its own rows, scaled, and its decision on them.

    Parameters
    ----------
    scaling : Scaling
        Learned from all rows.
    rows : ndarray of shape (n_members, n_features)
        Rows that the jury knows, scaled.
    decision : JuryDecision
        What it says about these.
    """

    scaling: Scaling
    rows: Array
    decision: JuryDecision

    def save(self) -> tuple[bytes, str]:
        """Return the jury as bytes, and their digest."""
        file = io.BytesIO()
        write_tree(vars(self), file)
        return file.getvalue(), hashlib.sha256(file.getbuffer()).hexdigest()

    @classmethod
    def load(cls, path: str, digest: str) -> Judge:
        """Read a jury, unless it was the last one that was read."""
        if digest not in _judges:
            data = Path(path).read_bytes()
            if hashlib.sha256(data).hexdigest() != digest:
                raise OSError(f"{path} is not the jury of this audit; has another run written it?")
            _judges.clear()
            _judges[digest] = cls(**read_tree(io.BytesIO(data)))
        return _judges[digest]

    def judge(self, X: Array, codes: Codes, numbers: Index) -> tuple[NDArray[Any], Index]:
        """Return the outvoted labels of rows, and the cell of every label; see `Cells`."""
        scaled = Rows(X, self.scaling)
        check_range(scaled, "distributed.audit", "Is that value right?")
        decision = self.decision
        noise, cells = decision.noise, Cells(len(decision.classes))
        judged = JudgedRows.beside(self.rows, np.ascontiguousarray(narrow(scaled.take(slice(None)))))
        votes_on = judged.votes_on(decision.jury, decision.heard)
        doubted, numbered = [], [np.zeros(0, np.int64)]
        for part in split_rows(len(codes), noise.n_classes):
            votes, own = votes_on(part), codes[part]
            plausibility, score = rate_labels(votes.__getitem__, own, noise)
            is_outvoted = score < SuspectRules.outvoted
            best, share = suggest_labels(
                lambda at, votes=votes, own=own: noise.joint(noise.sharpened(votes[at]), own[at]),  # type: ignore[misc]
                own, np.zeros(len(own)), is_outvoted, noise.n_classes,
            )  # fmt: skip
            numbered.append(cells.number(plausibility, is_outvoted, own))
            which = np.flatnonzero(is_outvoted)
            found = np.empty(len(which), DOUBTED)
            for name, values in zip(
                DOUBTED.names or (), (numbers[part], own, best, share, plausibility, score), strict=True
            ):
                found[name] = values[which]
            doubted.append(found)
        return np.concatenate([np.zeros(0, DOUBTED), *doubted]), np.concatenate(numbered)


def _share(work: dict[str, Any], first_row: int, use: Callable[[Batch, Index], Any]) -> dict[str, Any]:
    """Return what ``use`` makes of each batch and the numbers of its rows, or the first error."""
    at = first_row

    def count(batch: Batch) -> Any:
        nonlocal at
        numbers, at = at + np.flatnonzero(batch.kept), at + batch.n_rows
        with batch.placed():
            return use(batch, numbers)

    found = read_batches(work, count)
    return found if "error" in found else {"found": found["results"], "nearkin": __version__}


def survey_share(work: dict[str, Any]) -> dict[str, Any]:
    """Return a `Survey` of each batch, or an error."""

    def look(batch: Batch, _: Index) -> dict[str, Any]:
        labels, codes = sorted_classes(batch.y)
        return asdict(Survey.look(batch.X, labels, np.bincount(codes, minlength=len(labels)), batch.n_dropped))

    return _share(work, 0, look)


def draw_share(work: dict[str, Any], first_row: int, seed: int, bounds: bytes) -> dict[str, Any]:
    """Return rows whose keys are within the bounds of their classes, with codes and keys, or an error."""
    classes, most = read_tree(io.BytesIO(bounds))

    def draw(batch: Batch, numbers: Index) -> tuple[Array, Codes, NDArray[np.uint64]]:
        codes, keys = _code(batch, classes), draw_keys(seed, numbers)
        drawn = np.flatnonzero(keys <= most[codes])
        return batch.X[drawn], codes[drawn], keys[drawn]

    return _share(work, first_row, draw)


def judge_share(work: dict[str, Any], first_row: int, path: str, digest: str) -> dict[str, Any]:
    """Return outvoted labels, and how many labels every cell holds, or an error."""
    numbered = []

    def judge(batch: Batch, numbers: Index) -> NDArray[Any]:
        known = Judge.load(path, digest)
        doubted, cells = known.judge(batch.X, _code(batch, known.decision.classes.tolist()), numbers)
        numbered.append(cells)
        return doubted

    found = _share(work, first_row, judge)
    if "error" in found:
        return found
    cells, counts = np.unique(np.concatenate(numbered), return_counts=True)
    return {"doubted": np.concatenate(found["found"]), "cells": cells, "counts": counts, "nearkin": __version__}


def _code(batch: Batch, classes: list[Any]) -> Codes:
    """Return the labels of a batch as positions among the classes."""
    labels, codes = sorted_classes(batch.y)
    place = {one: at for at, one in enumerate(classes)}
    if new := [one for one in labels.tolist() if one not in place]:
        raise InputError(f"the label {new[0]!r} is new; has the file changed during the audit?")
    return np.array([place[one] for one in labels.tolist()], dtype=np.int64)[codes]
