"""Tables as people have them: what becomes of every column, in Python."""

import copy
import dataclasses
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearkin
from nearkin.errors import InputError
from nearkin.tables import TableEncoder, open_table, read_training


def passengers(n=200, seed=0):
    """A table like that of the Titanic; the label follows from columns that are no plain numbers."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["male", "female"], n)
    age = np.where(rng.random(n) < 0.2, np.nan, rng.integers(1, 80, n))
    table = {
        "PassengerId": np.arange(1, n + 1),
        "Pclass": rng.integers(1, 4, n),
        "Name": [f"{a}son, {'Mr.' if s == 'male' else 'Mrs.'} {b} {a}" for a, b, s in zip(
            rng.choice(["John", "Peter", "Eric"], n), rng.integers(100, 999, n), sex, strict=True)],
        "Sex": sex,
        "Age": age,
        "Fare": [f"{one:.2f}".replace(".", ",") for one in rng.gamma(2, 20, n)],
        "Cabin": np.where(rng.random(n) < 0.7, None, [f"C{one}" for one in rng.integers(1, 60, n)]),
        "Embarked": rng.choice(["S", "C", "Q"], n),
        "Boarded": pd.Timestamp("1912-04-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
        "Ship": "Titanic",
        "Nothing": [None] * n,
    }  # fmt: skip
    survived = np.where((sex == "female") ^ (np.nan_to_num(age, nan=40) > 60), "yes", "no")
    return pd.DataFrame(table).assign(survived=survived)


KINDS = {
    "PassengerId": "id", "Pclass": "number", "Name": "text", "Sex": "category", "Age": "number", "Fare": "number",
    "Cabin": "many categories", "Embarked": "category", "Boarded": "date", "Ship": "constant", "Nothing": "empty",
}  # fmt: skip


def test_every_column_is_decided_and_told():
    table = passengers(400).drop(columns="survived")
    encoder = TableEncoder()
    X = encoder.fit_transform(table)
    assert {one.name: one.kind for one in encoder.columns_} == KINDS
    assert np.isfinite(X).all() and X.shape[1] == encoder.n_features_out_ == len(encoder.get_feature_names_out())
    told = {one.name: one.told for one in encoder.columns_}
    assert told["PassengerId"] == "left out: it counts the rows"
    assert "gaps filled with" in told["Age"] and "marked" in told["Age"]
    assert told["Fare"] == "number with decimal comma"
    np.testing.assert_array_equal(X, encoder.transform(table[table.columns[::-1]]))
    with pytest.warns(UserWarning, match=r"'Embarked': 400 of 400 cells hold a value that was not learned \('Z'\)"):
        assert np.isfinite(encoder.transform(table.assign(Embarked="Z", Cabin="unheard of", Age=np.nan))).all()


def test_all_kinds_of_tables_give_the_same_numbers(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = passengers().drop(columns=["Nothing"])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    expected = TableEncoder().fit_transform(table)
    for other in (pl.from_pandas(table), pa.Table.from_pandas(table), open_table(tmp_path / "t.parquet")):
        np.testing.assert_array_equal(TableEncoder().fit_transform(other), expected)
    np.testing.assert_allclose(TableEncoder().fit_transform(open_table(tmp_path / "t.csv")), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,5", "2,25", "1.000,5"], [1.5, 2.25, 1000.5]),  # German
        (["1\u202f234,5", "12,0", "7"], [1234.5, 12.0, 7.0]),  # French
        (["0,123", "-0,456", "12,789"], [0.123, -0.456, 12.789]),
        (["1,234.5", "12", "1,000,000"], [1234.5, 12.0, 1e6]),
        (["1'234.5", "2", "3"], [1234.5, 2.0, 3.0]),  # Swiss
        (["12 €", "13 €", "1.500 €"], [12.0, 13.0, 1500.0]),
        (["\u22125,5", "3,25", "1,0"], [-5.5, 3.25, 1.0]),
    ],
)
def test_numbers_are_read_as_they_are_written(cells, numbers):
    other = ["0,5", "1,25", "2,75"]  # says that commas stand before decimals, where a cell alone does not
    table = pd.DataFrame({"a": cells * 4, "b": (other if cells[0] == "12 €" else ["1", "2", "4"]) * 4})
    assert TableEncoder(features=["a", "b"]).fit_transform(table)[:3, 0].tolist() == numbers


@pytest.mark.parametrize(
    ("cells", "day"),
    [("2021-03-04", 4), ("04.03.2021", 4), ("3/4/2021", 4), ("13/3/2021", 13), ("2021-03-04T10:30:00Z", 4)],
)
def test_dates_are_read_as_they_are_written(cells, day):
    rest = {"3/4/2021": "3/13/2021", "13/3/2021": "1/2/2021"}.get(cells, cells.replace("03", "05"))
    encoder = TableEncoder()
    days = encoder.fit_transform(pd.DataFrame({"when": [cells, rest] * 10}))[0, 0]
    assert np.datetime64("1970-01-01") + np.timedelta64(int(days), "D") == np.datetime64(f"2021-03-{day:02d}")


def test_plain_numbers_stay_as_they_are(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3))
    table = pd.DataFrame(X, columns=list("abc")).assign(y=["p", "q"] * 20, id=range(40))
    table.to_csv(tmp_path / "t.csv", index=False)
    rows = read_training(tmp_path / "t.csv", "y")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.names == ["a", "b", "c"] and rows.needed_encoder is None
    assert [one.name for one in rows.columns if one.is_left_out] == ["id"]
    assert read_training(tmp_path / "t.csv", "y", features=["a", "id"]).names == ["a", "id"]  # named, so kept


def test_models_encode_frames_and_files_keep_how(tmp_path):
    table = passengers()
    X, y = table.drop(columns="survived"), table.survived
    model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict_proba(pl.from_pandas(X)), model.predict_proba(X))
    with pytest.raises(InputError, match="RobustKNeighborsClassifier: the frame has no column 'Sex'"):
        model.predict(X.drop(columns="Sex"))
    with pytest.raises(InputError, match="column 'Age' holds 'old', which is not a number"):
        model.predict(X.assign(Age="old"))
    model.fit(np.random.default_rng(0).normal(size=(200, 2)), y)
    assert not hasattr(model, "encoder_")


def test_an_audit_takes_a_frame_and_the_name_of_its_label():
    table = passengers()
    table.loc[[3, 7], "survived"] = None
    audit = nearkin.audit_labels(table, "survived", random_state=0)
    assert audit.n_rows == 198 and audit.unlabelled.rows.tolist() == [3, 7]
    assert set(audit.unlabelled.suggested_label) <= {"yes", "no"}
    assert [one.name for one in audit.columns] == list(KINDS)
    assert audit.to_frame().index.tolist() == [i for i in range(200) if i not in (3, 7)]
    assert audit.to_columns()["row"].tolist() == audit.row_index.tolist()
    same = nearkin.audit_labels(table.drop(columns="survived"), table.survived, random_state=0)
    np.testing.assert_array_equal(audit.plausibility, same.plausibility)
    with pytest.raises(InputError, match=r"audit_labels: the frame has no column 'survive'\. Did you mean 'survived'"):
        nearkin.audit_labels(table, "survive")
    with pytest.raises(InputError, match="names a column, and X has no columns"):
        nearkin.audit_labels(np.eye(4), "survived")


def test_all_labels_that_look_alike_are_named():
    table = passengers()
    table["survived"] = [one.upper() if i % 3 else f"{one} " * (i % 2) or one for i, one in enumerate(table.survived)]
    with pytest.warns(UserWarning, match=r"column 'survived': 6 labels look like 2 and are 6 classes \('"):
        audit = nearkin.audit_labels(table[["Sex", "Age", "survived"]], "survived", random_state=0)
    (told,) = (one for one in audit.findings if one.kind == "spellings")
    assert told.count == 6 and told.meaning.startswith("6 classes look like 2")


def test_odd_cells_are_missing_and_too_many_refused():
    table = pd.DataFrame({"a": [str(i % 7) for i in range(99)] + ["oops"], "b": np.arange(100) % 5})
    encoder = TableEncoder().fit(table)
    assert encoder.columns_[0].told == "number; 1 gap (1 of them no number) filled with 3"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder.transform(table)
    assert "1 cell is not a number ('oops')" in str(caught[0].message)
    with pytest.raises(InputError, match="data row 1: TableEncoder: column 'a' holds 'oops', which is not a number"):
        encoder.transform(table.assign(a="oops"))
    with pytest.raises(InputError, match="no feature columns left"):
        TableEncoder().fit(pd.DataFrame({"a": [None] * 5}))


def test_texts_with_the_same_words_are_near():
    rng = np.random.default_rng(0)
    good, bad = (["lovely", "great", "superb", "nice"], ["awful", "poor", "broken", "sad"])
    texts = [" ".join(rng.choice(words, 8)) + f" {i}" for i in range(60) for words in (good, bad)]
    y = np.arange(120) % 2
    X = TableEncoder(text=["body"]).fit_transform(pd.DataFrame({"body": texts}))
    assert np.isfinite(X).all() and X.shape[1] < 20
    assert (
        nearkin.RobustKNeighborsClassifier(random_state=0).fit(X[:80], y[:80]).predict(X[80:]) == y[80:]
    ).mean() > 0.9


def test_a_stream_is_encoded_as_its_first_batch_says(tmp_path):
    table = passengers(300)
    X, y = table.drop(columns="survived"), table.survived.to_numpy()
    audit, learner = nearkin.StreamAudit(random_state=0), nearkin.RobustLODML(random_state=0)
    for start in (0, 100, 200):
        audit.partial_fit(X[start : start + 100], y[start : start + 100])
        learner.partial_fit(X[start : start + 100], y[start : start + 100])
    assert (audit.predict(X) == y).mean() > 0.8
    assert learner.transform(X).shape[0] == len(audit.plausibility(X, y)) == 300
    nearkin.save(audit, tmp_path / "a")
    np.testing.assert_array_equal(nearkin.load(tmp_path / "a").predict(X), audit.predict(X))
    with pytest.raises(InputError, match="the frame has no column 'Age'"):
        audit.partial_fit(X.drop(columns="Age"), y)


def test_an_encoder_that_does_not_fit_itself_is_not_saved(tmp_path):
    encoder = TableEncoder().fit(passengers(400))
    for name, change in (("Name", {"weight": np.ones(7, np.float32)}), ("Sex", {"values": np.array([1, 2])})):
        forged = copy.deepcopy(encoder)
        forged.codes_[name] = dataclasses.replace(forged.codes_[name], **change)
        with pytest.raises(ValueError, match=r"weight says|buckets|categories are not texts"):
            nearkin.save(forged, tmp_path / "e")
    forged = copy.deepcopy(encoder)
    del forged.codes_["Age"]
    with pytest.raises(ValueError, match="differs from their codes"):
        nearkin.save(forged, tmp_path / "e")


def test_mostly_numbers_are_numbers_or_warned_of():
    rng = np.random.default_rng(0)
    amounts = [f"({one:.2f})" if i % 3 else f"{one:.2f}" for i, one in enumerate(rng.gamma(2, 20, 200))]
    fares = ["free" if i % 10 == 0 else f"{one:.2f}" for i, one in enumerate(rng.gamma(2, 20, 200))]
    times = [f"{i % 24}:{i % 60:02d}" for i in range(200)]
    mixed = [f"n{i}" if i % 3 == 0 else f"{i}.5" for i in range(200)]
    table = pd.DataFrame({"balance": amounts, "fare": fares, "at": times, "mixed": mixed})
    encoder = TableEncoder()
    with pytest.warns(UserWarning) as caught:
        X = encoder.fit_transform(table)
    assert [one.told for one in encoder.columns_][:1] == ["number"] and X[1, 0] == -float(amounts[1][1:-1])
    assert encoder.columns_[1].told.startswith("number; 20 gaps (20 of them no number)")
    assert encoder.columns_[2].told == "time of the day, in hours" and X[61, 3] == 13 + 1 / 60
    told = "'mixed' is left out, since it seems to name the rows, though 66 % of its cells are numbers; others are like"
    assert any(told in str(one.message) for one in caught)


def test_new_rows_may_be_written_in_another_way_that_is_clear():
    n = np.arange(40)
    days = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(n * 9, unit="D"))
    table = pd.DataFrame({"when": days.dt.strftime("%Y-%m-%d"), "size": [f"{i}.5" for i in n]})
    encoder = TableEncoder().fit(table)
    expected = encoder.transform(table)
    other = table.assign(when=days.dt.strftime("%d.%m.%Y"), size=[f"{i},5" for i in n])
    np.testing.assert_array_equal(encoder.transform(other), expected)
    with pytest.raises(InputError, match="'03/04/2021', which is not a date in the spelling that was learned, and it"):
        encoder.transform(table.assign(when="03/04/2021"))
    slashed = pd.DataFrame({"when": ["03/04/2021", "05/06/2021"] * 10, "at": ["03.04.2021", "05.06.2021"] * 10})
    told = [one.told for one in TableEncoder().fit(slashed).columns_]
    assert told[0].startswith("date (month first, though day first fits too), as days")
    assert told[1].startswith("date (day first), as days")


def test_numbers_may_have_a_unit():
    table = pd.DataFrame(
        {"height": [f"{150 + i}.5 cm" for i in range(40)], "age": [f"{20 + i % 9}yrs" for i in range(40)]}
    )
    encoder = TableEncoder().fit(table)
    assert [one.told for one in encoder.columns_] == ["number of cm", "number of yrs"]
    assert encoder.transform(table)[1].tolist() == [151.5, 21.0]
    with pytest.raises(InputError, match=r"column 'height' holds '1\.7 m', which is not a number"):
        encoder.transform(table.assign(height="1.7 m"))
    assert (
        TableEncoder().fit(table.assign(age=[f"{i % 9}{'AB'[i % 2]}" for i in range(40)])).columns_[1].kind
        == "category"
    )
