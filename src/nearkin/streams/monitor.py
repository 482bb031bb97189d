"""Whether a stream is still what it was: one test for four signals, with a bound on false alarms.

Rows are gathered into blocks of `BLOCK` rows, counted along the stream, so neither batches nor calls matter. Every
signal is a list of shares of a block: rows predicted correctly, mean plausibility, rows of each class, rows in the
lower and in the upper tail of each feature. On the arcsine scale a share of independent rows has a known variance,
however rare the event is. Where blocks vary more, or are alike over some time, the variance is estimated instead.

A block is compared with all blocks before it (a self-starting test, so there is no warm-up to tune): the deviation in
standard errors is nearly a standard normal number z as long as nothing changes. For a change of the mean by c, the
Shiryaev-Roberts statistic ``R = (R + 1) exp(c z - c**2 / 2)`` grows by one a block on average without a change, and
exponentially after one. The mean of many such statistics (sizes c, directions, classes, features) does the same. If it
must reach A before an alarm, false alarms come once in at least A blocks, whatever the dependence between the parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array
from nearkin.stored import ArrayOf, Count, Items, Maybe, Number, Part, Text, stored

__all__ = ["BLOCK", "FALSE_ALARMS", "N_CLASSES", "SIGNALS", "Alarm", "Cuts", "Monitor", "SeenRows"]

#: Rows of a block.
BLOCK = 64
#: False alarms per million rows, of all signals together.
FALSE_ALARMS = 1.0
SIGNALS = ("accuracy", "plausibility", "classes", "features")

#: Blocks before a share is tested, and blocks that a reference remembers.
_FIRST, _MEMORY = 16, 1024
#: Changes that are looked for, in standard errors of a block.
_SIZES = np.array([0.5, 1.0, 2.0])[:, None, None]
#: Rates at which deviations are followed: block by block, and over some blocks.
_RATES = np.array([1.0, 1 / 4, 1 / 32])[:, None]
#: Classes watched one by one (the last place is for all others), and features; more features are added up with random
#: signs in this many groups.
N_CLASSES, _FEATURES = 256, 512
#: Shares of a feature's values below its cuts.
_TAILS = (1 / 6, 5 / 6)
#: Blocks over which the value after a change is averaged.
_RECENT = 4
#: The spread of plausibility is at least this share of that of right and wrong.
_LEAST_SPREAD = 1 / 8
#: Alarms that are remembered.
_REMEMBERED = 100
_LARGEST = 1e200


@dataclass
class SeenRows:
    """What rows showed before and while they were learned, one by one."""

    is_right: NDArray[np.bool_] | None  # predicted correctly; None if they were not tested
    plausibility: Array
    codes: NDArray[np.int64]
    features: Array | NDArray[np.int8] | None  # as they are, or marked by `Cuts.mark`

    def __len__(self) -> int:
        return len(self.plausibility)


@stored(
    signal=Text(*SIGNALS), row=Count(), before=Number(), after=Number(), text=Text(), file=Text(),
)  # fmt: skip
@dataclass(frozen=True)
class Alarm:
    """A change of a stream.

    Parameters
    ----------
    signal : {"accuracy", "plausibility", "classes", "features"}
        What changed.
    row : int
        Rows of the stream until it was noticed.
    before, after : float
        Value of the signal.
    text : str
        All this in words.
    file : str
        Where the row stands, if it came from a file.

    Examples
    --------
    >>> print(Alarm("accuracy", 2752, 0.91, 0.76, "accuracy fell from 91 % to 76 %", "day6.csv"))
    after 2,752 rows, in day6.csv, accuracy fell from 91 % to 76 %
    """

    signal: str
    row: int
    before: float
    after: float
    text: str
    file: str = ""

    def __str__(self) -> str:
        return f"after {self.row:,} rows{f', in {self.file},' if self.file else ''} {self.text}"


@stored(d=Count(1, size="d"), weight=Maybe(ArrayOf("d")), low=ArrayOf("w"), high=ArrayOf("w"))
@dataclass(frozen=True)
class Cuts:
    """Where the tails of features begin in a first block; many features are added up in groups, with random signs."""

    d: int
    weight: Array | None
    low: Array
    high: Array

    @classmethod
    def of(cls, X: Array) -> Cuts:
        """Cut off a sixth of these rows at either end."""
        d = X.shape[1]
        weight = None
        if d > _FEATURES:
            spread = X.std(axis=0, dtype=np.float64)
            signs = np.random.default_rng(d).choice([-1.0, 1.0], d)
            weight = np.divide(signs, spread, out=np.zeros(d), where=spread > 0)
        # An observed value each: a feature of few values has rows on both cuts.
        low, high = np.quantile(_gather(X, weight), _TAILS, axis=0, method="nearest")
        return cls(d, weight, low, high)

    def mark(self, X: Array) -> NDArray[np.int8]:
        """Return 1 for values up to the lower cut, 2 for those from the upper cut on, 3 for both, else 0."""
        values = _gather(X, self.weight)
        return (values <= self.low).view(np.int8) + 2 * (values >= self.high).view(np.int8)


def _gather(X: Array, weight: Array | None) -> Array:
    if weight is None:
        return X.astype(np.float64, copy=False)
    begins = np.arange(_FEATURES) * X.shape[1] // _FEATURES
    return np.add.reduceat(X * weight, begins, axis=1)


@stored(
    n=ArrayOf("m", of="doubles", low=0.0),
    mean=ArrayOf("m", of="doubles"),
    paths=ArrayOf(len(_RATES), "m", of="doubles"),
    squares=ArrayOf(len(_RATES), "m", of="doubles", low=0.0),
    recent=ArrayOf("m", of="doubles"),
    grown=ArrayOf(len(_SIZES), 2, "m", of="doubles", low=0.0),
)
@dataclass
class Shares:
    """References of shares, on the arcsine scale, and the statistics that grow when a share leaves its reference.

    Deviations are followed at several rates. If blocks are independent, the mean squares of all these paths, each
    divided by what it should be, are the variance of a block. If blocks are alike over some time, those of the slow
    paths are larger, and the largest counts.
    """

    n: Array  # blocks
    mean: Array
    paths: Array  # deviations, followed at each rate
    squares: Array  # mean squares of the paths
    recent: Array  # value of the latest blocks
    grown: Array  # by size of the change, downwards and upwards

    @classmethod
    def begin(cls, m: int) -> Shares:
        """Return references without any block."""
        r = len(_RATES)
        n, mean, recent = np.zeros((3, m))
        paths, squares = np.zeros((2, r, m))
        return cls(n, mean, paths, squares, recent, np.zeros((len(_SIZES), 2, m)))

    @classmethod
    def join(cls, *parts: Shares) -> Shares:
        """Return shares one after the other."""
        return cls(**{name: np.concatenate([getattr(one, name) for one in parts], axis=-1) for name in vars(parts[0])})

    def take(self, part: slice) -> Shares:
        """Return some of the shares."""
        return Shares(**{name: values[..., part].copy() for name, values in vars(self).items()})

    def restart(self, part: slice) -> None:
        """Forget all about some shares."""
        for values in vars(self).values():
            values[..., part] = 0.0

    def see(self, share: Array, n_rows: Array, least: Array) -> None:
        """Add a block: its shares, of how many rows each is, and the least variance of each; NaN where unknown."""
        value = np.arcsin(np.sqrt((share * n_rows + 0.375) / (n_rows + 0.75)))
        known = ~np.isnan(value)
        deviation = value - self.mean
        tested = known & (self.n >= _FIRST)
        if tested.any():
            z = np.where(tested, self._standardise(deviation, least), 0.0)
            steps = np.stack([-z, z]) * _SIZES - 0.5 * _SIZES**2
            grown = np.minimum((self.grown + 1.0) * np.exp(np.minimum(steps, 400.0)), _LARGEST)
            self.grown = grown if tested.all() else np.where(tested, grown, self.grown)
        self._follow(value, deviation, known)

    def _standardise(self, deviation: Array, least: Array) -> Array:
        """Return deviations in standard errors, as normal as they can be made."""
        n = np.clip(self.n, 2.0, _MEMORY)
        free = n - 1.0
        estimate = (self.squares * ((2.0 - _RATES) / _RATES)).max(axis=0) * (n / free)
        t = deviation / np.sqrt(np.maximum(estimate, least) * (1.0 + 1.0 / n))
        # An estimated spread gives Student's t; this is Wallace's approximation of the normal number as improbable.
        z = np.copysign(np.sqrt(free * np.log1p(t * t / free)) * (8.0 * free + 1.0) / (8.0 * free + 3.0), t)
        return np.where(estimate > least, z, t)

    def _follow(self, value: Array, deviation: Array, known: NDArray[np.bool_]) -> None:
        """Let the references take in a block."""
        rate = np.where(known, np.maximum(1.0 / (self.n + 1.0), 1.0 / _MEMORY), 0.0)
        value, deviation = np.where(known, value, 0.0), np.where(known, deviation, 0.0)
        quick = np.where(self.n == 0, 1.0, 1.0 / _RECENT) * known
        self.mean = self.mean + rate * deviation
        deviation = deviation * np.sqrt(self.n / (self.n + 1.0))  # without the error of the mean
        paths = self.paths + _RATES * (deviation - self.paths)
        self.paths = np.where(known, paths, self.paths)
        self.squares = self.squares + rate * (self.paths**2 - self.squares)
        self.recent = self.recent + quick * (value - self.recent)
        self.n = self.n + known


def _share(value: float) -> float:
    return math.sin(value) ** 2


@stored(
    false_alarms=Number(0.0), n_rows=Count(), n_alarms=Count(), alarms=Items(Part(Alarm)), shares=Part(Shares),
    n_classes=Count(0, N_CLASSES), cuts=Maybe(Part(Cuts)), filling=ArrayOf(4, of="doubles", low=0.0),
    class_counts=ArrayOf(None, of="doubles", low=0.0), mark_counts=ArrayOf(2, None, of="doubles", low=0.0),
    first=Maybe(ArrayOf(None, None)),
)  # fmt: skip
@dataclass
class Monitor:
    """Four signals of a stream, each against its own past.

    ``false_alarms`` is the bound on false alarms per million rows, a quarter for each signal; 0 switches alarms off.
    """

    false_alarms: float = FALSE_ALARMS
    n_rows: int = 0
    n_alarms: int = 0
    alarms: list[Alarm] = field(default_factory=list)  # the latest
    shares: Shares = field(default_factory=lambda: Shares.begin(2))  # accuracy, plausibility, features, classes
    n_classes: int = 0
    cuts: Cuts | None = None
    #: Sums over the block that is being filled: tested, right, plausibility, rows with features.
    filling: Array = field(default_factory=lambda: np.zeros(4))
    class_counts: Array = field(default_factory=lambda: np.zeros(0))
    mark_counts: Array = field(default_factory=lambda: np.zeros((2, 0)))
    first: Array | None = None  # rows of a block from which cuts are made

    def check_stored(self) -> None:
        """Parts agree on the number of shares."""
        w = 0 if self.cuts is None else len(self.cuts.low)
        sizes = len(self.shares.mean), len(self.class_counts), self.mark_counts.shape[1]
        if sizes != (2 + 2 * w + self.n_classes, self.n_classes, w):
            raise ValueError(f"the monitor has {sizes} shares for {w} features and {self.n_classes} classes")

    @property
    def limit(self) -> float:
        """Value of the mean statistic of a signal at which it alarms: blocks between false alarms at least."""
        return math.inf if not self.false_alarms else 1e6 / (self.false_alarms / len(SIGNALS) * BLOCK)

    def see(
        self, rows: SeenRows, class_names: Sequence[Any] = (), feature_names: Sequence[str] | None = None,
        file: str = "",
    ) -> tuple[Alarm, ...]:  # fmt: skip
        """Add rows in the order in which they were learned; return what they complete, named if names are given."""
        found: list[Alarm] = []
        begin = 0
        while begin < len(rows):
            end = min(len(rows), begin + BLOCK - self.n_rows % BLOCK)
            self._gather(rows, slice(begin, end))
            self.n_rows += end - begin
            begin = end
            if self.n_rows % BLOCK == 0:
                found += self._close(class_names, feature_names)
        found = [replace(one, file=file) for one in found]
        self.n_alarms += len(found)
        self.alarms = [*self.alarms, *found][-_REMEMBERED:]
        return tuple(found)

    # ------------------------------------------------------------------ one block

    def _gather(self, rows: SeenRows, part: slice) -> None:
        """Add rows of one block to its sums."""
        if rows.is_right is not None:
            right = rows.is_right[part]
            self.filling[:2] += np.array([len(right), np.count_nonzero(right)])
        self.filling[2] += rows.plausibility[part].sum()
        codes = np.minimum(rows.codes[part], N_CLASSES - 1)
        if (most := int(codes.max()) + 1) > self.n_classes:
            self._add_classes(most)
        self.class_counts += np.bincount(codes, minlength=self.n_classes)
        if rows.features is not None:
            self._gather_features(rows.features[part])

    def _gather_features(self, X: NDArray[Any]) -> None:
        if X.dtype != np.int8 and self.cuts is not None and X.shape[1] != self.cuts.d:
            self._forget_features()
        if self.cuts is None:
            if X.dtype != np.int8:
                held = self.first if self.first is not None and self.first.shape[1] == X.shape[1] else X[:0]
                self.first = np.concatenate([held, X])
            return
        marks = X if X.dtype == np.int8 else self.cuts.mark(X)
        self.mark_counts += (marks & 1).sum(axis=0), (marks >> 1).sum(axis=0)
        self.filling[3] += len(X)

    def _add_classes(self, n: int) -> None:
        """Make room for classes that come for the first time: all blocks before held no row of them."""
        new = Shares.begin(n - self.n_classes)
        n_blocks = self.n_rows // BLOCK
        none = np.zeros(n - self.n_classes)
        for _ in range(min(n_blocks, _FIRST)):
            new.see(none, none + BLOCK, none + _variance(BLOCK))
        new.n += max(0, n_blocks - _FIRST)
        self.shares = Shares.join(self.shares, new)
        self.class_counts = np.concatenate([self.class_counts, none])
        self.n_classes = n

    def _forget_features(self) -> None:
        """Begin anew with other cuts, as soon as rows come."""
        part = self._parts()["classes"]
        self.shares = Shares.join(self.shares.take(slice(0, 2)), self.shares.take(part))
        self.cuts, self.first, self.mark_counts, self.filling[3] = None, None, np.zeros((2, 0)), 0.0

    def _close(self, class_names: Sequence[Any], feature_names: Sequence[str] | None) -> Iterator[Alarm]:
        """End a block: compare it, and begin the next."""
        tested, right, plausibility, marked = self.filling
        w = self.mark_counts.shape[1]
        n_rows = np.full(len(self.shares.mean), float(BLOCK))
        counts = np.concatenate([[right, plausibility], *self.mark_counts, self.class_counts])
        least = np.full(len(counts), _variance(BLOCK))
        least[1] *= _LEAST_SPREAD**2
        n_rows[0], n_rows[2 : 2 + 2 * w] = tested, marked
        least[0], least[2 : 2 + 2 * w] = _variance(tested), _variance(marked)
        few = n_rows < BLOCK // 2
        share = np.divide(counts, n_rows, out=np.full(len(counts), np.nan), where=~few)
        self.shares.see(share, n_rows, least)
        self.filling[:], self.class_counts[:], self.mark_counts[:] = 0.0, 0.0, 0.0
        if self.first is not None:
            if len(self.first) >= BLOCK // 2:
                self.cuts = Cuts.of(self.first)
                self._add_features(len(self.cuts.low))
            self.first = None
        yield from self._alarms(class_names, feature_names)

    def _add_features(self, w: int) -> None:
        rates, classes = self.shares.take(slice(0, 2)), self.shares.take(slice(2, None))
        self.shares = Shares.join(rates, Shares.begin(2 * w), classes)
        self.mark_counts = np.zeros((2, w))

    # ------------------------------------------------------------------ alarms

    def _parts(self) -> dict[str, slice]:
        w = 0 if self.cuts is None else len(self.cuts.low)
        return {
            "accuracy": slice(0, 1), "plausibility": slice(1, 2), "classes": slice(2 + 2 * w, None),
            "features": slice(2, 2 + 2 * w),
        }  # fmt: skip

    def _alarms(self, class_names: Sequence[Any], feature_names: Sequence[str] | None) -> Iterator[Alarm]:
        """Yield the signals that have left their references, and let these begin anew."""
        for signal, part in self._parts().items():
            ways = 1 if signal in ("accuracy", "plausibility") else 2  # of these, only a fall is bad
            grown = self.shares.grown[:, :ways, part]
            if not grown.size or grown.mean() < self.limit:
                continue
            which = int(grown.sum(axis=(0, 1)).argmax())
            before, after = (_share(float(one[part][which])) for one in (self.shares.mean, self.shares.recent))
            text = self._tell(signal, which, before, after, class_names, feature_names)
            yield Alarm(signal, self.n_rows, before, after, text)
            if signal == "features":
                self._forget_features()
            else:
                self.shares.restart(part)

    def _tell(
        self, signal: str, which: int, before: float, after: float, class_names: Sequence[Any],
        feature_names: Sequence[str] | None,
    ) -> str:  # fmt: skip
        verb = "fell" if after < before else "rose"
        if signal == "plausibility":
            return f"plausibility {verb} from {before:.2f} to {after:.2f}"
        change = f"from {100 * before:.1f} % to {100 * after:.1f} %"
        if signal == "accuracy":
            return f"accuracy {verb} {change}"
        if signal == "classes":
            name = repr(str(class_names[which])) if which < len(class_names) else f"number {which}"
            if which == N_CLASSES - 1:
                name = "of all rare kinds"
            return f"the share of class {name} {verb} {change}"
        assert self.cuts is not None
        side, column = divmod(which, len(self.cuts.low))
        bound = (self.cuts.low, self.cuts.high)[side][column]
        where = f"{'from' if side else 'up to'} {bound:.4g}{' on' if side else ''}"
        if self.cuts.weight is not None:
            begin, end = (np.array([column, column + 1]) * self.cuts.d // _FEATURES).tolist()
            return f"the features {begin + 1} to {end} have moved"
        name = repr(str(feature_names[column])) if feature_names is not None else f"number {column + 1}"
        return f"feature {name} moved: its share {where} {verb} {change}"


def _variance(n_rows: float) -> float:
    """Variance of a share on the arcsine scale."""
    return 1.0 / (4.0 * n_rows + 2.0)
