"""
Where triplets come from
========================

OCTG, the generator of the paper, finds the centre of every class. The positive of a row is the
centre of its own class; centres of other classes that are too near become negatives. So a wrong
label spoils the triplets of its own row only.
"""

import matplotlib.pyplot as plt
import numpy as np

import nearkin

rng = np.random.default_rng(4)
centres = np.array([[-0.75, -0.35], [0.75, -0.35], [0.0, 0.8]])
y = np.arange(90) % 3
X = centres[y] + 0.27 * rng.normal(size=(90, 2))
given, is_wrong = nearkin.flip_labels(y, 0.12, random_state=2)

source = nearkin.OCTG(margin=1.0)
triplets = source.build(X, given)
z = triplets.margins()
wrong_anchor = is_wrong[triplets.anchor]
print(f"{len(triplets)} triplets; {wrong_anchor.sum()} have a wrongly labelled anchor")
print(f"mean hinge {1 - z[~wrong_anchor].mean():.2f} of right ones, {1 - z[wrong_anchor].mean():.2f} of wrong ones")

# %%
# A line joins every anchor to the centre that is its negative, the darker the larger the loss of
# the triplet. Rings mark wrong labels: nearly all dark lines begin there.

COLOURS, MARKS = ("#0072B2", "#D55E00", "#009E73"), "os^"
figure, axis = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
pool = triplets.pool.dense
for anchor, negative, loss in zip(triplets.anchor, triplets.negative, 1 - z, strict=True):
    axis.plot(*np.stack([X[anchor], pool[negative]]).T, color="black", alpha=float(min(1, loss / 4)), lw=1)
for code in range(3):
    mine = given == code
    axis.scatter(*X[mine].T, c=COLOURS[code], marker=MARKS[code], s=26, linewidths=0, label=f"class {code}", zorder=3)
axis.scatter(*X[is_wrong].T, s=110, facecolors="none", edgecolors="black", label="label is wrong", zorder=3)
axis.scatter(*source.centers_.T, s=320, c=[COLOURS[c] for c in source.center_codes_], marker="*", edgecolors="black",
             zorder=4)  # fmt: skip
axis.set(aspect="equal", xticks=[], yticks=[])
axis.legend(loc="upper left", fontsize=8)
plt.show()

# %%
# The plausibility that a learner gives to each row follows from these losses.

learner = nearkin.RobustODML(triplets=source, init="identity", scale=None, random_state=0).fit(X, given)
figure, axis = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
axis.hist(
    [learner.plausibility_[~is_wrong], learner.plausibility_[is_wrong]], np.linspace(0, 1, 21), stacked=True,
    color=["#0072B2", "#D55E00"], label=["right labels", "wrong labels"],
)  # fmt: skip
axis.set(xlabel="plausibility", ylabel="rows")
axis.legend()
plt.show()
