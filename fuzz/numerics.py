"""Numbers: every learner against its literal twin, and extreme rows and settings through all learners.

A twin (`tests/reference`) is the algorithm as printed, in plain NumPy. Where its result is finite and does not change
with the last digits of the rows, the library's must be the same. Whatever the rows and settings are, a call ends in
time with a `ValueError` or with finite numbers and plausibilities in (0, 1], the same for dense and sparse rows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import nearkin
from fuzz.child import call
from fuzz.report import Report

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from reference import full, itml, lowrank, lpa, multimodal, opml, slmoml
from reference import kernel_similarity as mercer
from reference.losses import weight
from systems import ALL

WEIGHT = 2.0

Array = NDArray[np.floating]
Sets = tuple[Array, Array, Array]
#: Arrays that a run leaves behind, plausibilities first.
Result = list[Array]
Learning = Callable[..., Result]

#: Draws of a case, and what the child prints for one that held.
DRAWS, HELD = 20, "held"
#: Largest number up to which results are compared, and the share of it by which they may differ.
COMPARED, CLOSE = 1e6, 1e-7
#: Relative change of the rows that shows how far rounding alone can carry a result, how often it is tried, and how much
#: further than that a result may lie.
NUDGE, NUDGES, FURTHER = 1e-13, 3, 1e4


def run(seconds: float, seed: int, report: Report) -> None:
    """Compare and strain in turn; a case is one learner and some draws of rows and settings."""
    learners = [cls.__name__ for cls in ALL]
    for case in report.cases(seconds, seed):
        if case.number % 8 == 0:
            name, group, attempt = "RobustKNeighborsClassifier", "extremes", strain_classifier
            warm_classifier()
        elif case.number % 2:
            name, group, attempt = list(TWINS)[case.rng.integers(len(TWINS))], "twin", compare
            warm_twin(name)
        else:
            name, group, attempt = learners[case.rng.integers(len(learners))], "extremes", strain
            warm_learner(name)
        found = call(_draw, attempt, name, case.rng, seconds=60.0)
        for line in found.out.splitlines():
            report.count(case, f"{name}, {group}", line if line != HELD else None)
        if found.crash or found.code:
            report.count(case, f"{name}, {group}", found.crash or f"code {found.code}: {found.err.strip()[-300:]}")


def _draw(attempt: Callable[..., str | None], name: str, rng: np.random.Generator) -> None:
    """Try some draws in the child, a line of output for each."""
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        for _ in range(DRAWS):
            print(" ".join((attempt(name, rng) or HELD).split()), flush=True)


@cache
def warm_twin(name: str) -> None:
    """Compile here what the children need."""
    with np.errstate(all="ignore"):
        learn, _ = TWINS[name]
        learn(draw_triplets(np.random.default_rng(0), usual=True), {"C": 0.1, "eta": 1.0, "max_hq_iter": 3})


@cache
def warm_learner(name: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        X = rng.normal(size=(20, 4)).astype(dtype)
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            getattr(nearkin, name)(random_state=0).fit(X, np.arange(20) % 3)


@cache
def warm_classifier() -> None:
    X = np.random.default_rng(0).normal(size=(40, 4))
    for rows in (X, X.astype(np.float32)):
        nearkin.RobustKNeighborsClassifier(random_state=0).fit(rows, np.arange(40) % 3).predict(rows)


# ---------------------------------------------------------------- twins


def compare(name: str, rng: np.random.Generator) -> str | None:
    """Learn the same triplets by the library and by the twin; return how they disagree."""
    sets, how = draw_triplets(rng), draw_step(rng)
    learn, twin = TWINS[name]
    expected = _try(twin, sets, how)
    try:
        found = learn(sets, how)
    except ValueError as error:
        # The library refuses numbers that would overflow later; a twin goes on as far as it can.
        return f"refused: {error}" if _is_plain(expected, sets) else None
    if any(not np.isfinite(one).all() for one in found):
        return f"not finite, {describe(sets, how)}"
    if not ((found[0] > 0.0) & (found[0] <= 1.0)).all():
        return f"plausibilities outside (0, 1], {describe(sets, how)}"
    if not _is_plain(expected, sets):
        return None
    apart = _distance(found, expected)
    if apart <= CLOSE:
        return None
    nudged = [_try(twin, _nudge(sets, rng), how) for _ in range(NUDGES)]
    carried = max(_distance(one, expected) if _is_plain(one, sets) else np.inf for one in nudged)
    return None if apart <= FURTHER * carried else f"apart by {apart:.1e} of the largest, {describe(sets, how)}"


def _try(twin: Learning, sets: Sets, how: dict[str, Any]) -> Result | None:
    try:
        return twin(sets, how)
    except (ValueError, np.linalg.LinAlgError, ZeroDivisionError, OverflowError):
        return None


def _is_plain(result: Result | None, sets: Sets) -> bool:
    """Whether rows and result are in the range where both must agree."""
    sizes = [np.abs(one).max(initial=0.0) for one in (*sets, *(result or [np.array([np.nan])]))]
    lengths = [np.abs(one[one != 0.0]).min(initial=1.0) for one in sets]
    return bool(max(sizes) <= COMPARED and min(lengths) >= 1.0 / COMPARED) and not np.isnan(sizes).any()


def _distance(found: Result | None, expected: Result) -> float:
    if found is None:
        return np.inf
    return max(
        float(np.abs(one - other).max(initial=0.0)) / max(1.0, np.abs(other).max(initial=0.0))
        for one, other in zip(found, expected, strict=True)
    )


def _nudge(sets: Sets, rng: np.random.Generator) -> Sets:
    a, p, n = (one * (1.0 + NUDGE * rng.normal(size=one.shape)) for one in sets)
    return a, p, n


def describe(sets: Sets, how: dict[str, Any]) -> str:
    """Return a case in a few words."""
    sizes = ", ".join(f"{np.abs(one).max(initial=0.0):.1e}" for one in sets)
    return f"{sets[0].shape} up to {sizes}, {how}"


def draw_triplets(rng: np.random.Generator, usual: bool = False) -> Sets:
    """Draw some triplets, often with something odd about them."""
    n, d = rng.integers(1, 25), rng.integers(1, 7)
    if not usual and rng.random() < 0.2:  # long enough for blocks of triplets and for all layouts
        n, d = rng.integers(12, 40), rng.integers(16, 70)
    a, p, q = rng.normal(size=(3, n, d)) * 10.0 ** (0.0 if usual else rng.uniform(-2, 2))
    if usual:
        return a, p, q
    odd = rng.integers(10)
    if odd == 0:  # copies of triplets, and triplets that say nothing
        at = rng.integers(0, n, n)
        a, p, q = a[at], p[at], q[at]
        p[: n // 3] = q[: n // 3]
    elif odd == 1:
        for one in (a, p, q):
            one[rng.random(n) < 0.3] = 0.0
    elif odd == 2:  # a constant column, a column of zeros
        for one in (a, p, q):
            one[:, 0], one[:, -1] = 3.0, 0.0
    elif odd == 3:  # ties
        a, p, q = np.rint(a), np.rint(p), np.rint(q)
    elif odd == 4:
        p = a.copy()
    elif odd == 5:
        q = a.copy()
    elif odd == 6:  # columns of very different sizes
        scales = 10.0 ** rng.uniform(-4, 4, d)
        a, p, q = a * scales, p * scales, q * scales
    elif odd == 7:  # far beyond what can be compared: refused, or finite
        scale = 10.0 ** rng.uniform(-320, 160)
        with np.errstate(all="ignore"):
            a, p, q = a * scale, p * scale, q * scale
    return a, p, q


def draw_step(rng: np.random.Generator) -> dict[str, Any]:
    """Draw the settings of a step, from almost nothing to everything."""
    C = rng.choice([10.0 ** rng.uniform(-9, 6), 10.0 ** rng.uniform(-3, 1), 0.0])
    eta = rng.choice([0.0, 10.0 ** rng.uniform(-9, 3), 10.0 ** rng.uniform(-1, 1)])
    return {"C": float(C), "eta": float(eta), "max_hq_iter": int(rng.choice([1, 2, 3, 7, 40]))}


def _of_metric(name: str, **options: Any) -> Learning:
    def learn(sets: Sets, how: dict[str, Any]) -> Result:
        model = getattr(nearkin, name)(scale=None, **how, **options).fit_triplets(*sets)
        return [model.plausibility_, model.metric_]

    return learn


def _twin_of(run: Callable[..., Any], **options: Any) -> Learning:
    def twin(sets: Sets, how: dict[str, Any]) -> Result:
        found = run(list(zip(*sets, strict=True)), **how, **options)
        return [found.plausibility, found.parameter]

    return twin


def _low_rank(name: str, run: Callable[..., Any], **options: Any) -> tuple[Learning, Learning]:
    def start(sets: Sets) -> Array:
        d = sets[0].shape[1]
        return np.linalg.qr(np.random.default_rng(d).normal(size=(d, (d + 1) // 2)))[0]

    def learn(sets: Sets, how: dict[str, Any]) -> Result:
        model = getattr(nearkin, name)(init=start(sets).T, scale=None, **how, **options).fit_triplets(*sets)
        return [model.plausibility_, model.components_.T]

    return learn, lambda sets, how: _twin_of(run, L0=start(sets), **options)(sets, how)


def _opml(exact: bool) -> tuple[Learning, Learning]:
    def learn(sets: Sets, how: dict[str, Any]) -> Result:
        model = nearkin.RobustOPML(exact=exact, scale=None, **how).fit_triplets(*sets)
        return [model.plausibility_, model.components_.T]

    def twin(sets: Sets, how: dict[str, Any]) -> Result:
        a, p, q = sets
        g, h = (a - p) + (a - q), p - q
        longest = np.linalg.norm(g, axis=1) * np.linalg.norm(h, axis=1) + (g * h).sum(axis=1)
        if not exact and not 2.0 * how["C"] * weight(0.0, how["eta"]) * longest.max() < 1.0:
            raise ValueError("as published, the step jumps over infinity; the library stops before it")
        found = opml.opml(*sets, **how, exact=exact)
        return [found.plausibility, found.parameter]

    return learn, twin


def _slmoml(sets: Sets, how: dict[str, Any]) -> Result:
    found = slmoml.slmoml(*sets, **how)
    return [found.plausibility, found.parameter]


_BOUNDS = (0.8, 3.0)


def _itml(sets: Sets, how: dict[str, Any]) -> Result:
    a, p, q = sets
    left, right = np.repeat(a, 2, axis=0), np.stack([p, q], 1).reshape(2 * len(a), -1)
    if (left == right).all(axis=1).any():
        raise ValueError("for the library, equal rows are not a pair")
    found = itml.online_itml(left, right, np.tile([True, False], len(a)), _BOUNDS, **how, slack="hinge")
    return [found.plausibility.reshape(-1, 2).min(axis=1), found.parameter]


def _lpa_learn(sets: Sets, how: dict[str, Any]) -> Result:
    model = nearkin.RobustLPAODML(mu=0.5, scale=None, **how).fit_triplets(*sets)
    return [model.plausibility_, model.metric_]


def _lpa_twin(sets: Sets, how: dict[str, Any]) -> Result:
    found = lpa.lpa_odml(*sets, [0] * len(sets[0]), mu=0.5, **how)
    return [found.plausibility, found.global_part]


def _oks_learn(sets: Sets, how: dict[str, Any]) -> Result:
    model = nearkin.RobustOKS(kernel="rbf", gamma=0.5, scale=None, **how).fit_triplets(*sets)
    return [model.plausibility_, model.pair_score(sets[0], sets[1])]


def _oks_twin(sets: Sets, how: dict[str, Any]) -> Result:
    found = mercer.oks(*sets, mercer.rbf(0.5), **how)
    return [found.plausibility, np.array([found.operator.similarity(x, y) for x, y in zip(*sets[:2], strict=True)])]


def _split(sets: Sets) -> tuple[list[Array], ...]:
    at = (sets[0].shape[1] + 1) // 2
    return tuple([one[:, :at].copy(), one[:, at - 1 :].copy()] for one in sets)


def _modal(name: str, run: Callable[..., Any], attribute: str, **options: Any) -> tuple[Learning, Learning]:
    def learn(sets: Sets, how: dict[str, Any]) -> Result:
        model = getattr(nearkin, name)(scale=None, **how, **options).fit_triplets(*_split(sets))
        blocks = [getattr(block, attribute) for block in model.state_.parameter.blocks]
        return [model.plausibility_, model.weights_, *(one.T for one in blocks)]

    def twin(sets: Sets, how: dict[str, Any]) -> Result:
        small = {"n_components": 1} if attribute == "L" else {}
        found = run(*_split(sets), **small, **how)
        return [found.plausibility, found.theta, *found.parameters]

    return learn, twin


#: How the library and the twin learn the same triplets.
TWINS: dict[str, tuple[Learning, Learning]] = {
    "RobustOASIS": (_of_metric("RobustOASIS"), _twin_of(full.oasis)),
    **{
        f"RobustODML {psd}": (_of_metric("RobustODML", psd=psd), _twin_of(full.odml, psd=psd))
        for psd in ("none", "project", "end", "exact")
    },
    "RobustLOSL": _low_rank("RobustLOSL", lowrank.losl),
    "RobustLODML": _low_rank("RobustLODML", lowrank.lodml),
    "RobustLODML subgradient": _low_rank("RobustLODML", lowrank.lodml, solver="subgradient"),
    "RobustOPML published": _opml(exact=False),
    "RobustOPML exact": _opml(exact=True),
    "RobustSLMOML": (_of_metric("RobustSLMOML"), _slmoml),
    "RobustITML": (_of_metric("RobustITML", bounds=_BOUNDS, step="hinge"), _itml),
    "RobustLPAODML": (_lpa_learn, _lpa_twin),
    "RobustOKS": (_oks_learn, _oks_twin),
    "RobustOMDML": _modal("RobustOMDML", multimodal.omdml, "M"),
    "RobustLOMDML": _modal("RobustLOMDML", multimodal.lomdml, "L", n_components=1, init="identity"),
}


# ---------------------------------------------------------------- extremes


def draw_learner(name: str, rng: np.random.Generator) -> Any:
    """Draw settings of a learner up to the bounds of what it takes."""
    learner = getattr(nearkin, name)(random_state=0)
    known = learner.get_params()
    given = {
        "C": [10.0 ** rng.uniform(-9, 6), 0.1, np.inf, 0.0, "auto"][rng.integers(5)],
        "init": ["discriminant", "identity"][rng.integers(2)],
        "eta": rng.choice([0.0, 10.0 ** rng.uniform(-12, 6), 1.0]),
        "max_hq_iter": int(rng.choice([1, 3, 100])),
        "scale": [None, "auto", "pairs", "unit"][rng.integers(4)],
        "triplets": ["auto", "octg", "one_pass", "batch", "random", "neighbours"][rng.integers(6)],
        "n_components": [None, 1, 2][rng.integers(3)],
        "psd": ["none", "project", "end", "exact"][rng.integers(4)],
        "solver": ["exact", "subgradient"][rng.integers(2)],
    }
    for name, value in given.items():
        if name in known and rng.random() < 0.6:
            learner.set_params(**{name: value})
    return learner


def draw_rows(rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """Draw labelled rows of any size, from subnormal numbers to 1e150, with copies, zeros and tiny classes."""
    n, d, k = rng.integers(4, 40), rng.integers(1, 8), rng.integers(2, 5)
    y = rng.integers(0, k, n)
    y[:4] = [0, 0, 1, 1]
    X = rng.normal(size=(n, d)) + rng.normal(size=(k, d))[y]
    with np.errstate(all="ignore"):
        X *= 10.0 ** rng.choice([0.0, rng.uniform(-320, 150), rng.uniform(-10, 10)])
        if rng.random() < 0.3:
            X *= 10.0 ** rng.uniform(-30, 30, d)
        if rng.random() < 0.2:
            X += 10.0 ** rng.uniform(-10, 20)
        if rng.random() < 0.2:
            X[:, rng.integers(d)] = rng.choice([0.0, 1.0, 5e-324])
        if rng.random() < 0.3:
            X = X[rng.integers(0, n, n)]
        if rng.random() < 0.2:
            X[rng.random(n) < 0.5] = 0.0
        if rng.random() < 0.3:
            X[rng.random(X.shape) < 0.7] = 0.0
        if rng.random() < 0.3:
            X = X.astype(np.float32)
    return X, y


def strain(name: str, rng: np.random.Generator) -> str | None:
    """Fit extreme rows, dense and sparse, and use what was learned; return what is wrong with the answer."""
    learner = draw_learner(name, rng)
    X, y = draw_rows(rng)
    what = f"{learner}, {X.shape} {X.dtype} up to {np.abs(X).max():.1e}"
    try:
        results = _use(learner, X, y)
    except ValueError as error:
        return None if str(error) else f"an error without a word: {what}"
    for one, value in results.items():
        if not np.isfinite(value).all():
            return f"{one} is not finite: {what}"
    found = results["plausibility_"]
    if not ((found > 0.0) & (found <= 1.0)).all():
        return f"plausibilities outside (0, 1]: {what}"
    return _compare_sparse(learner, X, y, results, what) if _is_moderate(X) else None


def strain_classifier(name: str, rng: np.random.Generator) -> str | None:
    """Fit extreme rows by the default decision or by Algorithm 5, and ask about rows near and far."""
    X, y = draw_rows(rng)
    queries = X * X.dtype.type(10.0 ** rng.choice([0.0, rng.uniform(-50, 50)]))
    auto = rng.random() < 0.7
    try:
        model = getattr(nearkin, name)("auto" if auto else 3, random_state=0).fit(X, y)
        found = model.predict_proba(queries)
    except ValueError as error:
        return None if str(error) else "an error without a word"
    sizes = f"rows {X.shape} {X.dtype} up to {np.abs(X).max():.1e}, queries up to {np.abs(queries).max():.1e}"
    what = f"{'jury' if auto else 'Algorithm 5'}, {sizes}"
    if not np.isfinite(found).all() or np.abs(found.sum(axis=1) - 1.0).max() > 1e-6 or found.min() < 0.0:
        return f"probabilities are none: {what}"
    believed = model.plausibility_
    return None if ((believed >= 0.0) & (believed <= 1.0)).all() else f"plausibilities outside [0, 1]: {what}"


def _use(learner: Any, X: Any, y: Any) -> dict[str, Array]:
    from sklearn.base import clone

    model = clone(learner).fit(X, y)
    results = {"plausibility_": model.plausibility_}
    dense = X.toarray() if sparse.issparse(X) else X
    results["pair_score"] = model.pair_score(dense[:3], dense[-3:])
    for name in ("metric_", "components_"):
        try:
            results[name] = getattr(model, name)
        except (AttributeError, ValueError):  # it has none, or says why not
            continue
    model.partial_fit(X[:4], y[:4])
    results["pair_score after more"] = model.pair_score(dense[:3], dense[-3:])
    return results


def _is_moderate(X: Array) -> bool:
    sizes = np.abs(X[X != 0.0])
    return X.dtype == np.float64 and len(sizes) > 0 and sizes.min() > 1e-3 and sizes.max() < 1e3


def _compare_sparse(learner: Any, X: Array, y: Any, results: dict[str, Array], what: str) -> str | None:
    """Sparse rows are never shifted, so only learners that do not shift are the same for both."""
    if learner.get_params().get("scale", None) is not None or "modalities" in learner.get_params():
        return None
    try:
        others = _use(learner, sparse.csr_array(X), y)
    except ValueError as error:
        return f"sparse rows are refused, dense ones are not ({error}): {what}"
    for name, value in results.items():
        size = np.abs(value).max(initial=1.0)
        if size < COMPARED and np.abs(value - others[name]).max(initial=0.0) > 1e-3 * size:
            return f"{name} of sparse rows differs: {what}"
    return None
