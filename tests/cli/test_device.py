"""``--device``: every command that learns or judges has it, and says what is missing."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_wine

import nearkin
from nearkin import streams
from nearkin.cli import main


@pytest.fixture(autouse=True)
def without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture
def data(wine, tmp_path):
    X, y = wine
    columns = [f"{name}{i}" for name, n in (("f", 13), ("label", 2)) for i in range(n)]
    table = np.column_stack([X, y, y])
    np.savetxt(tmp_path / "wine.csv", table, "%g", ",", header=",".join(columns), comments="")
    return tmp_path / "wine.csv"


@pytest.fixture(scope="module")
def classifier(wine):
    return nearkin.RobustKNeighborsClassifier(random_state=0, device="cpu").fit(*wine)


def run(*words):
    done = CliRunner().invoke(main, [str(one) for one in words])
    return done.exit_code, done.output


def test_without_torch_every_command_says_what_to_install(data, classifier):
    model = data.parent / "model.nearkin"
    nearkin.save(classifier, model)
    for words in (
        ["audit", data, "--label", "label0", "--drop", "label1"],
        ["consensus", data, "--annotators", "label0,label1"],
        ["fit", data, "--label", "label0", "-o", data.parent / "new.nearkin"],
        ["fit", data, "--label", "label0", "--onto", data.parent / "new.nearkin"],
        ["predict", model, data],
        ["transform", model, data],
    ):
        missing = (
            "nearkin: --device cuda needs torch and Triton, and torch is not installed: pip install 'nearkin[gpu]'. "
        )
        assert run(*words, "--device", "cuda") == (2, f"{missing}Or use --device cpu.\n")
        assert run(*words, "--device", "gpu")[1].startswith("nearkin: Invalid value for '--device': must be cpu, cuda")
    assert sorted(one.name for one in data.parent.iterdir()) == ["model.nearkin", "wine.csv"]


def test_a_model_of_a_machine_with_a_gpu_serves_one_without(data, classifier, wine):
    model, out = data.parent / "model.nearkin", data.parent / "out.npy"
    nearkin.save(nearkin.RobustLODML(n_components=2, random_state=0).fit(*wine).set_params(device="cuda"), model)
    drop = ["--drop", "label0,label1"]
    assert run("transform", model, data, *drop, "-o", out, "--device", "cpu")[0] == 0
    assert np.load(out).shape == (178, 2)
    classifier.set_params(device="cuda")
    nearkin.save(classifier, model)
    code, told = run("predict", model, data, *drop)
    assert (code, "--device cpu" in told, "internal" in told) == (2, True, False)
    assert run("predict", model, data, *drop, "--device", "cpu")[0] == 0


def test_a_run_goes_on_where_it_is_told_to(data):
    X, y = load_wine(return_X_y=True)
    model = nearkin.RobustLODML(n_components=2, init="identity", random_state=0).fit(X, y)
    path = data.parent / "model.nearkin"
    nearkin.save(model.set_params(device="cuda"), path)
    new = data.parent / "new.nearkin"
    with pytest.warns(UserWarning, match="every file counts as new"):
        done = streams.fit_onto(path, data, wishes={"device": "cpu"}, label="label0", drop=["label1"], output=new)
    assert (done.model.device, len(done.of("learned"))) == ("cpu", 1)
    assert nearkin.load(path).device == "cuda"
