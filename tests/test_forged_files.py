"""Files that nearkin did not write, or that were changed since: refused with the reason, soon, and in little memory.

Forged files have the right digest: they are written by the library itself from a model whose tree or arrays were
changed. `python -m fuzz --only models` does the same at random for as long as one likes.
"""

import copy
import io
import json
import os
import resource
import socket
import subprocess
import sys
import time
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import fields, replace
from unittest import mock

import numpy as np
import pytest
from fuzz import models, seeds
from fuzz.child import call
from fuzz.mutate import mutate_bytes, mutate_tree

import nearkin
from each import each
from nearkin import archives, saving
from nearkin.discriminant.witnesses import Witnesses
from nearkin.labels import Labels
from nearkin.losses import RescaledHinge
from nearkin.stored import ArrayOf, Count, Flag, Part, check_fields, check_stored, stored


def _data(n=36, d=3):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, d)) + 3.0 * np.eye(3, d)[y], y


def _small(**settings):
    return nearkin.RobustLODML(random_state=0, **settings).fit(*_data())


def _write(path, tree, arrays, **header):
    whole = {"kind": "nearkin-model", "format": archives.FORMAT, "nearkin": nearkin.__version__, "model": tree}
    with path.open("wb") as file:
        archives.write_archive(file, {**whole, **header}, arrays)
    return path


def _refused(path, *words):
    with pytest.raises(ValueError) as caught:
        nearkin.load(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


# ---------------------------------------------------------------------------------- damage


@pytest.fixture
def small_file(tmp_path):
    path = tmp_path / "model.nearkin"
    nearkin.save(nearkin.Euclidean(random_state=0).fit([[0.0], [1.0], [0.5], [2.0]], [0, 1, 0, 1]), path)
    return path


def test_no_byte_of_a_file_can_change_unnoticed(small_file):
    content = small_file.read_bytes()
    for at in {*range(0, len(content), 11), *range(len(content) - 90, len(content))}:
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        small_file.write_bytes(changed)
        _refused(small_file)
    for changed in (content + b"x", b"x" + content, content[:-1], content[1:]):
        small_file.write_bytes(changed)
        _refused(small_file)


def test_no_byte_of_a_network_can_change_unnoticed(tmp_path):
    pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")
    pytest.importorskip("safetensors", reason="pip install 'nearkin[deep]'")
    from nearkin import deep

    path = tmp_path / "model.safetensors"
    deep.save(deep.DeepMetric(n_components=2, n_epochs=1, random_state=0).fit(*_data()), path)
    content = path.read_bytes()
    for at in {*range(0, 120, 3), *np.linspace(0, len(content) - 1, 40).astype(int).tolist()}:
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="not a deep model of nearkin, or it is damaged"):
            deep.load(path)


def test_files_of_the_format_before_are_read(tmp_path, small_file):
    model = nearkin.load(small_file)
    with zipfile.ZipFile(small_file) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    inside["model.json"] = json.dumps({**json.loads(inside["model.json"]), "format": 1}).encode()
    with zipfile.ZipFile(tmp_path / "old", "w") as archive:
        for name, content in inside.items():
            archive.writestr(name, content)
    assert repr(nearkin.load(tmp_path / "old")) == repr(model)
    inside["model.json"] = inside["model.json"].replace(b'"format": 1', b'"format": 2')
    with zipfile.ZipFile(tmp_path / "old", "w") as archive:
        for name, content in inside.items():
            archive.writestr(name, content)
    _refused(tmp_path / "old", "digest is missing")


# ---------------------------------------------------------------------------------- what is not a file of ours


def _fifo(path):
    os.mkfifo(path)


def _zero(path):
    path.symlink_to("/dev/zero")


