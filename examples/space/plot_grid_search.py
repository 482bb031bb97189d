"""
C and eta by grid search
========================

Learners are estimators of scikit-learn, so ``GridSearchCV`` tunes them. The defaults seldom need
it: most of this table is flat. It is the corner of a large C and a small eta where wrong labels do
harm.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

import nearkin

X, y = load_digits(return_X_y=True)
X, y = X[:900], y[:900]
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
given, _ = nearkin.flip_labels(y_train, 0.2, random_state=0)

# %%
# The learner in the paper's form, from the identity, where the size of a step matters most, and
# plain neighbours behind it. The labels that score the grid are the noisy ones: at home you have
# no others.

pipeline = Pipeline([
    ("space", nearkin.RobustLODML(init="identity", triplets="octg", random_state=0)),
    ("near", KNeighborsClassifier(5)),
])  # fmt: skip
grid = {"space__C": [0.01, 0.1, 1.0, 10.0], "space__eta": [0.0, 0.3, 1.0, 3.0]}
search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, given)
print("best:", search.best_params_, f"score by noisy labels {search.best_score_:.3f}")
print(f"accuracy on clean test labels {search.score(X_test, y_test):.3f}")
default = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X_train, given)
print(f"the default classifier, nothing tuned: {default.score(X_test, y_test):.3f}")

# %%
# Accuracy by cross-validation, against noisy labels, of which a fifth is wrong: 80 % would be
# perfect.

table = 100 * np.reshape(search.cv_results_["mean_test_score"], (4, 4))
figure, axis = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
drawn = axis.imshow(table, cmap="viridis", origin="lower")
for (i, j), value in np.ndenumerate(table):
    axis.text(j, i, f"{value:.1f}", ha="center", va="center", color="white" if value < table.mean() else "black")
axis.set(
    xticks=range(4), yticks=range(4), xticklabels=grid["space__eta"], yticklabels=grid["space__C"],
    xlabel="eta (0 is the plain hinge)", ylabel="C",
)  # fmt: skip
figure.colorbar(drawn, label="accuracy, %")
plt.show()
