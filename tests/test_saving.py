"""One file per model: the same bits come back, nothing executable is inside, and a bad file is refused by name."""

import errno
import io
import json
import os
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import nearkin
from each import each
from nearkin import archives, saving


def _data(seed=0, n=36, d=3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 3.0
    return X.astype(dtype), y


def _members(path):
    """Everything inside a file, without the time at which it was written."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _reloaded(model, folder):
    path = folder / "model.nearkin"
    nearkin.save(model, path)
    return nearkin.load(path)


def _same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def _same_model(one, other, X, y):
    assert type(one) is type(other)
    _same(one.metric_, other.metric_)
    _same(one.components_, other.components_)
    _same(one.plausibility_, other.plausibility_)
    _same(one.transform(X), other.transform(X))
    _same(one.pair_score(X[:5], X[5:10]), other.pair_score(X[:5], X[5:10]))
    if y is not None:
        _same(one.plausibility(X, y), other.plausibility(X, y))
    assert (one.n_rows_seen_, one.n_triplets_seen_, one.n_updates_) == (
        other.n_rows_seen_,
        other.n_triplets_seen_,
        other.n_updates_,
    )


def _crafted(path, model, *, arrays=(), **header):
    """A file in the right format with any content."""
    whole = {"kind": "nearkin-model", "format": saving.FORMAT, "nearkin": nearkin.__version__, "model": model, **header}
    with path.open("wb") as file, archives.sealing(file) as archive:
        archive.writestr("model.json", json.dumps(whole))
        for i, array in enumerate(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=True)
            archive.writestr(f"{i}.npy", buffer.getvalue())
    return path


def _refused(path, *words):
    with pytest.raises(ValueError) as caught:
        nearkin.load(path)
    text = str(caught.value)
    for word in (str(path), *words):
        assert word in text
    return text


# ---------------------------------------------------------------------------------- round trips


@each(
    model=(
        nearkin.ODML(C=np.inf, psd="end"),
        nearkin.ODML(psd="exact", loss=nearkin.RescaledHinge(0.3)),
        nearkin.OASIS(C=np.float32(0.25), loss=nearkin.Hinge(), n_epochs=np.int64(2)),
        nearkin.LODML(2, init="pca", solver="subgradient", step_size=0.5, n_steps=2),
        nearkin.LOSL(init=np.eye(2, 3)),
        nearkin.LOSL(init=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        nearkin.RobustLODML(triplets=nearkin.OCTG(centers=[[3.0, 0, 0], [0, 3.0, 0]], center_labels=[0, 1])),
        nearkin.RobustLODML(shuffle=np.bool_(False), rescore=False, scale=None),
    )
)
def test_every_kind_of_parameter_survives(tmp_path, model):
    X, y = _data()
    model.set_params(random_state=0).fit(X, y)
    other = _reloaded(model, tmp_path)
    _same_model(model, other, X, y)
    for name, value in model.get_params(deep=False).items():
        assert type(getattr(other, name)) is type(value), name
    _same_model(model.fit(X, y), other.fit(X, y), X, y)


@each(bits=("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"))
def test_generator_given_as_seed_goes_on_where_it_was(tmp_path, bits):
    X, y = _data()
    seed = np.random.Generator(getattr(np.random, bits)(5))
    model = nearkin.RobustLODML(triplets="random", random_state=seed).fit(X, y)
    other = _reloaded(model, tmp_path)
    for _ in range(2):
        _same_model(model.partial_fit(X, y), other.partial_fit(X, y), X, y)
    _same_model(model.fit(X, y), other.fit(X, y), X, y)


def test_legacy_random_state_given_as_seed_goes_on_where_it_was(tmp_path):
    X, y = _data()
    model = nearkin.RobustLODML(triplets="random", random_state=np.random.RandomState(5)).fit(X, y)
    other = _reloaded(model, tmp_path)
    _same_model(model.partial_fit(X, y), other.partial_fit(X, y), X, y)
    _same_model(model.fit(X, y), other.fit(X, y), X, y)


@each(learner=("auto", None, nearkin.RobustOASIS(random_state=0), nearkin.ODML(triplets="random", random_state=0)))
def test_classifier_comes_back_bit_for_bit(tmp_path, learner):
    X, y = _data()
    names = np.array(["a", "b", "c"])[y]
    model = nearkin.RobustKNeighborsClassifier(learner, n_neighbors=5, random_state=0).fit(X, names)
    before = model.predict_proba(X)
    other = _reloaded(model, tmp_path)
    _same(before, other.predict_proba(X))
    _same(model.predict(X), other.predict(X))
    _same(model.plausibility_, other.plausibility_)
    _same(model.kept_, other.kept_)
    assert model.noise_rate_ == other.noise_rate_
    for one, two in zip(model.kneighbors(X), other.kneighbors(X), strict=True):
        _same(one, two)
    _same(model.fit(X, names).predict_proba(X), other.fit(X, names).predict_proba(X))


def test_unfitted_classifier_comes_back_with_its_parameters(tmp_path):
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustODML(C=0.3), n_neighbors=7, noise_rate=0.2)
    other = _reloaded(model, tmp_path)
    assert repr(other) == repr(model)
    assert not hasattr(other, "classes_")


def test_classifier_around_a_frozen_learner_comes_back(tmp_path):
    X, y = _data()
    learner = FrozenEstimator(nearkin.RobustLODML(random_state=0).fit(X, y))
    model = nearkin.RobustKNeighborsClassifier(learner).fit(X, y)
    other = _reloaded(model, tmp_path)
    _same(model.predict_proba(X), other.predict_proba(X))


def test_names_of_features_and_the_chosen_output_survive(tmp_path):
    import pandas as pd

    X, y = _data()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = nearkin.RobustODML(random_state=0).fit(frame, y).set_output(transform="pandas")
    other = _reloaded(model, tmp_path)
    assert other.feature_names_in_.tolist() == ["a", "b", "c"]
    pd.testing.assert_frame_equal(model.transform(frame), other.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        other.transform(frame[["b", "a", "c"]])


LABELS = {
    "int": (3, -1, 7),
    "str": ("b", "a", "ü"),
    "tuple": (("a", 1), ("a", 2), ("b", 1)),
    "nested tuple": ((("a",), 1), (("b",), 1), (("c", True), 2)),
    "bool": (True, False),
    "float": (1.0, 2.0, -3.0),
    "mixed": (1, "a", ("x", 2)),
    "mixed without a tuple": (1, "1", True, "a"),
    "large int": (2**62, -(2**62), 0),
}


@each(kind=tuple(LABELS))
def test_labels_keep_their_type_in_a_file(tmp_path, kind):
    X, y = _data()
    labels = np.empty(len(y), dtype=object)
    labels[:] = [LABELS[kind][code % len(LABELS[kind])] for code in y]
    model = nearkin.RobustODML(random_state=0).fit(X, labels)
    other = _reloaded(model, tmp_path)
    assert other.classes_.dtype == model.classes_.dtype
    assert other.classes_.tolist() == model.classes_.tolist()
    assert [type(one) for one in other.classes_.tolist()] == [type(one) for one in model.classes_.tolist()]
    assert set(other.classes_.tolist()) == set(labels)
    _same(model.plausibility(X, labels), other.plausibility(X, labels))
    _same_model(model.partial_fit(X, labels), other.partial_fit(X, labels), X, labels)


def test_declared_classes_survive(tmp_path):
    X, y = _data()
    model = nearkin.RobustODML(random_state=0).partial_fit(X[y == 0], y[y == 0], classes=[0, 1, 2])
    other = _reloaded(model, tmp_path)
    assert other.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="declared classes"):
        other.partial_fit(X[:2], [0, 9])


def test_load_after_save_of_a_loaded_model_is_the_same_file(tmp_path):
    X, y = _data()
    model = nearkin.RobustLODML(triplets="random", random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "one")
    nearkin.save(nearkin.load(tmp_path / "one"), tmp_path / "two")
    assert _members(tmp_path / "one") == _members(tmp_path / "two")


def test_parts_of_a_model_that_share_an_array_share_it_in_the_file_and_after_loading(tmp_path):
    X, y = _data(n=60)
    model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
    path = tmp_path / "model.nearkin"
    nearkin.save(model, path)
    other = nearkin.load(path)
    for one in (model, other):
        near, _, *smooth = one.decision_.jury.voters
        assert smooth[0]._rows is smooth[1]._rows
        assert smooth[0]._codes is near.codes
    arrays = [
        np.load(io.BytesIO(content), allow_pickle=False)
        for name, content in _members(path).items()
        if name.endswith(".npy")
    ]
    assert sum(one.shape == (60, 3) and one.tobytes() == smooth[0]._rows.tobytes() for one in arrays) == 1
    again = tmp_path / "again.nearkin"
    nearkin.save(other, again)
    assert _members(again) == _members(path)


def test_only_the_same_numbers_in_memory_are_shared():
    whole = np.arange(6.0)
    parts = [whole, whole[:], whole.reshape(2, 3), whole[:3], whole.view(np.int64), whole.copy(), np.empty(0)]
    arrays = []
    places = [saving._encode(one, arrays, "here")["$array"] for one in parts]
    assert places == ["0", "0", "1", "2", "3", "4", "5"]
    for one, place in zip(parts, places, strict=True):
        _same(arrays[int(place)], one)


def test_saving_leaves_the_model_as_it_is(tmp_path):
    X, y = _data()
    model = nearkin.RobustLODML(triplets="random", random_state=0).fit(X, y)
    twin = nearkin.RobustLODML(triplets="random", random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "model")
    _same_model(model.partial_fit(X, y), twin.partial_fit(X, y), X, y)


def test_loaded_arrays_can_be_written_to(tmp_path):
    X, y = _data()
    other = _reloaded(nearkin.ODML(random_state=0).fit(X, y), tmp_path)
    assert other.metric_.flags.writeable
    assert other.metric_.flags.c_contiguous


# ---------------------------------------------------------------------------------- what is inside


def test_members_are_json_and_arrays_that_load_without_pickle(tmp_path):
    import pandas as pd

    X, y = _data()
    labels = np.empty(len(y), dtype=object)
    labels[:] = [("class", int(code)) for code in y]
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustODML(triplets="random", random_state=0))
    nearkin.save(model.fit(pd.DataFrame(X, columns=list("abc")), labels), tmp_path / "model")
    inside = _members(tmp_path / "model")
    header = json.loads(inside.pop("model.json"))
    assert header["kind"] == "nearkin-model"
    assert header["format"] == saving.FORMAT
    assert header["nearkin"] == nearkin.__version__
    assert inside
    for name, content in inside.items():
        assert name.endswith(".npy")
        assert not np.load(io.BytesIO(content), allow_pickle=False).dtype.hasobject


class _Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_file_with_an_object_array_is_refused_and_nothing_in_it_runs(tmp_path):
    mark = tmp_path / "mark"
    bomb = np.array([_Bomb(mark)], dtype=object)
    model = {"$class": "learners.OASIS", "state": {"C": {"$array": "0"}}}
    _refused(_crafted(tmp_path / "bad", model, arrays=[bomb]))
    assert not mark.exists()


@each(
    name=(
        "Nonsense",
        "os.system",
        "system",
        "subprocess.Popen",
        "Popen",
        "eval",
        "builtins.eval",
        "Path",
        "Rows",
        "OnlineLearner",
        "LowRankLearner",
        "Real",
        "__import__",
        "",
        "oasis",
        "OASIS ",
        "nearkin.learners.OASIS",
        "learners",
        "learners.OASIS.fit",
        "learners.fit_many",
        "learners.KernelMixin",
        "settings.Real",
        "__main__.main",
        "os.Popen",
        None,
        3,
        ["OASIS"],
        {"a": 1},
    )
)
def test_class_outside_the_list_is_refused(tmp_path, name):
    _refused(_crafted(tmp_path / "bad", {"$class": name, "state": {"args": "true", "returncode": None}}))
    inner = {"$class": "learners.RobustODML", "state": {"triplets": {"$class": name, "state": {}}}}
    _refused(_crafted(tmp_path / "bad", inner))


@each(
    model=(
        {"$class": "learners.OASIS"},
        {"$class": "learners.OASIS", "state": 3},
        {"$class": "learners.OASIS", "state": {"C": {"$array": "0"}}},
        {"$class": "learners.OASIS", "state": {"C": {"$unknown": 1}}},
        {"$class": "learners.OASIS", "state": {"C": {}}},
        {"$class": "learners.OASIS", "state": {"C": {"$float": "one"}}},
        {"$class": "learners.OASIS", "state": {"C": {"$scalar": 1, "dtype": "nonsense"}}},
        {"$class": "learners.OASIS", "state": {"C": {"$scalar": 10**13, "dtype": "V1"}}},
        {"$class": "learners.OASIS", "state": {"C": {"$scalar": 1}}},
        {"$class": "learners.OASIS", "state": {"C": {"$dtype": "nonsense"}}},
        {"$class": "learners.OASIS", "state": {"C": {"$dtype": 3}}},
        {"$class": "learners.OASIS", "state": {"C": {"$objects": [1, 2], "shape": [3]}}},
        {"$class": "learners.OASIS", "state": {"C": {"$objects": [1, 2]}}},
        {"$class": "learners.OASIS", "state": {"C": {"$dict": [1]}}},
        {"$class": "learners.OASIS", "state": {"C": {"$dict": [[{"$list": []}, 1]]}}},
        {"$class": "learners.OASIS", "state": {"random_state": {"$generator": {"$dict": [["bit_generator", "os"]]}}}},
        {"$class": "learners.OASIS", "state": {"C": {"$generator": {"$dict": [["bit_generator", "PCG64"]]}}}},
        {"$class": "learners.OASIS", "state": {"random_state": {"$generator": 1}}},
        {"$class": "learners.OASIS", "state": {"C": {"$list": 3}}},
    )
)
def test_entry_that_makes_no_sense_is_refused(tmp_path, model):
    _refused(_crafted(tmp_path / "bad", model))


@each(
    model=(
        3,
        None,
        "OASIS",
        {"$list": [1]},
        {"$class": "labels.Labels", "state": {"codes": {"$dict": []}, "allowed": None}},
        {"$class": "rows.Scaling", "state": {"shift": None, "factor": None, "unit_rows": False}},
        {"$class": "triplets.TripletSource", "state": {}},
        {"$class": "losses.RescaledHinge", "state": {"eta": 1.0}},
    )
)
def test_file_that_holds_something_else_than_a_model_is_refused(tmp_path, model):
    _refused(_crafted(tmp_path / "bad", model))


def test_model_without_its_parameters_is_refused(tmp_path):
    _refused(_crafted(tmp_path / "bad", {"$class": "learners.OASIS", "state": {}}))


def test_deeply_nested_file_is_refused(tmp_path):
    depth = 100_000
    header = '{"kind": "nearkin-model", "format": 1, "model": ' + '{"$list": [' * depth + "1" + "]}" * depth + "}"
    with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
        archive.writestr("model.json", header)
    _refused(tmp_path / "bad")


# ---------------------------------------------------------------------------------- damaged and foreign files


def _small_file(folder):
    path = folder / "small.nearkin"
    nearkin.save(nearkin.Euclidean(random_state=0).fit([[0.0], [1.0], [0.5], [2.0]], [0, 1, 0, 1]), path)
    return path


def test_file_cut_short_anywhere_is_refused(tmp_path):
    content = _small_file(tmp_path).read_bytes()
    cuts = {*range(0, len(content), 13), *range(64), *range(len(content) - 128, len(content))}
    path = tmp_path / "cut"
    for cut in sorted(cuts):
        path.write_bytes(content[:cut])
        _refused(path)


def test_flipped_byte_is_refused_or_harmless(tmp_path):
    content = _small_file(tmp_path).read_bytes()
    original = _members(tmp_path / "small.nearkin")
    path, again = tmp_path / "flipped", tmp_path / "again"
    escaped = {}
    harmless = 0
    directory = content.index(b"PK\x01\x02")
    positions = {*range(0, directory, 17), *range(directory, len(content), 2)}
    for at in sorted(positions):
        for mask in (0x01, 0x08):
            flipped = bytearray(content)
            flipped[at] ^= mask
            path.write_bytes(flipped)
            try:
                model = nearkin.load(path)
            except ValueError as error:
                assert str(path) in str(error)
            except Exception as error:
                escaped.setdefault(type(error).__name__, (at, mask))
            else:
                # Times and attributes in the directory of the archive say nothing about the model.
                nearkin.save(model, again)
                assert _members(again) == original
                harmless += 1
    assert not escaped
    assert harmless < len(positions)


@pytest.mark.parametrize("what", ("model.json", "0.npy"))
def test_flipped_byte_in_a_member_is_never_loaded(tmp_path, what):
    path = _small_file(tmp_path)
    content = bytearray(path.read_bytes())
    inside = _members(path)[what]
    start = bytes(content).index(inside)
    for offset in np.linspace(0, len(inside) - 1, 40).astype(int):
        flipped = bytearray(content)
        flipped[start + offset] ^= 0x10
        path.write_bytes(flipped)
        _refused(path)


def test_member_that_is_missing_is_noticed(tmp_path):
    inside = _members(_small_file(tmp_path))
    for missing in inside:
        with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
            for name, content in inside.items():
                if name != missing:
                    archive.writestr(name, content)
        _refused(tmp_path / "bad")


def test_array_cut_short_inside_an_intact_archive_is_noticed(tmp_path):
    inside = _members(_small_file(tmp_path))
    arrays = [name for name in inside if name.endswith(".npy")]
    for name in arrays:
        for cut in (0, 5, 40, len(inside[name]) - 1):
            with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
                for other, content in inside.items():
                    archive.writestr(other, content[:cut] if other == name else content)
            _refused(tmp_path / "bad")


def test_empty_file_is_refused(tmp_path):
    (tmp_path / "bad").write_bytes(b"")
    _refused(tmp_path / "bad", "not a nearkin model")


def test_folder_is_refused(tmp_path):
    (tmp_path / "bad").mkdir()
    _refused(tmp_path / "bad", "not a nearkin model")


def test_plain_npz_is_refused(tmp_path):
    np.savez(tmp_path / "bad.npz", a=np.arange(3))
    _refused(tmp_path / "bad.npz", "not a nearkin model")


def test_text_file_is_refused(tmp_path):
    (tmp_path / "bad.txt").write_text("x,y\n1,2\n" * 100)
    _refused(tmp_path / "bad.txt", "not a nearkin model")


@each(content=("", "[]", "3", "null", '{"kind": "other"}', "{", "\ufeff{}", '"nearkin-model"'))
def test_archive_with_a_foreign_header_is_refused(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
        archive.writestr("model.json", content)
    _refused(tmp_path / "bad", "not a nearkin model")


def test_archive_with_a_header_in_no_encoding_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad", "w") as archive:
        archive.writestr("model.json", b"\xff\xfe\x00\xd8{}")
    _refused(tmp_path / "bad", "not a nearkin model")


def test_encrypted_archive_is_refused(tmp_path):
    content = bytearray(_small_file(tmp_path).read_bytes())
    at = -1
    while (at := content.find(b"PK\x01\x02", at + 1)) >= 0:
        content[at + 8] |= 0x01
    (tmp_path / "bad").write_bytes(content)
    _refused(tmp_path / "bad")


def test_archive_compressed_in_an_unknown_way_is_refused(tmp_path):
    content = bytearray(_small_file(tmp_path).read_bytes())
    at = -1
    while (at := content.find(b"PK\x01\x02", at + 1)) >= 0:
        content[at + 10] = 99
    (tmp_path / "bad").write_bytes(content)
    _refused(tmp_path / "bad")


def test_newer_format_is_refused_and_the_message_says_to_upgrade(tmp_path):
    path = _crafted(tmp_path / "new", {"$class": "Future"}, format=saving.FORMAT + 1, nearkin="99.0")
    _refused(path, "newer", "99.0", nearkin.__version__, "Upgrade")


@each(number=(None, "1", 1.5, [1]))
def test_format_that_is_not_a_number_is_refused(tmp_path, number):
    _refused(_crafted(tmp_path / "bad", {"$class": "learners.OASIS", "state": {}}, format=number))


@pytest.mark.parametrize("folder", ("", "no-such-folder"))
def test_missing_file_is_reported_as_missing(tmp_path, folder):
    with pytest.raises(FileNotFoundError, match="missing"):
        nearkin.load(tmp_path / folder / "missing.nearkin")


# ---------------------------------------------------------------------------------- interrupted and refused saves


class _FullDisk(io.FileIO):
    """A file whose disk is full after a few hundred bytes."""

    room = 300

    def write(self, data):
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def _break_array(monkeypatch, error):
    written = []

    def write_array(*args, **kwargs):
        if written:
            raise error
        written.append(1)
        return original(*args, **kwargs)

    original = np.lib.format.write_array
    monkeypatch.setattr(np.lib.format, "write_array", write_array)


def _break_fsync(monkeypatch, error):
    def fsync(descriptor):
        raise error

    monkeypatch.setattr(os, "fsync", fsync)


def _break_replace(monkeypatch, error):
    def replace(self, target):
        raise error

    monkeypatch.setattr(Path, "replace", replace)


def _break_disk(monkeypatch, error):
    monkeypatch.setattr(os, "fdopen", lambda handle, mode: _FullDisk(handle, mode))


INTERRUPTS = {
    "array, interrupted": (_break_array, KeyboardInterrupt()),
    "array, disk full": (_break_array, OSError(errno.ENOSPC, "No space left on device")),
    "array, out of memory": (_break_array, MemoryError()),
    "sync, disk full": (_break_fsync, OSError(errno.ENOSPC, "No space left on device")),
    "sync, interrupted": (_break_fsync, KeyboardInterrupt()),
    "sync, exit": (_break_fsync, SystemExit(1)),
    "move, refused": (_break_replace, PermissionError(errno.EACCES, "Permission denied")),
    "disk full while writing": (_break_disk, OSError(errno.ENOSPC, "No space left on device")),
}


@each(how=tuple(INTERRUPTS), old=(True, False))
def test_interrupted_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, how, old):
    X, y = _data()
    path = tmp_path / "model.nearkin"
    if old:
        nearkin.save(nearkin.OASIS(random_state=0).fit(X, y), path)
    before = path.read_bytes() if old else None
    breaks, error = INTERRUPTS[how]
    with monkeypatch.context() as patch:
        breaks(patch, error)
        with pytest.raises(type(error)):
            nearkin.save(nearkin.RobustODML(random_state=1).fit(X, y), path)
    assert [one.name for one in tmp_path.iterdir()] == (["model.nearkin"] if old else [])
    if old:
        assert path.read_bytes() == before
    nearkin.save(nearkin.RobustODML(random_state=1).fit(X, y), path)
    assert isinstance(nearkin.load(path), nearkin.RobustODML)


class OwnSource(nearkin.TripletSource):
    """A user's own source."""

    def generate(self, rows, codes, view):
        self.number_rows(len(rows))
        return iter(())


class OwnLoss(nearkin.RescaledHinge):
    """A user's own loss."""


class OwnLearner(nearkin.OASIS):
    """A user's own learner."""


class OASIS(nearkin.OASIS):
    """A learner of another package with a known name."""


@pytest.mark.parametrize(
    ("model", "word"),
    (
        (nearkin.OASIS(triplets=OwnSource()), "OwnSource"),
        (nearkin.OASIS(loss=OwnLoss()), "OwnLoss"),
        (OwnLearner(), "OwnLearner"),
        (OASIS(), "OASIS"),
        (nearkin.RobustKNeighborsClassifier(OwnLearner()), "OwnLearner"),
        (nearkin.OASIS(C=lambda: 1), "function"),
        (LogisticRegression(), "LogisticRegression"),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_foreign_part_is_refused_and_nothing_is_written(tmp_path, model, word):
    path = tmp_path / "model"
    nearkin.save(nearkin.OASIS(), path)
    old = path.read_bytes()
    with pytest.raises(TypeError, match=word):
        nearkin.save(model, path)
    assert [one.name for one in tmp_path.iterdir()] == ["model"]
    assert path.read_bytes() == old


def test_message_about_a_foreign_part_says_where_it_is(tmp_path):
    X, y = _data()
    model = nearkin.RobustKNeighborsClassifier(nearkin.OASIS(triplets=OwnSource())).fit(X, y)
    with pytest.raises(TypeError, match=r"learner\.triplets"):
        nearkin.save(model, tmp_path / "model")


# ---------------------------------------------------------------------------------- paths


@each(mask=(0o000, 0o022, 0o027, 0o077))
def test_permissions_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        nearkin.save(nearkin.OASIS(), tmp_path / "model")
        now = os.umask(mask)
    finally:
        os.umask(before)
    assert now == mask
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o666 & ~mask


@each(
    as_text=(True, False), name=("model", "model.nearkin", "with spaces .x", "Ähnlichkeit-近い-🙂.nearkin", ".hidden")
)
def test_any_file_name_works_relative_and_absolute(tmp_path, monkeypatch, name, as_text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a folder ü").mkdir()
    for path in (Path(name), tmp_path / name, Path("a folder ü") / name, Path("..") / tmp_path.name / name):
        given = str(path) if as_text else path
        nearkin.save(nearkin.ODML(C=0.5), given)
        assert repr(nearkin.load(given)) == "ODML(C=0.5)"
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == sorted([name, "a folder ü"])


def test_longest_file_name_works(tmp_path):
    path = tmp_path / ("m" * 255)
    nearkin.save(nearkin.ODML(C=0.5), path)
    assert repr(nearkin.load(path)) == "ODML(C=0.5)"


def test_saving_into_a_missing_folder_is_reported_as_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        nearkin.save(nearkin.OASIS(), tmp_path / "no-such-folder" / "model")
    assert list(tmp_path.iterdir()) == []


def test_saving_onto_a_folder_is_refused_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(OSError):
        nearkin.save(nearkin.OASIS(), tmp_path / "model")
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_saving_through_a_link_writes_the_file_it_points_to(tmp_path):
    nearkin.save(nearkin.OASIS(), tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    nearkin.save(nearkin.ODML(C=0.5), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert repr(nearkin.load(tmp_path / "real")) == "ODML(C=0.5)"


def test_slices_are_saved_and_equal_models_are_equal_files(tmp_path, blobs):
    X, y = blobs(n=40, d=5)
    model = nearkin.OMDML(modalities=[slice(0, 2), slice(2, None)], random_state=0).fit(X, y)
    for name in ("a", "b"):
        nearkin.save(model, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    again = nearkin.load(tmp_path / "a")
    assert again.modalities == [slice(0, 2), slice(2, None)]
    np.testing.assert_array_equal(again.metric_, model.metric_)


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(TypeError, match="save takes a learner, a classifier or an audit; got Hedge"):
        nearkin.save(nearkin.Hedge(2), tmp_path / "hedge")
    assert not list(tmp_path.iterdir())