def _socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@each(make=(_fifo, _zero, _socket, os.mkdir))
def test_only_regular_files_are_read(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    path = os.path.relpath(tmp_path / "model")
    make(type(tmp_path)(path))
    begun = time.monotonic()
    with pytest.raises(ValueError, match="model is not a nearkin model"):
        nearkin.load(path)
    if "torch" in sys.modules:
        from nearkin import deep

        with pytest.raises(ValueError, match="model is not a deep model of nearkin"):
            deep.load(path)
    assert time.monotonic() - begun < 5.0


def _sealed(path, members, compression=zipfile.ZIP_STORED):
    with path.open("wb") as file, archives.sealing(file) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return path


def _npy(shape, data=b"", dtype="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue() + data


HEADER = json.dumps({"kind": "nearkin-model", "format": 2, "nearkin": "0", "model": {"$array": "0"}})
ARRAY = _npy((2,), bytes(16))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([("model.json", HEADER), ("0.npy", ARRAY), ("1.npy", ARRAY)], "nothing refers to array 1"),
        ([("model.json", HEADER), ("0.npy", ARRAY), ("extra", b"")], "not a header and numbered arrays"),
        ([("model.json", HEADER), ("0.npy", ARRAY), ("0.npy", ARRAY)], "not a header and numbered arrays"),
        ([("0.npy", ARRAY), ("model.json", HEADER)], "not a header and numbered arrays"),
        ([("model.json", HEADER), ("1.npy", ARRAY)], "not a header and numbered arrays"),
        ([("model.json", HEADER), ("0.npy", _npy((10**6, 10**6), bytes(64)))], "not as large as it says"),
        ([("model.json", HEADER), ("0.npy", _npy((2**62, 8), bytes(64)))], "not as large as it says"),
        ([("model.json", HEADER), ("0.npy", _npy((2,), bytes(24)))], "not as large as it says"),
        ([("model.json", HEADER), ("0.npy", _npy((2,), bytes(16), ">f8"))], "holds >f8"),
        ([("model.json", HEADER), ("0.npy", _npy((2,), bytes(32), "<c16"))], "holds complex128"),
        ([("model.json", HEADER), ("0.npy", _npy((2,), b"\x02\x01", "|b1"))], "other numbers than 0 and 1"),
        ([("model.json", HEADER), ("0.npy", _npy((1,), b"\xff" * 4, "<U1"))], "not characters"),
        ([("model.json", "[" * 2_000_000)], "2,000,000 lists"),
        ([("model.json", HEADER), ("0.npy", ARRAY)], "it holds ndarray, which is not a model"),
    ],
)
def test_archive_that_was_made_by_hand_is_refused_with_the_reason(tmp_path, members, reason):
    _refused(_sealed(tmp_path / "bad", members), reason)


def test_compressed_and_encrypted_members_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "bad"
    zeros = _npy((10_000_000,)) + bytes(80_000_000)
    _sealed(path, [("model.json", HEADER), ("0.npy", zeros)], zipfile.ZIP_DEFLATED)
    del zeros
    tracemalloc.start()
    begun = time.monotonic()
    _refused(path, "is compressed")
    assert tracemalloc.get_traced_memory()[1] < 2 * path.stat().st_size + 10_000_000
    tracemalloc.stop()
    assert time.monotonic() - begun < 5.0
    with path.open("wb") as file, archives.sealing(file) as archive:
        archive.writestr(zipfile.ZipInfo("model.json"), HEADER)
        archive.filelist[0].flag_bits |= 1
    _refused(path, "encrypted")


def test_reading_takes_no_more_than_twice_the_size_of_the_file(tmp_path):
    model = nearkin.LODML(init=np.ones((1000, 4000)))
    path = tmp_path / "large"
    nearkin.save(model, path)
    size = path.stat().st_size
    tracemalloc.start()
    assert nearkin.load(path).init.shape == (1000, 4000)
    assert tracemalloc.get_traced_memory()[1] < 1.5 * size
    tracemalloc.stop()


# ---------------------------------------------------------------------------------- forged states


