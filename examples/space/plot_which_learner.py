"""
Which learner?
==============

The same rows, a third of the labels wrong, and several learners. Rows that none of them has seen
retrieve training rows, and the right labels judge what they get, so that no classifier hides
anything.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import nearkin

X, y = load_digits(return_X_y=True)
X, y = X[:1200], y[:1200]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

MODELS = {
    "z-scores": StandardScaler,
    "shrunk LDA": lambda: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
    "LODML": lambda: nearkin.LODML(random_state=0),
    "RobustLODML": lambda: nearkin.RobustLODML(random_state=0),
    "RobustODML": lambda: nearkin.RobustODML(random_state=0),
    "RobustLOSL": lambda: nearkin.RobustLOSL(random_state=0),
    "RobustLODML (printed)": lambda: nearkin.RobustLODML(init="identity", triplets="octg", C=0.1, random_state=0),
}


def precision(model, k=20):
    """Share of the k nearest training rows that have the right label of the test row."""
    train, test = model.transform(X_train), model.transform(X_test)
    near = NearestNeighbors(n_neighbors=k).fit(train).kneighbors(test, return_distance=False)
    return 100 * (y_train[near] == y_test[:, None]).mean()


NOISE = (0.0, 0.2, 0.33)
given = {rate: nearkin.flip_labels(y_train, rate, random_state=1)[0] for rate in NOISE}
nearkin.RobustLODML(random_state=0).fit(X_train[:200], y_train[:200])  # compiles, so that times compare
found, seconds = {}, {}
for title, make in MODELS.items():
    begun = time.process_time()
    models = [make().fit(X_train, given[rate]) for rate in NOISE]
    seconds[title] = (time.process_time() - begun) / len(NOISE)
    found[title] = [precision(model) for model in models]
    print(f"{title:22s} " + "  ".join(f"{100 * rate:2.0f} % wrong: {value:4.1f}" for rate, value in
                                      zip(NOISE, found[title], strict=True)))  # fmt: skip

# %%
# How much each loses to wrong labels. One data set and one draw; :doc:`/which` has 24 sets, all
# learners and rivals.

figure, axis = plt.subplots(figsize=(8, 3.8), layout="constrained")
place = np.arange(len(found))
for shift, rate, colour in zip((-0.27, 0, 0.27), NOISE, ("#8cc5e3", "#0072B2", "#D55E00"), strict=True):
    values = [one[NOISE.index(rate)] for one in found.values()]
    axis.barh(place + shift, values, 0.26, color=colour, label=f"{100 * rate:.0f} % wrong")
axis.set(yticks=place, yticklabels=list(found), xlabel="precision of the 20 nearest, %", xlim=(60, 100))
axis.invert_yaxis()
figure.legend(loc="outside upper right", ncols=3)
plt.show()
