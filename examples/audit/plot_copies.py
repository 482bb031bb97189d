"""
Copies and groups of rows
=========================

A wrong label that was copied with its row looks right to everyone who asks the copy. nearkin finds
copies by itself. What belongs together in ways that no table shows, such as the pictures of one
patient, can be named as a group.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import nearkin

# %%
# Every digit is there twice, and the copies carry the same label, wrong ones too.

X, y = load_digits(return_X_y=True)
X, y = X[:700], y[:700]
given, is_wrong = nearkin.flip_labels(y, 0.15, random_state=0)
X2, given2, wrong2 = np.tile(X, (2, 1)), np.tile(given, 2), np.tile(is_wrong, 2)

# %%
# Whoever asks the nearest other row asks the copy, and hears that all is well.

nearest = KNeighborsClassifier(1).fit(X2, given2)
other = nearest.kneighbors(X2, 2, return_distance=False)
other = np.where(other[:, 0] == np.arange(len(X2)), other[:, 1], other[:, 0])
agree = given2[other] == given2
print(f"the nearest other row agrees with {agree[wrong2].mean():.0%} of the wrong labels")

audit = nearkin.audit_labels(X2, given2, random_state=0)
print(audit)
print(f"the audit doubts {audit.is_suspect[wrong2].mean():.0%} of the wrong labels")

# %%
# Now each row has three relatives that are alike, but not copies: the same digit moved, turned
# and blurred by hand would be such. Here we add noise. ``groups`` names the families.

rng = np.random.default_rng(0)
family = np.repeat(np.arange(350), 4)
X4, given4, wrong4 = (np.repeat(part[:350], 4, axis=0) for part in (X, given, is_wrong))
X4 = X4 + rng.normal(scale=2.5, size=X4.shape)

found = {}
for title, groups in {"not told": None, "told of the groups": family}.items():
    audit = nearkin.audit_labels(X4, given4, random_state=0, groups=groups)
    found[title] = audit.plausibility[wrong4], audit.plausibility[~wrong4]
    print(f"{title:>20}: {audit.is_suspect[wrong4].mean():.0%} of the wrong labels are suspects")

figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.8), sharey=True, layout="constrained")
for axis, (title, (wrong, right)) in zip(axes, found.items(), strict=True):
    bins = np.linspace(0, 1, 21)
    axis.hist([right, wrong], bins, stacked=True, color=["#0072B2", "#D55E00"], label=["right labels", "wrong labels"])
    axis.set(title=title, xlabel="plausibility", yscale="log")
axes[0].set_ylabel("rows")
axes[0].legend()
plt.show()
