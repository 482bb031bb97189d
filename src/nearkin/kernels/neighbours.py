"""The nearest witnesses of every row, of its own class and of others, and what they say about its label.

Distances are sums of squared differences in single precision, feature by feature, so that each depends on its two
vectors alone: neither chunks nor threads change a bit of it. Few witnesses are compared in NumPy, because compiling the
loop would take a hundred times as long as the work; many by `nearkin.kernels.witnesses`. The number of witnesses alone
decides, and both ways find the same.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.machine import LANES

#: Squared distance below which a witness is taken for the row itself, as a share of its mean over all witnesses.
_ZERO = 1e-12

#: Most witnesses that are compared without compiled code.
FEW = 128

#: Witnesses are padded to a multiple of this number.
_GROUPS = 2 * LANES

#: Largest coordinate of a witness when scaled: squares, and those of 1e-25 and 1e12 of it, fit single precision.
_FARTHEST = 2.0**20


class Neighbours(NamedTuple):
    """Nearest witnesses of rows, nearest first, with their squared distances; -1 where there is no witness.

    Row i of ``margins`` holds the margins by the i-th number of voters.
    """

    own: NDArray[np.int64]
    other: NDArray[np.int64]
    near: NDArray[np.float32]
    far: NDArray[np.float32]
    margins: NDArray[np.float64]


class Panels(NamedTuple):
    """Witnesses in the order in which rows are compared with them; see `pack`."""

    panels: NDArray[np.float32]
    codes: NDArray[np.int64]
    weight: NDArray[np.float64]
    #: First witness of every class and of none; the share of every class in all weight.
    first: NDArray[np.int64]
    share: NDArray[np.float64]
    centre: NDArray[np.float64]
    scale: float
    #: Mean squared distance from the centre, scaled.
    spread: float


def pack(placed, codes, weight):
    """Witnesses as vectors of single precision, centred and scaled, neighbouring ones side by side.

    The centre has few digits, so that differences of whole numbers stay exact.
    """
    m, r = placed.shape
    check_shapes("m r, m, m", placed, codes, weight)
    if codes.min() < 0 or (np.diff(codes) < 0).any():
        raise InputError("witnesses must be ordered by class. Was a file changed? Fit it again.")
    placed = placed.astype(np.float64, copy=False)
    centre = placed.mean(axis=0)
    size = np.abs(placed - centre).max() or np.abs(placed).max() or 1.0
    exponent = np.frexp(max(size, 1e-250))[1]
    centre = np.ldexp(np.rint(np.ldexp(centre, 8 - exponent)), exponent - 8)
    scale = float(np.ldexp(_FARTHEST, -exponent))
    centred = (placed - centre) * scale
    panels = np.zeros((-(-m // _GROUPS) * _GROUPS, r), np.float32)
    panels[:m] = centred
    panels = np.ascontiguousarray(panels.reshape(-1, LANES, r).transpose(0, 2, 1))
    n_classes = int(codes[-1]) + 1
    share = np.bincount(codes, weight, n_classes)
    share /= max(share.sum(), np.finfo(np.float64).tiny)
    first = np.searchsorted(codes, np.arange(n_classes + 1))
    return Panels(panels, codes, weight, first, share, centre, scale, float(np.einsum("ij,ij->", centred, centred)) / m)


def judge(rows, row_class, witnesses, k, voters):
    """The k nearest witnesses of each row's own class and of all others, and margins by several numbers of voters.

    Of equal distances those go first that belong to the row's own class, then those of lower numbers. One witness of
    its class at no distance (`_ZERO`) is taken for the row itself, and left out. The nearest of all vote with their
    weights. A class has as many votes as witnesses, so the share of a class with fewer witnesses than voters is counted
    against what it could have. With the share q of the own class in the votes for it and for the best other, the margin
    is ``4 q - 1.5``: 1 where five of eight are for the label, negative where five of eight are against it. A class
    without any witness has all votes.
    """
    n = len(rows)
    check_shapes("n r, n", rows, row_class, r=witnesses.panels.shape[1])
    if row_class.min(initial=0) < 0:
        raise InputError("classes of rows must not be negative. Was a file changed? Fit it again.")
    moved = rows - witnesses.centre
    moved *= witnesses.scale
    found = Neighbours(
        np.full((n, k), -1, np.int64), np.full((n, k), -1, np.int64), np.empty((n, k), np.float32),
        np.empty((n, k), np.float32), np.empty((len(voters), n)),
    )  # fmt: skip
    few = len(witnesses.codes) <= FEW
    with np.errstate(over="ignore"):  # infinitely far is a distance, too
        (_judge_few if few else _judge_many)(moved, row_class, witnesses, voters, found)
    return found


def _judge_many(moved, row_class, witnesses, voters, found):
    from nearkin.kernels.witnesses import HELD, TILE, judge

    n, most = len(moved), max(found.own.shape[1], *voters)
    centred = np.zeros((-(-n // TILE) * TILE, moved.shape[1]), np.float32)
    centred[:n] = moved
    held = np.empty(HELD * LANES * len(witnesses.panels) + _GROUPS, np.float32)
    counts = np.zeros(len(witnesses.share)), np.empty(_GROUPS + 1, np.int64)
    scales = 1.0 / witnesses.scale, witnesses.spread
    judge(centred, row_class, witnesses[:5], scales, _ZERO, np.array(voters), most, held, counts, found)


def _judge_few(moved, row_class, witnesses, voters, found):
    m, most, unit = len(witnesses.codes), max(found.own.shape[1], *voters), 1.0 / witnesses.scale
    rows, is_own = moved.astype(np.float32), witnesses.codes == row_class[:, None]
    points = witnesses.panels.transpose(0, 2, 1).reshape(-1, rows.shape[1])[:m]
    table = np.zeros(is_own.shape, np.float32)
    for x, z in zip(rows.T, points.T, strict=True):
        table += (z - x[:, None]) ** 2
    mean = witnesses.spread + np.square(rows, dtype=np.float64).sum(axis=1)
    is_twin = is_own & (table <= _ZERO * mean[:, None])
    twin = np.flatnonzero(is_twin.any(axis=1))
    table[twin, is_twin[twin].argmax(axis=1)] = np.inf
    n_witnesses = is_own.sum(axis=1)
    n_witnesses[twin] -= 1
    # Those of the own class first, then the others: of equal distances the first goes first.
    at, values = (np.concatenate(both, axis=1) for both in zip(
        *(_order(np.where(mine, table, np.inf), most) for mine in (is_own, ~is_own)), strict=True,
    ))  # fmt: skip
    half = at.shape[1] // 2
    for out, far, first in ((found.own, found.near, 0), (found.other, found.far, half)):
        part = slice(first, first + min(half, out.shape[1]))
        here = slice(part.stop - part.start)
        out[:, here] = np.where(values[:, part] < np.inf, at[:, part], -1)
        far[:, here] = values[:, part].astype(np.float64) * unit * unit
    merged, nearest = _order(values, 2 * half)
    at = np.where(nearest < np.inf, np.take_along_axis(at, merged, axis=1), -1)
    has_own = values[:, :1].min(axis=1, initial=np.inf) < np.inf
    for v, size in enumerate(voters):
        found.margins[v] = _margin(at[:, :size], row_class, witnesses, size, np.where(has_own, n_witnesses, -1))


def _order(table, most):
    """Places of the smallest numbers of every row, the smallest first, and these numbers."""
    at = np.argsort(table, axis=1, kind="stable")[:, :most]
    return at, np.take_along_axis(table, at, axis=1)


def _margin(at, row_class, witnesses, size, n_witnesses):
    """Margins by the voters ``at``, -1 for none; ``n_witnesses`` counts those of a row's own class, -1 for none."""
    kinds, place, n_each = np.unique(witnesses.codes, return_inverse=True, return_counts=True)
    row, which = np.nonzero(at >= 0)
    voter = at[row, which]
    cells, shape = row * len(kinds) + place[voter], (len(at), len(kinds))
    votes = np.bincount(cells, witnesses.weight[voter], np.prod(shape)).reshape(shape) + witnesses.share[kinds]
    is_heard = np.bincount(cells, minlength=np.prod(shape)).reshape(shape) > 0
    known = np.flatnonzero(n_witnesses >= 0)
    own = known, np.searchsorted(kinds, row_class[known])
    for_it, is_heard[own] = np.ones(len(at)), False
    for_it[known] = votes[own] * np.maximum(1.0, size / np.maximum(1, n_witnesses[known]))
    rivals = np.where(is_heard, votes * np.maximum(1.0, size / n_each), 0.0)
    best = np.where(n_witnesses >= 0, rivals.max(axis=1, initial=0.0), 0.0)
    return 4.0 * for_it / np.maximum(for_it + best, 1e-300) - 1.5


