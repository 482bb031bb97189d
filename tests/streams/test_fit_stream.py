"""Learning from streams: the same model as partial_fit, in bounded memory, and the same bits after real kills."""

import errno
import json
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest

import nearkin
from nearkin import progress, streams
from nearkin.streams.checkpoint import Checkpoint
from streams import tables


def learner(**more):
    return nearkin.RobustLODML(n_components=3, random_state=0, **more)


@pytest.fixture(scope="module")
def data():
    return tables.rows()


@pytest.fixture
def folder(data, tmp_path):
    return tables.write(tmp_path / "data", "parquet", *data)["source"]


def opened(folder, **more):
    return streams.open(folder, label="y", **{"batch_rows": 128, **more})


def same(one, other):
    np.testing.assert_array_equal(one.components_, other.components_)
    assert tables.bits(one) == tables.bits(other)
    for counter in ("n_rows_seen_", "n_triplets_seen_", "n_updates_"):
        assert getattr(one, counter) == getattr(other, counter)
    return True


# ---------------------------------------------------------------- what is learned


@pytest.mark.parametrize("name", ["RobustLODML", "ODML", "RobustOASIS", "Euclidean", "RobustLPAODML"])
def test_a_stream_is_learned_as_partial_fit_learns_its_batches(name, data, folder):
    X, y = data
    ours = streams.fit_stream(getattr(nearkin, name)(random_state=0), opened(folder), epochs=2)
    theirs = getattr(nearkin, name)(random_state=0)
    for _ in range(2):
        for at in range(0, len(X), 128):
            theirs.partial_fit(X[at : at + 128], y[at : at + 128])
    np.testing.assert_array_equal(ours.metric_, theirs.metric_)
    np.testing.assert_array_equal(ours.plausibility_, theirs.plausibility_)
    assert ours.n_rows_seen_ == 2 * len(X)


def test_the_learners_own_passes_are_the_default(folder):
    assert streams.fit_stream(learner(n_epochs=3), opened(folder)).n_rows_seen_ == 3 * tables.N


def test_reports_test_each_row_before_it_is_learned(data, folder):
    X, y = data
    reports, printed = [], {"init": "auto", "triplets": "octg"}
    model = streams.fit_stream(learner(**printed), opened(folder), on_report=reports.append, log_every=1)
    assert len(reports) == len(range(0, len(X), 128))
    assert [one.rows for one in reports[:2]] == [128, 256]
    assert reports[-1].total_rows == reports[-1].rows == len(X)
    assert reports[-1].classes == 4
    # by hand, from a second learner that is always one batch behind
    behind, right, weights = learner(**printed), 0, []
    for at in range(0, len(X), 128):
        part = slice(at, at + 128)
        if at:
            source = behind.triplet_source_
            near = nearkin.measures.DISTANCE.scores(
                behind.transform(X[part]), source.centers_ @ behind.components_.T
            ).argmax(axis=1)
            right += int((behind.classes_[source.center_codes_ * 0 + _sorted_place(behind)][near] == y[part]).sum())
        behind.partial_fit(X[part], y[part])
        weights.append(behind.plausibility_)
    assert reports[-1].accuracy == pytest.approx(right / (len(X) - 128), abs=1e-12)
    assert reports[-1].plausibility == pytest.approx(np.concatenate(weights).mean(), abs=1e-9)
    assert same(model, behind)
    silent = []
    streams.fit_stream(learner(**printed), opened(folder), on_report=silent.append, prequential=False)
    assert silent[-1].accuracy is None
    assert silent[-1].plausibility == reports[-1].plausibility


def test_with_a_start_the_nearest_witnesses_predict_labels(data, folder):
    X, y = data
    reports = []
    streams.fit_stream(learner(), opened(folder), on_report=reports.append)
    behind, right = learner(), 0
    for at in range(0, len(X), 128):
        part = slice(at, at + 128)
        if at:
            witnesses, labels = behind.state_.start.witnesses, behind.state_.labels.codes
            rows = behind.state_.scaled(X[part])
            scores = behind.state_.parameter.scores(rows, witnesses.placed)
            nearest = np.argsort(-scores, axis=1, kind="stable")[:, :10]
            votes = [np.bincount(witnesses.codes[one], witnesses.weight[one], 4).argmax() for one in nearest]
            right += sum(labels[label] == vote for label, vote in zip(y[part].tolist(), votes, strict=True))
        behind.partial_fit(X[part], y[part])
    assert reports[-1].accuracy == pytest.approx(right / (len(X) - 128), abs=2e-3)  # votes may tie
    assert reports[-1].accuracy > 0.7


def _sorted_place(model):
    """Place of the class of each centre among the sorted classes."""
    codes = model.state_.labels.codes
    by_code = {code: label for label, code in codes.items()}
    return np.searchsorted(model.classes_, [by_code[code] for code in model.triplet_source_.center_codes_.tolist()])


