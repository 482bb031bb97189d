"""Sums over rows and pairs of neighbours, and the map in closed form that follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from nearkin.arrays import Array, Codes, Index
from nearkin.discriminant.witnesses import PAIRS, Witnesses
from nearkin.kernels.neighbours import sum_by_class, sum_pairs

__all__ = ["Sums"]

#: What is left of a direction that tells nothing, as a share of the best one's squared length.
_FLOOR = 0.07

#: What decides between directions that tell the same: far above rounding, far below what matters.
_TIE = 1e-6


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of a sample: by class their weight and sum, and the scatter of pairs of neighbours."""

    counts: Array
    totals: Array
    near: Array
    far: Array
    near_weight: float = 0.0
    far_weight: float = 0.0

    @classmethod
    def none(cls, n_classes: int, p: int) -> Sums:
        return cls(np.zeros(n_classes), np.zeros((n_classes, p)), np.zeros((p, p)), np.zeros((p, p)))

    @classmethod
    def pooled(cls, X: Array, codes: Codes) -> Sums:
        """Sums before there are neighbours: rows are compared with the mean of their class."""
        n_classes = int(codes.max()) + 1
        counts = np.bincount(codes, minlength=n_classes).astype(np.float64)
        totals = sum_by_class(X, codes, np.ones(len(X)), n_classes)
        rest = X - (totals / np.maximum(counts, 1.0)[:, None])[codes]
        return cls(counts, totals, rest.T @ rest, np.zeros((X.shape[1],) * 2), float(len(X)))

    def plus(self, X: Array, codes: Codes, weight: Array, witnesses: Witnesses, own: Index, other: Index) -> Sums:
        """Add rows, their weights and their nearest witnesses of both kinds."""
        n_classes = max(len(self.counts), int(codes.max(initial=0)) + 1)
        more = n_classes - len(self.counts)
        (near, near_weight), (far, far_weight) = _scatter(X, weight, witnesses, own[:, :PAIRS], other[:, :PAIRS])
        return Sums(
            np.pad(self.counts, (0, more)) + np.bincount(codes, weight, n_classes),
            np.pad(self.totals, ((0, more), (0, 0))) + sum_by_class(X, codes, weight, n_classes),
            self.near + near, self.far + far, self.near_weight + near_weight, self.far_weight + far_weight,
        )  # fmt: skip

    def find_map(self, r: int) -> Array:
        """The map of shape (r, p), the most telling directions first; the mean squared distance to a neighbour of the
        same class is 1. Before there are two classes, or anything to tell, it changes nothing.
        """
        p = len(self.near)
        live = self.counts > 0
        near = self.near / max(self.near_weight, np.finfo(np.float64).tiny)
        size = float(np.trace(near))
        if np.count_nonzero(live) < 2 or not 0.0 < size < np.inf or not np.isfinite(near).all():
            return np.eye(r, p)
        n_live = int(np.count_nonzero(np.diag(near) > 1e-12 * np.diag(near).max()))
        shrinkage = np.clip(n_live / max(1.0, self.counts.sum()), 0.1, 0.9)
        whole = (1.0 - shrinkage) * near
        whole[np.diag_indices(p)] += shrinkage * size / n_live
        white = _whiten(whole)
        share = self.counts[live] / self.counts[live].sum()
        means = self.totals[live] / self.counts[live][:, None]
        means = ((means - share @ means) @ white) * np.sqrt(share)[:, None]
        between = means.T @ means
        between /= max(float(np.linalg.eigvalsh(_smaller(means))[-1]), np.finfo(np.float64).tiny)
        near_white = white.T @ near @ white
        if self.far_weight > 0.0:
            between = 0.5 * (between + _excess(white.T @ self.far @ white, near_white))
        between += _TIE * near_white  # of directions that tell nothing those come first in which rows vary most
        if not np.isfinite(between).all():
            return np.eye(r, p)
        telling, turn = np.linalg.eigh(between)
        telling, turn = np.maximum(telling[::-1], 0.0), turn[:, ::-1]
        found = ((white @ turn) * np.sqrt(_FLOOR + telling / max(telling[0], np.finfo(np.float64).tiny))).T[:r]
        found /= np.sqrt(2.0 * np.vdot(found @ near, found))
        return found if np.isfinite(found).all() else np.eye(r, p)


def _scatter(X: Array, weight: Array, witnesses: Witnesses, *lists: Index) -> list[tuple[Array, float]]:
    """Half the weighted scatter of all pairs of a row with its witnesses, -1 for none, and the weight of all pairs.

    For every list of witnesses. With the weights C of all pairs, their sums by row D and by witness E, the scatter is
    ``X'(D X - C W) + W'(E W - C'X)``, the part of which that mixes both is half in each.
    """
    W = witnesses.rows
    centre = W.mean(axis=0)  # far from the origin little would be left of the differences
    X, W = X - centre, W - centre
    pulls, shares = sum_pairs(X, weight, W, witnesses.weight, lists)
    found, p = [], X.shape[1]
    crossed = X.T @ pulls.reshape(len(X), len(lists) * p)
    for i, share in enumerate(shares):
        mixed = crossed[:, i * p : (i + 1) * p]
        found.append((0.5 * (mixed + mixed.T + (W.T * share) @ W), float(share.sum())))
    return found


def _whiten(A: Array) -> Array:
    """A matrix B with ``B' A B = 1``, triangular where rounding has left A positive definite."""
    factor, failed = dpotrf(A, lower=0, clean=1)
    inverse, singular = dtrtri(factor, lower=0)
    if not failed and not singular:
        return inverse
    values, vectors = np.linalg.eigh(A)
    return vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))


def _smaller(A: Array) -> Array:
    """The smaller one of ``A A'`` and ``A'A``, which have the same largest eigenvalue."""
    return A @ A.T if len(A) <= A.shape[1] else A.T @ A


def _excess(far: Array, near: Array) -> Array:
    """Where pairs of other classes scatter more than pairs of the own, both in whole; the largest excess is 1."""
    difference = far / max(np.trace(far), 1e-300) - near / max(np.trace(near), 1e-300)
    if not np.isfinite(difference).all():
        return np.zeros_like(difference)
    values, vectors = np.linalg.eigh(difference)
    values = np.maximum(values, 0.0)
    return (vectors * (values / max(values[-1], 1e-300))) @ vectors.T
