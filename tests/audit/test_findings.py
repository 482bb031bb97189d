"""What else is wrong with the data: each kind is found where it was planted, and silent on clean data."""

import json
import time
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs, make_classification

import nearkin
from each import each
from nearkin.audit import Finding
from nearkin.audit.leaks import find_leaks
from nearkin.audit.row_order import find_period, find_runs
from nearkin.audit.stray_values import find_stray_values
from nearkin.jury import judged

SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "blobs": lambda: make_blobs(1200, 6, centers=4, cluster_std=3.0, random_state=3),
    "classification": lambda: make_classification(2000, 12, n_informative=6, n_classes=3, random_state=2),
    "small": lambda: make_classification(200, 8, n_informative=4, random_state=5),
}


def shuffled(name, seed=0):
    X, y = SETS[name]()
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order].astype(np.float64), y[order]


def audited(X, y, **settings):
    return nearkin.audit_labels(X, y, random_state=0, **settings)


def found(audit):
    return {one.kind: one for one in audit.findings}


#: Kinds that are true of the data sets as they are: iris has a row twice.
TRUE_OF = {"iris": {"copies"}}


@each(name=list(SETS), fast={"name": ["iris", "wine", "breast_cancer", "classification", "small"]})
def test_clean_data_raises_no_alarm(name):
    assert set(found(audited(*shuffled(name)))) - {"far"} == TRUE_OF.get(name, set())


def test_sorted_data_is_called_sorted_and_nothing_else():
    for name, n_wanted in (("iris", 147), ("wine", 175)):
        X, y = SETS[name]()
        told = found(audited(X, y))
        assert set(told) - {"far"} == {"sorted"} | TRUE_OF.get(name, set()), name
        assert told["sorted"].count == n_wanted, name
    assert found(audited(*SETS["iris"]()))["copies"].rows.tolist() == [101, 142]


CLOUDS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "uniform": lambda rng, n, d: rng.uniform(size=(n, d)),
    "Student's t(3)": lambda rng, n, d: rng.standard_t(3, size=(n, d)),
    "correlated": lambda rng, n, d: rng.normal(size=(n, d)) @ rng.normal(size=(d, d)),
}


@each(name=list(CLOUDS), d=[2, 5, 20], fast={"d": [5]})
def test_at_most_one_clean_row_in_a_hundred_is_called_far(name, d):
    for seed, n in ((0, 300), (1, 1500)):
        rng = np.random.default_rng(seed)
        X, y = CLOUDS[name](rng, n, d), rng.integers(3, size=n)
        X[:, 0] += y * X[:, 0].std()
        told = found(audited(X, y))
        assert set(told) <= {"far"}, told
        assert "far" not in told or told["far"].count <= 0.01 * n, (n, str(told["far"]))


@each(name=["wine", "breast_cancer", "digits", "small"], fast={"name": ["wine", "small"]})
def test_far_rows_are_found_however_many(name):
    for n_far in (1, 3, 8):
        X, y = shuffled(name)
        rng = np.random.default_rng(n_far)
        rows = rng.choice(len(y), n_far, replace=False)
        X[rows] += 25.0 * X.std(axis=0) * rng.choice([-1.0, 1.0], (n_far, X.shape[1]))
        told = found(audited(X, y))["far"]
        assert set(rows.tolist()) <= set(told.rows.tolist())
        assert set(told.rows[:n_far].tolist()) == set(rows.tolist()) and told.count == len(told.rows)


@each(name=["wine", "breast_cancer", "classification", "small"])
def test_copies_are_counted_and_those_that_disagree_are_named_first(name):
    X, y = shuffled(name)
    n = len(y)
    X, y = np.concatenate([X, X[:6], X[:1]]), np.concatenate([y, y[:6], y[:1]])
    told = found(audited(X, y))
    assert told["copies"].count == 7 and "conflicts" not in told
    assert told["copies"].rows.tolist() == [0, n, n + 6, *(row for i in range(1, 6) for row in (i, n + i))]
    assert "7 equal; 6 sets" in told["copies"].meaning
    y[n + 2] = (y[n + 2] + 1) % (y.max() + 1)
    told = found(audited(X, y))
    assert told["conflicts"].count == 1 and told["conflicts"].rows.tolist() == [2, n + 2]
    assert told["copies"].count == 7


