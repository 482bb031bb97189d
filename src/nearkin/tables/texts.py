"""Texts as points: hashed words and letter sequences, weighed by rarity (TF-IDF), in a few dimensions (truncated SVD).

Every piece of a text is hashed in compiled loops of NumPy, so no vocabulary is kept and no text is too strange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.arrays import Array

__all__ = ["GramSpace", "n_buckets"]

#: Buckets of words and pairs of words, and of sequences of letters.
_WORDS, _LETTERS = 1 << 13, 1 << 12
#: Lengths of the sequences of letters; names have shorter ones. In texts one begins at every third letter of a word.
_LONG, _SHORT = (4,), (2, 3, 4)
_STRIDE = 3
#: Characters of a text that are read, characters hashed at once, and texts that the space is learned from.
_LONGEST, _AT_ONCE, _SAMPLE = 20_000, 1 << 21, 8192

_BASE = 0x9E3779B97F4A7C15 | 1
_INVERSE = pow(_BASE, -1, 1 << 64)
_MIX = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class GramSpace:
    """Weights of the buckets, and the directions of the space.

    Examples
    --------
    >>> texts = ["red apple", "red cherry", "blue sky", "blue sea"] * 5
    >>> space, place = GramSpace.learn(texts, np.ones(20, dtype=int), 2, has_words=True)
    >>> place.shape, bool(np.abs(place[0] - place[1]).sum() < np.abs(place[0] - place[2]).sum())
    ((20, 2), True)
    """

    space: Array
    weight: Array
    has_words: bool

    @classmethod
    def learn(
        cls, texts: Sequence[str], counts: NDArray[np.int64], n_dimensions: int, *, has_words: bool
    ) -> tuple[GramSpace, Array | None]:
        """Learn from texts, each of which occurs a number of times; return also where they lie, if all were used."""
        from sklearn.utils.extmath import randomized_svd

        has_all = len(texts) <= _SAMPLE
        if not has_all:
            chosen = np.linspace(0, len(texts) - 1, _SAMPLE).astype(np.int64)
            texts, counts = [texts[i] for i in chosen.tolist()], counts[chosen]
        grams = _count_grams(texts, has_words=has_words)
        n_with = np.asarray((grams > 0).T @ counts.astype(np.float64)).ravel()
        weight = np.log((1.0 + counts.sum()) / (1.0 + n_with)) + 1.0
        weight[n_with < 2] = 0.0  # of one row, or of none
        weight = weight.astype(np.float32)
        weighed = _weigh(grams, weight, has_words=has_words)
        root = sparse.diags_array(np.sqrt(counts).astype(np.float32))
        k = max(1, min(n_dimensions, len(texts) - 1, grams.shape[1] - 1))
        _, _, space = randomized_svd(root @ weighed, k, n_iter=2, random_state=0)
        found = cls(space.astype(np.float32), weight, has_words)
        return found, (weighed @ found.space.T).astype(np.float64) if has_all else None

    def place(self, texts: Sequence[str]) -> Array:
        """Return where texts lie."""
        out = np.zeros((len(texts), len(self.space)))
        for part in _parts(texts):
            grams = _count_grams(texts[part], has_words=self.has_words)
            out[part] = _weigh(grams, self.weight, has_words=self.has_words) @ self.space.T
        return out


def n_buckets(*, has_words: bool) -> int:
    """Return how many buckets there are."""
    return _LETTERS + (_WORDS if has_words else 0)


def _parts(texts: Sequence[str]) -> list[slice]:
    """Cut texts into pieces of bounded size."""
    ends = np.cumsum([min(len(one), _LONGEST) + 2 for one in texts]) // _AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(texts)]
    return [slice(one, two) for one, two in pairwise(cuts) if two > one]


def _weigh(grams: sparse.csr_array, weight: Array, *, has_words: bool) -> sparse.csr_array:
    """Return the logarithm of counts times weights; words and letters of a text each get length 1."""
    out = grams.astype(np.float32)
    out.data = (1.0 + np.log(out.data)) * weight[out.indices]
    rows = np.repeat(np.arange(out.shape[0]), np.diff(out.indptr))
    kind = (out.indices >= (_WORDS if has_words else 0)).astype(np.int64) + 2 * rows
    length = np.sqrt(np.bincount(kind, out.data.astype(np.float64) ** 2, minlength=2 * out.shape[0]))
    out.data = (out.data / np.where(length > 0, length, 1.0)[kind]).astype(np.float32)
    return out


def _count_grams(texts: Sequence[str], *, has_words: bool) -> sparse.csr_array:
    """Return how often every bucket occurs in every text."""
    parts = [_count_part(texts[part], has_words=has_words) for part in _parts(texts)]
    return parts[0] if len(parts) == 1 else sparse.csr_array(sparse.vstack(parts))


def _count_part(texts: Sequence[str], *, has_words: bool) -> sparse.csr_array:
    folded = [f" {' '.join(one[:_LONGEST].casefold().split())} " for one in texts]
    signs = np.frombuffer("".join(folded).encode("utf-32-le", "surrogatepass"), np.uint32)
    owner = np.repeat(np.arange(len(texts)), [len(one) for one in folded])
    kinds = np.flatnonzero(np.bincount(signs))
    is_word = np.zeros(int(kinds[-1]) + 1, dtype=bool)
    is_word[kinds] = [chr(one).isalnum() for one in kinds.tolist()]
    is_word = is_word[signs]
    with np.errstate(over="ignore"):  # hashes are counted modulo 2**64
        power = np.cumprod(np.full(len(signs), _BASE, np.uint64))
        back = np.cumprod(np.full(len(signs) + 1, _INVERSE, np.uint64))
        total = np.append(np.uint64(0), np.cumsum((signs.astype(np.uint64) + np.uint64(1)) * power))

        def hashed(start: NDArray[np.int64], stop: NDArray[np.int64], n_buckets: int) -> NDArray[np.int64]:
            mixed = (total[stop] - total[start]) * back[start] * _MIX
            mixed ^= mixed >> np.uint64(32)
            return ((mixed * _MIX) >> np.uint64(40)).astype(np.int64) % n_buckets

        edges = np.flatnonzero(np.diff(is_word.astype(np.int8), prepend=0, append=0))
        found = []
        for length in _LONG if has_words else _SHORT:
            start = np.arange(max(0, len(signs) - length + 1))
            if has_words:  # counted from the beginnings of words, so that the same word gives the same sequences
                begins = np.zeros(len(start), dtype=np.int64)
                begins[edges[::2][edges[::2] < len(start)]] = edges[::2][edges[::2] < len(start)]
                start = start[is_word[start] & ((start - np.maximum.accumulate(begins)) % _STRIDE == 0)]
            start = start[owner[start] == owner[start + length - 1]]
            found.append((owner[start], hashed(start, start + length, _LETTERS) + (_WORDS if has_words else 0)))
        if has_words:
            start, stop = edges[::2], edges[1::2]
            found.append((owner[start], hashed(start, stop, _WORDS)))
            together = owner[start[:-1]] == owner[start[1:]]
            found.append((owner[start[:-1]][together], hashed(start[:-1][together], stop[1:][together], _WORDS)))
    row, column = (np.concatenate(one) for one in zip(*found, strict=True))
    shape = len(texts), n_buckets(has_words=has_words)
    return sparse.csr_array(sparse.coo_array((np.ones(len(row), np.float32), (row, column)), shape=shape))
