"""
Robust against plain classifiers
================================

Wrong labels in the training data: how much they hurt, and how to find them.

A fifth of the training labels of two small data sets is replaced by another class. The test labels
stay right. Four classifiers see the same training rows:

* plain 3-NN on z-scored features, which believes every label;
* Robust-kNN without metric learning, which drops implausible rows;
* Robust-kNN with the default learner, RobustLODML;
* the default classifier: a jury of neighbours and regressions, which corrects for the noise.

There is one split per data set, so the numbers move by a few points with the seed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearkin

NOISE = 0.2
accuracy = {}

for name, load in (("wine", load_wine), ("digits", load_digits)):
    X, y = load(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=1)
    given, is_wrong = nearkin.flip_labels(y_train, NOISE, random_state=1)

    models = {
        "plain 3-NN": make_pipeline(StandardScaler(), KNeighborsClassifier(3)),
        "Robust-kNN, Euclidean": nearkin.RobustKNeighborsClassifier(learner=None, n_neighbors=3),
        "Robust-kNN, RobustLODML": nearkin.RobustKNeighborsClassifier(n_neighbors=3, random_state=0),
        "jury (the default)": nearkin.RobustKNeighborsClassifier(random_state=0),
    }
    print(f"{name}: {len(X_train)} training rows, {is_wrong.sum()} labels replaced")
    for title, model in models.items():
        model.fit(X_train, given)
        accuracy[name, title] = 100 * model.score(X_test, y_test)
        print(f"  {title:24s} accuracy on clean test labels {accuracy[name, title]:5.1f} %")

    # The same fit says which rows to look at first.
    robust = models["jury (the default)"]
    print(f"  estimated noise rate {robust.noise_rate_:.2f}, true rate {is_wrong.mean():.2f}")
    suspects = np.argsort(robust.score_)[: is_wrong.sum()]
    print(f"  of the {len(suspects)} most doubtful rows, {is_wrong[suspects].sum()} have a wrong label")
    row = suspects[0]
    votes = robust.left_out_votes([row])  # of every voter, without the row's own label
    best = robust.classes_[votes.total[0].argmax()]
    print(f"  row {row}: given {given[row]}, most votes for {best}, right {y_train[row]}")
    for voter, share, said in zip(votes.voters, votes.shares, votes.votes[:, 0], strict=True):
        print(f"    {voter:20s} counts {100 * share:3.0f} %, votes for {robust.classes_[said.argmax()]}")
    print()

# %%
# The same as a picture.

figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), sharey=True, layout="constrained")
for axis, name in zip(axes, ("wine", "digits"), strict=True):
    values = [accuracy[name, title] for title in models]
    bars = axis.barh(list(models), values, color=["#8a8a8a", "#8cc5e3", "#56a0d3", "#0072B2"])
    axis.bar_label(bars, fmt="%.1f", padding=3)
    axis.set(title=name, xlim=(60, 104), xlabel="accuracy on clean test labels, %")
axes[0].invert_yaxis()
plt.show()
