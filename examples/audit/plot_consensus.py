"""
Several people, one label
=========================

Five people labelled the same digits, and not all of them are careful. Their answers and a jury that
knows the features find the labels together, and say whom to trust.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import nearkin

X, y = load_digits(return_X_y=True)
X, y = X[:900], y[:900]
rng = np.random.default_rng(0)
SKILL = {"Ada": 0.95, "Ben": 0.85, "Cleo": 0.7, "Dan": 0.5, "Eve": 0.1}  # Eve clicks at random
right = rng.random((len(y), 5)) < list(SKILL.values())
answers = np.where(right, y[:, None], rng.integers(0, 10, right.shape)).astype(object)
answers[rng.random(right.shape) < 0.4] = None  # not everybody answers everything

# %%
# A vote of the answers counts Eve as much as Ada, and knows nothing of a row that nobody
# answered.


def majority(row):
    said, counts = np.unique([int(one) for one in row if one is not None], return_counts=True)
    return said[counts.argmax()] if len(said) else 0


voted = np.array([majority(row) for row in answers])
without = nearkin.find_consensus(None, answers, random_state=0)
found = nearkin.find_consensus(X, pd.DataFrame(answers, columns=list(SKILL)), random_state=0)
for title, label in {"majority": voted, "answers alone": without.label, "answers and features": found.label}.items():
    print(f"{title:>20}: {(label == y).mean():.1%} of the labels are right")
for one in found.annotators:
    print(one)

# %%
# How careful each person was, as estimated without the truth, beside what they really did.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.1), layout="constrained")
quality = np.array([one.quality for one in found.annotators])
truth = [np.mean([a == b for a, b in zip(answers[:, j], y, strict=True) if a is not None]) for j in range(5)]
place = np.arange(5)
axes[0].bar(place - 0.2, 100 * quality, 0.4, color="#0072B2", label="estimated")
axes[0].bar(place + 0.2, 100 * np.array(truth), 0.4, color="#8a8a8a", label="true")
axes[0].set(xticks=place, xticklabels=[one.name for one in found.annotators], ylabel="right answers, %")
axes[0].legend()

# Confidence: of the labels about which the consensus is that sure, how many are right?
bins = np.array([0, 0.5, 0.8, 0.95, 0.99, 1.001])
at = np.digitize(found.confidence, bins) - 1
share = [100 * (found.label == y)[at == b].mean() if (at == b).any() else 0 for b in range(len(bins) - 1)]
bars = axes[1].bar(["< 0.5", "0.5-0.8", "0.8-0.95", "0.95-0.99", "> 0.99"], share, color="#009E73")
axes[1].bar_label(bars, [f"{(at == b).sum()} rows" for b in range(len(bins) - 1)], fontsize=8)
axes[1].set(xlabel="confidence of the label", ylabel="right, %", ylim=(0, 112))
plt.show()

# %%
# ``ask_again`` lists the rows for which another answer helps most.

print("ask again about", found.ask_again[:8], "of", len(found.ask_again))
