"""Which words of a text speak for a label: how many times more often texts of one class hold them than of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.arrays import Codes, Mask
from nearkin.audit.contrast import LARGEST, N_SHOWN, blend_share
from nearkin.noise.model import spread_rows

__all__ = ["WordContrast"]

#: Trusted texts that are read, words that are known, texts that hold a known word at least, and words of a usual text
#: below which these are names rather than texts.
_READ, _KNOWN, _FEWEST, _LEAST_WORDS = 20_000, 20_000, 3, 3.0
#: Smallest score that is shown: one and a half times as often.
_SMALLEST = 0.4


class WordContrast:
    """Words of trusted texts, counted by class.

    The score of a word is that of a category (see `nearkin.audit.contrast`): the logarithm of the share of texts of the
    other class that hold it over that of the given class, each drawn towards the share among all texts. Words that a
    text lacks say nothing.

    Parameters
    ----------
    texts : sequence of str
        Text of each row.
    codes : ndarray of int64 of shape (n_samples,)
        Classes of the rows.
    is_suspect : ndarray of bool of shape (n_samples,)
        Rows whose classes are in doubt.

    Examples
    --------
    >>> texts = ["ripe red cherry", "red apple pie", "deep blue sea", "calm blue sea"] * 10
    >>> words = WordContrast(texts, np.tile([0, 0, 1, 1], 10), np.zeros(40, dtype=bool))
    >>> [(word, round(score, 1)) for word, score in words.words_of("a blue apple", 0, 1)]
    [('blue', 2.2), ('apple', -2.2)]
    """

    def __init__(self, texts: Sequence[Any] | NDArray[Any], codes: Codes, is_suspect: Mask):
        from sklearn.feature_extraction.text import CountVectorizer

        trusted = np.flatnonzero(~is_suspect)
        read = trusted[spread_rows(len(trusted), _READ)]
        reader = CountVectorizer(binary=True, max_features=_KNOWN)
        self._split = reader.build_analyzer()
        self._places: dict[str, int] = {}
        self.sizes = np.bincount(codes[read], minlength=int(codes.max()) + 1)
        try:
            held = reader.fit_transform([str(texts[i]) for i in read.tolist()])
        except ValueError:  # the texts hold no words
            return
        n_with = np.asarray(held.sum(axis=0)).ravel()
        if held.nnz < _LEAST_WORDS * len(read):
            return
        common = np.flatnonzero(n_with >= _FEWEST)
        names = reader.get_feature_names_out()[common].tolist()
        self._places = {word: i for i, word in enumerate(names)}
        self._of_all = n_with[common] / len(read)
        by_class = sparse.csr_matrix(
            (np.ones(len(read)), (codes[read], np.arange(len(read)))), (len(self.sizes), len(read))
        )
        self._counts = sparse.csr_matrix(by_class @ held[:, common])

    def __bool__(self) -> bool:
        """Whether there are words to compare; there are none where texts are names."""
        return bool(self._places)

    def words_of(self, text: Any, given: int, other: int) -> list[tuple[str, float]]:
        """Return the words of a text that speak most, at most five; above 0 for the other class, else for its own."""
        words = [word for word in dict.fromkeys(self._split(str(text))) if word in self._places]
        if not words:
            return []
        at = [self._places[word] for word in words]
        sizes, of_all = self.sizes[[given, other]], self._of_all[at]
        own, others = (
            blend_share(self._counts[code, at].toarray()[0], self.sizes[code], of_all, sizes) for code in (given, other)
        )
        scores = np.clip(np.log(others / own), -LARGEST, LARGEST)
        order = np.argsort(-np.abs(scores), kind="stable")[:N_SHOWN].tolist()
        order = [i for i in order if abs(scores[i]) >= _SMALLEST]
        return [(words[i], float(scores[i])) for i in order]
