"""Words that speak for a label: a literal count, and texts that have none."""

import numpy as np
import pytest

from nearkin.audit.words import WordContrast


@pytest.fixture
def made(rng):
    common, own = [f"word{i}" for i in range(30)], [[f"{c}{i}" for i in range(8)] for c in ("cat", "dog", "emu")]
    codes = rng.integers(0, 3, 300)
    texts = [" ".join([*rng.choice(common, 6), *rng.choice(own[c], 3), "Zoo"]) for c in codes]
    return texts, codes, rng.random(300) < 0.1


def test_scores_are_those_of_a_literal_count(made):
    texts, codes, doubted = made
    words = WordContrast(texts, codes, doubted)
    trusted = [(set(t.lower().split()), c) for t, c, d in zip(texts, codes, doubted, strict=True) if not d]
    sizes = [sum(c == k for _, c in trusted) for k in range(3)]
    found = words.words_of("dog3 CAT1 word4 zoo unheard", 0, 1)
    added = 5 / (5 + min(sizes[0], sizes[1]))
    expected = {}
    for word in ("dog3", "cat1", "word4", "zoo"):
        shares = [
            (1 - added) * sum(word in t and c == k for t, c in trusted) / sizes[k]
            + added * sum(word in t for t, _ in trusted) / len(trusted)
            for k in (0, 1)
        ]
        expected[word] = np.log(shares[1] / shares[0])
    kept = {word: score for word, score in expected.items() if abs(score) >= 0.4}
    assert dict(found) == pytest.approx(kept) and {"dog3", "cat1"} <= set(kept) and "zoo" not in kept
    assert [abs(score) for _, score in found] == sorted((abs(score) for _, score in found), reverse=True)


@pytest.mark.parametrize("texts", [["", " "] * 20, ["!!", "?"] * 20, [f"id{i}" for i in range(40)], [None, 3.5] * 20])
def test_names_and_nothing_have_no_words(texts):
    words = WordContrast(texts, np.arange(40) % 2, np.zeros(40, dtype=bool))
    assert not words and words.words_of(texts[0], 0, 1) == []


def test_a_class_without_trusted_rows_says_nothing():
    words = WordContrast(["a red ripe cherry", "the deep blue sea"] * 20, np.arange(40) % 2, np.arange(40) % 2 == 1)
    assert words and words.words_of("red sea", 1, 0) == []
