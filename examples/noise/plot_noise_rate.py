"""
How many labels are wrong?
==========================

The audit estimates the share of wrong labels without being told anything. How well depends on how
they got wrong: uniform flips are easy, confusions with one other class harder, and mistakes where
classes meet the hardest, because the features mislead the voters as they misled whoever labelled
the rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine

import nearkin
from nearkin.noise import flip_near_boundary, flip_to_next

# %%
# Three kinds of noise, four shares each, on two data sets. The interval is the audit's own.

KINDS = {
    "uniform": lambda X, y, rate: nearkin.flip_labels(y, rate, random_state=0),
    "next class": lambda X, y, rate: flip_to_next(y, rate, random_state=0),
    "near the boundary": lambda X, y, rate: flip_near_boundary(X, y, rate, random_state=0),
}
RATES = (0.0, 0.1, 0.2, 0.3)
data = {"digits": load_digits(return_X_y=True), "wine": load_wine(return_X_y=True)}
data["digits"] = tuple(part[:900] for part in data["digits"])

found = {}
for name, (X, y) in data.items():
    spread = X.std(axis=0)
    scaled = X / np.where(spread > 0, spread, 1)  # only to place the noise; the audit takes X as it is
    for kind, flip in KINDS.items():
        for rate in RATES:
            audit = nearkin.audit_labels(X, flip(scaled, y, rate)[0], random_state=0)
            found[name, kind, rate] = audit.noise_rate, *audit.noise_interval
            print(f"{name:6s} {kind:17s} true {rate:4.0%}, estimated {audit.noise_rate:5.1%} "
                  f"({audit.noise_interval[0]:.1%} to {audit.noise_interval[1]:.1%})")  # fmt: skip

# %%
# On the dotted line estimates are exact. One draw each, so single points move with the seed;
# :doc:`/audit` has the figures over many data sets.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for axis, name in zip(axes, data, strict=True):
    axis.plot([0, 35], [0, 35], color="#8a8a8a", ls=":")
    for (kind, colour, mark), shift in zip(
        (("uniform", "#0072B2", "o"), ("next class", "#009E73", "s"), ("near the boundary", "#D55E00", "^")),
        (-0.6, 0, 0.6), strict=True,
    ):  # fmt: skip
        rates, low, high = 100 * np.array([found[name, kind, rate] for rate in RATES]).T
        axis.errorbar(
            100 * np.array(RATES) + shift, rates, [np.maximum(rates - low, 0), np.maximum(high - rates, 0)],
            color=colour, marker=mark, ls="", capsize=3, label=kind,
        )  # fmt: skip
    axis.set(title=name, xlabel="labels that are wrong, %")
axes[0].set_ylabel("estimate with its interval, %")
axes[0].legend()
plt.show()
