"""
An audit in three lines
=======================

A tenth of the labels of the digits is replaced. The audit does not know which, nor how many. It
says how many labels are wrong, which ones, what they should be, and cleans them.
"""

# %%
# The first lines only make the problem; the audit itself is one call.

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import nearkin

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
given, is_wrong = nearkin.flip_labels(y_train, 0.1, random_state=0)

audit = nearkin.audit_labels(X_train, given, random_state=0)
print(audit)

# %%
# The most doubtful digits, in the order in which to look at them: the label as given, and the one
# that the audit suggests.

figure, axes = plt.subplots(2, 8, figsize=(9, 3.1), layout="constrained")
for axis, row in zip(axes.flat, audit.order, strict=False):
    axis.imshow(X_train[row].reshape(8, 8), cmap="gray_r")
    axis.set_title(f"{given[row]} → {audit.suggested_label[row]}", color="#D55E00", fontsize=11)
    axis.set_axis_off()
figure.suptitle("given → suggested")
plt.show()

# %%
# Here the truth is known, so we can count. Labels called *wrong* are more likely wrong than
# right; others are only *worth a look*.

for title, rows in {"called wrong": audit.is_wrong, "worth a look": audit.is_suspect & ~audit.is_wrong}.items():
    print(f"{rows.sum()} {title}: {is_wrong[rows].sum()} are wrong, of {is_wrong.sum()} in all")
right = (audit.suggested_label == y_train)[audit.is_suspect].mean()
print(f"the suggested label is right for {right:.0%} of the suspects")

# %%
# What cleaning brings to a model that knows nothing of nearkin: rows whose labels are called
# wrong are dropped, or take the suggested label where the audit is sure of it.

scores = {}
for title, (rows, labels) in {
    "labels as given": (X_train, given),
    "wrong labels dropped": audit.clean(X_train, given),
    "all suspects dropped": audit.clean(X_train, given, tier="all"),
    "wrong labels relabelled": audit.clean(X_train, given, how="relabel"),
    "the truth": (X_train, y_train),
}.items():
    model = LogisticRegression(max_iter=5000).fit(rows / 16, labels)
    scores[title] = 100 * model.score(X_test / 16, y_test)
    print(f"logistic regression, {title:23s} accuracy on clean test labels {scores[title]:.1f} %")

figure, axis = plt.subplots(figsize=(7, 2.4), layout="constrained")
bars = axis.barh(list(scores), list(scores.values()), color=["#8a8a8a", *["#0072B2"] * 3, "#009E73"])
axis.bar_label(bars, fmt="%.1f", padding=3)
axis.set(xlim=(85, 100), xlabel="accuracy on clean test labels, %")
axis.invert_yaxis()
plt.show()

# %%
# ``audit.to_html("report.html")`` writes the page on which people decide, and
# ``audit.to_csv("suspects.csv")`` the table. :doc:`/audit` has both.
