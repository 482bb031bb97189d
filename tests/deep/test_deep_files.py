"""Files of deep learners, and going on after a break to the same bits."""

import json
import struct
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")
pytest.importorskip("safetensors", reason="pip install 'nearkin[deep]'")

from safetensors.numpy import load_file, save_file  # noqa: E402
from torch import nn  # noqa: E402

import nearkin  # noqa: E402
from nearkin import progress  # noqa: E402
from nearkin.deep import OAHU, AdaptiveBounds, DeepMetric, RobustOAHU, load, save  # noqa: E402
from nearkin.streams.checkpoint import Checkpoint  # noqa: E402
from networks import make  # noqa: E402


def own(n_features):
    return nn.Sequential(nn.Linear(n_features, 6), nn.Dropout(0.2), nn.ReLU(), nn.Linear(6, 3))


def small(**settings):
    return make(DeepMetric, **{"n_components": 4, "n_epochs": 3, "batch_size": 32, "random_state": 0, **settings})


MODELS = {
    "mlp": lambda: small(),
    "conv": lambda: small(image_shape=(2, 2)),
    "sgd": lambda: small(optimizer="sgd", triplets=nearkin.OCTG(2)),
    "oahu": lambda: OAHU((8,), n_components=3, bounds=AdaptiveBounds(0.2), n_epochs=2, random_state=0),
    "robust oahu": lambda: RobustOAHU(hidden=(8,), n_components=3, n_epochs=2, random_state=np.random.default_rng(0)),
}


