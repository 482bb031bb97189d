"""The command line as its users meet it: every format, every mistake, nothing half-written."""

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_wine

import nearkin
from nearkin.cli import main
from nearkin.cli.fit import LEARNERS

NEARKIN = [sys.executable, "-m", "nearkin"]


def run(*args):
    """Run in this process; a bug must not hide behind an exit code."""
    outcome = CliRunner().invoke(main, [str(one) for one in args])
    assert "Traceback" not in outcome.stderr
    assert outcome.exit_code != 1, outcome.stderr
    return outcome


def fails(*args):
    """Run what must fail: one line, exit code 2; returns the line."""
    outcome = run(*args)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("nearkin: ")
    assert outcome.stderr.count("\n") == 1
    return outcome.stderr


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def files_in(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.fixture(scope="module")
def wine():
    frame = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
    frame.insert(0, "bottle", [f"b{i:03d}" for i in range(len(frame))])
    return frame


@pytest.fixture(scope="module")
def home(tmp_path_factory, wine):
    """Wine in every format, and a model fitted on each."""
    folder = tmp_path_factory.mktemp("wine")
    names = np.array(["barolo", "grignolino", "barbera"])
    wine.to_csv(folder / "wine.csv", index=False)
    wine.to_parquet(folder / "wine.parquet")
    wine.assign(cultivar=names[wine.cultivar]).to_csv(folder / "named.csv", index=False)
    X, y = wine.drop(columns=["bottle", "cultivar"]).to_numpy(), wine.cultivar.to_numpy()
    np.savez(folder / "wine.npz", X=X, y=y, target=names[y], bottle=wine.bottle.to_numpy(dtype=str))
    np.save(folder / "wine.npy", X)
    np.save(folder / "labels.npy", y)
    (folder / "labels.txt").write_text("\n".join(names[y]) + "\n")
    for kind in ("csv", "parquet"):
        outcome = run(
            "fit", folder / f"wine.{kind}", "--label", "cultivar", "--drop", "bottle", "-o", folder / f"{kind}.model"
        )
        assert outcome.exit_code == 0, outcome.stderr
    return folder


@pytest.fixture
def model(home):
    return home / "csv.model"


# ------------------------------------------------------------------ every format


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("wine.csv", ["--label", "cultivar", "--drop", "bottle"]),
        ("wine.parquet", ["--label", "cultivar", "--drop", "bottle"]),
        ("named.csv", ["--label", "cultivar", "--drop", "bottle"]),
        ("wine.npz", []),
        ("wine.npz", ["--label", "target"]),
        ("wine.npy", ["--labels", "labels.npy"]),
        ("wine.npy", ["--labels", "labels.txt"]),
    ],
)
def test_every_format_gives_the_same_model(home, tmp_path, data, options):
    options = [home / one if one.startswith("labels.") else one for one in options]
    outcome = run("fit", home / data, *options, "-o", tmp_path / "model")
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stderr == ""
    assert re.search(r"rows +178\n +features +13\n", outcome.stdout)
    assert max(map(len, outcome.stdout.splitlines()[:-1])) <= 80
    assert files_in(tmp_path) == ["model"]
    made, expected = nearkin.load(tmp_path / "model"), nearkin.load(home / "csv.model")
    for one, other in zip(*(model.decision_.jury.voters[1].spaces for model in (made, expected)), strict=True):
        np.testing.assert_allclose(one.space, other.space)
    np.testing.assert_allclose(made.plausibility_, expected.plausibility_)
    for held_out in ("wine.csv", "wine.parquet", "wine.npz", "wine.npy"):
        guess = run("predict", tmp_path / "model", home / held_out, "--drop", "bottle,cultivar")
        assert guess.exit_code == 0, guess.stderr
        assert len(table(guess.stdout)) == 178


def test_the_model_keeps_names_and_types(home, model, wine):
    made = nearkin.load(model)
    assert made.feature_names_in_.tolist() == wine.columns[1:-1].tolist()
    assert made.label_name_ == "cultivar"
    assert made.classes_.dtype.kind == "i"
    assert made.predict(wine.drop(columns=["bottle", "cultivar"])).shape == (178,)


def test_predictions_come_with_their_share_and_id(home, model, wine):
    outcome = run("predict", model, home / "wine.csv", "--id", "bottle")
    rows = table(outcome.stdout)
    assert list(rows[0]) == ["bottle", "prediction", "share"]
    assert [row["bottle"] for row in rows] == wine.bottle.tolist()
    right = sum(int(row["prediction"]) == truth for row, truth in zip(rows, wine.cultivar, strict=True))
    assert outcome.stderr == f"accuracy {100 * right / 178:.2f} % ({right} of 178 rows)\n"
    assert all(1 / 3 <= float(row["share"]) <= 1 for row in rows)


