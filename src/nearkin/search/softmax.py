"""Maps of queries learned from many clicks at once: softmax among many items, ridge regression, and their mean.

A map moves a query q to ``q + D (q - mean)``. The softmax asks that a clicked item score above the items that were
clicked for the other queries of a batch, and above those skipped in its own list. Ridge regression brings a query to
the items it clicked, as far as the spread of the queries supports it. Their mean is better than each (see
docs/searching.md), since their errors differ. Clicks that look wrong count less.
"""

from __future__ import annotations

import numpy as np

from nearkin.arrays import Array, Index
from nearkin.search.feedback import Feedback
from nearkin.search.held_out import ShownPairs

__all__ = ["DISAGREE", "Clicks", "click_plausibility", "cut_rank", "learn_map", "learn_ridge", "learn_softmax"]

#: Settings of the softmax: vectors have length 1 in the mean.
_TEMPERATURE, _BATCH, _STEP, _PASSES = 0.07, 128, 0.003, 8
#: Most clicks learned, counting every pass.
_MOST = 400_000
#: Skipped items of the own list that a click is compared with, and their weight beside the batch.
_SKIPPED, _LIST_WEIGHT = 9, 0.3
#: Share of the mean square of the queries that ridge regression adds in every direction.
_RIDGE = 0.1
#: Least weight of a click.
_LEAST = 0.3
#: Below that many standard errors, lists contradict what other queries say.
DISAGREE = -3.0
#: Near queries that speak about a click, among how many, and the fall of the cosine that takes the voice of a query
#: and of an item to 1 / e.
_NEAR, _AMONG, _NEAR_QUERY, _NEAR_ITEM = 64, 4096, 0.1, 0.2


class Clicks:
    """The clicks of a log as vectors of length 1 in the mean, without their common part.

    Parameters
    ----------
    queries, items : ndarray of shape (n, n_features)
        All vectors.
    feedback : Feedback
        The lists to learn from.
    mean : ndarray of shape (n_features,)
        Taken out of the queries before the map, and put back after it.
    """

    def __init__(self, queries: Array, items: Array, feedback: Feedback, mean: Array):
        rows = np.flatnonzero(feedback.relevant)
        of_list = np.repeat(np.arange(len(feedback)), np.diff(feedback.start))[rows]
        self.rows, self.query, self.item = rows, feedback.query[of_list], feedback.item[rows]
        self.feedback, self.of_list = feedback, of_list
        self.worth = feedback.row_worth[rows]
        self._mean = mean
        self._middle = items[self.item].mean(axis=0)
        self._query_unit = _unit(queries[self.query] - mean)
        self._item_unit = _unit(items[self.item] - self._middle)
        self._queries, self._items = queries, items
        self.d, self.dtype = items.shape[1], items.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def asked(self, query: Index) -> Array:
        """Return queries without their mean."""
        return (self._queries[query] - self._mean) * self._query_unit

    def shown(self, item: Index) -> Array:
        """Return items without the middle of the clicked ones."""
        return (self._items[item] - self._middle) * self._item_unit

    @property
    def mean(self) -> Array:
        """What all queries share, on their scale."""
        return self._mean * self._query_unit

    def skipped(self, rng: np.random.Generator) -> Index:
        """Return skipped items of every click's list, at most nine, with -1 where there are fewer."""
        feedback = self.feedback
        begin, length = feedback.start[self.of_list], np.diff(feedback.start)[self.of_list]
        place = np.arange(_SKIPPED + 1) + np.zeros((len(self), 1), dtype=np.int64)
        long = length > _SKIPPED + 1
        place[long] = (rng.random((int(long.sum()), _SKIPPED + 1)) * length[long][:, None]).astype(np.int64)
        inside = place < length[:, None]
        row = np.where(inside, begin[:, None] + place, begin[:, None])
        return np.where(inside & ~feedback.relevant[row], feedback.item[row], -1)


def _unit(rows: Array) -> np.floating:
    """Return what makes the root of the mean square length 1."""
    size = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1).mean()) if len(rows) else 0.0
    return rows.dtype.type(1.0 / size if size > 0 else 1.0)


