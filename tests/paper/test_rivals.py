"""The comparison with tools without metric learning: its columns, and what is left out without cleanlab."""

import json
import sys
import types

import numpy as np
import pytest
from benchmarks import rivals
from benchmarks.rivals import Cleaned
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from nearkin import datasets, paper
from small_datasets import make_dataset


@pytest.fixture
def here(monkeypatch):
    held = {"wine": make_dataset("wine"), "music-genres": make_dataset("music-genres", human=True)}
    monkeypatch.setattr(datasets, "load", lambda name, folder=None: held[name])


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def test_every_table_names_columns_and_data_sets_that_exist():
    for table in rivals.TABLES.values():
        assert set(table.methods) <= set(paper.METHODS | rivals.RIVALS)
        assert set(table.datasets) <= set(datasets.names())


def test_human_labels_are_rows_of_their_own(here, tmp_path):
    methods = ["--methods", "Euclidean", "--methods", "10-NN"]
    rivals.main(["human", "--datasets", "music-genres", "--out", str(tmp_path), *methods])
    found = read(tmp_path, "human")
    assert {(one["noise"], one["kind"], one["folds"]) for one in found} == {("crowd", "human", 1)}
    assert "labels that people gave" in (tmp_path / "human.md").read_text()


def test_human_needs_labels_that_people_gave(here, tmp_path, capsys):
    with pytest.raises(SystemExit):
        rivals.main(["human", "--datasets", "wine", "--out", str(tmp_path)])
    assert "labels that people gave" in capsys.readouterr().err


def test_without_cleanlab_its_columns_are_left_out_with_advice(here, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    monkeypatch.setitem(sys.modules, "cleanlab.filter", None)
    rivals.main(["rivals", "--datasets", "wine", "--noise", "20", "--jobs", "2", "--out", str(tmp_path)])
    assert "pip install 'nearkin[paper]'" in capsys.readouterr().err
    assert [one["method"] for one in read(tmp_path, "rivals")] == ["10-NN", "25-NN", "logistic", "nearkin"]


def test_cleanlab_drops_what_it_doubts_before_a_classifier_is_fitted(monkeypatch):
    def find_label_issues(labels, pred_probs, n_jobs):
        return pred_probs.argmax(axis=1) != labels

    fake = types.ModuleType("cleanlab.filter")
    fake.find_label_issues = find_label_issues
    monkeypatch.setitem(sys.modules, "cleanlab", types.ModuleType("cleanlab"))
    monkeypatch.setitem(sys.modules, "cleanlab.filter", fake)
    rng = np.random.default_rng(0)
    y = np.repeat(["left", "right"], 40)
    X = np.where(y == "left", -3.0, 3.0)[:, None] + rng.normal(size=(80, 1))
    noisy = y.copy()
    noisy[[0, 50]] = ["right", "left"]
    model = Cleaned(LogisticRegression(), KNeighborsClassifier(1), 0).fit(X, noisy)
    assert (model.predict(X) == y).all()