def test_columns_are_matched_by_name(home, model, wine, tmp_path):
    expected = run("predict", model, home / "wine.csv").stdout
    wine.iloc[:, ::-1].assign(more="text").to_csv(tmp_path / "turned.csv", index=False, sep=";")
    wine.iloc[:, ::-1].drop(columns="cultivar").to_parquet(tmp_path / "turned.parquet")
    assert run("predict", model, tmp_path / "turned.csv").stdout == expected
    outcome = run("predict", model, tmp_path / "turned.parquet")
    assert outcome.stdout == expected
    assert outcome.stderr == ""


def test_text_labels_of_data_and_model_are_compared(home, tmp_path):
    fit = run("fit", home / "named.csv", "--label", "cultivar", "--drop", "bottle", "-o", tmp_path / "m")
    assert "barbera (48)" in fit.stdout
    outcome = run("predict", tmp_path / "m", home / "wine.npz", "--label", "target", "--id", "bottle")
    assert re.match(r"accuracy (9\d|100)\.\d\d %", outcome.stderr)
    first = table(outcome.stdout)[0]
    assert (first["bottle"], first["prediction"]) == ("b000", "barolo")
    assert 0.9 < float(first["share"]) <= 1.0
    strange = run("predict", tmp_path / "m", home / "wine.csv")
    assert "178 rows hold a class that the model does not know" in strange.stderr


def test_missing_labels_do_not_count_at_prediction(home, model, wine, tmp_path):
    wine.assign(cultivar=wine.cultivar.astype("Int64").where(wine.index < 100)).to_csv(
        tmp_path / "part.csv", index=False
    )
    assert "of 100 rows)" in run("predict", model, tmp_path / "part.csv").stderr


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_predictions_go_to_a_file(home, model, tmp_path, kind):
    outcome = run("predict", model, home / "wine.csv", "--id", "bottle", "-o", tmp_path / f"out.{kind}")
    assert outcome.stdout == ""
    assert "178 predictions in" in outcome.stderr
    assert files_in(tmp_path) == [f"out.{kind}"]
    read = {"csv": pd.read_csv, "tsv": lambda path: pd.read_csv(path, sep="\t"), "parquet": pd.read_parquet}[kind]
    frame = read(tmp_path / f"out.{kind}")
    assert frame.columns.tolist() == ["bottle", "prediction", "share"]
    assert frame.dtypes.iloc[1].kind == "i"
    assert frame.dtypes.iloc[2].kind == "f"


@pytest.mark.parametrize("kind", ["csv", "npy", "npz", "parquet"])
def test_rows_are_mapped_as_by_the_library(home, model, wine, tmp_path, kind):
    out = tmp_path / f"out.{kind}"
    ids = [] if kind == "npy" else ["--id", "cultivar"]
    outcome = run("transform", model, home / "wine.csv", *ids, "-o", out)
    assert outcome.exit_code == 0, outcome.stderr
    expected = nearkin.load(model).embed(wine.drop(columns=["bottle", "cultivar"]))
    if kind == "npy":
        got = np.load(out)
    elif kind == "npz":
        got = np.load(out)["X"]
        assert np.load(out)["cultivar"].shape == (178,)
    else:
        frame = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
        assert frame.columns[:2].tolist() == ["cultivar", "c0"]
        got = frame.iloc[:, 1:].to_numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert files_in(tmp_path) == [out.name]


def test_mapped_rows_go_to_stdout_and_single_precision_stays_short(home, tmp_path):
    with np.load(home / "wine.npz") as wine:
        np.savez(tmp_path / "single.npz", X=wine["X"].astype(np.float32), y=wine["y"])
    assert run("fit", tmp_path / "single.npz", "-o", tmp_path / "m", "-q").stdout == ""
    rows = table(run("transform", tmp_path / "m", tmp_path / "single.npz").stdout)
    assert len(rows) == 178
    assert max(len(cell) for row in rows for cell in row.values()) <= 15