def _entry(tree, key, value):
    """Replace what a key of a dictionary leads to, wherever it stands; entries of dictionaries are pairs."""
    if isinstance(tree, list):
        if len(tree) == 2 and tree[0] == key:
            tree[1] = value
        for one in tree:
            _entry(one, key, value)
    elif isinstance(tree, dict):
        for one in tree.values():
            _entry(one, key, value)
    return tree


STATES = {
    "MT19937": [("pos", 2147483643), ("pos", -1), ("pos", 625), ("key", {"$list": []}), ("pos", True)],
    "Philox": [("buffer_pos", 2147483643), ("buffer_pos", -1), ("counter", 3), ("has_uint32", 2)],
    "PCG64": [("inc", 2), ("state", -1), ("inc", 2**128 + 1), ("uinteger", 2**32), ("has_uint32", "no")],
    "PCG64DXSM": [("inc", 1.5), ("uinteger", -1)],
    "SFC64": [("state", {"$list": [1, 2, 3, 4]}), ("uinteger", None), ("has_uint32", {"$list": []})],
}


@each(bits=tuple(STATES))
def test_state_of_a_generator_is_checked_before_it_is_set(tmp_path, bits):
    generator = np.random.Generator(getattr(np.random, bits)(5))
    generator.random(3)
    tree, arrays = saving.to_tree(nearkin.LODML(random_state=generator))
    for key, value in STATES[bits]:
        forged = _entry(copy.deepcopy(tree), key, value)
        _refused(_write(tmp_path / "bad", forged, arrays), f"({bits}")
    assert nearkin.load(_write(tmp_path / "good", tree, arrays)).random_state.random() == generator.random()


def test_legacy_state_is_checked_and_a_generator_that_stands_still_refused(tmp_path):
    tree, arrays = saving.to_tree(nearkin.LODML(random_state=np.random.RandomState(5)))
    for key, value in (("pos", 10**6), ("has_gauss", 7), ("gauss", {"$float": "nan"}), ("bit_generator", "PCG64")):
        _refused(_write(tmp_path / "bad", _entry(copy.deepcopy(tree), key, value), arrays))
    _refused(_write(tmp_path / "bad", tree, [np.zeros(624, np.uint32)]), "never moves")
    _refused(_write(tmp_path / "bad", tree, [np.ones(623, np.uint32)]), "MT19937.key has shape (623,)")


def _array_forgeries(array):
    """Arrays that are not what stood there: of other shape, type and values."""
    yield "longer", np.concatenate([array, array]) if array.ndim and array.size else np.zeros((3, *array.shape[1:]))
    yield "flat", np.zeros(7, array.dtype)
    yield "no axis", np.array(3, array.dtype)
    yield "other type", np.zeros(array.shape, "<f4" if array.dtype != np.float32 else "<f8")
    if array.dtype.kind == "f" and array.size:
        yield "NaN", np.full_like(array, np.nan)
        yield "infinity", np.full_like(array, np.inf)
    if array.dtype.kind == "i" and array.size:
        yield "too large", np.full_like(array, 2**62)
        yield "negative", np.full_like(array, -5)


LEARNERS = ("RobustODML", "OASIS", "RobustLODML", "OPML", "ITML", "LPAODML", "OMDML", "LOMDML", "LSMDML", "OKS")
BUILT_ON = ("jury", "knn", "audit", "adapter")


@each(fast={"name": ("LOMDML", "jury")}, name=(*LEARNERS, *BUILT_ON))
def test_every_array_of_a_model_is_compared_with_what_its_class_declares(tmp_path, name):
    """Each array of the file is forged in turn; what is loaded all the same must be harmless."""
    one = seeds.model_seed(name)
    tree, arrays = saving.to_tree(one.value)
    accepted = {}
    for i, array in enumerate(arrays):
        for how, forged in _array_forgeries(array):
            path = _write(tmp_path / "bad", tree, [*arrays[:i], forged, *arrays[i + 1 :]])
            with suppress(ValueError):
                accepted[f"{how} {array.dtype}{array.shape}"] = nearkin.load(path)
    # Weights of the last rows, and votes of many lengths, belong to nothing else in the file. Keys that a row must pass
    # to come into the sample of a start may be infinite.
    known = ("longer", "flat", "other type", "too large", "infinity float64(3,)")
    assert all(how.startswith(known) for how in accepted), list(accepted)
    assert len(accepted) <= len(arrays), list(accepted)
    found = call(_use_all, list(accepted.values()), seconds=60.0)
    assert found.crash is None


