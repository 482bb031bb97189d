"""The audit as the last step of a scikit-learn pipeline."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.audit._names import speaking_as
from nearkin.audit.audit_labels import audit_labels
from nearkin.audit.label_audit import LabelAudit
from nearkin.learners import OnlineLearner
from nearkin.transactions import all_or_nothing

__all__ = ["LabelAuditor"]


class LabelAuditor(ClassifierMixin, BaseEstimator):
    """`audit_labels` as an estimator, for the end of a `Pipeline`.

    `fit` audits the labels of the rows that reach it; `predict` answers as if they were clean.

    Parameters
    ----------
    learner : OnlineLearner, "auto" or None, default=None
        See `audit_labels`.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of wrong labels, if you know it.
    random_state : int, Generator, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    audit_ : LabelAudit
        What was found.
    classes_ : ndarray
        Sorted classes.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.pipeline import make_pipeline
    >>> import nearkin
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> noisy, is_wrong = nearkin.flip_labels(y, 0.1, random_state=0)
    >>> steps = make_pipeline(PCA(20, random_state=0), nearkin.LabelAuditor(random_state=0)).fit(X, noisy)
    >>> bool(is_wrong[steps[-1].audit_.is_suspect].mean() > 0.9)
    True
    """

    def __init__(
        self, learner: OnlineLearner | str | None = None, *, noise_rate: float | str = "auto", random_state: Any = None
    ):
        self.learner = learner
        self.noise_rate = noise_rate
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Audit the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels, some of which may be wrong.

        Returns
        -------
        self
            With `audit_`.
        """
        with speaking_as(type(self).__name__, audit_labels.__name__):
            self.audit_: LabelAudit = audit_labels(X, y, self.learner, self.random_state, noise_rate=self.noise_rate)
        model = self.audit_.classifier
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class with most votes of plausible rows."""
        check_is_fitted(self)
        return self.audit_.classifier.predict(X)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.floating]:
        """Share of the votes of each class."""
        check_is_fitted(self)
        return self.audit_.classifier.predict_proba(X)