def test_vectors_in_parquet_become_features(home, tmp_path):
    with np.load(home / "wine.npz") as wine:
        X, y = wine["X"].astype(np.float32), wine["y"]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[:, 1:].ravel()), 12)
    pq.write_table(pa.table({"first": X[:, 0], "emb": vectors, "y": y}), tmp_path / "fixed.parquet")
    pq.write_table(pa.table({"y": y, "emb": pa.array(list(X[:, 1:])), "first": X[:, 0]}), tmp_path / "lists.parquet")
    assert run("fit", tmp_path / "fixed.parquet", "--label", "y", "-o", tmp_path / "m").exit_code == 0
    made = nearkin.load(tmp_path / "m")
    assert made.feature_names_in_[:3].tolist() == ["first", "emb[0]", "emb[1]"]
    assert made.decision_.jury.voters[1].spaces[0].space.dtype == np.float32
    outputs = [run("predict", tmp_path / "m", tmp_path / f"{one}.parquet").stdout for one in ("fixed", "lists")]
    assert outputs[0] == outputs[1]
    short = pa.FixedSizeListArray.from_arrays(pa.array(X[:, 2:].ravel()), 11)
    pq.write_table(pa.table({"first": X[:, 0], "emb": short}), tmp_path / "short.parquet")
    assert "'emb[11]'" in fails("predict", tmp_path / "m", tmp_path / "short.parquet")
    pq.write_table(pa.table({"y": [0, 1], "emb": [[1.0], [1.0, 2.0]]}), tmp_path / "uneven.parquet")
    assert "differ in length" in fails("fit", tmp_path / "uneven.parquet", "--label", "y", "-o", tmp_path / "m2")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([0, 1] * 10, pa.int8()), "i"),
        (pa.array([True, False] * 10), "b"),
        (pa.array(["a", "b"] * 10), "U"),
        (pa.array(["a", "b"] * 10).dictionary_encode(), "U"),
        (pa.array([1.0, 2.0] * 10), "f"),
    ],
)
def test_labels_in_parquet_keep_their_type(tmp_path, values, kind):
    a = np.arange(20.0) + 5 * np.tile([0, 1], 10)
    pq.write_table(pa.table({"a": a, "flag": a > 9, "y": values}), tmp_path / "d.parquet")
    assert run("fit", tmp_path / "d.parquet", "--label", "y", "-o", tmp_path / "m").exit_code == 0
    assert nearkin.load(tmp_path / "m").classes_.dtype.kind == kind
    assert run("predict", tmp_path / "m", tmp_path / "d.parquet").stderr.startswith("accuracy ")


@pytest.mark.parametrize("has_arrow", [True, False])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a,b,y\n1,2,1\n3,4.5,2\n", "i"),
        ("a;b;y\n1; 2;x\n+3;4.5e0;z\n", "U"),
        ("\ufeffa\tb\ty\r\n1\t2\t01\r\n3\t4.5\t2\r\n\r\n", "U"),
        ('"a","b","y"\n"1","2","one, two"\n"3","4.5","line\nbreak"\n', "U"),
        ("a, b ,y\n1,2,1.0\n3,4.5,2.0\n", "f"),
    ],
)
def test_csv_reads_the_same_with_and_without_pyarrow(tmp_path, monkeypatch, text, kind, has_arrow):
    if not has_arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    from nearkin.tables import read_training

    (tmp_path / "d.csv").write_text(text, newline="")
    data = read_training(tmp_path / "d.csv", "y", None, (), ())
    assert data.names == ["a", "b"]
    assert data.X.tolist() == [[1.0, 2.0], [3.0, 4.5]]
    assert data.y.dtype.kind == kind


def test_without_pyarrow_csv_works_and_parquet_says_how(home, model, tmp_path, monkeypatch):
    expected = run("predict", model, home / "wine.csv").stdout
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run("predict", model, home / "wine.csv").stdout == expected
    assert "pip install 'nearkin[arrow]'" in fails("predict", model, home / "wine.parquet")
    assert "nearkin[arrow]" in fails("predict", model, home / "wine.csv", "-o", tmp_path / "o.parquet")
    assert files_in(tmp_path) == []


def test_a_compressed_csv_and_a_row_index_are_understood(wine, tmp_path):
    wine.drop(columns="bottle").to_csv(tmp_path / "wine.csv.gz")
    outcome = run("fit", tmp_path / "wine.csv.gz", "--label", "cultivar", "-o", tmp_path / "m")
    assert "features    13\n" in outcome.stdout
    assert "taken for a row index" in outcome.stderr


# ------------------------------------------------------------------ options of fit