def test_near_copies_are_counted_apart(rng):
    X, y = shuffled("classification")
    X = np.concatenate([X, X[:500] + 1e-4 * rng.normal(size=(500, X.shape[1]))])
    told = found(audited(X, np.concatenate([y, y[:500]])))["copies"]
    assert told.count == 500 and "500 nearly equal; 500 sets" in told.meaning


@each(name=["wine", "breast_cancer", "classification"], fast={"name": ["wine"]})
def test_a_few_near_copies_are_found_and_those_that_disagree_are_named(name, rng):
    X, y = shuffled(name)
    n, rows = len(y), rng.choice(len(y), 4, replace=False)
    X = np.concatenate([X, X[rows] + 1e-3 * X.std(axis=0) * rng.normal(size=(4, X.shape[1]))])
    labels = np.concatenate([y, y[rows]])
    labels[n] = (labels[n] + 1) % (y.max() + 1)
    told = found(audited(X, labels))
    assert set(told["copies"].rows.tolist()) == {*rows.tolist(), *range(n, n + 4)}
    assert "4 nearly equal; 4 sets" in told["copies"].meaning
    assert told["conflicts"].rows.tolist() == sorted([int(rows[0]), n])


def test_rows_that_differ_in_one_of_many_columns_of_few_values_are_not_near_copies(rng):
    X = rng.integers(3, size=(1000, 8)).astype(float)
    X[:, 0] = rng.normal(size=1000)
    assert "copies" not in found(audited(X, X[:, 1].astype(int) % 2))


@each(name=["wine", "breast_cancer", "digits", "small"], fast={"name": ["wine", "small"]})
def test_single_values_far_from_all_others_are_named(name):
    X, y = shuffled(name)
    X[5, 2], X[9, 4] = -9999.0, X[:, 4].mean() + 100.0 * X[:, 4].std()
    told = found(audited(X, y))["values"]
    assert told.rows.tolist() == [5, 9] and told.count == 2
    assert told.items == ("feature 2 is -9999 in row 5", f"feature 4 is {X[9, 4]:g} in row 9")


@pytest.mark.parametrize(
    "column",
    [
        lambda rng: rng.lognormal(size=2000),
        lambda rng: rng.exponential(size=2000),
        lambda rng: rng.random(2000) < 0.005,  # a rare property
        lambda rng: np.where(rng.random(2000) < 0.9, 0.0, rng.exponential(size=2000)),
        lambda rng: np.where(rng.random(2000) < 0.05, -999.0, rng.normal(size=2000)),  # too many for a slip
        lambda rng: np.zeros(2000),
        lambda rng: np.full(2000, np.nan),
    ],
)
def test_columns_with_long_tails_or_few_values_have_no_stray_values(rng, column):
    assert find_stray_values(np.asarray(column(rng), dtype=float)) == []


def test_rows_of_few_values_are_not_copies(rng):
    y = rng.integers(2, size=600)
    X = (rng.uniform(size=(600, 4)) < 0.3 + 0.4 * y[:, None]).astype(float)
    assert "conflicts" not in found(audited(X, y))


@each(name=["wine", "breast_cancer", "digits", "classification"], fast={"name": ["wine", "classification"]})
def test_a_column_that_is_the_label_in_another_form_is_a_leak(name):
    X, y = shuffled(name)
    secret = np.array([4.0, -1.0, 9.0, 2.0, 7.0, 0.0, 3.0, 5.0, 8.0, 1.0])[y]
    for column in (secret, secret + 0.1 * np.random.default_rng(0).normal(size=len(y))):
        told = found(audited(np.insert(X, 2, column, axis=1), y))["leaks"]
        assert told.count == 1 and told.items == ("feature 2",) and not len(told.rows)


def test_leaks_go_by_the_names_of_the_columns():
    pandas = pytest.importorskip("pandas")
    X, y = shuffled("classification")
    frame = pandas.DataFrame(X).add_prefix("x")
    frame["<img src=x>"] = np.array(["red", "green", "blue"])[y]
    assert found(audited(frame, y))["leaks"].items == ("<img src=x>",)
    assert found(audited(frame.assign(**{"<img src=x>": y.astype(float)}), y))["leaks"].items == ("<img src=x>",)


def test_classes_that_every_column_tells_are_not_leaks(rng):
    codes = np.repeat([0, 1], 60)
    rows = 20.0 * codes[:, None] + rng.normal(size=(120, 10))
    columns = [np.array([i]) for i in range(10)]
    assert find_leaks(rows, codes, columns)[0] == []
    assert find_leaks(rows[:, :1], codes, columns[:1])[0] == []  # there is nothing to compare it with


