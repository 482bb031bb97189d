"""cleanlab in front of a classifier, the usual remedy for wrong labels; needs the extra ``paper``."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cleaned", "CleanlabMissing", "out_of_fold", "require_cleanlab"]

Array = NDArray[Any]


class CleanlabMissing(ImportError):
    """cleanlab is not installed; the message says how to get it."""


def require_cleanlab() -> Any:
    """Function of cleanlab that finds wrong labels."""
    try:
        from cleanlab.filter import find_label_issues
    except ImportError as error:
        raise CleanlabMissing(f"columns with cleanlab need pip install 'nearkin[paper]' ({error}).") from error
    return find_label_issues


def out_of_fold(judge: Any, X: Array, codes: Array, seed: int) -> Array:
    """Probabilities of the classes of every row, by a judge that did not see it: five stratified folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    shares: Array = cross_val_predict(judge, X, codes, cv=folds, method="predict_proba")
    return shares


class Cleaned:
    """Drop the rows whose labels cleanlab doubts, then fit.

    Parameters
    ----------
    judge : estimator
        Gives out-of-fold probabilities, by which cleanlab judges labels.
    classifier : estimator
        Fitted on what is left.
    seed : int
        Of the folds of the judge.
    """

    def __init__(self, judge: Any, classifier: Any, seed: int):
        self.judge, self.classifier, self.seed = judge, classifier, seed

    def fit(self, X: Array, y: Array) -> Self:
        """Find doubtful labels and fit on the others."""
        find = require_cleanlab()
        codes = np.unique(y, return_inverse=True)[1]
        shares = out_of_fold(self.judge, X, codes, self.seed)
        is_doubtful = find(codes, shares, n_jobs=1)
        self.classifier.fit(X[~is_doubtful], y[~is_doubtful])
        return self

    def predict(self, X: Array) -> Array:
        """Class of each row."""
        return self.classifier.predict(X)