def test_many_neighbours_in_several_spaces_may_vote(home, tmp_path):
    options = ("--label", "cultivar", "--drop", "bottle")
    made = run(
        "fit",
        home / "wine.csv",
        *options,
        "-o",
        tmp_path / "m",
        "--neighbors",
        "auto",
        "--suspects",
        tmp_path / "d.csv",
    )
    assert made.exit_code == 0
    model = nearkin.load(tmp_path / "m")
    assert model.n_neighbors == "auto"
    assert len(model.decision_.jury.voters[1].spaces) == 2  # two spaces, learned by the jury
    plain = run("fit", home / "wine.csv", *options, "-o", tmp_path / "plain")  # it is the default
    assert plain.exit_code == 0
    X = pd.read_csv(home / "wine.csv").drop(columns=["bottle", "cultivar"])
    np.testing.assert_array_equal(nearkin.load(tmp_path / "plain").predict_proba(X), model.predict_proba(X))
    doubts = pd.read_csv(tmp_path / "d.csv")
    np.testing.assert_array_equal(model.score_[doubts["row"]], np.sort(model.score_))
    assert run("predict", tmp_path / "m", home / "wine.csv", "-o", tmp_path / "p.csv").exit_code == 0
    two = run("fit", home / "wine.csv", *options, "-o", tmp_path / "two", "--neighbors", "auto", "--learner", "odml")
    assert two.exit_code == 0
    assert type(nearkin.load(tmp_path / "two").learner_).__name__ == "ODML"
    for bad in ("0", "many"):
        assert run("fit", home / "wine.csv", *options, "-o", tmp_path / "n", "--neighbors", bad).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize("learner", [name for name in LEARNERS if name not in ("auto", "robust-lodml")])
def test_every_learner_can_be_fitted_saved_and_used(home, tmp_path, learner):
    fit = run("fit", home / "wine.npz", "--learner", learner, "-o", tmp_path / "m")
    assert fit.exit_code == 0, fit.stderr
    assert type(nearkin.load(tmp_path / "m").learner_).__name__.lower() == learner.replace("-", "")
    outcome = run("predict", tmp_path / "m", home / "wine.npz")
    assert float(outcome.stderr.split()[1]) > 90
    if learner.endswith(("oks", "omks")):
        assert "no map" in fails("transform", tmp_path / "m", home / "wine.npz")
        assert "none, by a kernel" in run("info", tmp_path / "m").stdout
        return
    assert run("transform", tmp_path / "m", home / "wine.npz").exit_code == 0
    assert run("info", tmp_path / "m").exit_code == 0


def test_options_reach_the_model(home, tmp_path):
    options = (
        "--neighbors 5 --noise-rate 0.1 --C 0.5 --eta 2 --epochs 2 --components 4 --centers 2 --scale none --seed 3"
    )
    outcome = run("fit", home / "wine.npz", *options.split(), "-o", tmp_path / "m")
    assert "10.0 % (as given)" in outcome.stdout
    assert "17 rows" in outcome.stdout
    made = nearkin.load(tmp_path / "m")
    learner = made.learner_
    assert (made.n_neighbors, made.noise_rate, made.noise_rate_) == (5, 0.1, 0.1)
    assert (learner.C, learner.eta, learner.n_epochs, learner.n_components) == (0.5, 2.0, 2, 4)
    assert (learner.scale, learner.random_state, learner.triplets.n_centers) == (None, 3, 2)


def test_the_same_seed_gives_the_same_file(home, tmp_path):
    for name in ("one", "two"):
        run("fit", home / "wine.npz", "--components", "4", "--centers", "2", "-o", tmp_path / name)
    one, two = nearkin.load(tmp_path / "one"), nearkin.load(tmp_path / "two")
    np.testing.assert_array_equal(one.learner_.components_, two.learner_.components_)


def test_features_can_be_chosen(home, tmp_path):
    run(
        "fit",
        home / "wine.csv",
        "--label",
        "cultivar",
        "--features",
        "hue,alcohol",
        "--features",
        "ash",
        "-o",
        tmp_path / "m",
    )
    assert nearkin.load(tmp_path / "m").feature_names_in_.tolist() == ["hue", "alcohol", "ash"]


def test_a_model_may_replace_a_model_and_nothing_else(home, tmp_path):
    fit = ["fit", home / "wine.npz", "-q", "-o"]
    assert run(*fit, tmp_path / "m").exit_code == 0
    assert run(*fit, tmp_path / "m").exit_code == 0
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not a nearkin model" in fails(*fit, tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert "is not a nearkin model" in fails(*fit, home / "labels.npy")