def test_the_log_has_one_json_object_a_line(folder, tmp_path):
    streams.fit_stream(learner(), opened(folder), log=tmp_path / "log.jsonl", log_every=5)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [one["batch"] for one in lines] == [5, 10, 15, 19]
    assert lines[-1]["rows"] == tables.N
    assert 0.5 < lines[-1]["accuracy"] <= 1
    assert {"rows_per_second", "seconds_left", "recent_plausibility", "drift", "dropped"} <= lines[0].keys()


def test_progress_counts_the_rows_of_the_whole_stream(folder):
    seen = []
    with progress.listening(lambda task, done, total: seen.append((done, total))):
        streams.fit_stream(learner(), opened(folder), epochs=2)
    assert {total for _, total in seen} == {2 * tables.N}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == 2 * tables.N


def test_dropped_rows_are_counted_and_nothing_else_changes(data, tmp_path):
    X, y = data[0].copy(), data[1]
    X[[300, 301, 2000], 1] = np.nan
    reports = []
    ours = streams.fit_stream(
        learner(), streams.open([(X, y)], batch_rows=128, missing="drop"), on_report=reports.append
    )
    assert reports[-1].dropped == 3
    assert reports[-1].rows == len(X)
    assert ours.n_rows_seen_ == len(X) - 3
    with pytest.raises(ValueError, match="no row of the stream could be learned"):
        streams.fit_stream(learner(), streams.open([(X[:, :2] * np.nan, y)], missing="drop"))


def test_an_error_of_the_learner_names_the_place_and_keeps_what_was_learned(data):
    X, y = data[0].copy(), data[1]
    X[1000] *= 1e30
    model = learner()
    with pytest.raises(ValueError, match=r"the stream, data row 1,001: RobustLODML: it holds a value"):
        streams.fit_stream(model, streams.open([(X, y)], batch_rows=128))
    assert model.n_rows_seen_ == 896


def test_memory_does_not_grow_with_the_stream(data):
    X, y = data

    def peak(times):
        stream = streams.open(lambda: ((X, y) for _ in range(times)), batch_rows=256)
        tracemalloc.start()
        streams.fit_stream(learner(), stream)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    X = np.tile(X, 16)  # many features, so that the interpreter's bounded lists of free tuples weigh little
    streams.fit_stream(learner(), streams.open([(X, y)], batch_rows=256))  # to trace what compiles would take long
    peak(1)
    assert peak(10) < 1.2 * peak(2)


def test_counters_go_beyond_32_bits_and_change_nothing(data):
    """A learner that has seen 2**40 rows learns what a young one does."""
    X, y = data
    source = nearkin.OCTG(update_centers=True, metric="learned")
    young, old = (learner(triplets=source).partial_fit(X[:200], y[:200]) for _ in range(2))
    far = 2**40  # a whole number of looks at the centres
    old.state_.n_rows += far
    old.state_.n_triplets += far
    old.state_.n_updates += far
    old.state_.source.n_rows_seen_ += far
    for model in (young, old):
        model.partial_fit(X[200:1000], y[200:1000])
    np.testing.assert_array_equal(young.components_, old.components_)
    assert old.n_rows_seen_ - young.n_rows_seen_ == far
    assert old.n_triplets_seen_ - young.n_triplets_seen_ == far
    assert old.triplet_source_.n_rows_seen_ == 1000 + far


# ---------------------------------------------------------------- checkpoints


def test_a_finished_run_is_not_run_again(folder, tmp_path):
    done = streams.fit_stream(learner(), opened(folder), checkpoint=tmp_path / "ck")
    reports = []
    again = streams.fit_stream(
        learner(), opened(folder), checkpoint=tmp_path / "ck", resume=True, on_report=reports.append
    )
    assert same(again, done)
    assert reports == []


def interrupted(folder, path, batches, **more):
    """A run that stops with an error after some batches."""

    def stop(report):
        if report.batch == batches:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        streams.fit_stream(learner(), opened(folder, **more), checkpoint=path, on_report=stop)


def test_an_interrupt_writes_a_checkpoint_and_the_run_goes_on_from_it(folder, tmp_path):
    for shuffle in (False, True):
        path = tmp_path / f"ck{shuffle}"
        interrupted(folder, path, 7, shuffle=shuffle)
        reports = []
        resumed = streams.fit_stream(
            learner(), opened(folder, shuffle=shuffle), checkpoint=path, resume=True, on_report=reports.append
        )
        assert reports[0].batch == 8
        assert same(resumed, streams.fit_stream(learner(), opened(folder, shuffle=shuffle)))


