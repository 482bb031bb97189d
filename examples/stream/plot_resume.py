"""
Stop a stream, and go on from a file
====================================

Learn batch by batch, meet new classes, stop, and continue from a file.

The rows of the digits data arrive in batches. The first batches hold only the digits 0 to 4, then
the others appear. Only the model remains of earlier batches.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import nearkin

X, y = load_digits(return_X_y=True)
X_test, y_test = X[1400:], y[1400:]
first_half = np.flatnonzero(y[:1400] < 5)
second_half = np.flatnonzero(y[:1400] >= 5)
order = np.concatenate([first_half, np.random.default_rng(0).permutation(np.concatenate([first_half, second_half]))])
batches = np.array_split(order, 12)

learner = nearkin.RobustLODML(n_components=20, random_state=0)
with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "stream.nearkin"
    for number, batch in enumerate(batches):
        learner.partial_fit(X[batch], y[batch])
        if number in (0, 3, 7, 11):
            print(
                f"batch {number:2d}: {learner.n_rows_seen_:5d} rows, {learner.n_triplets_seen_:5d} triplets, "
                f"classes {learner.classes_.tolist()}"
            )
        if number == 5:
            # One file holds the metric, the centres and the counters. A reader sees the old file or the new one.
            nearkin.save(learner, checkpoint)

    # Another process would begin here. It ends with the same model as the uninterrupted one.
    resumed = nearkin.load(checkpoint)
    for batch in batches[6:]:
        resumed.partial_fit(X[batch], y[batch])
print("resumed model equals the uninterrupted one:", np.array_equal(resumed.components_, learner.components_))

# %%
# A bad batch is refused as a whole; the model does not change.
before = learner.components_.copy()
try:
    learner.partial_fit([[np.nan] * 64], [0])
except ValueError as error:
    print("refused:", str(error).splitlines()[0])
print("model unchanged:", np.array_equal(before, learner.components_))

# %%
# Neighbours vote under the learned distance; a fitted learner is used as it is.
voters = nearkin.RobustKNeighborsClassifier(learner).fit(X[order[-400:]], y[order[-400:]])
print(f"3-NN among the newest 400 rows: {100 * voters.score(X_test, y_test):.1f} % of {len(y_test)} test rows")

# %%
# The space as the stream left it: test rows, which the learner has never seen, by their two
# leading directions.

flat = learner.transform(X_test)
flat = (flat - flat.mean(axis=0)) @ np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)[2][:2].T
figure, axis = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
drawn = axis.scatter(*flat.T, c=y_test, cmap="tab10", s=14, vmin=-0.5, vmax=9.5)
figure.colorbar(drawn, ticks=range(10), label="digit")
axis.set(xticks=[], yticks=[])
plt.show()
