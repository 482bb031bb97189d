"""A map of the learned space by UMAP: plain distances after `transform` are the learned ones, so any method takes them.

Wine with twenty columns that say nothing, and a fifth of the labels wrong. Neighbours in a two-dimensional map are
counted before and after learning: how many of the ten nearest share the true class? Uses UMAP if it is installed
(pip install umap-learn), otherwise the t-SNE of scikit-learn.
"""

import warnings

import numpy as np
from sklearn.datasets import load_wine
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

import nearkin

X, y = load_wine(return_X_y=True)
X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 20))])
labels, _ = nearkin.flip_labels(y, 0.2, random_state=0)


def draw(rows):
    """Two coordinates for every row."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from umap import UMAP

            return "UMAP", UMAP(n_neighbors=15, random_state=0, n_jobs=1).fit_transform(rows)
    except ImportError:
        from sklearn.manifold import TSNE

        return "t-SNE", TSNE(random_state=0, init="pca", max_iter=300).fit_transform(rows)


def purity(flat):
    near = NearestNeighbors(n_neighbors=11).fit(flat).kneighbors(flat, return_distance=False)[:, 1:]
    return 100 * np.mean(y[near] == y[:, None])


learner = nearkin.RobustLODML(random_state=0).fit(X, labels)
for name, rows in {"z-scores": StandardScaler().fit_transform(X), "learned space": learner.transform(X)}.items():
    method, flat = draw(rows)
    print(f"{method} of {name}: {purity(flat):.1f} % of the ten nearest are of the same class")
