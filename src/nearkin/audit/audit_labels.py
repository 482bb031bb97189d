"""How an audit is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from nearkin.audit._names import speaking_as
from nearkin.audit.label_audit import LabelAudit
from nearkin.checks import OneOf
from nearkin.labels import as_labels
from nearkin.learners import OnlineLearner
from nearkin.neighbors import RobustKNeighborsClassifier

__all__ = ["audit_labels"]


@speaking_as("audit_labels")
def audit_labels(
    X: ArrayLike,
    y: ArrayLike,
    learner: OnlineLearner | RobustKNeighborsClassifier | str | None = None,
    random_state: Any = None,
    *,
    noise_rate: float | str = "auto",
) -> LabelAudit:
    """Say which labels are wrong, what they should be, and how many there are.

    One pass learns a measure that wrong labels move little; neighbours in several spaces then vote on every label.
    There is no model to bring and nothing is cross-validated.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Raw features or embeddings; no scaling is needed.
    y : array-like of shape (n_samples,)
        Labels of any hashable kind.
    learner : OnlineLearner, RobustKNeighborsClassifier, "auto" or None, default=None
        Measure to learn; None and "auto" take the classifier's own. A learner that is fitted already is used as it is.
        A classifier with ``n_neighbors="auto"`` that was fitted on these rows is not fitted again.
    random_state : int, Generator, RandomState or None, default=None
        Seed.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of wrong labels, if you know it; then as many rows are suspects.

    Returns
    -------
    LabelAudit
        What was found.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import nearkin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> noisy, is_wrong = nearkin.flip_labels(y, 0.2, random_state=0)
    >>> audit = nearkin.audit_labels(X, noisy, random_state=0)
    >>> round(audit.noise_rate, 1), bool(is_wrong[audit.is_suspect].mean() > 0.8)
    (0.2, True)
    """
    labels = as_labels(y, "audit_labels")
    n_classes = len(set(labels.tolist()))
    if len(labels) > 10 and 2 * n_classes > len(labels):
        raise ValueError(
            f"audit_labels: y holds {n_classes:,} different values in {len(labels):,} rows; is it a class at all? "
            "A label can be judged only by other rows that have it."
        )
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    if sparse.issparse(X):
        raise ValueError(
            "audit_labels: X is sparse, and neighbours are looked for among dense rows; reduce it first, for example "
            "with make_pipeline(TruncatedSVD(100), LabelAuditor())."
        )
    if isinstance(learner, OnlineLearner) and not learner.measure.is_distance:
        raise ValueError(
            f"audit_labels: {type(learner).__name__} learns a similarity; give a learner of a distance, such as "
            "RobustLODML."
        )
    if isinstance(learner, RobustKNeighborsClassifier):
        model = _ready(learner, labels, noise_rate)
    else:
        chosen = "auto" if learner is None else learner
        model = RobustKNeighborsClassifier(chosen, n_neighbors="auto", noise_rate=noise_rate, random_state=random_state)
        inner = [type(model).__name__]
        if chosen == "auto":
            inner.append(type(model.default_learner()).__name__)
        with speaking_as("audit_labels", *inner):
            model.fit(X, labels)
    if model._jury is None:
        raise ValueError(
            f"audit_labels: {type(model.learner_).__name__} has no one map into a space with distances; give another "
            "learner, such as RobustLODML."
        )
    return LabelAudit(model, X, labels)


def _ready(
    model: RobustKNeighborsClassifier, labels: NDArray[Any], noise_rate: float | str
) -> RobustKNeighborsClassifier:
    check_is_fitted(model)
    if not hasattr(model, "score_"):
        raise ValueError("audit_labels: a classifier is audited if it has n_neighbors='auto'; fit such a one.")
    if len(model.plausibility_) != len(labels):
        raise ValueError(
            f"audit_labels: the classifier was fitted on {len(model.plausibility_)} rows, y has {len(labels)} labels; "
            "give the rows and labels that it was fitted on."
        )
    if not OneOf(("auto",)).allows(noise_rate):
        raise ValueError("audit_labels: the rate of a fitted classifier is settled; leave out `noise_rate`.")
    return model