@each(name=["digits", "blobs", "iris"], fast={"name": ["blobs", "iris"]})
def test_two_names_of_one_class_are_alike(name):
    X, y = shuffled(name)
    names = np.array([f"c{i}" for i in range(10)])[y]
    many = np.random.default_rng(1).uniform(size=len(y)) < (0.5 if name == "iris" else 0.3)
    X, names = (np.concatenate([one, one]) for one in (X, names)) if name == "iris" else (X, names)
    X = X + 0.05 * X.std(axis=0) * np.random.default_rng(2).normal(size=X.shape) if name == "iris" else X
    many = np.concatenate([many, ~many]) if name == "iris" else many
    names = np.where((names == "c1") & many, "other", names)
    told = found(audited(X, names))["alike"]
    assert told.items == ("c1 and other",) and told.count == 1


@each(rate=[0.1, 0.3], name=["digits", "blobs"], fast={"name": ["blobs"]})
def test_wrong_labels_do_not_make_classes_alike_nor_runs(rate, name):
    X, y = shuffled(name)
    told = found(audited(X, nearkin.flip_labels(y, rate, random_state=1)[0]))
    assert not {"alike", "order", "sorted", "leaks"} & set(told), told


@each(name=["digits", "blobs", "classification"], fast={"name": ["blobs"]})
def test_a_stretch_of_bad_labels_is_found_where_it_is(name):
    X, y = shuffled(name)
    y = y.copy()
    start, end = len(y) // 3, len(y) // 3 + len(y) // 10
    y[start:end] = np.random.default_rng(0).permutation(y[start:end])
    audit = audited(X, y)
    told = found(audit)["order"]
    within = (told.rows >= start - 5) & (told.rows < end + 5)
    assert within.mean() > 0.9 and len(told.items) == 1
    assert audit.is_suspect[told.rows].all() and told.count == len(told.rows)
    assert told.count >= 0.8 * audit.is_suspect[start:end].sum()


def test_order_alone_is_not_a_run_and_chance_finds_none(rng):
    codes = np.repeat([0, 1], 500)
    is_doubted = np.where(codes == 0, rng.uniform(size=1000) < 0.3, False)
    assert find_runs(is_doubted, codes) == []  # one class is doubted more often, and stands together
    for _ in range(50):
        assert find_runs(rng.uniform(size=400) < rng.uniform(0.01, 0.5), rng.integers(3, size=400)) == []
    assert find_runs(np.ones(10, dtype=bool), np.zeros(10, dtype=np.int64)) == []
    is_doubted = np.zeros(600, dtype=bool)
    is_doubted[100:150] = is_doubted[400:440] = True
    assert sorted(find_runs(is_doubted, np.zeros(600, dtype=np.int64))) == [(100, 150), (400, 440)]


def test_periods_of_labels(rng):
    assert find_period(np.repeat([0, 1, 2], 40))[0] == 1
    assert find_period(np.tile(np.arange(7), 30)) == (7, 1.0)
    for n in (20, 60, 500):
        for k in (2, 3, 10):
            for _ in range(30):
                assert find_period(rng.permutation(np.arange(n) % k)) is None
    rare = np.zeros(2000, dtype=np.int64)
    rare[rng.choice(2000, 10, replace=False)] = 1
    assert find_period(rare) is None and find_period(np.zeros(50, dtype=np.int64)) is None


def test_spellings_imbalance_and_gaps(rng):
    y = rng.permutation(np.where(np.arange(420) % 2, "seal", "Otter").astype(object))
    for name, other in (("seal", "seal\u200b"), ("Otter", "otter ")):
        y[np.flatnonzero(y == name)[::5]] = other
    y[100:104] = "crab"
    y[[7, 9]] = None
    X = rng.normal(size=(420, 3)) + 6.0 * np.isin(y, ["seal", "seal\u200b"])[:, None]
    with pytest.warns(UserWarning, match="4 labels look like 2"):
        audit = audited(X, y.tolist())
    told = found(audit)
    assert told["spellings"].count == 4
    assert set(told["spellings"].items) == {"'Otter' / 'otter '", r"'seal' / 'seal\u200b'"}
    assert told["imbalance"].items == ("crab: 4",) and told["imbalance"].count == 1
    assert told["unlabelled"].count == 2
    assert [one.kind for one in audit.findings][-3:] == ["spellings", "imbalance", "unlabelled"]
    assert not any("labels look like" in note for note in audit.notes)