def sum_pairs(rows, row_weight, witnesses, weight, lists):
    """Sums over the pairs of each row x with its witnesses z, whose numbers are in one of the lists (-1 for none).

    Every pair weighs ``c``, the product of both weights. Returns ``sum c (x / 2 - z)`` of every row, of shape
    (n, lists, d), and the sum of c of every witness, of shape (lists, m).
    """
    which = np.stack(lists)
    check_shapes(
        "n d, n, m d, m, l n k",
        rows,
        row_weight,
        witnesses,
        weight,
        which,
        l=len(lists),
        k=which.shape[2],
    )
    if which.max(initial=-1) >= len(witnesses):
        raise InputError("neighbours must be witnesses.")
    n, m, pulls, shares = len(rows), len(witnesses), np.empty((len(rows), len(which), rows.shape[1])), []
    starts = np.arange(n + 1) * which.shape[2]
    for side, one in enumerate(which):
        pair = np.where(one >= 0, row_weight[:, None] * weight[one], 0.0)
        table = sparse.csr_array((pair.ravel(), np.maximum(one, 0).ravel(), starts), shape=(n, m))
        np.multiply(0.5 * pair.sum(axis=1)[:, None], rows, out=pulls[:, side])
        pulls[:, side] -= table @ witnesses
        shares.append(np.bincount(table.indices, table.data, m))
    return pulls, np.stack(shares)


