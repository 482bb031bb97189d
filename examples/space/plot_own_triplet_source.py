"""
Your own triplet source
=======================

Define where (anchor, positive, negative) come from, and every learner can use it.

The source here remembers the newest rows of the stream. For every row it takes the nearest
remembered row of the same class as positive and the nearest remembered row of another class as
negative, under the metric learned so far.

It is easy to write, and it shows why OCTG uses centres: a wrong label among the remembered rows
spoils the triplets of its neighbours too, not only its own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

import nearkin
from nearkin.rows import Rows
from nearkin.triplets import Triplets, TripletSource


class RecentNeighbours(TripletSource):
    """Nearest remembered row of the own class against the nearest one of any other class."""

    def __init__(self, memory=64, piece=16):
        self.memory = memory  # rows remembered
        self.piece = piece  # rows between two looks at the learned metric

    def start(self, rows, codes, view, rng):
        self.kept_ = np.empty((0, rows.n_features), rows.dtype)
        self.kept_codes_ = np.empty(0, np.int64)
        self.kept_origin_ = np.empty(0, np.int64)

    def generate(self, rows, codes, view):
        for start in range(0, len(rows), self.piece):
            block = rows.take(slice(start, start + self.piece))
            own = codes[start : start + len(block)]
            origin = self.number_rows(len(block))  # numbers of these rows in the stream
            same = own[:, None] == self.kept_codes_[None, :]
            anchor = np.flatnonzero(same.any(axis=1) & (~same).any(axis=1))
            if len(anchor):
                scores = view.parameter.scores(block, self.kept_)  # larger is closer
                yield Triplets(
                    rows=Rows(block),
                    pool=Rows(self.kept_),
                    anchor=anchor,
                    positive=np.where(same, scores, -np.inf).argmax(axis=1)[anchor],
                    negative=np.where(same, -np.inf, scores).argmax(axis=1)[anchor],
                    row_origin=origin,
                    pool_origin=self.kept_origin_,
                )
            self.kept_ = np.concatenate([self.kept_, block])[-self.memory :]
            self.kept_codes_ = np.concatenate([self.kept_codes_, own])[-self.memory :]
            self.kept_origin_ = np.concatenate([self.kept_origin_, origin])[-self.memory :]


# %%
# Beside OCTG, on wines of which a fifth have a wrong label.

X, y = load_wine(return_X_y=True)
given, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.8), sharey=True, layout="constrained")
for axis, source in zip(axes, (RecentNeighbours(memory=64), nearkin.OCTG()), strict=True):
    learner = nearkin.RobustLODML(triplets=source, random_state=0).fit(X, given)
    triplets = source.build(learner.scaling_.apply(X), given)
    roles = triplets.noisy_roles(is_wrong)
    wrong = ", ".join(f"{role} {which.sum()}" for role, which in roles._asdict().items())
    ranking = roc_auc_score(is_wrong, -learner.plausibility_)
    print(f"{type(source).__name__}: {len(triplets)} triplets, wrongly labelled {wrong}; AUROC {ranking:.3f}")
    axis.hist(
        [learner.plausibility_[~is_wrong], learner.plausibility_[is_wrong]], np.linspace(0, 1, 21), stacked=True,
        color=["#0072B2", "#D55E00"], label=["right labels", "wrong labels"],
    )  # fmt: skip
    axis.set(title=f"{type(source).__name__}, AUROC {ranking:.2f}", xlabel="plausibility")
axes[0].set_ylabel("rows")
axes[0].legend()
plt.show()
