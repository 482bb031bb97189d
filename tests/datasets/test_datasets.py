"""The registry of data sets: every source, every way to miss one, and the files themselves where they are at hand."""

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.error
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets
from click.testing import CliRunner

from nearkin import datasets
from nearkin.cli import main
from nearkin.datasets.loading import hash_rows
from nearkin.datasets.registry import REGISTRY

NAMED = os.environ.get("NEARKIN_DATA")
FILES_AT_HAND = [name for name in REGISTRY if NAMED and (Path(NAMED) / REGISTRY[name].file).is_file()]


@pytest.fixture(autouse=True)
def no_folder_is_named(monkeypatch):
    monkeypatch.delenv("NEARKIN_DATA", raising=False)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def unreachable(**_):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", unreachable)


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write arrays as the file of a data set, and register the checksum of that."""

    def write(name, **arrays):
        path = tmp_path / REGISTRY[name].file
        np.savez(path, **arrays)
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setitem(REGISTRY, name, dataclasses.replace(REGISTRY[name], sha256=found))
        return path

    return write


@pytest.fixture
def on_openml(monkeypatch):
    """Let OpenML answer for a data set, and register the content that it should have."""

    def answer(name, *, data, target, feature_names, categories, rows, labels):
        asked = []

        def fetch(**options):
            asked.append(options)
            return SimpleNamespace(data=data, target=target, feature_names=feature_names, categories=categories)

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
        entry = dataclasses.replace(REGISTRY[name], content=hash_rows(rows.astype(REGISTRY[name].dtype), labels))
        monkeypatch.setitem(REGISTRY, name, entry)
        return asked

    return answer


def run(*args):
    outcome = CliRunner().invoke(main, ["datasets", *map(str, args)])
    assert outcome.exit_code != 1, outcome.stderr
    return outcome


# ------------------------------------------------------------------ the registry


@pytest.mark.parametrize("name", datasets.names())
def test_an_entry_is_complete(name):
    entry = datasets.info(name)
    assert entry.name == name
    assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    assert entry.file.endswith(".npz")
    assert all((entry.title, entry.licence, entry.citation, entry.origin, entry.paper, entry.traps))
    assert len(entry.class_names) in (0, entry.n_classes)
    assert all(0 <= column < entry.n_features for column in entry.drop_columns)
    assert (entry.content is not None) == (entry.sklearn is not None or entry.openml is not None)
    assert np.dtype(entry.dtype).kind in "fu"


def test_no_two_entries_share_a_file():
    for value in ("file", "sha256", "title"):
        assert len({getattr(entry, value) for entry in REGISTRY.values()}) == len(REGISTRY)


def test_the_paper_drops_the_constant_column_of_ionosphere_and_does_not_scale_letters():
    assert datasets.info("ionosphere").drop_columns == (1,)
    assert "not z-scored" in datasets.info("letters").paper
    assert "100" in datasets.info("yale").paper
    assert "200" in datasets.info("yale").paper


def test_the_categorical_german_credit_is_not_taken_for_the_numeric_one():
    entry = datasets.info("german")
    assert entry.openml is None
    assert "credit-g" in entry.elsewhere


def test_an_unknown_name_gets_near_ones_or_all():
    with pytest.raises(ValueError, match=r"no data set 'Letter'; did you mean 'letters'"):
        datasets.load("Letter")
    with pytest.raises(ValueError, match="known are wine, letters, yale"):
        datasets.info("zzz")


def test_importing_the_registry_loads_neither_scikit_learn_nor_the_compiler():
    code = "import sys, nearkin.datasets; assert not {'sklearn', 'scipy', 'numba', 'pandas'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ------------------------------------------------------------------ a folder


def test_a_file_is_split_into_rows_labels_groups_and_the_rest(put, tmp_path, rng):
    X = np.asfortranarray(rng.normal(size=(4, 3)).astype(np.float16))
    put("covid-mobilenetv2", X=X, y=np.arange(4), dup_group=np.array([7, 7, 1, 2]), image_no=np.arange(4))
    found = datasets.load("covid-mobilenetv2", tmp_path)
    assert found.source == "folder"
    assert found.X.dtype == np.float16
    assert found.X.flags.c_contiguous
    np.testing.assert_array_equal(found.X, X)
    assert found.y.tolist() == [0, 1, 2, 3]
    assert found.groups.tolist() == [7, 7, 1, 2]
    assert found.noisy_labels == {}
    assert list(found.extra) == ["image_no"]
    assert found.info is datasets.info("covid-mobilenetv2")


def test_labels_of_people_come_by_name(put, tmp_path):
    X, y = np.zeros((3, 2), dtype=np.float32), np.array([0, 1, 2])
    put("music-genres", X=X, y=y, y_noisy_single=y[::-1], y_noisy_majority=y + 1, classes=np.array(["a", "b"]))
    found = datasets.load("music-genres", str(tmp_path))
    assert {name: labels.tolist() for name, labels in found.noisy_labels.items()} == {
        "single": [2, 1, 0],
        "majority": [1, 2, 3],
    }
    assert found.groups is None
    assert found.extra["classes"].tolist() == ["a", "b"]


def test_the_environment_names_a_folder_and_an_argument_goes_before_it(put, tmp_path, monkeypatch):
    put("letters", X=np.ones((2, 16), dtype=np.uint8), y=np.arange(2))
    monkeypatch.setenv("NEARKIN_DATA", str(tmp_path))
    assert datasets.load("letters").X.dtype == np.uint8
    assert datasets.where("letters") == "folder"
    (tmp_path / "empty").mkdir()
    assert datasets.where("letters", tmp_path / "empty") == "OpenML"
    monkeypatch.setenv("NEARKIN_DATA", "")
    assert datasets.where("letters") == "OpenML"


def test_a_wrong_checksum_names_the_file_and_both_sums_and_is_not_passed_over(tmp_path):
    path = tmp_path / "wine.npz"
    path.write_bytes(b"no wine")
    expected, found = datasets.info("wine").sha256, hashlib.sha256(b"no wine").hexdigest()
    for attempt in (datasets.load, datasets.where):
        with pytest.raises(datasets.WrongChecksum) as caught:
            attempt("wine", tmp_path)
        assert all(one in str(caught.value) for one in (str(path), expected, found))


def test_python_objects_are_never_unpickled(put, tmp_path):
    put("coil20", X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        datasets.load("coil20", tmp_path)


def test_a_folder_that_is_none_is_an_error_and_not_passed_over(tmp_path, monkeypatch):
    with pytest.raises(NotADirectoryError, match=r"data_dir names .*nowhere, which is not a folder"):
        datasets.load("wine", tmp_path / "nowhere")
    monkeypatch.setenv("NEARKIN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError, match="NEARKIN_DATA names"):
        datasets.load("wine")


def test_a_missing_data_set_says_how_to_get_it(tmp_path):
    with pytest.raises(datasets.DatasetNotFound) as caught:
        datasets.load("german", tmp_path)
    message = str(caught.value)
    assert isinstance(caught.value, FileNotFoundError)
    assert datasets.where("german") is None
    for words in ("german.npz", "NEARKIN_DATA", "data_dir", str(tmp_path), "credit-g", datasets.info("german").sha256):
        assert words in message
    with pytest.raises(datasets.DatasetNotFound, match=r"now none is named.*no other source"):
        datasets.load("yale")


# ------------------------------------------------------------------ scikit-learn and OpenML


@pytest.mark.parametrize("name", ["wine", "wdbc"])
def test_scikit_learn_gives_the_registered_data(name):
    found = datasets.load(name)
    assert found.source == datasets.where(name) == "scikit-learn"
    assert found.X.shape == (found.info.n_rows, found.info.n_features)
    assert found.X.dtype == found.info.dtype
    assert np.unique(found.y).tolist() == list(range(found.info.n_classes))
    assert found.y.dtype == np.int64


def test_other_data_under_the_same_name_is_refused(monkeypatch):
    X, y = sklearn.datasets.load_wine(return_X_y=True)
    X[0, 0] += 0.1
    monkeypatch.setattr(sklearn.datasets, "load_wine", lambda return_X_y: (X, y))
    with pytest.raises(datasets.WrongChecksum, match="load_wine of scikit-learn"):
        datasets.load("wine")


def test_nominal_columns_of_openml_get_their_numbers_back_and_classes_are_numbered_in_order(on_openml):
    rows = np.array([[1.0, 22.08, 14], [0.0, 0.5, 3], [1.0, -0.0, 3]])
    codes = np.array([[1.0, 22.08, 1], [0.0, 0.5, 0], [1.0, 0.0, 0]])
    asked = on_openml(
        "australian",
        data=codes,
        target=np.array(["1", "0", "0"], dtype=object),
        feature_names=["A1", "A2", "A5"],
        categories={"A1": ["0", "1"], "A5": ["3", "14"]},
        rows=rows[[2, 0, 1]],  # the order of rows may differ
        labels=np.array([0, 1, 0]),
    )
    found = datasets.load("australian")
    assert found.source == "OpenML"
    np.testing.assert_array_equal(found.X, rows.astype(np.float32))
    assert found.y.tolist() == [1, 0, 0]
    assert [one["data_id"] for one in asked] == [40981]


def test_openml_is_asked_only_when_nothing_nearer_has_the_data(on_openml, put, tmp_path):
    rows, labels = np.array([[2, 8], [5, 12]]), np.array([1, 0])
    asked = on_openml(
        "letters",
        data=rows.astype(float),
        target=np.array(["T", "I"], dtype=object),
        feature_names=["a", "b"],
        categories={},
        rows=rows,
        labels=labels,
    )
    assert datasets.where("letters") == "OpenML"
    put("letters", X=rows.astype(np.uint8), y=labels)
    assert datasets.load("letters", tmp_path).source == "folder"
    assert not asked
    found = datasets.load("letters")
    assert found.X.dtype == np.uint8
    assert found.y.tolist() == [1, 0]
    assert len(asked) == 1


def test_openml_with_other_content_is_refused(on_openml):
    rows, target = np.array([[1.0, 2.0]]), np.array(["b"], dtype=object)
    names = ["a", "b"]
    on_openml(
        "ionosphere", data=rows + 1, target=target, feature_names=names, categories=None, rows=rows, labels=np.zeros(1)
    )
    with pytest.raises(datasets.WrongChecksum, match="data set 59 of OpenML"):
        datasets.load("ionosphere")


def test_without_a_network_the_message_says_so_and_names_the_file():
    with pytest.raises(datasets.DatasetNotFound, match=r"letters\.npz.*OpenML did not answer.*no route to host"):
        datasets.load("letters")


def test_a_fingerprint_sees_every_value_and_label_but_not_the_order(rng):
    X, y = rng.integers(0, 9, size=(20, 3)), rng.integers(0, 2, size=20)
    order = rng.permutation(20)
    assert hash_rows(X[order].astype(np.float32), y[order]) == hash_rows(X, y)
    X_other, y_other = X.copy(), y.copy()
    X_other[4, 2] += 1
    y_other[4] = 1 - y_other[4]
    assert len({hash_rows(X, y), hash_rows(X_other, y), hash_rows(X, y_other)}) == 3


# ------------------------------------------------------------------ the command line


def test_the_list_says_where_each_would_come_from(put, tmp_path):
    put("yale", X=np.zeros((1, 1024), dtype=np.uint8), y=np.zeros(1))
    (tmp_path / "german.npz").write_bytes(b"")
    outcome = run("list", "--data", tmp_path)
    assert outcome.exit_code == 0
    lines = {line.split()[0]: line.split(maxsplit=4)[1:] for line in outcome.stdout.splitlines()[1:13]}
    assert list(lines) == list(datasets.names())
    assert lines["wine"] == ["178", "13", "3", "scikit-learn"]
    assert lines["letters"] == ["20,000", "16", "26", "OpenML"]
    assert lines["yale"][-1] == "folder"
    assert lines["german"][-1] == "wrong checksum"
    assert lines["coil20"][-1] == "not here"
    as_json = json.loads(run("list", "--data", tmp_path, "--json").stdout)
    assert [one["source"] for one in as_json] == [lines[one["name"]][-1] for one in as_json]


@pytest.mark.parametrize("name", datasets.names())
def test_info_tells_everything_within_the_width_of_a_terminal(name):
    entry = datasets.info(name)
    outcome = run("info", name)
    assert outcome.exit_code == 0
    assert max(map(len, outcome.stdout.splitlines())) <= 80
    told = " ".join(outcome.stdout.split())
    for words in (entry.title, entry.file, entry.sha256, entry.licence, entry.paper, *entry.traps, *entry.citation):
        assert " ".join(words.split()) in told
    assert all(f"{one}: " in told for one in (*entry.noisy_labels, *entry.extra))
    assert ("NEARKIN_DATA" in told) == (datasets.where(name) is None)
    facts = json.loads(run("info", name, "--json").stdout)
    assert facts["sha256"] == entry.sha256
    assert facts["traps"] == list(entry.traps)
    assert facts["source"] == (datasets.where(name) or "not here")


def test_info_shows_both_sums_of_a_file_that_is_not_the_registered_one(tmp_path):
    (tmp_path / "coil20_32x32.npz").write_bytes(b"x")
    shown = run("info", "coil20", "--data", tmp_path).stdout
    assert hashlib.sha256(b"x").hexdigest() in shown
    assert "wrong checksum" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["info", "ionsphere"], "did you mean 'ionosphere'?"),
        (["info", "qqq"], "known are wine"),
        (["info"], "Missing argument 'NAME'"),
        (["list", "--data", "no-such-folder"], "Directory 'no-such-folder' does not exist"),
        (["lst"], "No such command 'lst'"),
    ],
)
def test_mistakes_end_with_one_line_and_exit_code_2(options, words):
    outcome = run(*options)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("nearkin: ")
    assert outcome.stderr.count("\n") == 1
    assert words in outcome.stderr


def test_help_has_examples_and_fits_a_terminal():
    for command in ([], ["list"], ["info"]):
        outcome = run(*command, "--help")
        assert outcome.exit_code == 0
        assert "Examples:\n" in outcome.stdout
        assert max(map(len, outcome.stdout.splitlines())) <= 80
    assert run().stdout == run("--help").stdout


# ------------------------------------------------------------------ the page

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", datasets.names())
def test_the_page_has_a_row_for_each_that_agrees_with_the_registry(name):
    entry = datasets.info(name)
    other = "scikit-learn " if entry.sklearn else f"OpenML {entry.openml} " if entry.openml else ""
    sizes = f"{entry.n_rows:,} | {entry.n_features:,} | {entry.n_classes:,}"
    assert f"| `{name}` | {sizes} | `{entry.file}` | {other}|" in PAGE


def test_the_page_runs_as_printed(capsys):
    exec("\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)), {})
    assert "(178, 13) (178,) scikit-learn" in capsys.readouterr().out


# ------------------------------------------------------------------ the files themselves

if FILES_AT_HAND:  # no skip mark: where the folder is missing there is nothing to test

    @pytest.mark.parametrize("name", FILES_AT_HAND)
    def test_a_file_holds_what_the_registry_says(name):
        found = datasets.load(name, NAMED)
        entry = found.info
        assert found.source == "folder"
        assert found.X.shape == (entry.n_rows, entry.n_features)
        assert found.X.dtype == entry.dtype
        assert np.isfinite(found.X.astype(np.float64)).all()
        assert np.unique(found.y).tolist() == list(range(entry.n_classes))
        assert set(found.extra) == set(entry.extra)
        assert (found.groups is None) == (entry.groups is None)
        constant = np.flatnonzero(np.ptp(found.X.astype(np.float64), axis=0) == 0)
        assert tuple(constant) == entry.drop_columns
        for labels, stated in entry.noisy_labels.items():
            assert np.mean(found.noisy_labels[labels] != found.y) == pytest.approx(stated.wrong, abs=1e-9)
        if entry.content is not None:
            assert hash_rows(found.X, found.y) == entry.content
        if found.groups is not None:
            assert entry.n_rows - len(np.unique(found.groups)) == 24
        if "classes" in found.extra:
            assert tuple(found.extra["classes"]) == entry.class_names

    @pytest.mark.parametrize("name", [name for name in FILES_AT_HAND if REGISTRY[name].sklearn])
    def test_the_file_and_scikit_learn_agree_bit_for_bit(name):
        ours, theirs = datasets.load(name, NAMED), datasets.load(name)
        assert theirs.source == "scikit-learn"
        np.testing.assert_array_equal(ours.X, theirs.X)
        np.testing.assert_array_equal(ours.y, theirs.y)
        assert ours.X.dtype == theirs.X.dtype
