"""Label audit: find wrong labels, see why, clean them, and learn from the rest.

A tenth of the labels of the digits is replaced. The audit does not know which, nor how many. This script writes the
page to a temporary folder; keep yours.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import nearkin

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
given, is_wrong = nearkin.flip_labels(y_train, 0.1, random_state=0)

audit = nearkin.audit_labels(X_train, given, random_state=0)
low, high = audit.noise_interval
print(f"wrong labels: estimated {audit.noise_rate:.1%} ({low:.1%} to {high:.1%}), true {is_wrong.mean():.1%}")
for title, rows in {"called wrong": audit.is_wrong, "worth a look": audit.is_suspect & ~audit.is_wrong}.items():
    print(f"{rows.sum()} {title}: {is_wrong[rows].sum()} are wrong, of {is_wrong.sum()} in all")
right = (audit.suggested_label == y_train)[audit.is_suspect].mean()
print(f"the suggested label is right for {right:.0%} of the suspects\n")

print(audit.evidence(int(audit.order[0])), "\n")

for title, (rows, labels) in {
    "labels as given": (X_train, given),
    "wrong labels dropped": audit.clean(X_train, given),
    "all suspects dropped": audit.clean(X_train, given, tier="all"),
    "wrong labels relabelled": audit.clean(X_train, given, how="relabel"),
}.items():
    model = LogisticRegression(max_iter=5000).fit(rows / 16, labels)
    print(f"logistic regression, {title:23s} accuracy on clean test labels {model.score(X_test / 16, y_test):.3f}")

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "report.html"
    audit.to_html(page, title="Digits")
    print(f"\nthe page has {page.stat().st_size / 1000:.0f} kB")