# ------------------------------------------------------------------ info


def test_info_shows_what_the_model_is(model):
    outcome = run("info", model)
    for words in (
        "RobustKNeighborsClassifier",
        "learned spaces",
        "alcohol",
        "cultivar",
        "noise rate",
        nearkin.__version__,
    ):
        assert words in outcome.stdout
    assert max(map(len, outcome.stdout.splitlines()[1:])) <= 80
    facts = json.loads(run("info", model, "--json").stdout)
    assert facts["n_features"] == 13
    assert facts["classes"] == [0, 1, 2]
    assert facts["bytes"] == model.stat().st_size
    assert sum(facts["voters"].values()) == pytest.approx(1.0)
    assert facts["n_rows"] == 178
    assert facts["n_doubtful"] == nearkin.load(model).decision_.is_suspect.sum()


def test_models_made_in_python_are_understood(home, wine, tmp_path):
    X, y = wine.drop(columns=["bottle", "cultivar"]).to_numpy(), wine.cultivar.to_numpy()
    nearkin.save(nearkin.RobustODML(random_state=0).fit(X, y), tmp_path / "learner")
    nearkin.save(nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y), tmp_path / "bare")
    nearkin.save(nearkin.RobustODML(), tmp_path / "empty")
    assert "RobustODML" in run("info", tmp_path / "learner").stdout
    assert "not fitted" in run("info", tmp_path / "empty").stdout
    assert run("transform", tmp_path / "learner", home / "wine.npz").exit_code == 0
    assert "use nearkin transform" in fails("predict", tmp_path / "learner", home / "wine.npz")
    assert "never fitted" in fails("predict", tmp_path / "empty", home / "wine.npz")
    by_order = run("predict", tmp_path / "bare", home / "wine.csv", "--id", "bottle", "--label", "cultivar")
    assert float(by_order.stderr.split()[1]) > 95


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,b,y\n", "no rows"),
        ("a,b,y\n1,2,x\n3,z\n", "data row 2"),
        ("a,b,y\n1,2,x\n3,-inf,z\n", "data row 2: column 'b' holds an infinite value (-inf)"),
        ("a,b,y\n1,2,x\n3,4,x\n", "one class, 'x'"),
        ("a,b,y\n1,2,\n3,4,\n", "no label at all"),
        ("a,b,y\n1,2,0.5\n3,4,1.5\n", "not a quantity"),
        ("a,a,y\n1,2,x\n3,4,z\n", "names 'a' twice"),
        ("1.5,2,0\n3,4,1\n", "a header row is needed"),
        ("a,b,why\n1,2,x\n3,4,z\n", "has no column 'y'"),
        ("y\nx\nz\n", "no feature columns"),
        ('a,b,y\n1,2,"x\n3,4,z\n', "not a readable CSV"),
        (b"a,b,y\n1,2,caf\xe9\n3,4,z\n", "is not UTF-8"),
        (b"a,b\0,y\n1,2,x\n", "binary data"),
        ("a,y\n" + "".join(f"{i % 7},id{i}\n" for i in range(20)), "is it a class at all"),
    ],
)
@pytest.mark.parametrize("has_arrow", [True, False])
def test_bad_tables_are_named_precisely(tmp_path, monkeypatch, text, words, has_arrow):
    if not has_arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    data = tmp_path / "bad.csv"
    data.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert words in fails("fit", data, "--label", "y", "-o", tmp_path / "m")
    assert files_in(tmp_path) == ["bad.csv"]


