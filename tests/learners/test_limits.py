"""What is too large is refused before memory or time is spent; threads that share a learner take turns."""

import ast
import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import nearkin
from each import each
from nearkin import memory, search, streams
from nearkin.errors import InputError
from nearkin.noise import rate_interval

LEARNERS = [
    getattr(nearkin, name)
    for name in nearkin.__all__
    if name.endswith(("DML", "OASIS", "LOSL", "OML", "OPML", "ITML", "OKS", "OMKS", "ODML"))
]
#: Settings that cost time or memory, with a value above all reason.
COSTLY = {
    "max_hq_iter": 2_147_483_647,
    "n_epochs": 2**40,
    "n_components": 2**40,
    "n_steps": 2**31,
    "budget": 2**40,
    "rank": 2**40,
    "buffer": 2**40,
    "n_projections": 2**40,
    "degree": 10**6,
}


@pytest.fixture
def rows(rng):
    return rng.normal(size=(60, 4)), np.arange(60) % 3


@each(cls=LEARNERS)
def test_settings_that_cost_time_or_memory_have_an_upper_end(cls, rows):
    for name in cls().get_params().keys() & COSTLY.keys():
        with pytest.raises(InputError, match=f"{cls.__name__}: parameter `{name}` must be a whole number in"):
            cls(**{name: COSTLY[name]}).fit(*rows)


def test_triplet_sources_have_upper_ends_too(rows):
    for source in (
        nearkin.OCTG(2**40), nearkin.OCTG(refresh=2**40), nearkin.OCTG(max_centers=2**40),
        nearkin.BatchTriplets(2**40), nearkin.RandomTriplets(2**40),
    ):  # fmt: skip
        with pytest.raises(InputError, match="must be a whole number in"):
            nearkin.ODML(triplets=source).fit(*rows)


#: Arguments without an upper end: numbers that only name something.
NAMES = {"seed", "random_state", "ids"}