def test_an_existing_checkpoint_is_neither_overwritten_nor_used_for_another_run(folder, tmp_path):
    path = tmp_path / "ck"
    interrupted(folder, path, 3)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="exists already: resume from it"):
        streams.fit_stream(learner(), opened(folder), checkpoint=path)
    for model, stream, epochs, what in (
        (nearkin.RobustLODML(n_components=2, random_state=0), opened(folder), 1, "learner"),
        (learner(), opened(folder, batch_rows=64), 1, "batch_rows"),
        (learner(), opened(folder, features=["f1", "f2"]), 1, "features"),
        (learner(), opened(folder, shuffle=True), 1, "shuffle was False and is .seed 0."),
        (learner(), opened(folder), 2, "epochs"),
    ):
        with pytest.raises(ValueError, match=f"belongs to another run: .*{what}"):
            streams.fit_stream(model, stream, epochs=epochs, checkpoint=path, resume=True)
        assert not model.__sklearn_is_fitted__()
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "gone"])
def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(damage, folder, tmp_path):
    path = tmp_path / "ck"

    def stop(report):
        if report.batch == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        streams.fit_stream(learner(), opened(folder), checkpoint=path, checkpoint_every=0, on_report=stop)
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        with zipfile.ZipFile(path) as archive:  # inside the largest array, which the archive's checksum covers
            largest = max(archive.infolist(), key=lambda one: one.file_size)
        middle = largest.header_offset + largest.file_size // 2 + 100
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        path.write_bytes({"cut": whole[:middle], "flipped": flipped, "empty": b""}[damage])
    reports = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resumed = streams.fit_stream(
            learner(), opened(folder), checkpoint=path, resume=True, checkpoint_every=0, on_report=reports.append
        )
    assert any("damaged or not a checkpoint" in str(one.message) for one in caught) == (damage != "gone")
    assert reports[0].batch == 6  # the newest was written after six batches, the one before after five
    assert same(resumed, streams.fit_stream(learner(), opened(folder)))
    assert Checkpoint(path).read()["done"]