def test_bad_files_are_refused(home, model, tmp_path):
    out = ["-o", tmp_path / "m"]
    for name in ("wine.parquet", "wine.npz", "wine.npy", "csv.model"):
        (tmp_path / name).write_bytes((home / name).read_bytes()[:200])
    np.save(tmp_path / "objects.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "two.npz", A=np.eye(3), B=np.eye(3), y=[0, 1, 0])
    np.save(tmp_path / "flat.npy", np.arange(178.0))
    np.save(tmp_path / "hole.npy", np.where(np.eye(178, 3) > 0, np.nan, 1.0))
    (tmp_path / "short.txt").write_text("a\nb\n")
    (tmp_path / "book.ods").write_bytes(b"no")
    labels = ["--labels", home / "labels.npy"]
    assert "not a Parquet file" in fails("fit", tmp_path / "wine.parquet", "--label", "cultivar", *out)
    assert "damaged" in fails("fit", tmp_path / "wine.npz", *out)
    assert "damaged" in fails("fit", tmp_path / "wine.npy", *labels, *out)
    assert "Python objects" in fails("fit", tmp_path / "objects.npy", *labels, *out)
    assert "'A', 'B'" in fails("fit", tmp_path / "two.npz", *out)
    assert "shape (178,)" in fails("fit", tmp_path / "flat.npy", *labels, *out)
    assert "column 1 holds no value" in fails("fit", tmp_path / "hole.npy", *labels, *out)
    assert "2 labels for 178 rows" in fails("fit", home / "wine.npy", "--labels", tmp_path / "short.txt", *out)
    assert "--labels FILE" in fails("fit", home / "wine.npy", *out)
    assert "is a spreadsheet" in fails("fit", tmp_path / "book.ods", *out)
    assert "no such file" in fails("fit", tmp_path / "nowhere.csv", *out)
    assert "files of one kind are needed" in fails("fit", tmp_path, *out)
    assert "not a nearkin model" in fails("predict", tmp_path / "csv.model", home / "wine.csv")
    assert "not a nearkin model" in fails("info", home / "wine.csv")
    assert "not a nearkin model" in fails("transform", home / "wine.npz", home / "wine.csv")
    assert "no such file" in fails("info", tmp_path / "nowhere")
    assert not (tmp_path / "m").exists()


def test_bad_columns_are_named(home, model, wine, tmp_path):
    fit = ["fit", home / "wine.csv", "-o", tmp_path / "m"]
    assert "Did you mean 'cultivar'?" in fails(*fit, "--label", "Cultivar")
    assert "--label is needed" in fails(*fit)
    assert "is in --features and in --drop" in fails(*fit, "--label", "cultivar", "--drop", "hue", "--features", "hue")
    assert "no column 'nope'" in fails(*fit, "--label", "cultivar", "--drop", "nope")
    assert "cannot be a feature too" in fails(*fit, "--label", "cultivar", "--features", "cultivar,hue")
    wine.drop(columns=["hue", "ash"]).to_csv(tmp_path / "less.csv", index=False)
    assert "lacks 2 of the model's 13 columns: 'ash', 'hue'" in fails("predict", model, tmp_path / "less.csv")
    wine.assign(hue="red").to_csv(tmp_path / "text.csv", index=False)
    assert "the model needs numbers there" in fails("transform", model, tmp_path / "text.csv")
    np.save(tmp_path / "wide.npy", np.ones((3, 14)))
    assert "14 feature columns, the model was fitted on 13" in fails("predict", model, tmp_path / "wide.npy")
    assert "no column 'nope'" in fails("predict", model, home / "wine.csv", "--id", "nope")
    wine.rename(columns={"bottle": "share"}).to_csv(tmp_path / "share.csv", index=False)
    assert "already" in fails("predict", model, tmp_path / "share.csv", "--id", "share")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--noise-rate", "20"], "20 percent is 0.2"),
        (["--noise-rate", "lots"], "neither 'auto' nor a number"),
        (["--C", "-1"], "`C` must be"),
        (["--eta", "nan"], "`eta` must be"),
        (["--components", "14"], "exceeds the 13 features"),
        (["--neighbors", "0"], "--neighbors"),
        (["--learner", "lmnn"], "nearkin fit --help lists them"),
        (["--learner", "euclidean", "--C", "1"], "--C means nothing"),
        (["--learner", "odml", "--components", "3"], "--components means nothing"),
        (["--bogus"], "--bogus"),
        (["--label", "y", "--labels", "y.txt"], "give one of them"),
    ],
)
def test_bad_options_are_explained(home, tmp_path, options, words):
    assert words in fails("fit", home / "wine.npz", "-o", tmp_path / "m", *options)
    assert files_in(tmp_path) == []