def goes_on(one, other, X, y):
    """Both map rows alike, and after learning on too."""
    assert np.array_equal(one.transform(X), other.transform(X))
    assert np.array_equal(one.plausibility_, other.plausibility_)
    one.partial_fit(X[:40], y[:40])
    other.partial_fit(X[:40], y[:40])
    assert np.array_equal(one.transform(X), other.transform(X))
    assert np.array_equal(one.plausibility(X, y), other.plausibility(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(MODELS))
def test_files_hold_all_that_learning_needs(rings, tmp_path, kind):
    X, y = rings()
    model = MODELS[kind]().fit(X, np.where(y == 0, "in", "out"))
    save(model, tmp_path / "model.safetensors")
    nearkin.save(model, tmp_path / "model")
    found = [load(tmp_path / "model.safetensors"), nearkin.load(tmp_path / "model")]
    for one in found:
        assert type(one) is type(model)
        assert one.classes_.tolist() == ["in", "out"]
        assert np.array_equal(one.plausibility_, model.plausibility_)
    y = np.where(y == 0, "in", "out")
    goes_on(model, found[0], X, y)
    found[1].partial_fit(X[:40], y[:40])
    assert np.array_equal(found[1].transform(X), model.transform(X))
    assert np.array_equal(found[1].plausibility(X, y), model.plausibility(X, y))


def test_an_unfitted_learner_is_saved(tmp_path):
    save(small(eta=0.7), tmp_path / "model")
    found, expected = load(tmp_path / "model").get_params(), small(eta=0.7).get_params()
    assert found.pop("training").get_params() == expected.pop("training").get_params()
    assert found == expected


@pytest.mark.slow
def test_weights_of_the_network_have_their_names(rings, tmp_path):
    X, y = rings()
    model = small(module=own).fit(X, y)
    save(model, tmp_path / "model.safetensors")
    names = {name for name in load_file(tmp_path / "model.safetensors") if name.startswith("network.")}
    assert names == {"network.0.weight", "network.0.bias", "network.3.weight", "network.3.bias"}


def test_a_module_of_one_s_own_is_given_again(rings, tmp_path):
    X, y = rings()
    path = tmp_path / "model.safetensors"
    for module in (own, own(4)):
        model = small(module=module).fit(X, y)
        save(model, path)
        assert model.module is module
        goes_on(model, load(path, module=own), X, y)
        with pytest.raises(ValueError, match=r"a module of your own; give it: load\(path, module=...\)"):
            load(path)
        with pytest.raises(ValueError, match="not the one whose weights"):
            load(path, module=lambda n: nn.Linear(n, 3))
        with pytest.raises(TypeError, match=r"cannot save model\.module"):
            nearkin.save(model, path)
    save(small(), path)
    with pytest.raises(ValueError, match="built its network itself; leave out `module`"):
        load(path, module=own)


def _changed_header(path, **changes):
    """Write a safetensors file again with another header of ours."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    ours = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["nearkin"])
    save_file(load_file(path), path, {"nearkin": json.dumps({**ours, **changes})})


def test_a_file_that_is_not_a_model_is_refused(rings, tmp_path):
    X, y = rings()
    path = tmp_path / "model"
    with pytest.raises(FileNotFoundError):
        load(path)
    for content in (b"", b"nonsense" * 40, np.arange(5).tobytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a deep model of nearkin, or it is damaged"):
            load(path)
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="is not a deep model of nearkin"):
        load(path)
    path.unlink()  # a foreign file is never replaced
    model = small().fit(X, y)
    save(model, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(ValueError, match="is damaged"):
        load(path)
    path.write_bytes(whole)
    _changed_header(path, format=99, nearkin="9.9")
    with pytest.raises(ValueError, match=r"newer nearkin \(9\.9\)"):
        load(path)
    for tree in ({"$class": "Popen", "state": {}}, {"$class": "RobustODML", "state": {}}, 3):
        path.write_bytes(whole)
        _changed_header(path, model=tree)
        with pytest.raises(ValueError, match="is not a deep model of nearkin"):
            load(path)


def test_other_objects_and_parts_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"takes a deep learner; got RobustODML. Use nearkin\.save"):
        save(nearkin.RobustODML(), tmp_path / "model")
    with pytest.raises(TypeError, match=r"cannot save model\.bounds"):
        save(OAHU(bounds=AdaptiveBounds(curve=torch.sin)), tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["safetensors", "torch"])
def test_a_missing_package_is_named_with_what_to_install(tmp_path, monkeypatch, missing):
    save(small(), tmp_path / "model")
    nearkin.save(small(), tmp_path / "zip")
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "safetensors":
        with pytest.raises(ImportError, match=r"pip install 'nearkin\[deep\]'"):
            load(tmp_path / "model")
        with pytest.raises(ImportError, match=r"pip install 'nearkin\[deep\]'"):
            save(small(), tmp_path / "model")
    else:
        for name in [name for name in sys.modules if name.startswith("nearkin.deep")]:
            monkeypatch.delitem(sys.modules, name)
        with pytest.raises(ImportError, match=r"nearkin.deep needs torch.*pip install 'nearkin\[deep\]'"):
            nearkin.load(tmp_path / "zip")


# ---------------------------------------------------------------------------------- checkpoints


class Killed(Exception):
    pass


def killed_after(n_rows):
    def listen(task, done, total):
        if done >= n_rows:
            raise Killed

    return progress.listening(listen)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "stops"), [(None, (130, 250, 400)), (own, (50,))], ids=["often", "early"])
def test_a_fit_that_was_killed_ends_with_the_same_bits(rings, tmp_path, module, stops):
    X, y = rings()
    whole = small(module=module, n_epochs=5).fit(X, y)
    learned = whole.transform(X)
    model = small(module=module, n_epochs=5, checkpoint=tmp_path / "ck")
    for stop in stops:
        with killed_after(stop), pytest.raises(Killed):
            model.fit(X, y)
        assert not hasattr(model, "plausibility_")
    seen = []
    with progress.listening(lambda task, done, total: seen.append(done)):
        model.fit(X, y)
    assert min(seen) > stops[-1] // 120 * 120  # what was done is not done again
    goes_on(whole, model, X, y)
    again = small(module=module, n_epochs=5, checkpoint=tmp_path / "ck").fit(X, y)
    assert np.array_equal(again.transform(X), learned)


def test_a_checkpoint_of_something_else_is_refused(rings, tmp_path):
    X, y = rings()
    path = tmp_path / "ck"
    small(checkpoint=path).fit(X, y)
    for model, rows, labels in (
        (small(checkpoint=path, eta=0.1), X, y),
        (small(checkpoint=path), X + 1, y),
        (small(checkpoint=path), X, 1 - y),
    ):
        with pytest.raises(ValueError, match="belongs to other rows, labels or parameters"):
            model.fit(rows, labels)
    path.write_bytes(path.read_bytes()[:99])
    with pytest.warns(UserWarning, match="going on from the one before it"):
        found = small(checkpoint=path).fit(X, y)
    assert np.array_equal(found.transform(X), small().fit(X, y).transform(X))


HOLDS = """
import sys, numpy as np
from nearkin import progress
from nearkin.deep import DeepMetric, Training
def wait(task, done, total):
    print("learning", flush=True)
    sys.stdin.read()
X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
with progress.listening(wait):
    DeepMetric(n_epochs=1, training=Training(checkpoint=sys.argv[1]), random_state=0).fit(X, y)
"""


def test_a_checkpoint_belongs_to_one_process(rings, tmp_path):
    X, y = rings()
    path = tmp_path / "ck"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "learning\n"
        with pytest.raises(ValueError, match=rf"ck is in use by process {child.pid} on .* since "):
            small(checkpoint=path).fit(X, y)
        assert not hasattr(small(checkpoint=path), "state_")
    finally:
        child.communicate("")
    assert child.returncode == 0 and not (tmp_path / "ck.lock").exists()
    path.unlink()
    with killed_after(50), pytest.raises(Killed):
        small(checkpoint=path).fit(X, y)
    assert not (tmp_path / "ck.lock").exists()  # also after an error
    small(checkpoint=path).fit(X, y)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ck", "ck.previous"]


def test_a_checkpoint_replaces_nothing_of_others(rings, tmp_path):
    X, y = rings()
    for name in ("ck", "ck.previous", "ck.next", "ck.lock"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(ValueError, match=f"{name} exists and is not a nearkin"):
            small(checkpoint=tmp_path / "ck").fit(X, y)
        assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {name: "mine"}
        (tmp_path / name).unlink()


def test_forged_fields_of_a_checkpoint_are_refused(rings, tmp_path):
    X, y = rings()
    small(checkpoint=tmp_path / "ck").fit(X, y)
    kept = Checkpoint(tmp_path / "ck").read()
    for name, values in (
        ("state", [None, {}, 3]), ("running", [None, 3, kept["running"][:-1], kept["running"].astype("f4")]),
        ("done", ["2", -1, None, 0.5]),
    ):  # fmt: skip
        for value in values:
            Checkpoint(tmp_path / "ck").write({**kept, name: value})
            with pytest.raises(ValueError, match="ck is damaged"):
                small(checkpoint=tmp_path / "ck").fit(X, y)


@pytest.mark.parametrize("kind", ["function", "module", "generator", "bounds"])
def test_a_checkpoint_is_known_again_by_another_process(rings, tmp_path, kind):
    X, y = rings()

    def model():
        common = {"n_epochs": 2, "batch_size": 32, "checkpoint": tmp_path / "ck", "random_state": 0}
        if kind == "bounds":
            return make(OAHU, hidden=(8,), bounds=AdaptiveBounds(0.2, curve=lambda t: t), **common)
        if kind == "generator":
            return make(DeepMetric, **{**common, "random_state": np.random.default_rng(3)})
        torch.manual_seed(0)
        module = (lambda n: own(n)) if kind == "function" else own(4)  # new objects, new addresses
        return make(DeepMetric, module=module, **common)

    first = model().fit(X, y)
    passes = []
    with progress.listening(lambda task, done, total: passes.append(done)):
        assert np.array_equal(model().fit(X, y).transform(X), first.transform(X))
    assert not passes
    if kind == "module":
        torch.manual_seed(1)
        with pytest.raises(ValueError, match="belongs to other rows, labels or parameters"):
            model().set_params(module=own(4)).fit(X, y)


def test_a_model_of_a_gpu_says_so_where_there_is_none(rings, monkeypatch):
    X, y = rings()
    model = small().fit(X, y).set_params(device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="sees no NVIDIA GPU"):
        model.transform(X)
    assert model.set_params(device="cpu").transform(X).shape == (120, 4)