def _start(start, part=None, **changes):
    """A start, or a part of it, with other attributes."""
    return (
        replace(start, **changes)
        if part is None
        else replace(start, **{part: replace(getattr(start, part), **changes)})
    )


def _with_one(array, value):
    changed = array.copy()
    changed.reshape(-1)[-1] = value
    return changed


#: What is forged in a start, and words of the refusal.
STARTS = {
    "renewal that is past": (lambda one: _start(one, next_row=one.n_rows), "the next renewal is at 36"),
    "more rows than the stream": (lambda one: _start(one, n_rows=10**6, next_row=10**7), "seen 1000000 of 36 rows"),
    "fewer rows than the sample": (lambda one: _start(one, n_rows=35), "of 35 rows seen, 36 are in the sample"),
    "negative count of rows": (lambda one: _start(one, n_rows=-1), "n_rows is -1"),
    "huge seed": (lambda one: _start(one, seed=2**70), "seed is"),
    "negative seed": (lambda one: _start(one, seed=-1), "seed is -1"),
    "loss of another kind": (lambda one: _start(one, loss=Labels()), "not RescaledHinge"),
    "loss that is none": (lambda one: _start(one, loss=None), "not RescaledHinge"),
    "loss of no slope": (lambda one: _start(one, loss=RescaledHinge(np.nan)), "loss.eta is nan"),
    "length": (lambda one: _start(one, length=1e30), "length is 1e+30"),
    "map of other features": (lambda one: _start(one, map=np.eye(3, 4)), "says p = 4, other parts say 3"),
    "map to other features": (lambda one: _start(one, map=np.eye(2, 3)), "says r ="),
    "map of single precision": (lambda one: _start(one, map=one.map.astype(np.float32)), "says T ="),
    "map with NaN": (lambda one: _start(one, map=_with_one(one.map, np.nan)), "map holds NaN or infinity"),
    "sketch of other features": (lambda one: _start(one, sketch=np.eye(3, 5)), "says d = 5"),
    "sketch of another size": (lambda one: _start(one, sketch=np.eye(2, 3)), "says p ="),
    "classes beyond those seen": (
        lambda one: _start(one, "sample", codes=_with_one(one.sample.codes, 2**40)), "holds 1099511627776, more than 2",
    ),
    "negative class": (lambda one: _start(one, "sample", codes=_with_one(one.sample.codes, -1)), "less than 0"),
    "rows that were not seen": (lambda one: _start(one, "sample", n_seen=np.full(3, 1e12)), "3e+12 were counted"),
    "bars of other classes": (lambda one: _start(one, "sample", bars=np.zeros(2)), "says K = 2"),
    "bars that are no numbers": (lambda one: _start(one, "sample", bars=np.full(3, np.nan)), "bars holds NaN"),
    "keys that are infinite": (lambda one: _start(one, "sample", keys=_with_one(one.sample.keys, np.inf)), "keys"),
    "witness of a class never seen": (
        lambda one: _start(one, "witnesses", codes=_with_one(one.witnesses.codes, 2**40)), "more than the 3 classes",
    ),
    "witness of a negative class": (
        lambda one: _start(one, "witnesses", codes=_with_one(one.witnesses.codes, -5)), "less than 0",
    ),
    "witnesses in another order": (
        lambda one: _start(one, "witnesses", codes=one.witnesses.codes[::-1].copy()), "not ordered by class",
    ),
    "witnesses of another width": (
        lambda one: _start(one, "witnesses", rows=np.ones((len(one.witnesses.rows), 5))), "p =",
    ),
    "witnesses placed elsewhere": (
        lambda one: _start(one, "witnesses", placed=np.ones((len(one.witnesses.rows), 7))), "r =",
    ),
    "witnesses of great weight": (
        lambda one: _start(one, "witnesses", weight=_with_one(one.witnesses.weight, 7.0)), "more than 1.0",
    ),
    "no witness": (
        lambda one: replace(one, witnesses=Witnesses(*(getattr(one.witnesses, f.name)[:0] for f in fields(Witnesses)))),
        "no witnesses",
    ),
}  # fmt: skip