def test_bad_destinations_are_refused_before_any_work(home, model, tmp_path):
    data = home / "wine.csv"
    before = data.read_bytes(), model.read_bytes()
    for command in (["predict", model, data], ["transform", model, data]):
        assert "would be overwritten" in fails(*command, "-o", data)
        assert "there is no folder" in fails(*command, "-o", tmp_path / "no" / "out.csv")
        assert "must end in" in fails(*command, "-o", tmp_path / "out.docx")
        (tmp_path / "folder.csv").mkdir(exist_ok=True)
        assert "is a folder" in fails(*command, "-o", tmp_path / "folder.csv")
        assert "cannot write in /proc" in fails(*command, "-o", "/proc/out.csv")
    assert "one array" in fails("transform", model, data, "--id", "bottle", "-o", tmp_path / "o.npy")
    assert "cannot write in /proc" in fails("fit", home / "wine.npz", "-o", "/proc/model")
    assert "a device or a pipe" in fails("fit", home / "wine.npz", "-o", "/dev/null")
    assert (data.read_bytes(), model.read_bytes()) == before
    assert files_in(tmp_path) == ["folder.csv"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(home, model, tmp_path, monkeypatch):
    out = tmp_path / "out.csv"
    out.write_text("prediction,share\n")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearkin.tables.output.write_csv", full)
    assert f"{out}: No space left" in fails("predict", model, home / "wine.csv", "-o", out)
    monkeypatch.setattr("nearkin.tables.output._write_npy", full)
    assert "out.npy: No space left" in fails("transform", model, home / "wine.csv", "-o", tmp_path / "out.npy")
    assert out.read_text() == "prediction,share\n"
    assert files_in(tmp_path) == ["out.csv"]


@pytest.mark.slow
def test_an_output_keeps_its_link(home, model, tmp_path):
    (tmp_path / "real.csv").write_text("prediction,share\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    run("predict", model, home / "wine.csv", "-o", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(table((tmp_path / "real.csv").read_text())) == 178
    (tmp_path / "link.model").symlink_to(tmp_path / "real.model")
    assert run("fit", home / "wine.npz", "-o", tmp_path / "link.model").exit_code == 0
    assert (tmp_path / "link.model").is_symlink()


def test_a_bug_is_one_line_too_and_debug_shows_it(home, model, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("oh\nno")

    monkeypatch.setattr("nearkin.tables.read_for_model", broken)
    outcome = CliRunner().invoke(main, ["predict", str(model), "x.csv"])
    assert outcome.exit_code == 1
    assert (
        outcome.stderr == "nearkin: internal error (RuntimeError: oh no). Please report it with what --debug shows.\n"
    )
    for args in (["--debug", "predict", str(model), "x.csv"], ["predict", str(model), "x.csv", "--debug"]):
        outcome = CliRunner().invoke(main, args)
        assert outcome.exit_code == 1
        assert "Traceback" in outcome.stderr


# ------------------------------------------------------------------ help


def test_help_has_examples_and_fits_a_terminal():
    for command in ([], ["demo"], ["fit"], ["predict"], ["transform"], ["info"]):
        outcome = run(*command, "--help")
        assert outcome.exit_code == 0
        assert "Examples:\n" in outcome.stdout
        assert max(map(len, outcome.stdout.splitlines())) <= 80
    assert run().stdout == run("--help").stdout
    assert run("--version").stdout == f"nearkin {nearkin.__version__}\n"
    assert "No such command 'fitt'" in fails("fitt")


# ------------------------------------------------------------------ as a process of its own


def process(*args, **options):
    command = [*NEARKIN, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, encoding="latin-1", timeout=60, **options)


def test_help_imports_nothing_heavy():
    code = "import sys, nearkin.cli; assert not {'numpy', 'sklearn', 'numba', 'pyarrow', 'tqdm'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_a_process_fits_predicts_and_fails_quietly(home, tmp_path):
    fit = process("fit", home / "wine.csv", "--label", "cultivar", "--drop", "bottle", "-o", tmp_path / "m")
    assert fit.returncode == 0
    assert fit.stderr == ""
    assert "\x1b" not in fit.stdout
    bad = process("predict", tmp_path / "m", tmp_path / "nowhere.csv")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("nearkin: ") and bad.stderr.count("\n") == 1


@pytest.mark.slow
def test_labels_that_the_terminal_cannot_show_do_no_harm(home, tmp_path):
    text = (home / "named.csv").read_text().replace("barolo", "baröło")
    (tmp_path / "d.csv").write_text(text)
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    fit = process("fit", tmp_path / "d.csv", "--label", "cultivar", "--drop", "bottle", "-o", tmp_path / "m", env=latin)
    assert fit.returncode == 0, fit.stderr
    assert "bar\xf6?o (59)" in fit.stdout
    guess = run("predict", tmp_path / "m", tmp_path / "d.csv")
    assert "baröło" in guess.stdout_bytes.decode("utf-8")


@pytest.mark.slow
def test_a_closed_pipe_is_quiet(home, model, tmp_path):
    np.save(tmp_path / "many.npy", np.tile(np.load(home / "wine.npy"), (60, 1)))
    command = [*NEARKIN, "transform", model, tmp_path / "many.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_leaves_nothing(home, tmp_path):
    """Stderr is a terminal here, so the progress bar shows when learning has begun."""
    terminal, end = pty.openpty()
    command = [*NEARKIN, "fit", home / "wine.npz", "--epochs", "1000000", "-o", tmp_path / "m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, start_new_session=True) as process:
        os.close(end)
        seen, deadline = b"", time.monotonic() + 40
        while b"learning" not in seen and time.monotonic() < deadline:
            seen += os.read(terminal, 1024)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            seen += more
        assert process.wait(20) == 130
    os.close(terminal)
    assert b"learning" in seen
    assert b"Traceback" not in seen
    assert b"nearkin: interrupted." in seen
    assert files_in(tmp_path) == []


# ------------------------------------------------------------------ doubts and interrupts


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_rows_are_listed_with_the_least_plausible_labels_first(home, wine, tmp_path, kind):
    wrong = wine.copy()
    wrong.loc[[3, 100], "cultivar"] = 2
    wrong.to_csv(tmp_path / "wrong.csv", index=False)
    doubts = tmp_path / f"doubts.{kind}"
    run("fit", tmp_path / "wrong.csv", "--label", "cultivar", "--drop", "bottle", "--noise-rate", 0.05,
        "-o", tmp_path / "m.nearkin", "--suspects", doubts)  # fmt: skip
    listed = pd.read_csv(doubts) if kind == "csv" else pd.read_parquet(doubts)
    assert set(listed.row[:2]) == {3, 100}
    assert listed.row.sort_values().tolist() == list(range(178))
    assert listed.score.is_monotonic_increasing
    assert listed.plausibility[:2].max() < listed.plausibility[2:].min()
    is_suspect = nearkin.load(tmp_path / "m.nearkin").decision_.is_suspect
    assert set(listed.row[listed.doubtful == "yes"]) == set(np.flatnonzero(is_suspect))
    assert set(listed.row[listed.doubtful == "yes"]) >= {3, 100}
    assert listed.label[listed.row == 3].item() == 2


def test_noise_that_depends_on_the_class_is_told(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 2
    rows = pd.DataFrame(rng.normal(size=(900, 2)) + 6.0 * y[:, None] * [1.0, 0.0], columns=["a", "b"])
    shown = []
    for label in (np.where(rng.random(900) < 0.4 * y, 0, y), y):
        rows.assign(kind=np.array(["zero", "one"])[label]).to_csv(tmp_path / "rows.csv", index=False)
        shown.append(run("fit", tmp_path / "rows.csv", "--label", "kind", "-o", tmp_path / "m").stdout)
    assert re.search(r"by true class\s+one\s+[34]\d\.\d %,\s+zero\s+\d\.\d %", shown[0])
    assert max(map(len, shown[0].splitlines()[:-1])) <= 80
    assert "by true class" not in shown[1]


def test_doubts_cannot_overwrite_an_input(home, tmp_path):
    line = fails("fit", home / "wine.csv", "--label", "cultivar", "--drop", "bottle", "-o", tmp_path / "m",
                 "--suspects", home / "wine.csv")  # fmt: skip
    assert "input of this command" in line


def test_learners_take_the_same_number_of_passes_unless_told(home, tmp_path):
    for learner in ("robust-lodml", "odml"):
        run("fit", home / "wine.npz", "--learner", learner, "-o", tmp_path / learner)
        assert nearkin.load(tmp_path / learner).learner_.n_epochs == 3


def test_an_unknown_learner_is_answered_with_a_like_one():
    from click.testing import CliRunner

    from nearkin.cli import main

    told = CliRunner().invoke(main, ["fit", "x.csv", "--learner", "robust-lodm", "-o", "m.nearkin"])
    assert told.exit_code == 2 and "'robust-lodm' is not a learner. Did you mean 'robust-lodml'" in told.stderr
    assert "slmoml" not in told.stderr
    told = CliRunner().invoke(main, ["fit", "x.csv", "--learner", "qqq", "-o", "m.nearkin"])
    assert "nearkin fit --help lists them" in told.stderr


def test_dask_names_both_extras(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from nearkin.cli import _cluster, main

    monkeypatch.setattr(_cluster, "find_spec", lambda name: None)
    told = CliRunner().invoke(main, ["audit", str(tmp_path / "x.csv"), "--label", "y", "--dask", "local:2"])
    assert told.exit_code == 2 and "pip install 'nearkin[dask,arrow]'" in told.stderr