@pytest.mark.parametrize("kind", ["text", "model"])
def test_a_foreign_file_in_the_place_of_a_checkpoint_is_kept(folder, tmp_path, kind):
    path = tmp_path / "ck"
    streams.fit_stream(learner(), opened(folder), checkpoint=path, checkpoint_every=0)
    assert (tmp_path / "ck.previous").exists()
    path.unlink()
    if kind == "text":
        path.write_text("a diary")
    else:
        nearkin.save(learner(), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is not a nearkin checkpoint"):
        streams.fit_stream(learner(), opened(folder), checkpoint=path, resume=True)
    assert path.read_bytes() == before


def test_without_any_whole_checkpoint_there_is_nothing_to_go_on_from(folder, tmp_path):
    path = tmp_path / "ck"
    path.write_bytes(b"PK\x03\x04torn")
    with pytest.raises(ValueError, match="is not a nearkin checkpoint"):
        streams.fit_stream(learner(), opened(folder), checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="must be named"):
        streams.fit_stream(learner(), opened(folder), resume=True)
    fresh = streams.fit_stream(learner(), opened(folder), checkpoint=tmp_path / "new", resume=True)
    assert fresh.n_rows_seen_ == tables.N


def test_a_checkpoint_is_not_a_model(folder, tmp_path):
    streams.fit_stream(learner(), opened(folder), checkpoint=tmp_path / "ck")
    with pytest.raises(ValueError, match="nearkin-checkpoint found"):
        nearkin.load(tmp_path / "ck")


# ---------------------------------------------------------------- real kills of real processes

#: Warms up once and forks: each child learns until it is killed, the last one until the end.
KILLS = """
import os, signal, sys, time
import numpy as np
import pandas as pd
import pyarrow.parquet
import nearkin
from nearkin import streams
folder, there, kills = sys.argv[1:4]
rng = np.random.default_rng()

def learn(where, tell):
    model = nearkin.RobustLODML(n_components=3, triplets=nearkin.OCTG(update_centers=True), random_state=0)
    stream = streams.open(folder, label="y", batch_rows=32, shuffle=True, seed=5)
    streams.fit_stream(model, stream, epochs=2, checkpoint=where + "/ck", checkpoint_every=0, resume=True,
                       log=where + "/log", log_every=10, on_report=tell)
    nearkin.save(model, where + "/model")

X, y = rng.normal(size=(64, 6)).astype(np.float32), np.arange(64) % 2
model = nearkin.RobustLODML(n_components=3, triplets=nearkin.OCTG(update_centers=True))
streams.fit_stream(model, streams.open([(X, y)], batch_rows=16))
killed = 0
for chance in range(int(kills) + 1):
    last = chance == int(kills)
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        learn(there, lambda report: os.write(theirs, b"."))
        os._exit(0)
    os.close(theirs)
    os.read(ours, 1)  # it learns
    if not last:
        time.sleep(rng.uniform(0.0, 0.12))
        os.kill(child, signal.SIGKILL)
    while os.read(ours, 4096):
        pass
    os.close(ours)
    status = os.waitpid(child, 0)[1]
    killed += os.WIFSIGNALED(status)
    assert os.WIFSIGNALED(status) or status == 0
print(killed)
"""


@pytest.mark.slow
def test_a_process_killed_again_and_again_ends_with_the_same_file(folder, tmp_path):
    """SIGKILL at moments that no one chooses, also in the middle of writing; then to the end."""
    for name, kills in (("clean", 0), ("killed", 8)):
        (tmp_path / name).mkdir()
        process = tables.python(KILLS, folder, tmp_path / name, kills, stdout=-1)
        out = process.communicate(timeout=120)[0]
        assert process.returncode == 0
        assert int(out) >= min(kills, 3)
    clean, killed = tmp_path / "clean", tmp_path / "killed"
    assert (killed / "model").read_bytes() == (clean / "model").read_bytes()
    logs = [[json.loads(line) for line in (one / "log").read_text().splitlines()] for one in (clean, killed)]
    for one in (*logs[0], *logs[1]):
        for name in ("rows_per_second", "seconds_left", "seconds", "time"):
            del one[name]
    assert logs[0] == logs[1]
    assert {one.name for one in killed.iterdir()} <= {"ck", "ck.previous", "log", "model"}


FULL = """
import resource, sys
import nearkin
from nearkin import streams
folder, checkpoint, limit = sys.argv[1:4]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
model = nearkin.RobustLODML(n_components=3, random_state=0)
stream = streams.open(folder, label="y", batch_rows=128)
try:
    streams.fit_stream(model, stream, checkpoint=checkpoint, checkpoint_every=0, resume=True)
except OSError as error:
    print(error.errno, error.strerror, error.filename)
    sys.exit(7)
"""


@pytest.mark.slow
def test_a_disk_that_takes_no_more_leaves_the_last_checkpoint(folder, tmp_path):
    """A limit on the size of files tears the write in the middle, as a full disk does."""
    interrupted(folder, tmp_path / "ck", 4)
    before = (tmp_path / "ck").read_bytes()
    process = tables.python(FULL, folder, tmp_path / "ck", len(before) // 2, stdout=-1)
    out = process.communicate(timeout=120)[0]
    assert process.returncode == 7
    assert out.startswith(f"{errno.EFBIG} the checkpoint cannot be written: ")
    assert out.strip().endswith(str(tmp_path / "ck"))
    assert (tmp_path / "ck").read_bytes() == before
    assert tables.python(FULL, folder, tmp_path / "ck", 0).wait(timeout=120) == 0
    kept = Checkpoint(tmp_path / "ck").read()
    assert same(kept["learner"], streams.fit_stream(learner(), opened(folder)))


# ---------------------------------------------------------------- memory


def test_the_estimate_names_what_needs_memory(folder):
    few = streams.memory_estimate(learner(), opened(folder))
    many = streams.memory_estimate(learner(), opened(folder, batch_rows=10 * opened(folder).batch_rows))
    assert many.batch == 10 * few.batch
    assert few.total == few.libraries + few.reader + few.batch + few.model
    assert few.reader > 500 * tables.D * 4
    printed = streams.memory_estimate(learner(init="auto"), opened(folder))
    assert printed.batch < few.batch
    assert few.model - printed.model > 3 * 1024 * tables.D * 8  # the sample of the start and its map


@pytest.mark.parametrize(("d", "r", "n_classes"), [(6, 6, 4), (600, 16, 4), (40, 8, 200)])
def test_the_estimate_counts_what_a_start_holds(d, r, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(6000) % n_classes
    X = rng.normal(size=(6000, d)).astype(np.float32)
    start = nearkin.RobustLODML(n_components=r, n_epochs=1, random_state=0).partial_fit(X, y).state_.start
    held = [one for part in (start, start.sample, start.witnesses) for one in vars(part).values()]
    size = sum(one.nbytes for one in held if isinstance(one, np.ndarray))
    assert 0.5 < size / start.n_bytes(d, r, n_classes, 4) < 1.1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_estimate_of_a_few_wide_rows_is_that_of_these_rows(tmp_path, ending):
    n, d = 20, 5_000
    table = pd.DataFrame(np.zeros((n, d)), columns=[f"f{i}" for i in range(d)]).assign(y=["a", "b"] * (n // 2))
    getattr(table, f"to_{ending}")(tmp_path / f"t.{ending}", index=False)
    found = streams.memory_estimate(learner(), streams.open(tmp_path / f"t.{ending}", label="y"))
    assert found.batch < 10 * n * (d + n) * 8
    assert found.reader > 5_000 * d  # every column has its price