def learn_map(clicks: Clicks, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return D, the mean of three maps, the plausibility of every click, and whether lists agree with other queries.

    The first map is a softmax among the clicks of a batch. It tells which clicks look wrong; softmax with skipped items
    and ridge regression then trust those less.
    """
    first = learn_softmax(clicks, rng, weight=clicks.worth)
    plausibility, agreement = click_plausibility(clicks, first, rng)
    weight = (_LEAST + (1.0 - _LEAST) * plausibility) * clicks.worth
    second = learn_softmax(clicks, rng, weight=weight, with_lists=True)
    return (first + second + learn_ridge(clicks, weight)) / 3.0, plausibility, agreement


def learn_ridge(clicks: Clicks, weight: Array | None = None) -> Array:
    """Return the D that brings queries nearest to the items they clicked, shrunken to 0."""
    x, y = clicks.asked(clicks.query), clicks.shown(clicks.item)
    w = np.ones(len(clicks)) if weight is None else weight / weight.mean()
    weighted = (x * w[:, None]).astype(np.float64)
    square = weighted.T @ x + _RIDGE * len(x) / clicks.d * np.eye(clicks.d)
    return np.linalg.solve(square, weighted.T @ (y - x)).T.astype(clicks.dtype)


def cut_rank(D: Array) -> Array:
    """Return the nearest D whose rank is a third: the map changes some directions, and leaves the others alone."""
    left, size, right = np.linalg.svd(D.astype(np.float64))
    rank = max(1, len(D) // 3)
    return ((left[:, :rank] * size[:rank]) @ right[:rank]).astype(D.dtype)


def learn_softmax(
    clicks: Clicks, rng: np.random.Generator, *, weight: Array | None = None, with_lists: bool = False,
    average: bool = True, mask: bool = True,
) -> Array:  # fmt: skip
    """Return the D of a softmax among the clicks of a batch: Adam, and the mean of the second half of its way.

    Other clicks of the same query or the same item do not count as negatives (``mask``). ``with_lists`` also
    compares with the skipped items of the same list. Without a mean and a mask this is the plain softmax of textbooks.
    """
    n, d, dtype = len(clicks), clicks.d, clicks.dtype
    D, moment, square = (np.zeros((d, d), dtype) for _ in range(3))
    total, n_total, step = np.zeros((d, d)), 0, 0
    w = np.ones(n, dtype) if weight is None else (weight / weight.mean()).astype(dtype)
    skipped = clicks.skipped(rng) if with_lists else None
    n_passes = max(1, min(_PASSES, round(_MOST / n)))
    n_steps = n_passes * -(-n // _BATCH)
    for _ in range(n_passes):
        order = rng.permutation(n)
        for begin in range(0, n, _BATCH):
            at = order[begin : begin + _BATCH]
            gradient = _softmax_gradient(clicks, D, at, w[at], None if skipped is None else skipped[at], mask)
            step += 1
            moment += 0.1 * (gradient - moment)
            square += 0.001 * (gradient * gradient - square)
            size = _STEP / (1.0 - 0.9**step)
            D -= size * moment / (np.sqrt(square / (1.0 - 0.999**step)) + dtype.type(1e-8))
            if average and step > n_steps // 2:
                total += D
                n_total += 1
    return (total / n_total).astype(dtype) if n_total else D


def _softmax_gradient(
    clicks: Clicks, D: Array, at: Index, weight: Array, skipped: Index | None, mask: bool
) -> Array:  # fmt: skip
    """Return the gradient of the mean weighted loss of some clicks by D."""
    query, item = clicks.query[at], clicks.item[at]
    x, y, m = clicks.asked(query), clicks.shown(item), len(at)
    mapped = x + clicks.mean + x @ D.T
    z = mapped @ y.T
    z /= _TEMPERATURE
    if mask:
        same = (query[:, None] == query) | (item[:, None] == item)
        np.fill_diagonal(same, False)
        z[same] = -np.inf
    if skipped is not None:
        own = clicks.shown(np.maximum(skipped, 0).ravel()).reshape(m, -1, clicks.d)
        more = np.einsum("nd,nkd->nk", mapped, own) / _TEMPERATURE + np.log(_LIST_WEIGHT)
        z = np.concatenate([z, np.where(skipped >= 0, more, -np.inf)], axis=1)
    z -= z.max(axis=1, keepdims=True)
    share = np.exp(z, out=z)
    share /= share.sum(axis=1, keepdims=True)
    share[np.arange(m), np.arange(m)] -= 1.0
    share *= weight[:, None]
    pull = share[:, :m] @ y
    if skipped is not None:
        pull += np.einsum("nk,nkd->nd", share[:, m:].astype(own.dtype), own)
    return (pull.T @ x / (m * _TEMPERATURE)).astype(D.dtype)


# ---------------------------------------------------------------------- which clicks look wrong


def click_plausibility(clicks: Clicks, D: Array, rng: np.random.Generator) -> tuple[Array, float]:
    """Return how plausible every click is, in (0, 1), by what others say, and whether lists agree with other queries.

    Other queries: how often the nearest ones (by the map D) clicked items alike, compared with how often all did; and
    the score of the item among a sample of all. Other impressions: how often the same query, and its neighbours,
    clicked the item or one alike when it was shown, compared with what position alone would bring. The second kind
    counts as far as it agrees with the first, and counts against a click where lists contradict other queries: where
    wrong clicks fall on wrong items only, those may be clicked more.

    The agreement is in standard errors of the mean over queries: are items that other queries speak for clicked more
    than their positions let expect, compared with the rest of the list?
    """
    pairs = ShownPairs.from_feedback(clicks.feedback)
    row = pairs.of_row[clicks.rows]
    usual = pairs.exposure.sum() / max(1.0, len(clicks.feedback.item))
    own = np.log((pairs.clicks[row] - clicks.worth + 0.3) / np.maximum(pairs.exposure[row] - usual + 0.3, 0.05))
    near_clicks, near_exposure = _ask_neighbours(clicks, D, pairs, rng)
    lift = np.log((near_clicks + 0.02) / (near_exposure + 0.02))[row]
    different, number = np.unique(pairs.item, return_inverse=True)
    usual_clicks = _count_alike(clicks, different, rng)[number]
    shares = (one / max(one.sum(), 1e-12) + 1e-7 for one in (near_clicks[row], usual_clicks[row]))
    others = np.log(np.divide(*shares))
    said = _standard(others) + _standard(_log_share(clicks, D, rng))
    shown = _standard(own) + _standard(lift)
    trust = np.clip((_standard(said) * _standard(shown)).mean() / 0.15, 0.0, 1.0)
    left_out = np.maximum(usual_clicks - pairs.clicks * min(1.0, _AMONG / len(clicks)), 0.0)  # as near clicks are
    agreement = _agreement(pairs, np.log((near_clicks + 0.02) / (left_out + 0.02)))
    if agreement < DISAGREE:
        trust = np.maximum(agreement / 10.0, -1.0)
    return 1.0 / (1.0 + np.exp(-(said + trust * shown + 1.5))), agreement


def _agreement(pairs: ShownPairs, voice: Array) -> float:
    """Return by how many standard errors the items with the higher voice of each list get more clicks than expected."""
    query = np.unique(pairs.query, return_inverse=True)[1]
    exposure = np.bincount(query, pairs.exposure)
    usual = np.bincount(query, pairs.exposure * voice) / np.maximum(exposure, 1e-12)
    found = np.bincount(query, (pairs.clicks - pairs.exposure) * (voice - usual[query]))
    error = found.std() / np.sqrt(len(found))
    return float(found.mean() / error) if error > 0 else 0.0


def _standard(values: Array) -> Array:
    spread = values.std()
    return (values - values.mean()) / (spread if spread > 0 else 1.0)


def _directions(rows: Array) -> Array:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(rows.dtype).tiny)


def _ask_neighbours(clicks: Clicks, D: Array, pairs: ShownPairs, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return, for every pair, the clicks and the exposure of pairs alike of the queries nearest to its own."""
    asked, start = np.unique(pairs.query, return_index=True)
    end = np.append(start[1:], len(pairs.query))
    x = clicks.asked(asked)
    x = _directions(x + clicks.mean + x @ D.T)
    heard = np.sort(rng.permutation(len(asked))[:_AMONG])
    n_near = min(_NEAR, len(heard) - 1)
    sums = np.zeros((2, len(pairs.query)))
    if n_near < 1:
        return sums[0], sums[1]
    for begin in range(0, len(asked), 512):
        block = slice(begin, min(begin + 512, len(asked)))
        alike = x[block] @ x[heard].T
        alike[np.arange(block.start, block.stop)[:, None] == heard] = -np.inf  # its own clicks are left out
        near = np.argpartition(-alike, n_near - 1, axis=1)[:, :n_near]
        alike = np.take_along_axis(alike, near, axis=1)
        voice = np.exp((alike - alike.max(axis=1, keepdims=True)) / _NEAR_QUERY)
        for one, others, weight in zip(range(block.start, block.stop), heard[near], voice, strict=True):
            rows = np.concatenate([np.arange(start[other], end[other]) for other in others])
            weight = np.repeat(weight, end[others] - start[others])
            mine = slice(start[one], end[one])
            kernel = _alike(clicks, pairs.item[mine], pairs.item[rows]) * weight
            sums[:, mine] = kernel @ pairs.clicks[rows], kernel @ pairs.exposure[rows]
    return sums[0], sums[1]


def _alike(clicks: Clicks, one: Index, other: Index) -> Array:
    a, b = _directions(clicks.shown(one)), _directions(clicks.shown(other))
    return np.exp((a @ b.T - 1.0) / _NEAR_ITEM)


def _count_alike(clicks: Clicks, items: Index, rng: np.random.Generator) -> Array:
    """Return how often items like each of ``items`` were clicked, over all queries; from a sample of the clicks."""
    some = clicks.item[rng.permutation(len(clicks))[:_AMONG]]
    different, count = np.unique(some, return_counts=True)
    found = np.empty(len(items))
    for begin in range(0, len(items), 1024):
        found[begin : begin + 1024] = _alike(clicks, items[begin : begin + 1024], different) @ count
    return found


def _log_share(clicks: Clicks, D: Array, rng: np.random.Generator) -> Array:
    """Return the log of each clicked item's softmax share among a sample of all items."""
    some = rng.permutation(clicks.feedback.n_items)[:_AMONG]
    y = clicks.shown(some)
    found = np.empty(len(clicks))
    for begin in range(0, len(clicks), 1024):
        part = slice(begin, begin + 1024)
        x = clicks.asked(clicks.query[part])
        mapped = x + clicks.mean + x @ D.T
        z = (mapped @ y.T) / _TEMPERATURE
        top = z.max(axis=1)
        own = (mapped * clicks.shown(clicks.item[part])).sum(axis=1) / _TEMPERATURE
        found[part] = own - top - np.log(np.exp(z - top[:, None]).sum(axis=1))
    return found