def test_no_room_takes_whole_numbers_without_an_upper_end():
    """A slip of the finger is refused before memory or time is spent on it."""
    found = []
    for path in sorted(Path(nearkin.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setting", "check_argument"):
                names = {one.value for one in node.args if isinstance(one, ast.Constant)}
                rules = [one for one in node.args if isinstance(one, ast.Call)]
                endless = [one for one in rules if getattr(one.func, "id", "") == "Integer" and len(one.args) < 2]
                found += [f"{path.name}: {ast.unparse(node)}" for _ in endless if not names & NAMES]
    assert found == []


def test_settings_above_all_reason_are_refused_in_every_room(rows, tmp_path):
    X, y = rows
    (tmp_path / "t.csv").write_text("a,y\n" + "1,x\n2,z\n" * 9)
    feedback = search.Feedback.from_judgements([0, 1], [1, 2], [True, True], query_ids=60, item_ids=60)
    audit = nearkin.audit_labels(X, y, random_state=0)
    huge = 10**30
    calls = {
        "n_neighbors": lambda: nearkin.RobustKNeighborsClassifier(n_neighbors=huge).fit(X, y),
        "n_per_class": lambda: nearkin.StreamAudit(n_per_class=huge).fit(X, y),
        "max_rows": lambda: nearkin.StreamAudit(max_rows=huge).fit(X, y),
        "`n_neighbors`": lambda: audit.evidence(0, huge),
        "n_counted": lambda: rate_interval(0.1, huge),
        "batch_rows": lambda: streams.open(tmp_path / "t.csv", label="y", batch_rows=huge),
        "epochs": lambda: streams.fit_stream(nearkin.ODML(), streams.open([(X, y)]), epochs=huge),
        "log_every": lambda: streams.fit_stream(nearkin.ODML(), streams.open([(X, y)]), log_every=huge),
        "k": lambda: search.Index().fit(X).query(X, huge),
        "random_state": lambda: search.Index(random_state=huge).fit(X),
        **{
            name: lambda name=name: search.adapt(X, X, feedback, **{name: huge})
            for name in ("n_epochs", "n_random", "max_pairs", "max_evaluated")
        },
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=f"`?{name}`? must be "):
            call()
    with pytest.raises(InputError, match="`C` must be a number in"):
        nearkin.ODML(C=10**400).fit(X, y)


def test_random_items_that_do_not_fit_are_refused(rows, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)
    X, _ = rows
    feedback = search.Feedback.from_judgements(range(60), range(60), [True] * 60, query_ids=60, item_ids=60)
    with pytest.raises(InputError, match=r"90,000 random items for .* needs about .* GB of memory.*`n_random`"):
        search.adapt(X, X, feedback, n_random=90_000, random_state=0)
    with pytest.raises(InputError, match=r"ranking 500,000 random items for 60 queries .*`candidates`"):
        search.evaluate(X, X, feedback, candidates=500_000, random_state=0)


#: Learners with what they advise where 50,000 features do not fit.
WIDE = {
    "RobustODML": "RobustLODML",
    "OASIS": "RobustLODML",
    "OPML": "RobustLODML",
    "SLMOML": "RobustLODML",
    "RobustITML": "RobustLODML",
    "LPAODML": "RobustLODML",
    "OMDML": "RobustLOMDML",
}


@each(name=tuple(WIDE))
def test_a_matrix_that_does_not_fit_is_refused_before_memory_is_spent(name, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 8e9)
    X = sparse.random_array((20, 50_000), density=0.001, format="csr", random_state=0)
    with pytest.raises(
        InputError, match=f"{name}: learning 50,000 features needs about .* and 8 GB are free"
    ) as caught:
        getattr(nearkin, name)().fit(X, np.arange(20) % 2)
    assert WIDE[name] in str(caught.value)


@each(
    model={
        "low rank": nearkin.RobustLODML(20_000),
        "modalities": nearkin.LOMDML(20_000),
        "sketch": nearkin.LSMDML(rank=60_000),
        "kernel": nearkin.OKS(budget=1_000_000),
    }
)
def test_settings_that_do_not_fit_are_named(model, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 8e9)
    X = sparse.random_array((20, 50_000), density=0.001, format="csr", random_state=0)
    with pytest.raises(InputError, match=r"needs .* Lower `(n_components|rank|budget)`"):
        model.fit(X, np.arange(20) % 2)


def test_a_matrix_too_large_to_show_is_refused(monkeypatch, rng):
    X = rng.normal(size=(30, 3000))
    model = nearkin.RobustLODML(4, random_state=0).fit(X, np.arange(30) % 2)
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    with pytest.raises(InputError, match="Use components_"):
        model.metric_  # noqa: B018
    assert model.transform(X).shape == (30, 4)


# ---------------------------------------------------------------------- threads


def in_threads(*calls):
    errors = []

    def run(call):
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []


@each(model=(nearkin.RobustLODML(random_state=0), nearkin.RobustODML(random_state=0), nearkin.OKS(random_state=0)))
def test_threads_that_share_a_learner_lose_no_row(model, rng):
    X, y = rng.normal(size=(1200, 5)), np.arange(1200) % 3
    model = clone(model).partial_fit(X[:30], y[:30])
    parts = [slice(start, start + 10) for start in range(30, 1200, 10)]

    def learn(which):
        for part in which:
            model.partial_fit(X[part], y[part])

    in_threads(*(lambda k=k: learn(parts[k::4]) for k in range(4)))
    assert model.n_rows_seen_ == 1200


def test_fits_of_one_learner_in_two_threads_take_turns(rng):
    X, y = rng.normal(size=(300, 5)), np.arange(300) % 3
    model = nearkin.RobustODML(random_state=0)
    in_threads(lambda: model.fit(X, y), lambda: model.fit(X[:200, :3], y[:200]))
    assert (model.n_features_in_, model.n_rows_seen_, len(model.plausibility_)) in ((5, 300, 300), (3, 200, 200))
    assert len(model.metric_) == model.n_features_in_


def test_a_model_saved_while_another_thread_learns_is_whole(tmp_path, rng):
    X, y = rng.normal(size=(4000, 5)), np.arange(4000) % 3
    model = nearkin.RobustLODML(random_state=0).partial_fit(X[:3], y[:3])
    sizes = {3: 3}  # of the last batch, by rows seen
    done = threading.Event()

    def learn():
        at = 3
        for size in np.random.default_rng(0).integers(1, 60, 100):
            sizes[at + int(size)] = int(size)
            model.partial_fit(X[at : at + size], y[at : at + size])
            at += int(size)
        done.set()

    def save():
        while not done.is_set():
            nearkin.save(model, tmp_path / "model.nearkin")
            found = nearkin.load(tmp_path / "model.nearkin")
            assert len(found.plausibility_) == sizes[found.n_rows_seen_]

    in_threads(learn, save)


def test_a_learner_with_a_lock_is_cloned_copied_and_pickled(rows):
    model = nearkin.RobustODML(random_state=0).fit(*rows)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        np.testing.assert_array_equal(
            copied.partial_fit(*rows).metric_, clone(model).fit(*rows).partial_fit(*rows).metric_
        )


# ---------------------------------------------------------------------- small and chaotic cases


@each(cls=(nearkin.ODML, nearkin.RobustODML, nearkin.LPAODML, nearkin.RobustLPAODML), C=(0.1, 1.0, 10.0, np.inf))
def test_the_metric_of_one_feature_is_never_negative(cls, C):
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 1)), rng.integers(0, 3, 60)
        try:
            model = cls(C=C, random_state=0).fit(X, y)
        except InputError as error:
            assert np.isinf(C) and "Lower `C`" in str(error)
            continue
        assert model.metric_[0, 0] >= 0.0
        assert np.isfinite(model.transform(X)).all()