def _forged_state(path, model, **changes):
    """Write a model with another state, which nothing has checked."""
    state = replace(model.state_, **changes)
    with mock.patch.object(model, "state_", state), mock.patch.object(saving.stored, "check_stored"):
        return _write(path, *saving.to_tree(model))


@pytest.mark.parametrize(("forge", "words"), STARTS.values(), ids=STARTS.keys())
def test_a_forged_start_is_refused(tmp_path, forge, words):
    model = _small()
    _refused(_forged_state(tmp_path / "bad", model, start=forge(model.state_.start)), words)


def test_a_start_belongs_to_its_state(tmp_path):
    model, labels = _small(), Labels()
    labels.codes, labels.n_forgotten = {0: 0, 1: 1, 2: 2}, 10**9
    _refused(_forged_state(tmp_path / "bad", model, start=None), "triplets of neighbours have no start")
    _refused(_forged_state(tmp_path / "bad", model, labels=labels), "1000000000 classes are forgotten")
    assert nearkin.load(_forged_state(tmp_path / "good", model)).state_.start.n_rows == 36


def _late(model, **changes):
    return replace(model.state_.scaling, late=replace(model.state_.scaling.late, **changes))


def test_forged_late_columns_are_refused(tmp_path):
    X, y = _data(100, 6)
    X[:50, 4:] = 0.0
    model = nearkin.RobustLODML(random_state=0).partial_fit(X[:50], y[:50]).partial_fit(X[50:60], y[50:60])
    late = model.state_.scaling.late
    assert late.moving.tolist() == [0, 1]
    assert late.recent.shape == (10, 2)
    cases = [
        ({"moving": np.array([0, 2]), "recent": np.zeros((10, 2))}, "more than 1"),
        ({"moving": np.array([1, 0])}, "do not agree"),
        ({"moving": np.array([-1, 0])}, "less than 0"),
        ({"moving": np.array([1])}, "says m ="),
        ({"moving": np.array([0]), "recent": np.zeros((10, 1)), "n_rows": np.array([3, 3])}, "do not agree"),
        ({"recent": np.full((10, 2), np.nan)}, "recent holds NaN"),
        ({"recent": np.zeros((10, 3))}, "says m = 3"),
        ({"is_awake": np.array([True, False])}, "do not agree"),
        ({"n_rows": np.array([2**62, 5])}, "n_rows holds"),
        ({"columns": np.array([4, 6])}, "beyond the 6 columns"),
        ({"columns": np.array([4, 4])}, "twice"),
        ({"recent": np.zeros((10**4, 2))}, "10000 rows"),
    ]
    for changes, words in cases:
        _refused(_forged_state(tmp_path / "bad", model, scaling=_late(model, **changes)), words)


def _use_all(models_):
    for one in models_:
        models.use(one)


@each(fast={"kind": ("classifier",)}, kind=tuple(seeds.model_names()))
def test_damaged_and_forged_files_are_refused_or_their_models_run(tmp_path, kind):
    """A few seeds of what the fuzzer does; a signal would end the child."""
    rng = np.random.default_rng(7)
    for name in seeds.model_names()[kind][:1]:
        one = seeds.model_seed(name)
        for number in range(20):
            path = tmp_path / "model.nearkin"
            path.unlink(missing_ok=True)
            is_forged = number % 3 > 0
            if is_forged:
                forged = mutate_tree(*saving.to_tree(one.value), rng)
                with mock.patch.object(saving, "to_tree", lambda _, forged=forged: forged), suppress(Exception):
                    one.write(one.value, path)
            if not path.exists():
                path.write_bytes(mutate_bytes(one.content, rng))
            problem = models.problem_of(call(models.attack, one, path, is_forged, seconds=60.0))
            assert problem is None, f"{name}, number {number}: {problem}"


