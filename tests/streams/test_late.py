"""Labels that come later: the table, the rows that wait, and what becomes of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import nearkin
from nearkin import streams
from nearkin.cli import main
from nearkin.errors import InputError
from nearkin.saving import load
from nearkin.streams.batch import Batch, Place
from nearkin.streams.late import LabelJoin, LabelTable, Waiting


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_last_label_of_an_id_counts(tmp_path):
    one = write(tmp_path / "a.csv", "id,y,note\n7,cat,x\n007,dog,x\n8,,x\n,cat,x\n7,cat,again\n")
    two = write(tmp_path / "b.csv", "id,y\n7,dog\n9,cat\n")
    table = LabelTable.read([one, two], "id", "y")
    assert (table.labels, table.n_changed) == ({"7": "dog", "007": "dog", "9": "cat"}, 1)


def test_ids_are_the_same_in_every_kind_of_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"id": [1.0, 2.0, None], "y": [0, 1, 1]}), tmp_path / "a.parquet")
    table = LabelTable.read([str(tmp_path / "a.parquet")], "id", "y")
    y, found = table.find(["2", "3", "1"])
    assert (y.tolist(), found.tolist()) == ([1, 0], [True, False, True])


@pytest.mark.parametrize(
    ("texts", "on", "label", "words"),
    [
        (["id,y\n1,a\n"], "key", "y", "has no column 'key'"),
        (["id,y\n1,a\n"], "id", "class", "has no column 'class'"),
        (["id,y\n1,a\n"], "id", "id", "cannot be the same"),
        (["id,y\n1,a\n", "id,y\n2,5\n"], "id", "y", "holds numbers here and text in"),
        (["id,y\n1,0.5\n2,0.25\n"], "id", "y", "not a quantity"),
    ],
)
def test_a_table_that_cannot_be_is_refused_by_name(tmp_path, texts, on, label, words):
    paths = [write(tmp_path / f"{i}.csv", text) for i, text in enumerate(texts)]
    with pytest.raises(InputError, match=words):
        LabelTable.read(paths, on, label)


def batch_of(ids, kept=None):
    kept = np.ones(len(ids), dtype=bool) if kept is None else kept
    X = np.arange(len(kept), dtype=np.float32)[kept][:, None]
    return Batch(X, np.array(ids)[kept], kept, Place("file", 0))


def test_rows_wait_until_their_label_comes_or_the_oldest_make_room():
    waiting = Waiting(limit=3)
    kept = np.array([True, False, True, True])
    joined = LabelJoin(LabelTable({"12": "a"}), waiting, 100.0)(batch_of([10, 11, 12, 13], kept))
    assert joined.X.ravel().tolist() == [2.0]
    assert joined.y.tolist() == ["a"]
    assert joined.kept.tolist() == [False, False, True, False]
    assert (joined.n_waiting, joined.n_dropped) == (2, 1)
    LabelJoin(LabelTable({"20": "b"}), waiting, 150.0)(batch_of([20, 21, 22]))
    assert (waiting.ids.tolist(), waiting.n_expired) == (["13", "21", "22"], 1)
    rows, y = waiting.take(LabelTable({"22": "a", "13": "b", "10": "a"}), 160.0)
    assert (rows.ravel().tolist(), y.tolist()) == ([3.0, 2.0], ["b", "a"])
    assert (waiting.n_joined, waiting.waited) == (2, 70.0)
    waiting.expire(before=151.0)
    assert (len(waiting), waiting.n_expired) == (0, 2)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=40), st.integers(1, 9))
def test_no_row_is_lost_or_learned_twice(moves, limit):
    """Rows that came are learned, waiting or expired, each once."""
    waiting, learned, came, labels = Waiting(limit), [], 0, {}
    for now, (one, is_label) in enumerate(moves):
        if is_label:
            labels[str(one)] = "a"
            learned += waiting.take(LabelTable(labels), now)[0].ravel().tolist()
        else:
            row = Batch(np.array([[float(came)]]), np.array([one]), np.ones(1, dtype=bool), Place("file", 0))
            learned += LabelJoin(LabelTable(labels), waiting, now)(row).X.ravel().tolist()
            came += 1
        assert len(waiting) <= limit
    assert len(set(learned)) == len(learned)
    assert len(learned) + len(waiting) + waiting.n_expired == came


# ---------------------------------------------------------------------- the whole call, day by day


def write_days(folder, n_days=4, n=120):
    """Rows without labels, and the labels of each day in a table of its own."""
    (folder / "in").mkdir()
    (folder / "late").mkdir()
    for day in range(n_days):
        rng = np.random.default_rng(day)
        y = rng.integers(0, 3, n)
        X = rng.normal(size=(n, 4)) + 2.0 * np.eye(4)[y]
        ids = [f"{day}-{i:03d}" for i in range(n)]
        lines = [f"{key},{','.join(f'{x:.5f}' for x in row)}" for key, row in zip(ids, X, strict=True)]
        (folder / f"in/day{day}.csv").write_text("\n".join(["id,a,b,c,d", *lines]) + "\n")
        labels = [f"c{one},{key}" for key, one in zip(ids, y, strict=True)]
        (folder / f"late/day{day}.csv").write_text("\n".join(["y,id", *labels]) + "\n")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    write_days(tmp_path)
    return tmp_path


def model():
    return nearkin.RobustKNeighborsClassifier(nearkin.RobustLODML(random_state=0), random_state=0)


def onto(days, labels, path="m.nearkin", **how):
    late = streams.LateLabels([f"late/day{one}.csv" for one in labels], on="id", **how)
    files = [f"in/day{one}.csv" for one in days]
    return streams.fit_onto(path, files, label="y", model=model(), batch_rows=50, late=late)


def waiting_ids(found):
    return sorted({one.partition("-")[0] for one in found.model.history_.waiting.ids.tolist()})


def test_rows_are_learned_when_their_label_comes(home):
    first = onto([0], [])
    assert first.notes[0].text == "120 rows wait for their label"
    assert not first.model.__sklearn_is_fitted__() and len(load("m.nearkin").history_.waiting) == 120
    second = onto([0, 1], [0])
    assert [one.status for one in second.notes] == ["seen", "learned"]
    assert (second.waiting.n_joined, waiting_ids(second)) == (120, ["1"])
    third = onto([0, 1, 2], [0, 1, 2])
    assert (third.waiting.n_joined, waiting_ids(third)) == (120, [])
    assert third.model.history_.watch.total.n_rows == 360
    X = pd.read_csv("in/day3.csv").drop(columns="id")
    y = np.loadtxt("late/day3.csv", delimiter=",", skiprows=1, usecols=0, dtype=str)
    assert (third.model.predict(X) == y).mean() > 0.8
    before = Path("m.nearkin").read_bytes()
    again = onto([0, 1, 2], [0, 1, 2])
    assert not again.is_saved and again.waiting.n_joined == 0
    assert Path("m.nearkin").read_bytes() == before


def test_an_interrupt_between_files_leaves_the_bits_of_an_undisturbed_run(home):
    def stop(note):
        if note.status == "learned":
            raise KeyboardInterrupt

    late = streams.LateLabels(["late/day0.csv", "late/day2.csv"], on="id")
    for path in ("whole.nearkin", "torn.nearkin"):
        onto([0, 1], [], path)
    how = {"label": "y", "batch_rows": 50, "late": late}
    streams.fit_onto("whole.nearkin", "in", **how)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            streams.fit_onto("torn.nearkin", "in", on_file=stop, **how)
    streams.fit_onto("torn.nearkin", "in", **how)
    assert Path("torn.nearkin").read_bytes() == Path("whole.nearkin").read_bytes()


def test_rows_that_have_their_label_at_once_do_not_count_as_waiting(home):
    found = onto([0, 1, 2], [0, 1])
    assert [one.n_rows for one in found.notes] == [120, 120, 0]
    assert found.notes[2].text == "120 rows wait for their label"
    assert (found.waiting.n_joined, found.model.history_.waiting.n_entered) == (0, 120)


def test_only_labels_may_come(home):
    onto([0, 1], [0])
    found = onto([0, 1], [1])
    assert [one.status for one in found.notes] == ["seen", "seen"]
    assert (found.is_saved, found.waiting.n_joined, waiting_ids(found)) == (True, 120, [])


def test_rows_expire_by_number_and_by_time(home, monkeypatch):
    found = onto([0], [], max_rows=50)
    assert len(found.model.history_.waiting) == 50
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1700000000 + 3 * 86_400))
    found = onto([0, 1], [], max_rows=500, max_days=2.0)
    assert (found.waiting.n_expired, waiting_ids(found)) == (50, ["1"])


def test_what_cannot_be_joined_is_refused_and_changes_nothing(home):
    onto([0], [0])
    before = Path("m.nearkin").read_bytes()
    with pytest.raises(InputError, match="finds its labels by 'id'"):
        streams.fit_onto("m.nearkin", "in", label="y")
    with pytest.raises(InputError, match="on was 'id' and is 'key'"):
        streams.fit_onto("m.nearkin", "in", late=streams.LateLabels("late", on="key"))
    Path("in/day1.csv").write_text("id,a,b,c,d,y\nq,1,2,3,4,c0\n")
    with pytest.raises(InputError, match="holds the label column 'y' itself"):
        onto([1], [0])
    assert Path("m.nearkin").read_bytes() == before


def test_the_command_joins_labels_and_reports_the_wait(home, monkeypatch):
    def run(*more):
        words = ["fit", "in", "--onto", "m.nearkin", "--labels", "late", "--label", "y", "--on", "id", *more]
        return CliRunner().invoke(main, words)

    for day in (1, 2, 3):
        Path(f"late/day{day}.csv").rename(f"day{day}.csv")
    first = run("--log", "log.jsonl")
    assert first.exit_code == 0
    assert "360 rows for their label, since 2023-11-14T22:13:20Z" in first.output
    Path("day1.csv").rename("late/day1.csv")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1700000000 + 7200))
    assert "120 rows would meet their label" in run("--dry-run").output
    assert "120 rows met their label after 2.0 hours on average" in run("--log", "log.jsonl").output
    told = CliRunner().invoke(main, ["info", "m.nearkin"]).output
    assert "240 rows wait for their label" in told
    assert '"waiting": 240' in Path("log.jsonl").read_text()
    assert (
        "--wait-days belongs to --on"
        in CliRunner().invoke(main, ["fit", "in", "--onto", "m.nearkin", "--wait-days", "2"]).output
    )
