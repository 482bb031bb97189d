"""
Sparse rows
===========

Learn from a bag of words with thousands of columns without making it dense.

The documents are synthetic: 6 topics, 2,000 words, about 40 words per document, a fifth of the
labels wrong. A CSR matrix stays sparse; only the block being learned is dense. The low-rank learner
keeps 24 x 2,000 numbers.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

import nearkin

rng = np.random.default_rng(0)
N_TOPICS, N_WORDS, N_DOCS = 6, 2000, 1200

# Most words are common to all topics; every topic prefers 60 of its own.
preference = np.ones((N_TOPICS, N_WORDS))
for topic in range(N_TOPICS):
    preference[topic, rng.choice(N_WORDS, 60, replace=False)] += 25.0
preference /= preference.sum(axis=1, keepdims=True)

y = rng.integers(0, N_TOPICS, N_DOCS)
lengths = rng.poisson(40, N_DOCS) + 1
words = np.concatenate([rng.choice(N_WORDS, n, p=preference[t]) for n, t in zip(lengths, y, strict=True)])
X = sparse.csr_array((np.ones(len(words)), (np.repeat(np.arange(N_DOCS), lengths), words)), shape=(N_DOCS, N_WORDS))
X.sum_duplicates()
print(f"{X.shape[0]} documents, {X.shape[1]} words, {100 * X.nnz / np.prod(X.shape):.1f} % of the entries are not zero")

X_train, y_train, X_test, y_test = X[:800], y[:800], X[800:], y[800:]
given, is_wrong = nearkin.flip_labels(y_train, 0.2, random_state=0)
models = {
    "Euclidean": None,
    "RobustLODML": nearkin.RobustLODML(n_components=24, random_state=0),
    "RobustLOSL": nearkin.RobustLOSL(n_components=24, random_state=0),
}
figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), sharey=True, layout="constrained")
for axis, (title, learner) in zip(axes, models.items(), strict=True):
    model = nearkin.RobustKNeighborsClassifier(learner, n_neighbors=5).fit(X_train, given)
    accuracy, ranking = 100 * model.score(X_test, y_test), roc_auc_score(is_wrong, -model.plausibility_)
    print(f"{title:12s} Robust-kNN {accuracy:5.1f} %   AUROC of plausibility {ranking:.3f}")
    axis.hist(
        [model.plausibility_[~is_wrong], model.plausibility_[is_wrong]], np.linspace(0, 1, 21), stacked=True,
        color=["#0072B2", "#D55E00"], label=["right labels", "wrong labels"],
    )  # fmt: skip
    axis.set(title=f"{title}\naccuracy {accuracy:.0f} %", xlabel="plausibility")
axes[0].set_ylabel("documents")
axes[1].legend()
plt.show()