# ---------------------------------------------------------------------------------- declarations


def test_a_part_says_which_sizes_it_shares():
    @stored(rows=ArrayOf("n", "d"))
    class Inner:
        def __init__(self, rows):
            self.rows = rows

    @stored(
        inner=Part(Inner, d="d"),
        weights=ArrayOf("d", low=0.0),
        best=Count(0, most="d"),
        names=ArrayOf("d+1", of="labels"),
    )
    class Outer:
        def __init__(self, n=3, best=1):
            self.inner, self.weights, self.best = Inner(np.zeros((5, 3))), np.ones(n), best
            self.names = np.array(["a"] * (n + 1))

    check_stored(Outer())
    for wrong, words in ((Outer(n=4), "d = 4, other parts say 3"), (Outer(best=4), "holds 4, more than 3")):
        with pytest.raises(ValueError, match=words):
            check_stored(wrong)
    wrong = Outer()
    del wrong.weights
    with pytest.raises(ValueError, match=r"model lacks \['weights'\]; an earlier version may have written it"):
        check_stored(wrong)


def test_a_class_must_say_what_it_stores():
    with pytest.raises(TypeError, match="must say what its attributes are"):

        @stored()
        class Nothing:
            pass


def test_what_a_class_does_not_declare_is_neither_saved_nor_loaded(tmp_path):
    model = _small()
    model.extra_ = 3
    with pytest.raises(ValueError, match="extra_"):
        nearkin.save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())
    del model.extra_
    tree, arrays = saving.to_tree(model)
    tree["state"]["fit"] = 3
    _refused(_write(tmp_path / "bad", tree, arrays), "fit")
    del tree["state"]["fit"]
    tree["state"]["state_"]["state"]["copy"] = 3
    _refused(_write(tmp_path / "bad", tree, arrays), "copy")


def test_settings_are_checked_when_a_model_is_read(tmp_path):
    tree, arrays = saving.to_tree(_small())
    for name, value in (("n_epochs", -1), ("C", "large"), ("solver", "magic")):
        forged = copy.deepcopy(tree)
        forged["state"][name] = value
        _refused(_write(tmp_path / "bad", forged, arrays), name)


def test_fields_of_a_checkpoint_are_checked():
    good = {"epoch": 1, "done": False}
    check_fields(good, "checkpoint", epoch=Count(), done=Flag())
    for wrong in ({"epoch": "1"}, {"epoch": -1}, {"epoch": True}, {"epoch": 2**60}, {"done": 0}, {"more": 1}):
        with pytest.raises(ValueError, match="checkpoint"):
            check_fields({**good, **wrong}, "checkpoint", epoch=Count(), done=Flag())
    for wrong in (None, [], {"epoch": 1}):
        with pytest.raises(ValueError, match="checkpoint"):
            check_fields(wrong, "checkpoint", epoch=Count(), done=Flag())


# ---------------------------------------------------------------------------------- a full disk

FULL = """
import resource, sys, numpy as np, nearkin
path = sys.argv[1]
nearkin.save(nearkin.LODML(), path)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    nearkin.save(nearkin.LODML(init=np.ones((100, 100))), path)
except OSError as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk_is_told_with_the_name_of_the_file_and_leaves_the_old_one(tmp_path):
    path = tmp_path / "model.nearkin"
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True)
    assert str(path) in done.stdout
    assert [one.name for one in tmp_path.iterdir()] == ["model.nearkin"]
    assert nearkin.load(path).init == "discriminant"


def test_a_device_is_not_a_place_for_a_model():
    with pytest.raises(OSError, match="/dev/full"):
        nearkin.save(nearkin.LODML(), "/dev/full")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)
