"""A checkpoint belongs to its data, by content, to its options, and to one process at a time."""

import copy
import json
import os
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import nearkin
from nearkin import streams
from nearkin.saving import write_tree
from nearkin.stored import check_stored
from nearkin.streams import lock
from nearkin.streams.checkpoint import KIND, Checkpoint
from nearkin.streams.identity import describe_file, digest_rows
from nearkin.streams.run import Run
from streams import tables


def learner(**more):
    return nearkin.RobustLODML(n_components=3, random_state=0, **more)


def opened(folder, **more):
    return streams.open(folder, label="y", **{"batch_rows": 128, **more})


def fit(stream, path, model=None, **more):
    return streams.fit_stream(model or learner(), stream, checkpoint=path, resume=True, **more)


def stop_at(batch):
    def stop(report):
        if report.batch == batch:
            raise KeyboardInterrupt

    return stop


def refused(stream, path, what, model=None, **more):
    """The run is refused in one sentence that names what differs, and changes nothing."""
    model, before = model or learner(), Path(path).read_bytes()
    with pytest.raises(ValueError, match=f"belongs to another run: .*{what}") as caught:
        fit(stream, path, model, **more)
    assert "\n" not in str(caught.value)
    assert not model.__sklearn_is_fitted__()
    assert Path(path).read_bytes() == before
    assert not Path(f"{path}.lock").exists()


def same(one, other):
    np.testing.assert_array_equal(one.components_, other.components_)
    assert tables.bits(one) == tables.bits(other)
    return one.n_rows_seen_ == other.n_rows_seen_


# ---------------------------------------------------------------- data by content


@pytest.mark.parametrize("which", ["X", "y"])
def test_overwritten_arrays_of_the_same_shape_are_other_data(which, tmp_path):
    X, y = tables.rows()
    given = tables.write(tmp_path, "npy", X, y)
    fit(streams.open(given["source"], label=given["label"]), tmp_path / "ck")
    np.save(tmp_path / f"{which}.npy", {"X": X[::-1], "y": y[::-1]}[which])
    refused(
        streams.open(given["source"], label=given["label"]), tmp_path / "ck", rf"{which}\.npy has other content"
    )  # fmt: skip


