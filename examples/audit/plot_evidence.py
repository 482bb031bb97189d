"""
Why a label is doubted
======================

A list of suspects is worth little if nobody can check it. The evidence shows what decided: what
every voter said, and the rows whose labels cast most of the votes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import nearkin

X, y = load_digits(return_X_y=True)
given, is_wrong = nearkin.flip_labels(y, 0.1, random_state=0)
audit = nearkin.audit_labels(X, given, random_state=0)

row = int(audit.order[0])  # the most doubtful
why = audit.evidence(row)
print(why)

# %%
# The same as a picture. On the left the doubted digit, then the neighbours that cast most of the
# votes, each with its own label and its share of the whole vote.

figure, axes = plt.subplots(1, 6, figsize=(9, 2.1), layout="constrained")
shown = [(row, f"given {why.given_label}"), *((one.row, f"{one.label}: {one.share:.0%}") for one in why.neighbours[:5])]
for axis, (number, title) in zip(axes, shown, strict=True):
    axis.imshow(X[number].reshape(8, 8), cmap="gray_r")
    axis.set_title(title, fontsize=11)
    axis.set_axis_off()
axes[0].set_title(shown[0][1], color="#D55E00", fontsize=11)
plt.show()

# %%
# No voter has seen the label that it judges. How much each counts was learned from the labels
# themselves.

names = [f"{one.voter} ({one.share:.0%})" for one in why.opinions]
place = np.arange(len(names))
figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.barh(
    place - 0.2, [100 * one.for_suggested for one in why.opinions], 0.4, color="#0072B2", label=f"{why.suggested_label}"
)
axis.barh(place + 0.2, [100 * one.for_given for one in why.opinions], 0.4, color="#D55E00", label=f"{why.given_label}")
axis.set(yticks=place, yticklabels=names, xlabel="votes, % of the voter", xlim=(0, 105))
axis.invert_yaxis()
figure.legend(title="for the label", loc="outside right upper")
plt.show()

# %%
# A harder case: a suspect that is only worth a look. The voters disagree, and so might you.

hard = int(np.flatnonzero(audit.is_suspect & ~audit.is_wrong)[0])
print(audit.evidence(hard))
