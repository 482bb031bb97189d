"""A small convolutional network on digits of which two labels in five are wrong: plain hinge against rescaled hinge.

Needs torch: pip install 'nearkin[deep]'. One split, so the figures move by a few points with the seed.
"""

import sys

from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import nearkin

try:
    from nearkin.deep import DeepMetric
except ImportError as error:
    print(error)
    sys.exit(0)

X, y = load_digits(n_class=6, return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
noisy, is_wrong = nearkin.flip_labels(y_train, 0.4, random_state=0)
print(f"{len(X_train)} images, {is_wrong.sum()} labels replaced")

for loss in ("hinge", "rescaled_hinge"):
    learner = DeepMetric(image_shape=(8, 8), loss=loss, n_epochs=30, random_state=0).fit(X_train, noisy)
    near = KNeighborsClassifier(10).fit(learner.transform(X_train), noisy)
    accuracy = near.score(learner.transform(X_test), y_test)
    print(f"{loss:15s} 10-NN on embeddings, accuracy on clean test labels {100 * accuracy:.1f} %")

print(f"AUROC of plausibility_ for the replaced labels: {roc_auc_score(is_wrong, -learner.plausibility_):.3f}")
