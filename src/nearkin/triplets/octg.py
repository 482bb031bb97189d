"""OCTG, the online cluster-based triplet generator (section 3.4 of the paper)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.arrays import Array, Codes
from nearkin.errors import InputError
from nearkin.labels import as_labels
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.rows import Rows
from nearkin.settings import BOOLEAN, Integer, OneOf, Real, declare, setting
from nearkin.stored import ArrayOf, Flag, Part, stored
from nearkin.triplets.source import Triplets, TripletSource, View

__all__ = ["OCTG"]


#: Largest table of scores (rows x centres) held at once, in numbers.
_TABLE = 1 << 20

#: Numbers of centres that "auto" tries, rows of a class that each of them needs, and rows by which it chooses.
_TRIED = (1, 2, 5, 10, 20, 40)
_ROWS_EACH = 15
_JUDGES = 20_000


@stored(
    together=("centers_", "center_counts_", "center_codes_", "n_rows_seen_", "rng_"),
    centers_=ArrayOf("k", "d", dtype="T"),
    shown_centers_=ArrayOf("k", "d", dtype="T"),
    center_counts_=ArrayOf("k", low=0.0),
    center_codes_=ArrayOf("k", of="codes", low=0),
    center_seen_=ArrayOf("k", of="codes"),
    shown_metric_=Part("Parameter", d="d"),
    is_share_=Flag(),
)
@declare
class OCTG(TripletSource, name="octg"):
    """Online cluster-based triplet generator: anchors are rows, positives and negatives are class centres.

    For a row ``(x, y)`` the positive is the nearest centre ``V+`` of class y; every centre ``V-`` of another class
    with **not** ``d2(x, V+) + margin < d2(x, V-)`` is an impostor and gives a triplet ``(x, V+, V-)``, the nearest
    first. A wrongly labelled row can therefore spoil only the anchor of its own triplets. Cost O(n_centers *
    n_classes * d) per row.

    Parameters
    ----------
    {settings}

    Attributes
    ----------
    centers_ : ndarray of shape (n_centers_in_all, n_features)
        On the learner's scale.
    center_codes_ : ndarray of int64
        Class of each centre as the learner numbers it.
    center_counts_ : ndarray
        Weight behind each centre.

    Notes
    -----
    Squared distances and margin 1 make the impostors exactly the triplets with positive hinge loss; with rows
    scaled to unit variance and unit length this reproduces the OCTG column of Table 1. The paper gives neither the
    margin nor the number of centres. A class first met in mid-stream takes its first row as its centre, which
    gives no triplet itself.

    Examples
    --------
    >>> X, y = np.array([[0.0], [0.2], [1.0], [1.2]]), ["a", "a", "b", "b"]
    >>> triplets = OCTG().build(X, y)
    >>> triplets.anchor.tolist(), triplets.margins().round(2).tolist()
    ([1, 2], [0.8, 0.8])
    """

    n_centers: int | str = setting(
        1, Integer(1, 100_000), OneOf(("auto",)), kw_only=False,
        doc="""Centres per class, by k-means on the first batch. Under label noise one is the safe choice: with several,
        a centre may settle on wrongly labelled rows. "auto" takes more (2, 5, 10, 20 or 40) where they clearly predict
        the labels of other rows better: classes that fall into parts, with rows enough.""",
    )  # fmt: skip
    margin: float = setting(
        1.0, Real(0.0, np.inf, open_high=True),
        doc="Required gap between squared distances (or between similarities), on the learner's scale.",
    )  # fmt: skip
    metric: str = setting(
        "auto", OneOf(("auto", "euclidean", "dot", "learned")),
        doc="""What selects the centres: Euclidean distance or inner product, or the metric learned so far. "auto" is
        the learner's own measure before learning.""",
    )  # fmt: skip
    max_impostors: int | None = setting(
        None, Integer(1, 1_000_000_000), OneOf((None,)), doc="Keep only this many nearest impostors of a row."
    )
    update_centers: bool = setting(
        False, BOOLEAN,
        doc="Move the nearest centre of its class towards each row, with the row's plausibility as its weight.",
    )  # fmt: skip
    refresh: int = setting(
        32, Integer(1, 1_000_000_000),
        doc="""With ``metric="learned"`` or ``update_centers=True``, rows between two looks at the learned metric and
        centres; 1 is the literal algorithm. Counted along the stream, so that the chunks it comes in do not matter.""",
    )  # fmt: skip
    n_init: int | None = setting(
        None, Integer(2, 1_000_000_000), OneOf((None,)), doc="Rows of the first batch for k-means; None for all."
    )
    centers: ArrayLike | None = setting(
        None, kind="array-like of shape (n_given, n_features) or None",
        doc="Centres to use instead of k-means, as raw features.",
    )  # fmt: skip
    center_labels: ArrayLike | None = setting(
        None, kind="array-like of shape (n_given,) or None", doc="Labels of `centers`."
    )
    max_centers: int | None = setting(
        None, Integer(2, 1_000_000_000), OneOf((None,)),
        doc="""Most centres in all. A class that appears when there are as many takes the place of the centre that has
        not been the nearest of its class for the longest time; a class without any centre is forgotten.""",
    )  # fmt: skip
    balance: bool = setting(
        False, BOOLEAN,
        doc="""Repeat the triplets of a row as many times as the largest class has more rows behind its centres than
        the row's class, rounded, so that rare classes move the metric as much as common ones. Classes met in
        mid-stream, and given centres, have one row behind them, and their triplets come once.""",
    )  # fmt: skip
    forget_after: float | None = setting(
        None, Real(1.0, np.inf, open_high=True), OneOf((None,)),
        doc="""With ``update_centers=True``, most weight behind a centre, so that it follows a class that moves: old
        rows count for less, about as if only the newest `forget_after` rows stood behind it.""",
    )  # fmt: skip

    is_share_ = False  # whether it goes on with a share of the rows

    @property
    def watches_metric(self) -> bool:  # type: ignore[override]
        """Whether centres are chosen by the metric learned so far."""
        return self.metric == "learned"

    @property
    def heeds_answers(self) -> bool:
        """Whether centres move, or are chosen by the metric learned so far."""
        return self.watches_metric or self.update_centers

    def start(self, rows: Rows, codes: Codes, view: View, rng: np.random.Generator) -> None:
        """Find the centres of every class in the first batch, or take those that were given."""
        if self.centers is not None:
            self._take_given(view, rows)
        else:
            self._find(rows, codes, rng)
        if self.max_centers is not None:
            if len(self.centers_) > self.max_centers:
                raise InputError(
                    f"the first batch needs {len(self.centers_)} centres, more than max_centers={self.max_centers}; "
                    "raise it, or begin with fewer classes.",
                    owner=self,
                )
            self.center_seen_ = np.zeros(len(self.centers_), dtype=np.int64)

    def _find(self, rows: Rows, codes: Codes, rng: np.random.Generator) -> None:
        if self.n_init is not None:
            codes = codes[: self.n_init]
        n = _best_number(rows, codes, rng) if isinstance(self.n_centers, str) else self.n_centers
        self.centers_, self.center_counts_, self.center_codes_ = _centers(rows, codes, n, rng)

    def _take_given(self, view: View, rows: Rows) -> None:
        try:
            given = np.asarray(self.centers, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"`centers` must be numbers; got {self.centers!r}.", owner=self) from None
        if given.ndim != 2 or given.shape[1] != rows.n_features or not np.isfinite(given).all():
            raise InputError(
                f"`centers` must be finite numbers of shape (n_given, {rows.n_features}); got shape {given.shape}.",
                owner=self,
            )
        if self.center_labels is None or len(as_labels(self.center_labels, "OCTG")) != len(given):
            raise InputError(
                f"`centers` needs `center_labels`, one label for each of the {len(given)} centres.", owner=self
            )
        self.centers_ = np.ascontiguousarray(view.scaled(given.astype(rows.dtype)), dtype=rows.dtype)
        self.center_codes_ = view.codes_of(self.center_labels)
        self.center_counts_ = np.ones(len(given))

    def rescale(self, view: View) -> None:
        """Bring given centres to the new scale, unless they have moved or may have lost their places."""
        if self.centers is not None and not self.update_centers and self.max_centers is None:
            given = view.scaled(np.asarray(self.centers, dtype=np.float64).astype(self.centers_.dtype))
            self.centers_ = np.concatenate([given, self.centers_[len(given) :]])

    def turn(self, matrix: Array) -> None:
        """Bring the centres to the new map."""
        for name in ("centers_", "shown_centers_"):
            if hasattr(self, name):
                setattr(self, name, np.ascontiguousarray((getattr(self, name) @ matrix.T).astype(self.centers_.dtype)))

    def generate(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Pieces of the batch; each looks at the centres and the metric as they are when it begins."""
        moving = self.metric == "learned" or self.update_centers
        at = 0
        while at < len(rows):
            if not moving or self.n_rows_seen_ % self.refresh == 0:
                self._look(view)
            stop = self._piece_end(at, len(rows), rows)
            block = rows.take(slice(at, stop))
            (anchor, positive, negative), own = self._search(block, codes[at:stop], view)
            found_class = len(own) < len(block)  # the search ends at a row whose class has no centre
            if len(own):
                block = block[: len(own)]
                origin = self.number_rows(len(own))
                if self.max_centers is not None:
                    self.center_seen_ = self.center_seen_.copy()
                    self.center_seen_[own] = origin  # the last of several counts
                if self.update_centers:
                    self._pending = block, own
                if self.balance:
                    times = self._count_repeats(codes[at : at + len(own)])[anchor]
                    anchor, positive, negative = (np.repeat(one, times) for one in (anchor, positive, negative))
                pool = Rows(self.shown_centers_)
                yield Triplets(Rows(block), pool, anchor, positive, negative, origin, np.full(len(pool), -1))
            at += len(own)
            if found_class:
                self._found_class(rows.take(slice(at, at + 1)), int(codes[at]))
                self.number_rows(1)
                at += 1

    def receive(self, triplets: Triplets, plausibility: Array) -> None:
        """Move the centres: ``n <- n + w``, ``V <- V + w / n (x - V)``, w the smallest plausibility of the row."""
        if not self.update_centers:
            return
        block, nearest = self._pending
        weight = np.ones(len(block))
        np.minimum.at(weight, triplets.anchor, plausibility)
        # The triplets just learned, and copies of this source, still point at the old ones.
        self.centers_, self.center_counts_ = self.centers_.copy(), self.center_counts_.copy()
        for x, w, j in zip(block, weight, nearest, strict=True):
            self.center_counts_[j] += w
            if self.forget_after is not None:
                self.center_counts_[j] = min(self.center_counts_[j], self.forget_after)
            self.centers_[j] += (w / self.center_counts_[j]) * (x - self.centers_[j])
        del self._pending

    def merged(self, shards: Sequence[TripletSource], codes: Sequence[Codes], view: View) -> TripletSource:
        """Centres by the weight behind them: what each share has added to a centre counts once.

        With n and V of this source and n_i and V_i of share i, the merged centre has weight
        ``n + sum_i (n_i - n)`` and stands at ``V + sum_i n_i (V_i - V)`` over that weight. A class that several shares
        have met for the first time gets one centre, the mean of theirs.
        """
        one = super().merged(shards, codes, view)
        assert isinstance(one, OCTG)
        known = len(self.centers_)
        centers, counts, owners = list(self.centers_), self.center_counts_.tolist(), self.center_codes_.tolist()
        for j in range(known):
            moved = [s for s in shards if isinstance(s, OCTG) and not _is_same(s, self, j)]
            counts[j] += sum(float(s.center_counts_[j] - self.center_counts_[j]) for s in moved)
            behind = counts[j]
            if self.forget_after is not None and any(s.center_counts_[j] >= self.forget_after for s in moved):
                behind = sum(float(s.center_counts_[j]) for s in moved)  # what was added is not known: their mean
                counts[j] = self.forget_after
            if len(moved) == 1:
                centers[j] = moved[0].centers_[j]
            elif moved:
                origin = self.centers_[j].astype(np.float64)
                pull = sum(s.center_counts_[j] * (s.centers_[j] - origin) for s in moved)
                centers[j] = origin + pull / behind
        found: dict[int, int] = {}
        for share, table in zip(shards, codes, strict=True):
            assert isinstance(share, OCTG)
            for center, weight, code in zip(
                share.centers_[known:], share.center_counts_[known:], table[share.center_codes_[known:]], strict=True
            ):
                at = found.setdefault(int(code), len(centers))
                if at == len(centers):
                    centers.append(center)
                    counts.append(float(weight))
                    owners.append(int(code))
                else:
                    counts[at] += float(weight)
                    centers[at] = centers[at] + (float(weight) / counts[at]) * (center - centers[at])
        one.centers_ = np.array(centers, dtype=self.centers_.dtype)
        one.center_counts_ = np.array(counts)
        one.center_codes_ = np.array(owners, dtype=np.int64)
        one.__dict__.pop("is_share_", None)
        one._look(view)
        if self.max_centers is not None:
            one.center_seen_ = self._last_seen(shards, codes, one.center_codes_)
            one._make_room(0)
        return one

    def _last_seen(self, shards: Sequence[TripletSource], codes: Sequence[Codes], owners: Codes) -> Codes:
        """When each centre was last of use, the rows of the shares numbered one share after the other."""
        known = len(self.centers_)
        seen = np.zeros(len(owners), dtype=np.int64)
        seen[:known] = self.center_seen_
        place = {int(code): known + i for i, code in enumerate(owners[known:])}
        moved = 0
        for share, table in zip(shards, codes, strict=True):
            assert isinstance(share, OCTG)
            fresh = np.where(share.center_seen_ >= self.n_rows_seen_, share.center_seen_ + moved, -1)
            seen[:known] = np.maximum(seen[:known], fresh[:known])
            for code, when in zip(table[share.center_codes_[known:]].tolist(), fresh[known:].tolist(), strict=True):
                seen[place[code]] = max(seen[place[code]], when)
            moved += share.n_rows_seen_ - self.n_rows_seen_
        return seen

    def copy(self) -> OCTG:
        """Arrays are replaced, never written to, so that copies may share them."""
        return copy.copy(self)

    def probe(self, rows: Rows, codes: Codes, view: View) -> Iterator[Triplets]:
        """Centres stand still and are chosen by the metric learned so far, the same for every row.

        The nearest impostor is the least plausible triplet of a row, so that it stands for all.
        """
        still = self.copy()
        still.metric, still.update_centers, still.max_impostors, still.balance = "learned", False, 1, False
        still.refresh = max(1, min(_TABLE // len(self.centers_), rows.block_size))
        still._look(view)
        return still.generate(rows, codes, view)

    def _search(self, block: Array, codes: Codes, view: View) -> tuple[Codes, Codes]:
        """Triplets of the first rows, up to one whose class has no centre, and the best centre of each."""
        from nearkin.kernels.impostors import scan, search

        most = len(self.center_codes_) if self.max_impostors is None else self.max_impostors
        if self.metric == "learned":
            scores = self.shown_metric_.anchor_scores(block, codes, self.shown_centers_)
            return scan(scores, scores.dtype.type(self.margin), codes, self.center_codes_, most)
        measure = {"auto": view.parameter.measure, "euclidean": DISTANCE, "dot": SIMILARITY}[self.metric]
        form = measure.linear(self.shown_centers_)
        return search(block, form, block.dtype.type(self.margin / form.unit), codes, self.center_codes_, most)

    def _count_repeats(self, codes: Codes) -> Codes:
        """How many times the triplets of rows of some classes come."""
        behind = np.bincount(self.center_codes_, self.center_counts_, minlength=codes.max() + 1)
        times = np.rint(behind.max() / np.maximum(behind, 1.0)).astype(np.int64)
        return np.where(behind > 1.0, times, 1)[codes]

    def _piece_end(self, at: int, n: int, rows: Rows) -> int:
        """End of the piece that begins at row ``at`` of the batch."""
        if self.metric == "learned" or self.update_centers:
            return min(n, at + self.refresh - self.n_rows_seen_ % self.refresh)
        return min(n, at + max(1, min(_TABLE // len(self.centers_), rows.block_size)))

    def _look(self, view: View) -> None:
        """What the next rows are compared with; kept until the next look, wherever the stream is cut into chunks."""
        self.shown_centers_ = self.centers_
        if self.metric == "learned":
            self.shown_metric_ = view.parameter.copy()

    def _found_class(self, row: Array, code: int) -> None:
        if self.max_centers is not None:
            if not self.is_share_:  # shares keep theirs until they are merged, so that centres keep their places
                self._make_room(1)
            self.center_seen_ = np.append(self.center_seen_, self.n_rows_seen_)
        self.centers_ = np.concatenate([self.centers_, row])
        self.shown_centers_ = np.concatenate([self.shown_centers_, row])
        self.center_codes_ = np.append(self.center_codes_, code)
        self.center_counts_ = np.append(self.center_counts_, 1.0)

    def _make_room(self, more: int) -> None:
        """Give up the centres that were of no use for the longest time, so that ``more`` can be added."""
        assert self.max_centers is not None
        surplus = len(self.centers_) + more - self.max_centers
        if surplus <= 0:
            return
        kept = np.sort(np.argsort(self.center_seen_, kind="stable")[surplus:])
        for name in ("centers_", "shown_centers_", "center_codes_", "center_counts_", "center_seen_"):
            setattr(self, name, getattr(self, name)[kept])

    @property
    def living(self) -> Codes | None:
        """Classes that have a centre, if their number is bounded."""
        return None if self.max_centers is None else np.unique(self.center_codes_)

    def for_shard(self, number: int) -> OCTG:
        """A copy that gives up no centre until `merged` is called."""
        one = super().for_shard(number)
        assert isinstance(one, OCTG)
        one.is_share_ = True
        return one


def _is_same(one: OCTG, other: OCTG, j: int) -> bool:
    """Whether centre j stands where it stood, with the weight it had."""
    return bool(one.center_counts_[j] == other.center_counts_[j] and np.array_equal(one.centers_[j], other.centers_[j]))


def _centers(rows: Rows, codes: Codes, n_centers: int, rng: np.random.Generator) -> tuple[Array, Array, Codes]:
    """Centres of all classes, how many rows stand behind each, and their classes."""
    found = [_centers_of(rows, np.flatnonzero(codes == code), n_centers, rng) for code in np.unique(codes)]
    owners = np.repeat(np.unique(codes), [len(centers) for centers, _ in found])
    means, counts = (np.concatenate(part) for part in zip(*found, strict=True))
    return means.astype(rows.dtype), counts.astype(np.float64), owners.astype(np.int64)


def _best_number(rows: Rows, codes: Codes, rng: np.random.Generator) -> int:
    """Number of centres per class that best predicts held-out labels.

    Uniform noise lowers all shares alike. A larger number must be better by two standard errors.
    """
    most = _JUDGES if rows.is_dense else min(_JUDGES, rows.block_size)
    order = rng.permutation(len(codes))[:most]
    halves = [np.sort(order[::2]), np.sort(order[1::2])]
    blocks = [rows.take(half) for half in halves]
    size = np.median(np.bincount(codes[halves[0]])[np.unique(codes[halves[0]])]) if len(order) > 1 else 0
    best, right = 1, -1.0
    for n in _TRIED:
        if n > 1 and n * _ROWS_EACH > size:
            break
        told = 0
        for own, other in ((0, 1), (1, 0)):
            if not len(halves[own]) or not len(halves[other]):
                return 1
            centers, _, owners = _centers(Rows(blocks[own]), codes[halves[own]], n, rng)
            scores = DISTANCE.scores(blocks[other], centers)
            told += int(np.count_nonzero(owners[scores.argmax(axis=1)] == codes[halves[other]]))
        share = told / len(order)
        if share > right + 2.0 * np.sqrt(share * (1.0 - share) / len(order)):
            best, right = n, share
    return best


def _centers_of(
    rows: Rows, members: Codes, n_centers: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.integer]]:
    """Centres of one class and how many rows stand behind each."""
    if n_centers == 1:
        total = np.zeros(rows.n_features)
        step = len(members) if rows.is_dense else rows.block_size
        for start in range(0, len(members), step):
            total += rows.take(members[start : start + step]).sum(axis=0, dtype=np.float64)
        return (total / len(members))[None, :], np.array([len(members)])
    if not rows.is_dense and len(members) > (most := max(rows.block_size, 4 * n_centers)):
        # Sparse rows would have to be dense for k-means: it sees as many as fit into one block.
        members = np.sort(rng.permutation(members)[:most])
    sample = rows.take(members)
    distinct = len(np.unique(sample, axis=0))
    if distinct <= n_centers:
        centers, counts = np.unique(sample, axis=0, return_counts=True)
        return centers, counts
    from sklearn.cluster import KMeans

    fit = KMeans(n_centers, n_init=4, random_state=int(rng.integers(2**31 - 1))).fit(sample)
    return fit.cluster_centers_, np.bincount(fit.labels_, minlength=n_centers)