def test_rows_are_counted_among_all_that_were_given(tmp_path):
    X, y = shuffled("blobs")
    y = y.astype(object)
    X, y = np.concatenate([X, X[50:52]]), np.concatenate([y, y[50:52]])
    y[[0, 1, 60]] = None
    audit = audited(X, y)
    told = found(audit)["copies"]
    assert told.rows.tolist() == [48, 1197, 49, 1198] and told.numbers.tolist() == [50, 1200, 51, 1201]
    assert told.tell() == "copies of rows (2; rows 50, 1200, 51, 1201)"
    assert ("found", told.tell()) in audit.summary() and told.tell()[1:] in str(told)
    audit.to_json(tmp_path / "a.json")
    (held,) = (one for one in json.loads((tmp_path / "a.json").read_text())["findings"] if one["kind"] == "copies")
    assert held["rows"] == [50, 1200, 51, 1201] and held["advice"] == told.advice and held["count"] == 2
    start, end = 300, 420
    y[start:end] = np.random.default_rng(0).permutation(y[start:end])
    audit = audited(X, y)
    told = found(audit)["order"]
    assert told.numbers.tolist() == audit.numbers()[told.rows].tolist()
    assert told.items[0].startswith(f"rows {told.numbers[0]} to ")


def test_rows_with_names_go_by_their_names():
    X, y = shuffled("wine")
    audit = audited(np.concatenate([X, X[:2]]), np.concatenate([y, y[:2]]))
    audit.names = [f"bottle {i}" for i in range(len(y) + 2)]
    told = found(audit)["copies"]
    assert told.tell() == f"copies of rows (2; rows bottle 0, bottle {len(y)}, bottle 1, bottle {len(y) + 1})"


def test_nothing_that_can_be_audited_stops_the_search(rng):
    X, y = rng.normal(size=(80, 3)), np.arange(80) % 2
    wide = rng.normal(size=(60, 200))
    odd = np.array([(1, 2), None, "x", 3.5, frozenset("a")] * 16, dtype=object)
    cases = {
        "few rows": (X[:4], y[:4]),
        "two rows": (X[:2], y[:2]),
        "float32": (X.astype(np.float32), y),
        "integers": (rng.integers(5, size=(80, 3)), y),
        "constant column": (np.insert(X, 1, 3.0, axis=1), y),
        "one column": (X[:, :1], y),
        "modalities": ({"a": X, "b": rng.normal(size=(80, 6))}, y),
        "wide": (wide, np.arange(60) % 3),
        "huge": (X * 1e150, y),
        "tiny": (X * 1e-150, y),
        "offset": (X + 1e9, y),
        "truth": (X, y == 1),
        "tuples and none": (X, odd),
        "many classes": (X, np.arange(80) % 40),
        "nearly all equal": (np.where(np.arange(80)[:, None] < 78, 1.0, X), y),
    }
    for name, given in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            told = audited(*given).findings
        assert all(isinstance(one, Finding) and one.count > 0 and str(one) for one in told), name


def test_groups_and_rows_outside_the_jury(rng, monkeypatch):
    X, y = shuffled("small")
    assert "far" not in found(audited(X, y, groups=np.where(np.arange(200) < 196, 0, np.arange(200))))
    monkeypatch.setattr(judged, "MOST_MEMBERS", 300)
    X, y = shuffled("blobs")
    X[[5, 900]] = X[3]
    y[[5, 900]] = y[3]
    far = np.arange(10, 1200, 80)
    X[far] += 60.0 * rng.normal(size=(len(far), X.shape[1]))
    audit = audited(X, y)
    told = found(audit)
    assert told["copies"].rows.tolist() == [3, 5, 900] and told["copies"].count == 2
    voting = np.intersect1d(far, audit.decision.judged.members)  # only these were compared with others
    assert 0 < len(voting) < len(far) and set(voting.tolist()) <= set(told["far"].rows.tolist())


@pytest.mark.slow
def test_the_search_is_cheap():
    X, y = make_classification(20_000, 50, n_informative=15, n_classes=5, random_state=0)
    audited(X[:500], y[:500])  # compiles
    begun = time.process_time()
    audit = audited(X, y)
    middle = time.process_time()
    assert audit.findings == ()
    assert time.process_time() - middle < 0.1 * (middle - begun)
