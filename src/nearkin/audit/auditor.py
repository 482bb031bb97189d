"""How an audit is made, as a function and as the last step of a scikit-learn pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted

from nearkin.accelerator import computing_on
from nearkin.arrays import Array
from nearkin.audit.exports import take_rows
from nearkin.audit.label_audit import LabelAudit
from nearkin.bars import notebook_bars
from nearkin.errors import InputError, owned_by
from nearkin.jury import JuryDecision
from nearkin.jury.cost import announce_cost
from nearkin.labels import as_labels, find_missing, refuse_several, warn_of_lookalikes
from nearkin.learners import OnlineLearner
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.rows import check_finite, explain_rows
from nearkin.settings import DEVICE, SEED, OneOf, Real, all_or_nothing, declare, exclusive, setting
from nearkin.stored import ArrayOf, Part, stored
from nearkin.tables import LabelledRows, ShownColumns, TableEncoder, as_table, encode_table, is_frame, is_mixed

__all__ = ["LabelAuditor", "audit_labels", "audit_rows", "check_labelled_rows"]


def audit_labels(
    X: ArrayLike,
    y: ArrayLike | str,
    learner: OnlineLearner | RobustKNeighborsClassifier | str | None = None,
    random_state: Any = None,
    *,
    noise_rate: float | str = "auto",
    groups: ArrayLike | str | None = None,
    names: ArrayLike | str | None = None,
    pred_probs: ArrayLike | None = None,
    voters: Any = (),
    device: str = "cpu",
) -> LabelAudit:
    """Find labels that are probably wrong, what they should be, and how many there are.

    A jury votes on every label: neighbours in the input space and in learned spaces, two ridge regressions and a
    forest. No voter has seen the label it judges: learned spaces are cross-fitted in two halves, the others leave the
    row out. Copies of a row do not vouch for it. You need no model of your own.

    Parameters
    ----------
    X : array-like or frame of shape (n_samples, n_features)
        Raw features or embeddings; no scaling is needed. A frame of pandas or polars, or an Arrow table, may hold
        categories, dates, texts and gaps: see `TableEncoder`, and ``columns`` of the result.
    y : array-like of shape (n_samples,) or str
        Labels of any hashable kind, or the column of a frame that holds them. Rows whose label is missing (None, NaN)
        are not audited; ``unlabelled`` of the result suggests a label for each.
    learner : OnlineLearner, RobustKNeighborsClassifier, "auto" or None, default=None
        Measure to learn; None and "auto" take the classifier's own. A learner that is fitted already is used as it is.
        A classifier with ``n_neighbors="auto"`` that was fitted on these rows is not fitted again.
    random_state : int, Generator, RandomState or None, default=None
        Seed.
    noise_rate : float in [0, 1) or "auto", default="auto"
        Share of wrong labels, if you know it; that many rows are then suspects.
    groups : array-like of shape (n_samples,) or None, default=None
        Group of each row, for example a patient or a document. Rows of a group do not vouch for each other. Copies of
        rows are found without it. May be the name of a column of a frame, which is then no feature.
    names : array-like of shape (n_samples,), str or None, default=None
        What the rows are called: evidence, findings, tables and the page then call them so, and `compare` matches rows
        by it. Rows may share a name; texts then add the number of the row, as in "C-7 [12]". May be the name of a
        column of a frame, which is then no feature.
    pred_probs : array-like of shape (n_samples, n_classes) or None, default=None
        Probabilities from a model of your own for rows that it has not seen, columns in the order of the sorted
        classes. They join the jury as one more voter.
    voters : sequence of scikit-learn classifiers, default=()
        More voters. Each is fitted five times on scaled rows, to judge rows that it has not seen.
    device : str, default="cpu"
        "cuda" or "cuda:N" searches among many rows on an NVIDIA GPU; the votes are those of "cpu" up to rounding.

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
    given = {"groups": groups, "pred_probs": pred_probs}
    return _audit(X, y, learner, random_state, noise_rate, "audit_labels", voters, given, device, names)