def test_a_finished_checkpoint_of_one_folder_is_not_for_another(tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        tables.write(tmp_path / name, "parquet", *tables.rows(seed=seed))
    done = fit(opened(tmp_path / "a"), tmp_path / "ck")
    refused(opened(tmp_path / "b"), tmp_path / "ck", r"0\.parquet had [\d,]+ bytes and has [\d,]+ \(and 1 more")
    (tmp_path / "a").rename(tmp_path / "moved")
    assert same(fit(opened(tmp_path / "moved"), tmp_path / "ck"), done)


def test_files_in_another_order_gone_or_renamed_are_other_data(tmp_path):
    tables.write(tmp_path / "data", "csv", *tables.rows())
    first, second = tmp_path / "data" / "0.csv", tmp_path / "data" / "1.csv"
    fit(opened([first, second]), tmp_path / "ck")
    refused(opened([second, first]), tmp_path / "ck", r"a file was 0\.csv and is 1\.csv")
    refused(opened([first]), tmp_path / "ck", r"1\.csv is gone")
    second.rename(tmp_path / "data" / "2.csv")
    refused(opened(tmp_path / "data"), tmp_path / "ck", r"a file was 1\.csv and is 2\.csv")


def test_every_option_that_differs_is_named_with_both_values(tmp_path):
    tables.write(tmp_path / "data", "csv", *tables.rows())
    folder, path = tmp_path / "data", tmp_path / "ck"
    fit(opened(folder), path)
    refused(opened(folder, batch_rows=64), path, "batch_rows was 128 and is 64")
    refused(opened(folder, shuffle=True, seed=7), path, "shuffle was False and is 'seed 7'")
    refused(opened(folder, drop=["f0"]), path, r"features was \['f0', .* and is \['f1', ")
    refused(opened(folder, text_labels=True), path, "kind_of_labels was 'whole' and is 'text'")
    refused(opened(folder), path, "epochs was 1 and is 2", epochs=2)
    refused(opened(folder), path, "C of the learner was 'auto' and is 0.5", model=learner(C=0.5))
    refused(opened(folder), path, "the learner was RobustLODML and is LODML", model=nearkin.LODML(random_state=0))
    fit(opened(folder), tmp_path / "drawn", learner(C=0.5).set_params(random_state=np.random.default_rng(0)))
    other = learner(C=0.5).set_params(random_state=np.random.default_rng(1))
    refused(opened(folder), tmp_path / "drawn", "random", model=other)


def test_a_run_that_stopped_at_a_bad_row_may_go_on_without_such_rows(tmp_path):
    X, y = tables.rows()
    X[1000, 2] = np.nan
    tables.write(tmp_path / "data", "parquet", X, y)
    with pytest.raises(ValueError, match="data row 1,001"):
        fit(opened(tmp_path / "data"), tmp_path / "ck")
    model = fit(opened(tmp_path / "data", missing="drop"), tmp_path / "ck")
    assert model.n_rows_seen_ == tables.N - 1
    refused(opened(tmp_path / "data"), tmp_path / "ck", "missing was 'drop' and is 'error'")


def test_no_stretch_of_a_large_file_changes_unseen(tmp_path):
    path, rng = tmp_path / "large", np.random.default_rng(0)
    content = bytearray(rng.bytes(3_000_000))
    path.write_bytes(content)
    before = describe_file(path)
    assert before == describe_file(path)
    for start in (0, 1_234_567, 2_999_999 - 24_000):
        changed = content.copy()
        changed[start : start + 24_000] = bytes(24_000)
        path.write_bytes(changed)
        assert describe_file(path) != before
    small = tmp_path / "small"
    small.write_bytes(content[:500_000])
    before = describe_file(small)
    content[333_333] ^= 1
    small.write_bytes(content[:500_000])
    assert describe_file(small) != before


def test_the_digest_of_rows_sees_values_types_and_shapes():
    X, y = np.arange(12.0).reshape(4, 3), np.array(["a", "b", "a", "b"])
    known = digest_rows(X, y)
    assert known == digest_rows(X.copy(order="F"), y.copy())
    others = [(X + 1, y), (X.astype("f4"), y), (X.reshape(3, 4), y), (X, y[::-1]), (X, y.astype(object))]
    assert known not in [digest_rows(*one) for one in others]
    assert digest_rows(X[:0], y[:0]) != known


# ---------------------------------------------------------------- streams that grow


def grow(folder, first, last, number):
    from pyarrow import parquet

    X, y = tables.rows()
    folder.mkdir(exist_ok=True)
    parquet.write_table(tables.table(X[first:last], y[first:last]), folder / f"{number}.parquet", row_group_size=100)


def test_files_that_come_later_belong_to_another_run(tmp_path):
    folder = tmp_path / "data"
    grow(folder, 0, 1000, 1)
    fit(opened(folder), tmp_path / "one")
    grow(folder, 1000, 2000, 2)
    refused(opened(folder), tmp_path / "one", r"2\.parquet is new \(fit_onto")
    grow(folder, 2000, 2400, 0)
    refused(opened(folder), tmp_path / "one", r"a file was 1\.parquet and is 0\.parquet")


# ---------------------------------------------------------------- arrays and iterators


def chunks_of(X, y):
    return [(X[at : at + 300], y[at : at + 300]) for at in range(0, len(X), 300)]


def from_row(X, y):
    return lambda first: iter(chunks_of(X[first:], y[first:]))


KINDS = {
    "list": chunks_of,
    "function": lambda X, y: lambda: iter(chunks_of(X, y)),
    "function of the first row": from_row,
    "iterator": lambda X, y: iter(chunks_of(X, y)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_go_on_after_an_interrupt_and_other_chunks_are_refused(kind, tmp_path):
    X, y = tables.rows()

    def stream(X=X, y=y):
        return streams.open(KINDS[kind](X, y), batch_rows=128)

    path = tmp_path / "ck"
    with pytest.raises(KeyboardInterrupt):
        fit(stream(), path, on_report=stop_at(7))
    refused(stream(X[::-1].copy(), y), path, "the first batch holds other rows")
    later = X.copy()
    later[800:896] += 1.0  # in the last batch that was learned
    before = path.read_bytes()
    message = "the chunks hold other rows" if kind == "list" else "batch 7 of the stream holds other rows"
    with pytest.raises(ValueError, match=message):
        fit(stream(later), path)
    assert path.read_bytes() == before
    assert same(fit(stream(), path), streams.fit_stream(learner(), stream()))
    refused(stream(X[::-1].copy(), y), path, "the first batch holds other rows")


def test_a_function_that_makes_chunks_is_called_once_per_pass(tmp_path):
    calls = []

    def chunks():
        calls.append(1)
        return iter(chunks_of(*tables.rows()))

    fit(streams.open(chunks, batch_rows=128), tmp_path / "ck", epochs=2)
    assert len(calls) == 2


# ---------------------------------------------------------------- one process at a time

HOLD = """
import os, sys, time
import numpy as np
import nearkin
from nearkin import streams
X, y = np.random.default_rng(0).normal(size=(4000, 4)), np.arange(4000) % 3
def wait(report):
    print(os.getpid(), flush=True)
    time.sleep(60 if report.batch == 2 else 0)
streams.fit_stream(nearkin.RobustLODML(random_state=0), streams.open([(X, y)], batch_rows=100), checkpoint=sys.argv[1],
                   checkpoint_every=0, resume=True, on_report=wait)
"""


def simple():
    X, y = np.random.default_rng(0).normal(size=(4000, 4)), np.arange(4000) % 3
    return streams.open([(X, y)], batch_rows=100)


@pytest.fixture
def holder(tmp_path):
    """A process that learns, and holds its checkpoint."""
    process = tables.python(HOLD, tmp_path / "ck", stdout=-1)
    process.stdout.readline()
    process.stdout.readline()
    yield process
    process.kill()
    process.stdout.close()
    process.wait(timeout=30)


def test_a_second_process_is_told_at_once_who_has_the_checkpoint_and_takes_it_over_when_that_is_gone(holder, tmp_path):
    begun = time.monotonic()
    with pytest.raises(
        ValueError, match=f"in use by process {holder.pid} on {socket.gethostname()} since 20"
    ) as caught:
        fit(simple(), tmp_path / "ck", nearkin.RobustLODML(random_state=0))
    assert time.monotonic() - begun < 5
    assert "\n" not in str(caught.value)
    assert holder.poll() is None
    holder.kill()
    holder.wait(timeout=30)
    assert (tmp_path / "ck.lock").exists()
    model = fit(simple(), tmp_path / "ck", nearkin.RobustLODML(random_state=0))
    np.testing.assert_array_equal(
        model.components_, streams.fit_stream(nearkin.RobustLODML(random_state=0), simple()).components_
    )
    assert not (tmp_path / "ck.lock").exists()


@pytest.mark.parametrize("end", ["normal", "error", "interrupt", "refused"])
def test_no_lock_is_left_behind(end, tmp_path):
    X, y = tables.rows()
    model = learner()
    if end == "error":
        X = X.copy()
        X[1000, 0] = np.nan
    stream = streams.open([(X, y)], batch_rows=128)
    with ExitStack() as stack:
        if end != "normal":
            stack.enter_context(pytest.raises(KeyboardInterrupt if end == "interrupt" else (ValueError, TypeError)))
        if end == "refused":
            (tmp_path / "ck").write_bytes(b"PK\x03\x04torn")
        fit(stream, tmp_path / "ck", model, on_report=stop_at(5) if end == "interrupt" else None)
    assert not (tmp_path / "ck.lock").exists()
    assert not lock._held


def test_the_same_process_twice_and_a_second_thread_are_refused(tmp_path):
    told = []

    def learn_again(report):
        if report.batch == 3:
            for target in (attempt, lambda: None):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()

    def attempt():
        try:
            fit(streams.open([tables.rows()], batch_rows=128), tmp_path / "ck")
        except ValueError as error:
            told.append(str(error))

    model = fit(streams.open([tables.rows()], batch_rows=128), tmp_path / "ck", on_report=learn_again)
    assert len(told) == 1
    assert "in use by this very process" in told[0]
    assert model.n_rows_seen_ == tables.N
    attempt()  # afterwards it is free
    assert len(told) == 1


def test_a_forked_child_does_not_own_the_lock_of_its_parent(tmp_path):
    path = tmp_path / "ck.lock"
    with lock.Lock(path, "ck") as held:
        child = os.fork()
        if not child:
            code = 1
            try:
                lock.Lock(path, "ck").__enter__()
            except ValueError as error:
                code = 0 if f"process {os.getppid()} " in str(error) else 2
            held.__exit__()  # does not release what it does not own
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert path.exists()
    assert not path.exists()


def forge(path, **changes):
    with lock.Lock(path, "ck"):
        content = json.loads(path.read_bytes())
    path.write_text(json.dumps({**content, **changes}))


def test_a_lock_is_taken_over_after_a_reboot_a_kill_and_the_reuse_of_a_process_number(tmp_path):
    path = tmp_path / "ck.lock"
    for gone in ({"boot": "another"}, {"pid": 2**22 + 1}, {"pid": 10**30}, {"pid": os.getppid(), "started": "1"}):
        forge(path, **gone)
        with lock.Lock(path, "ck"):
            pass
        assert not path.exists()
    path.touch()  # a process killed between two system calls
    with lock.Lock(path, "ck"):
        assert path.stat().st_size


def test_a_lock_of_another_machine_expires_without_a_sign_of_life(tmp_path, monkeypatch):
    path = tmp_path / "ck.lock"
    forge(path, host="elsewhere", pid=7)
    with pytest.raises(ValueError, match=r"process 7 on elsewhere since .* expires in 1\d\d s; or remove .*ck\.lock"):
        lock.Lock(path, "ck").__enter__()
    os.utime(path, (time.time() - 200, time.time() - 200))
    with lock.Lock(path, "ck"):
        pass
    monkeypatch.setattr(lock, "_SIGN", 0.01)
    with lock.Lock(path, "ck"):
        os.utime(path, (0, 0))
        end = time.monotonic() + 10
        while path.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert path.stat().st_mtime > 1e9


def test_a_run_whose_lock_was_taken_over_leaves_the_checkpoint_alone(tmp_path):
    path = tmp_path / "ck"

    def lose(report):
        if report.batch == 5:
            content = json.loads((tmp_path / "ck.lock").read_bytes())
            (tmp_path / "ck.lock").write_text(json.dumps({**content, "host": "elsewhere", "pid": 7}))
            kept.append(path.read_bytes())
        elif report.batch == 3:
            (tmp_path / "ck.lock").unlink()  # someone tidied up; it is taken again

    kept = []
    with pytest.raises(ValueError, match="in use by process 7 on elsewhere"):
        fit(streams.open([tables.rows()], batch_rows=128), path, checkpoint_every=0, on_report=lose)
    assert path.read_bytes() == kept[0]
    assert (tmp_path / "ck.lock").exists()


def test_a_file_that_is_not_a_lock_is_neither_read_for_ever_nor_destroyed(tmp_path):
    path = tmp_path / "ck.lock"
    for content in (b"precious", b"[" * 4000, b'{"pid": "1"}', b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is not a lock of nearkin"):
            lock.Lock(path, "ck").__enter__()
        assert path.read_bytes() == content
    path.unlink()
    (tmp_path / "precious").write_bytes(b"")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="cannot be written"):
        lock.Lock(path, "ck").__enter__()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="device or a pipe"):
        lock.Lock(path, "ck").__enter__()
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        lock.Lock(tmp_path / "nowhere" / "ck.lock", "ck").__enter__()


def test_a_holder_that_stands_still_in_the_wrong_moment_is_named_all_the_same(tmp_path, monkeypatch):
    import fcntl

    path = tmp_path / "ck.lock"
    forge(path, pid=os.getppid(), started=lock._started(os.getppid()))
    monkeypatch.setattr(lock, "_PATIENCE", 0.1)
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match=f"in use by process {os.getppid()} on"):
            lock.Lock(path, "ck").__enter__()
        path.write_bytes(b"")
        with pytest.raises(ValueError, match="is being taken by another process"):
            lock.Lock(path, "ck").__enter__()


def test_many_processes_at_once_and_one_of_them_has_the_lock(tmp_path):
    """All find the lock of a process that is gone, and try to take it over at the same moment."""
    path = tmp_path / "ck.lock"
    forge(path, boot="another")
    ready, go = os.pipe(), os.pipe()
    children = []
    for _ in range(12):
        child = os.fork()
        if not child:
            os.close(go[1])
            os.write(ready[1], b".")
            os.read(go[0], 1)
            try:
                lock.Lock(path, "ck").__enter__()
            except ValueError:
                os._exit(1)
            time.sleep(1.0)
            os._exit(0)
        children.append(child)
    for _ in children:
        os.read(ready[0], 1)
    os.close(go[1])
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    for one in (*ready, go[0]):
        os.close(one)
    assert sorted(ends) == [0] + [1] * 11


def test_a_link_to_a_checkpoint_stays_a_link(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "ck").symlink_to(tmp_path / "store" / "real")
    fit(streams.open([tables.rows()], batch_rows=128), tmp_path / "ck", checkpoint_every=0)
    assert (tmp_path / "ck").is_symlink()
    assert sorted(one.name for one in (tmp_path / "store").iterdir()) == ["real", "real.previous"]


# ---------------------------------------------------------------- what a checkpoint may hold

FORGED = {
    "epoch": ["0", -1, 7, 0.5, None, True],
    "batch": [10**6, "3", -1, 2, 3.0, None, [1]],
    "done": [1, "yes", True, None],
    "learner": [{}, "RobustLODML", 3, None, nearkin.LODML(), learner()],
    "rows": ["x", None, -5, 1, 10**6],
    "plan": [{}, [], None, "x", 3],
    "last": [3, None, {}, [], "0" * 64],
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with data, and what a checkpoint of it holds after three batches."""
    home = tmp_path_factory.mktemp("forged")
    tables.write(home / "data", "parquet", *tables.rows())
    with pytest.raises(KeyboardInterrupt):
        fit(opened(home / "data"), home / "ck", on_report=stop_at(3))
    return home, Checkpoint(home / "ck").read()


def assert_refused(home, kept, tmp_path):
    with (tmp_path / "ck").open("wb") as file:
        write_tree(kept, file, KIND)
    model = learner()
    with pytest.raises(ValueError, match="ck") as caught:
        fit(opened(home / "data"), tmp_path / "ck", model)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ck.lock").exists()


@pytest.mark.parametrize("name", FORGED)
def test_forged_fields_are_refused(name, whole, tmp_path):
    home, kept = whole
    for value in FORGED[name]:
        assert_refused(home, {**kept, name: value}, tmp_path)
    assert_refused(home, {key: value for key, value in kept.items() if key != name}, tmp_path)
    for other in (None, [], 3, "x", {}):
        assert_refused(home, other, tmp_path)


def test_forged_sums_and_plans_are_refused(whole, tmp_path):
    home, kept = whole
    for part, name, values in (
        ("total", "n_rows", [-1, "3", 1e9, None, 2.5]),
        ("total", "plausibility", ["x", None, float("nan"), float("inf"), -1.0]),
        ("monitor", "filling", ["x", None, np.full(4, np.nan), np.zeros(3)]),
        ("monitor", "n_classes", [0.5, None, -3, 1000]),
        (None, "n_batches", ["x", None, -1, True]),
        (None, "recent_accuracy", ["x", float("nan"), []]),
    ):
        for value in values:
            watch = copy.deepcopy(kept["learner"].history_.watch)
            setattr(watch if part is None else getattr(watch, part), name, value)
            with pytest.raises(ValueError, match=name):
                check_stored(watch)
    for forged in (1, 10**6):
        other = copy.deepcopy(kept)
        other["learner"].history_.watch.total.n_rows = forged
        assert_refused(home, other, tmp_path)
    for name, values in (
        ("files", [None, 3, [], [1, 2], [["a"]], [[1, 2, 3], [4, 5, 6]], {}]),
        ("rows", [None, "x", -1]),
        ("learner", [None, {}, 3, {"class": "RobustLODML", "settings": 5}]),
    ):
        for value in values:
            forged = copy.deepcopy(kept)
            forged["plan"][name] = value
            assert_refused(home, forged, tmp_path)


def test_an_interrupt_between_learning_and_counting_loses_the_batch_rather_than_learning_it_twice(
    tmp_path, monkeypatch
):
    tables.write(tmp_path / "data", "parquet", *tables.rows())
    count, calls = Run._count, []

    def interrupted(self, seen):
        calls.append(seen)
        if len(calls) == 6:
            raise KeyboardInterrupt
        count(self, seen)

    monkeypatch.setattr(Run, "_count", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(opened(tmp_path / "data"), tmp_path / "ck", checkpoint_every=0)
    monkeypatch.setattr(Run, "_count", count)
    assert Checkpoint(tmp_path / "ck").read()["batch"] == 5
    model = fit(opened(tmp_path / "data"), tmp_path / "ck")
    assert same(model, streams.fit_stream(learner(), opened(tmp_path / "data")))
