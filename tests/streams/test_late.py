"""Labels that come later: the table, the rows that wait, and what becomes of both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.errors import InputError
from nearkin.streams.batch import Batch, Place
from nearkin.streams.late import LabelTable, Waiting, join_labels


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
    joined = join_labels(batch_of([10, 11, 12, 13], kept), LabelTable({"12": "a"}), waiting, 100.0)
    assert joined.X.ravel().tolist() == [2.0]
    assert joined.y.tolist() == ["a"]
    assert joined.kept.tolist() == [False, False, True, False]
    assert (joined.n_waiting, joined.n_dropped) == (2, 1)
    join_labels(batch_of([20, 21, 22]), LabelTable({"20": "b"}), waiting, 150.0)
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
            learned += join_labels(row, LabelTable(labels), waiting, now).X.ravel().tolist()
            came += 1
        assert len(waiting) <= limit
    assert len(set(learned)) == len(learned)
    assert len(learned) + len(waiting) + waiting.n_expired == came