def audit_rows(
    rows: LabelledRows, random_state: Any = None, *, noise_rate: float | str = "auto", groups: Any = None,
    device: str = "cpu",
) -> LabelAudit:  # fmt: skip
    """Audit the rows of a file; see `audit_labels`. Groups are those of all rows, with or without a label."""
    if groups is not None and rows.numbers is not None:
        groups = take_rows(groups, rows.numbers)
    given = {"groups": groups, "pred_probs": None}
    return _audit(rows, rows.y, None, random_state, noise_rate, "audit_labels", (), given, device)


@stored(
    instead={"voters": ((), "models in `voters` cannot stand in a file; their votes are kept")},
    together=("audit_", "classes_", "n_features_in_"),
    audit_=Part(LabelAudit, c="c", d="d"),
    classes_=ArrayOf("c", of="labels"),
)
@declare
class LabelAuditor(ClassifierMixin, BaseEstimator):
    """`audit_labels` as an estimator, for the end of a `Pipeline`.

    `fit` audits the labels of the rows that reach it; `predict` answers as if they were clean.

    Parameters
    ----------
    {settings}

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

    learner: OnlineLearner | str | None = setting(
        None, kind='OnlineLearner, "auto" or None', doc="See `audit_labels`.", kw_only=False
    )
    noise_rate: float | str = setting(
        "auto", Real(0.0, 1.0, open_high=True), OneOf(("auto",)), kind='float in [0, 1) or "auto"',
        doc="Share of wrong labels, if you know it.",
    )  # fmt: skip
    random_state: Any = setting(None, SEED, doc="Seed.")
    voters: Any = setting((), kind="sequence of classifiers", doc="See `audit_labels`.")
    device: str = setting("cpu", DEVICE, doc="See `audit_labels`.")

    @all_or_nothing
    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, pred_probs: ArrayLike | None = None
    ) -> Self:
        """Audit the labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels, some of which may be wrong.
        groups : array-like of shape (n_samples,) or None, default=None
            See `audit_labels`.
        pred_probs : array-like of shape (n_samples, n_classes) or None, default=None
            See `audit_labels`.

        Returns
        -------
        self
            With `audit_`.
        """
        given = {"groups": groups, "pred_probs": pred_probs}
        self.audit_ = _audit(
            X, y, self.learner, self.random_state, self.noise_rate, type(self).__name__, self.voters, given,
            self.device,
        )  # fmt: skip
        model = self.audit_.classifier
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class with most votes of plausible rows."""
        with exclusive(self):  # a fit that runs in another thread is waited for
            check_is_fitted(self)
            model = self.audit_.classifier
        return model.predict(X)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the share of the votes of each class."""
        with exclusive(self):
            check_is_fitted(self)
            model = self.audit_.classifier
        return model.predict_proba(X)


def _audit(
    X: Any, y: Any, learner: Any, random_state: Any, noise_rate: float | str, owner: str, voters: Any,
    given: dict[str, Any], device: str, names: Any = None,
) -> LabelAudit:  # fmt: skip
    if sparse.issparse(X):
        raise InputError(
            "X is sparse, and neighbours are searched among dense rows; reduce it first, for example with "
            "make_pipeline(TruncatedSVD(100), LabelAuditor()).",
            owner=owner,
        )
    if isinstance(learner, OnlineLearner) and not learner.measure.is_distance:
        raise InputError(
            f"{type(learner).__name__} learns a similarity; give a learner of a distance, such as RobustLODML.",
            owner=owner,
        )
    with owned_by(owner):
        known = _read_frame(X, y, given, names)
    X, y = known.X, known.y
    gaps = find_missing(y) if _may_have_gaps(y) else np.zeros(0, dtype=bool)
    found = known.found
    if len(gaps) and gaps.all():
        raise InputError(
            f"{known.title} holds no label at all: all {len(gaps):,} are missing (None, NaN). Labels are needed, at "
            "least of some rows; the audit suggests labels for the others.",
            owner=owner,
        )
    if gaps.any() and not isinstance(X, Mapping) and len(gaps) == np.shape(X)[0]:
        has, lacks = np.flatnonzero(~gaps), np.flatnonzero(gaps)
        found |= {"row_index": has, "unlabelled": (lacks, take_rows(X, lacks))}
        X, y = take_rows(X, has), take_rows(_listed(y), has)
        given = {name: None if one is None else take_rows(_listed(one), has) for name, one in given.items()}
    X, labels = check_labelled_rows(X, y, owner)
    n_classes = len(set(labels.tolist()))
    if len(labels) > 10 and 2 * n_classes > len(labels):
        raise InputError(
            f"y holds {n_classes:,} different values in {len(labels):,} rows; is it a class at all? "
            "A label can be judged only by other rows that have it.",
            owner=owner,
        )
    if known.names is not None:
        found["names"] = _check_names(known.names, len(gaps) if "row_index" in found else len(labels), owner)
    warn_of_lookalikes(labels, known.title)
    refuse_several(labels, owner)
    if n_classes > 1 and not isinstance(X, Mapping) and not _differ(X):
        raise InputError("all rows of X are equal, so nothing tells right labels from wrong ones.", owner=owner)
    if isinstance(learner, RobustKNeighborsClassifier):
        settled = [name for name, one in {**given, "voters": voters or None}.items() if one is not None]
        if settled:
            raise InputError(
                f"the voters of a fitted classifier are settled; give `{settled[0]}` to the classifier.", owner=owner
            )
        return LabelAudit(_check_fitted(learner, labels, noise_rate, owner), X, labels, **found)
    _note_lone_groups(given["groups"], len(labels))
    chosen = "auto" if learner is None else learner
    model = RobustKNeighborsClassifier(
        chosen, noise_rate=noise_rate, random_state=random_state, voters=voters, device=device
    )
    with notebook_bars(), _announced(X, n_classes), computing_on(device, owner):
        with owned_by(owner, instead_of=model):
            model.fit(X, labels, **given)
        if not isinstance(model.decision_, JuryDecision):
            raise InputError(
                f"{type(model.learner_).__name__} has no single map into a space with distances; give another, such "
                "as RobustLODML.",
                owner=owner,
            )
        if known.encoder is not None:
            model.encoder_ = known.encoder
        audit = LabelAudit(model, X, labels, **found)
        audit.shown_columns = known.shown
    if known.index is not None:
        audit.index_of_frame = known.index if audit.row_index is None else known.index[audit.row_index]
    return audit


def _note_lone_groups(groups: Any, n_rows: int) -> None:
    if np.shape(groups) == (n_rows,) and len({str(one) for one in _listed(groups)}) == n_rows:
        warnings.warn("every row is a group of its own, so the groups change nothing.", stacklevel=4)


@dataclass
class _Known:
    """Rows and labels, what is known about them for `LabelAudit`, the encoder, and index and label of a frame."""

    X: Any
    y: Any
    found: dict[str, Any] = field(default_factory=dict)
    encoder: TableEncoder | None = None
    index: Any = None
    label: str | None = None
    names: Any = None
    shown: ShownColumns | None = None

    @property
    def title(self) -> str:
        """What the labels are called in messages."""
        return "y" if self.label is None else f"column {self.label!r}"


def _check_names(names: Any, n: int, owner: str) -> list[str]:
    """Return names as text, one for each row."""
    listed = [str(one) for one in _listed(names)]
    if len(listed) != n:
        raise InputError(f"`names` must have a name for each of the {n:,} rows; got {len(listed):,}.", owner=owner)
    return listed


def _read_frame(X: Any, y: Any, given: dict[str, Any], names: Any) -> _Known:
    """Return the rows of a frame as numbers, if they are not; labels, groups and names may be columns of it."""
    if isinstance(X, LabelledRows):
        rest = X.unlabelled
        apart = {} if rest is None else {"row_index": X.numbers, "unlabelled": (rest.numbers, rest.X)}
        return _Known(
            X.X, y, {"columns": X.columns, "originals": X.originals, **apart}, X.needed_encoder, label=X.label,
            shown=X.shown,
        )  # fmt: skip
    groups, label = given["groups"], y if isinstance(y, str) else None
    by_name = [one for one in (y, groups, names) if isinstance(one, str)]
    if not by_name and not is_mixed(X):
        return _Known(X, y, names=names)
    if not is_frame(X):
        raise InputError(f"{by_name[0]!r} names a column, and X has no columns with names; give a frame, or an array.")
    table = as_table(X)
    table.check_known(by_name)
    told = ((groups, "groups the rows"), (names, "names the rows"))
    others = {one: what for one, what in told if isinstance(one, str)}
    rows = encode_table(table, label, others=others)
    if isinstance(groups, str):
        given["groups"] = table.values(groups)
    if isinstance(names, str):
        names = table.values(names)
    if label is not None:
        labels, missing = table.labels(label)
        y = np.array(labels, dtype=object) if missing.any() else labels
        if missing.any():
            y[missing] = None
    known = {"columns": rows.columns, "originals": rows.originals}
    return _Known(rows.X, y, known, rows.encoder, getattr(X, "index", None), label, names, rows.shown)


def _may_have_gaps(y: Any) -> bool:
    """Whether labels may be missing; those of whole numbers or text in an array never are."""
    return not (isinstance(y, np.ndarray) and (y.dtype.kind in "iubUS" or y.ndim != 1)) and hasattr(y, "__len__")


def _listed(values: Any) -> Any:
    """Return a list of what is not an array of numbers or text, so that the kinds of its values are looked at."""
    if isinstance(values, np.ndarray):
        return values.tolist() if values.dtype.kind == "O" else values
    return values.to_list() if hasattr(values, "to_list") else values


def _announced(X: Any, n_classes: int) -> AbstractContextManager[None]:
    """Say before the work about how long it takes, and report all of it as one task."""
    if isinstance(X, Mapping):
        return nullcontext()
    n, d = np.shape(X)
    return announce_cost(n, d, n_classes)


def _differ(X: Any) -> bool:
    """Whether two rows differ; found among the first few, as a rule."""
    rows = X.iloc if hasattr(X, "iloc") else X
    first = np.asarray(rows[:1])
    return any((np.asarray(rows[start : start + 1000]) != first).any() for start in range(0, len(X), 1000))


def check_labelled_rows(X: Any, y: ArrayLike, owner: str) -> tuple[Any, NDArray[Any]]:
    """Refuse, in the name of the caller, rows that are not finite numbers and labels that are missing or too few."""
    labels = as_labels(y, owner)
    if isinstance(X, Mapping):  # modalities, which the learner checks
        return X, labels
    try:
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        rows = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
    except ValueError as error:
        if getattr(X, "ndim", 2) == 1:
            raise InputError(_explain_column(X), owner=owner) from error
        raise InputError(explain_rows(X, error), owner=owner) from error
    check_finite(rows, owner, getattr(X, "columns", None))
    n_rows = len(rows)
    if n_rows != len(labels):
        raise InputError(f"X has {n_rows} rows but y has {len(labels)} labels.", owner=owner)
    return X, labels


def _explain_column(X: Any) -> str:
    """Say what to give instead of one column."""
    name = getattr(X, "name", None)
    frame = "a frame" if name is None else f"a frame such as df[[{str(name)!r}]]"
    return (
        f"X is one column of {len(X):,} values. Expected 2D array, got 1D array instead: give {frame}, whose columns "
        "may hold numbers, categories and texts, or reshape numbers with X.reshape(-1, 1)."
    )


def _check_fitted(
    model: RobustKNeighborsClassifier, labels: NDArray[Any], noise_rate: float | str, owner: str
) -> RobustKNeighborsClassifier:
    check_is_fitted(model)
    if not isinstance(model.decision_, JuryDecision):
        raise InputError("only a classifier with n_neighbors='auto' can be audited; fit one.", owner=owner)
    if len(model.plausibility_) != len(labels):
        raise InputError(
            f"the classifier was fitted on {len(model.plausibility_)} rows, y has {len(labels)} labels; "
            "give the rows and labels that it was fitted on.",
            owner=owner,
        )
    if not OneOf(("auto",)).allows(noise_rate):
        raise InputError("the rate of a fitted classifier is settled; leave out `noise_rate`.", owner=owner)
    return model
