"""
The learned space, drawn
========================

Three digits that look alike, 40 % of the training labels wrong. The map learned from them still
keeps the digits apart, on rows that no learner has seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import nearkin

X, y = load_digits(return_X_y=True)
some = np.isin(y, (3, 8, 9))
X_train, X_test, y_train, y_test = train_test_split(X[some], y[some], test_size=0.5, stratify=y[some], random_state=0)
given, _ = nearkin.flip_labels(y_train, 0.4, random_state=0)

# %%
# A learner is a transformer of scikit-learn: after ``transform`` the plain Euclidean distance is
# the learned one. So the space can be handed to PCA, to t-SNE, to UMAP, or to an index.

scaler = StandardScaler().fit(X_train)
spaces = {
    "pixels, z-scored": (scaler.transform(X_train), scaler.transform(X_test)),
    "LODML, 40 % wrong": nearkin.LODML(random_state=0).fit(X_train, given),
    "RobustLODML, 40 % wrong": nearkin.RobustLODML(random_state=0).fit(X_train, given),
}

figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.6), layout="constrained")
for axis, (title, space) in zip(axes, spaces.items(), strict=True):
    train, test = space if isinstance(space, tuple) else (space.transform(X_train), space.transform(X_test))
    near = NearestNeighbors(n_neighbors=50).fit(train).kneighbors(test, return_distance=False)
    share = (y_train[near] == y_test[:, None]).mean()
    print(f"{title:26s} {share:.1%} of the 50 nearest training rows show the same digit")
    flat = PCA(2).fit(train).transform(test)
    for digit, colour, mark in ((3, "#0072B2", "o"), (8, "#D55E00", "s"), (9, "#009E73", "^")):
        axis.scatter(*flat[y_test == digit].T, c=colour, marker=mark, s=16, alpha=0.7, linewidths=0, label=f"{digit}")
    axis.set_title(f"{title}\n{share:.0%} of neighbours alike", fontsize=10)
    axis.set(xticks=[], yticks=[])
axes[0].legend(title="digit")
plt.show()
