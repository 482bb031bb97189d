"""
A loss that gives up
====================

With the hinge, the triplet that is most wrong pulls hardest. The rescaled hinge is bounded: beyond
some point a triplet cannot get any worse, and so it no longer pulls. This example draws the loss,
its weight, and what one wrong triplet does to a metric.
"""

import matplotlib.pyplot as plt
import numpy as np

import nearkin
from nearkin.losses import RescaledHinge, hinge

# %%
# With :math:`h = \max(0, 1 - z)` for the margin :math:`z` of a triplet, the loss is
#
# .. math:: \ell(z) = \beta\,(1 - e^{-\eta h}), \qquad \beta = \frac{1}{1 - e^{-\eta}},
#
# and its slope, the weight of the triplet, is :math:`\beta\,\eta\,e^{-\eta h}`. All curves meet at :math:`z = 0`.

z = np.linspace(-4, 2, 300)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
left.plot(z, hinge(z), color="#222222", lw=2, label="hinge")
right.plot(z, (hinge(z) > 0) * 1.0, color="#222222", lw=2)
for eta, colour, dashes in ((0.5, "#009E73", "-."), (1.0, "#0072B2", "-"), (3.0, "#D55E00", "--")):
    loss = RescaledHinge(eta)
    left.plot(z, loss.value(z), color=colour, ls=dashes, lw=2, label=f"rescaled, η = {eta:g}")
    right.plot(z, np.where(z < 1, loss.weight(z), 0), color=colour, ls=dashes, lw=2)
left.set(xlabel="margin z (larger is better)", ylabel="loss", ylim=(-0.1, 4))
right.set(xlabel="margin z", ylabel="weight: how hard the triplet pulls")
left.legend()
plt.show()

# %%
# Now learn from forty right triplets, and then from a single wrong one: its anchor is near the
# negative and far from the positive. The curves are the points at distance 1 from the origin
# under the metric.

rng = np.random.default_rng(0)
anchors = rng.normal(size=(40, 2))
positives = anchors + [0.1, 1.0] * rng.normal(size=(40, 2))  # what varies within a class is the second feature
negatives = anchors + [1.2, 0.3] * rng.choice([-1, 1], (40, 2))
wrong = ([[0.0, 0.0]], [[1.4, 0.1]], [[0.0, 0.4]])


def circle(metric):
    angle = np.linspace(0, 2 * np.pi, 200)
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (way / np.sqrt(np.einsum("ij,jk,ik->i", way, metric, way))[:, None]).T


figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, learner in zip(axes, (nearkin.ODML(C=0.3), nearkin.RobustODML(C=0.3, eta=1.0)), strict=True):
    learner.set_params(scale=None).fit_triplets(anchors, positives, negatives)
    before = learner.metric_.copy()
    learner.partial_fit_triplets(*wrong)
    moved = np.linalg.norm(learner.metric_ - before) / np.linalg.norm(before)
    print(f"{type(learner).__name__}: one wrong triplet moves the metric by {moved:.1%} of its length")
    axis.plot(*circle(before), color="#0072B2", lw=2, label="before")
    axis.plot(*circle(learner.metric_), color="#D55E00", ls="--", lw=2, label="after one wrong triplet")
    axis.set(title=type(learner).__name__, aspect="equal")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()