def sum_by_class(rows, codes, weight, n_classes):
    """Sum of the rows of every class, each row times its weight."""
    check_shapes("n d, n<c, n", rows, codes, weight, c=n_classes)
    return sparse.csc_array((weight, codes, np.arange(len(codes) + 1)), shape=(n_classes, len(codes))) @ rows


def combine(found, is_anchor, is_trusted, n_targets, n_impostors, margin):
    """Triplets of anchors with their nearest trusted witnesses, every target with every impostor.

    Only those with an impostor that is farther than the target by less than ``margin``. Returns the numbers of anchors,
    positives and negatives.
    """
    check_shapes("n k, n k, n k, n k, n", *found[:4], is_anchor, n=len(is_anchor))
    if max(found.own.max(initial=-1), found.other.max(initial=-1)) >= len(is_trusted):
        raise InputError("neighbours must be witnesses.")
    own, near = _first_trusted(found.own, found.near, is_trusted, n_targets)
    other, far = _first_trusted(found.other, found.far, is_trusted, n_impostors)
    gap = far[:, None, :] - near[:, :, None]
    is_pair = is_anchor[:, None, None] & (own >= 0)[:, :, None] & (other >= 0)[:, None, :]
    anchor, a, b = np.array(np.nonzero(is_pair & (gap < np.float32(margin))))
    return anchor, own[anchor, a], other[anchor, b]


def _first_trusted(which, values, is_trusted, n):
    """The first n trusted witnesses of every row, -1 for none, and their distances."""
    found = np.where(is_trusted[which], which, -1)  # where it was -1, it stays
    at = np.tile(np.arange(min(n, which.shape[1])), (len(which), 1))
    some = np.flatnonzero((found[:, :n] < 0).any(axis=1))
    at[some] = np.argsort(found[some] < 0, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(found, at, axis=1), np.take_along_axis(values, at, axis=1)
