"""
Learning in bounded memory
==========================

``partial_fit`` keeps one matrix and a bounded sample of rows, however long the stream. This example
measures the model as rows come, and compares it with a fit on all rows at once.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import nearkin

rng = np.random.default_rng(0)
N, D, CLASSES = 40_000, 32, 8
mix = rng.normal(size=(D, D)) * np.geomspace(0.1, 3.0, D)  # features in different units, correlated
centres = 0.42 * rng.normal(size=(CLASSES, D))
y = rng.integers(0, CLASSES, N)
X = (centres[y] + rng.normal(size=(N, D))) @ mix
given, _ = nearkin.flip_labels(y, 0.2, random_state=0)
test = np.arange(N - 1500, N)
train = np.arange(N - 1500)


def precision(learner):
    """Accuracy of 15 nearest among 3,000 rows, in the learned space, with right labels."""
    some = train[:3000]
    near = KNeighborsClassifier(15).fit(learner.transform(X[some]), y[some])
    return 100 * near.score(learner.transform(X[test]), y[test])


learner = nearkin.RobustLODML(n_components=8, random_state=0)
rows, size, quality, pace = [], [], [], []
with tempfile.TemporaryDirectory() as folder:
    for start in range(0, len(train), 1000):
        batch = train[start : start + 1000]
        begun = time.process_time()
        learner.partial_fit(X[batch], given[batch])
        pace.append(len(batch) / (time.process_time() - begun))
        if start % 5000 == 0 or start < 3000:
            path = Path(folder) / "model.nearkin"
            nearkin.save(learner, path)
            rows.append(learner.n_rows_seen_)
            size.append(path.stat().st_size / 1000)
            quality.append(precision(learner))
            print(f"{rows[-1]:6,d} rows: model {size[-1]:5.0f} kB, accuracy of neighbours {quality[-1]:.1f} %")
print(f"{np.median(pace[1:]):,.0f} rows a second (median of the batches)")

# %%
# The model stops growing after a few thousand rows; so does the time that a batch takes.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
left.plot(rows, size, color="#0072B2", marker="o")
left.set(xlabel="rows learned", ylabel="size of the model, kB", ylim=(0, None))
right.plot(rows, quality, color="#009E73", marker="o", label="stream, row by row")
whole = precision(nearkin.RobustLODML(n_components=8, random_state=0).fit(X[train], given[train]))
right.axhline(whole, color="#8a8a8a", ls="--", label="fit on all rows at once")
right.set(xlabel="rows learned", ylabel="accuracy of neighbours, %")
right.legend(loc="lower right")
plt.show()