def test_a_matrix_without_a_map_names_a_setting_only_where_there_is_one(rows):
    X, y = rows
    model = nearkin.ODML(psd="none", C=np.inf, random_state=0).fit(X, np.random.default_rng(3).permutation(y))
    if np.linalg.eigvalsh(model.metric_)[0] < -1e-6:
        with pytest.raises(InputError, match="Fit with psd="):
            model.transform(X)
    model = nearkin.LPAODML(random_state=0).fit(X, y)
    model.state_.parameter.shared.M[0, 0] = -9.0
    with pytest.raises(InputError, match=r"has no map. Lower `C`"):
        model.transform(X)


@each(cls=(nearkin.ITML, nearkin.RobustITML, nearkin.SLMOML, nearkin.RobustODML), dtype=(np.float64, np.float32))
def test_dense_and_sparse_rows_give_the_same_bits_even_where_steps_have_no_bound(cls, dtype):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 4)).astype(dtype)
        X[rng.permutation(200)[:100]] = 0.0
        y = rng.integers(0, 3, 200)
        found = []
        for rows in (X, sparse.csr_array(X)):
            try:
                found.append(cls(C=np.inf, n_epochs=3, random_state=0).fit(rows, y).metric_)
            except InputError as error:
                found.append(str(error))
        np.testing.assert_array_equal(*found)


# ---------------------------------------------------------------------- extreme numbers

NORMAL = np.random.default_rng(0).normal(size=(24, 3))
HERE = np.arange(72).reshape(24, 3) == 5
LARGEST, SMALLEST = np.finfo(np.float64).max, 5e-324
EXTREME = {
    "1e300": NORMAL * 1e300,
    "largest": np.sign(NORMAL) * LARGEST,
    "some largest": np.where(np.abs(NORMAL) > 1.0, np.sign(NORMAL) * LARGEST, NORMAL),
    "one huge": np.where(HERE, 1e300, NORMAL),
    "1e-308": NORMAL * 1e-308,
    "subnormal": np.sign(NORMAL) * SMALLEST,
    "some subnormal": np.where(NORMAL > 0, SMALLEST, NORMAL),
    "far apart": NORMAL * np.array([1e200, 1.0, 1e-200]),
    "far off": NORMAL + 1e15,
    "float32 large": (NORMAL * 1e30).astype(np.float32),
    "float32 subnormal": (np.sign(NORMAL) * 1e-45).astype(np.float32),
    "float16": NORMAL.astype(np.float16),
    "int8": (NORMAL * 40).astype(np.int8),
    "int64": (NORMAL * 2**60).astype(np.int64),
    "bool": NORMAL > 0,
    "constant": np.ones_like(NORMAL),
    "zeros": np.zeros_like(NORMAL),
    "one feature": NORMAL[:, :1],
    "equal rows": np.repeat(NORMAL[:3], 8, axis=0),
}


@each(cls=LEARNERS, scale=("auto", None), fast={"cls": (nearkin.RobustLODML, nearkin.RobustODML, nearkin.RobustOASIS)})
def test_extreme_numbers_are_learned_or_refused_by_name(cls, scale):
    y = np.arange(24) % 3
    for name, X in EXTREME.items():
        model = cls(scale=scale, random_state=0)
        try:
            model.fit(X, y)
        except InputError as error:
            assert str(error).startswith(f"{cls.__name__}: "), name
            assert "nan" not in str(error) and "inf " not in str(error), name
            continue
        found = [model.plausibility_, model.plausibility(X, y)]
        assert all((one > 0).all() and (one <= 1).all() for one in found), name
        assert np.isfinite(model.pair_score(X[:9], X[9:18])).all(), name
        if hasattr(cls, "transform"):
            assert np.isfinite(model.transform(X)).all() and np.isfinite(model.metric_).all(), name


@each(cls=LEARNERS)
def test_one_row_or_one_class_says_what_is_needed(cls):
    for n in (1, 24):
        with pytest.raises(InputError, match=f"{cls.__name__}: at least two classes are needed"):
            cls().fit(NORMAL[:n], np.zeros(n, int))
    model = cls(random_state=0).partial_fit(NORMAL[:1], [0], classes=[0, 1, 2])
    assert model.partial_fit(NORMAL[1:], np.arange(1, 24) % 3).n_rows_seen_ == 24
