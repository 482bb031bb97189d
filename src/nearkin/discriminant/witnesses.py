"""Rows that vote on the labels of others near them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nearkin.arrays import Array, Codes
from nearkin.kernels import worker_pool
from nearkin.kernels.neighbours import Neighbours, Panels, judge, pack
from nearkin.stored import ArrayOf, stored

__all__ = ["PAIRS", "VOTERS", "Witnesses"]

#: Nearest witnesses that vote, and those of each kind that make a pair with a row.
VOTERS, PAIRS = 10, 10

#: Distances that one thread computes at a time.
_TABLE = 1 << 20


@stored(
    rows=ArrayOf("m", "p", of="doubles"),
    codes=ArrayOf("m", of="codes", low=0),
    weight=ArrayOf("m", of="doubles", low=0.0, high=1.0),
    placed=ArrayOf("m", "r", dtype="T"),
)
@dataclass(frozen=True)
class Witnesses:
    """Rows that speak for their classes, with the weight of each, before and after the map."""

    rows: Array
    codes: Codes
    weight: Array
    placed: Array

    def vote(self, scores: Array) -> Codes:
        """Class with most votes of the witnesses with the largest scores, for every row of a table of scores."""
        classes, place = np.unique(self.codes, return_inverse=True)
        k = min(VOTERS, len(place))
        nearest = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        votes = np.zeros((len(scores), len(classes)))
        np.add.at(votes, (np.arange(len(scores))[:, None], place[nearest]), self.weight[nearest])
        chosen: Codes = classes[votes.argmax(axis=1)]
        return chosen

    @cached_property
    def _panels(self) -> Panels:
        return pack(self.placed, self.codes, self.weight)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_panels"}

    def judge(self, mapped: Array, codes: Codes, k: int = PAIRS, voters: tuple[int, ...] = (VOTERS,)) -> Neighbours:
        """Nearest witnesses of both kinds of mapped rows, and margins; see `nearkin.kernels.neighbours.judge`."""
        panels = self._panels
        step = max(1, _TABLE // max(1, len(self.rows)))
        if len(mapped) <= step:
            return judge(mapped, codes, panels, k, voters)
        parts = [slice(start, start + step) for start in range(0, len(mapped), step)]
        with worker_pool() as run:
            found = run(lambda part: judge(mapped[part], codes[part], panels, k, voters), parts)
        *lists, margins = zip(*found, strict=True)
        own, other, near, far = (np.concatenate(part) for part in lists)
        return Neighbours(own, other, near, far, np.concatenate(margins, axis=1))
