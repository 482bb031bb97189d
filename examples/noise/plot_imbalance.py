"""
Rare classes
============

A class of one in fifty loses most votes wherever classes overlap, whether its labels are right or
not. A rule that looks at votes alone would drop it. The audit protects rare classes: it has no more
suspects among them than the estimated flips would have brought there.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

import nearkin

# %%
# Three clouds of 1,500, 300 and 30 rows; all labels are right at first, then a twentieth is
# wrong.

rng = np.random.default_rng(0)
sizes = (1500, 300, 30)
centres = np.array([[0.0, 0.0, 0, 0], [2.6, 0.5, 0, 0], [1.0, 2.6, 0, 0]])
y = np.repeat(np.array(["common", "less common", "rare"]), sizes)
X = np.repeat(centres, sizes, axis=0) + rng.normal(scale=0.9, size=(len(y), 4))

results = {}
for title, rate in (("all labels right", 0.0), ("5 % wrong", 0.05)):
    given, is_wrong = nearkin.flip_labels(y, rate, random_state=0)
    audit = nearkin.audit_labels(X, given, random_state=0)
    votes = cross_val_predict(KNeighborsClassifier(15), X, given)
    print(f"{title}: estimated {audit.noise_rate:.1%} wrong")
    for rule, doubted in {
        "outvoted by 15 neighbours": votes != given,
        "called wrong by the audit": audit.is_wrong,
    }.items():
        lost = [100 * doubted[(y == one) & ~is_wrong].mean() for one in np.unique(y)]
        found = doubted[is_wrong].mean() if rate else np.nan
        results[title, rule] = lost
        print(f"  {rule:26s} right labels lost: " + ", ".join(
            f"{one} {share:.1f} %" for one, share in zip(np.unique(y), lost, strict=True))
            + (f"; wrong labels found: {found:.0%}" if rate else ""))  # fmt: skip

# %%
# The share of *right* labels that each rule would drop, by class. A wrong label cannot be told
# from a right one inside a rare class that overlaps a common one; there, dropping fewer is the
# better choice.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for axis, title in zip(axes, ("all labels right", "5 % wrong"), strict=True):
    for shift, (rule, colour) in enumerate(
        (("outvoted by 15 neighbours", "#8a8a8a"), ("called wrong by the audit", "#0072B2"))
    ):
        bars = axis.bar(np.arange(3) + 0.4 * shift - 0.2, results[title, rule], 0.4, color=colour, label=rule)
        axis.bar_label(bars, fmt="%.0f", fontsize=8)
    axis.set(title=title, xticks=range(3), xticklabels=np.unique(y))
axes[0].set_ylabel("right labels lost, %")
axes[0].legend()
plt.show()

# %%
# ``doubt_by_class`` shows the flags by class. Look at it before you drop anything.

print(audit.doubt_by_class())
