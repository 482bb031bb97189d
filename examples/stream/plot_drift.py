"""
A stream that drifts
====================

Rows arrive in batches, a fifth of their labels is wrong, and the world changes under way: classes
move, and a feature changes its unit. Each batch is first predicted, then learned, so no row is
judged by a model that has seen it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

import nearkin

# %%
# Six classes in twelve dimensions, of which only four tell anything. From row 4,000 to row 8,000
# the classes move to other places, and the first feature is measured in a unit that shrinks to a
# twentieth.

rng = np.random.default_rng(0)
N, BATCH = 12_000, 200
y = rng.integers(0, 6, N)
old, new = 1.6 * rng.normal(size=(2, 6, 4))
gone = np.clip((np.arange(N) - 4_000) / 4_000, 0, 1)[:, None]  # from 0 to 1: how far the change has gone
X = rng.normal(size=(N, 12)) * np.r_[np.ones(4), np.full(8, 2.0)]
X[:, :4] += (1 - gone) * old[y] + gone * new[y]
X[:, :1] *= 20.0**gone
given, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)

audit = nearkin.StreamAudit(n_per_class=150, random_state=0)
scaler, linear = StandardScaler(), SGDClassifier(random_state=0)
accuracy, wrong_found, at = {"StreamAudit": [], "linear model by SGD": []}, [], []
for start in range(0, N, BATCH):
    batch = slice(start, start + BATCH)
    if start:
        accuracy["StreamAudit"].append(100 * (audit.predict(X[batch]) == y[batch]).mean())
        accuracy["linear model by SGD"].append(100 * linear.score(scaler.transform(X[batch]), y[batch]))
        at.append(start)
    audit.partial_fit(X[batch], given[batch])
    if start:
        wrong_found.append(100 * audit.is_suspect_[is_wrong[batch]].mean())
    scaler.partial_fit(X[batch])
    linear.partial_fit(scaler.transform(X[batch]), given[batch], classes=range(6))
late = np.array(at) > N - 2000
for name, values in accuracy.items():
    print(f"{name}: {np.mean(values):.1f} % on average, {np.array(values)[late].mean():.1f} % in the last 2,000 rows")
print(
    f"estimated noise rate in the end {audit.noise_rate_:.2f}, rows held {len(audit.held_)}, seen {audit.n_rows_seen_}"
)

# %%
# Between the dotted lines the world changes. Rows from before contradict those from after until
# they have faded. If a stream changes its units again and again,
# ``scale=nearkin.MovingScale(half_life)`` lets the scale follow too (:doc:`/streams`).

figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True, layout="constrained")
for (name, values), colour, dashes in zip(accuracy.items(), ("#0072B2", "#8a8a8a"), ("-", "--"), strict=True):
    top.plot(at, values, color=colour, ls=dashes, label=name)
top.set(ylabel="accuracy on\nright labels, %", ylim=(0, 100))
top.legend(loc="lower right")
bottom.plot(at, wrong_found, color="#D55E00")
bottom.set(xlabel="row of the stream", ylabel="wrong labels\nfound on arrival, %", ylim=(0, 102))
for axis in (top, bottom):
    for change in (4_000, 8_000):
        axis.axvline(change, color="#222222", lw=0.8, ls=":")
plt.show()
