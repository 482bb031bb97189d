"""Learning on a cluster of real processes: the same bits whatever happens to them, or a clear error; nothing hangs."""

import copy
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="clusters need the extra dask")
pytestmark = pytest.mark.slow  # processes of a real cluster
import nearkin  # noqa: E402
import nearkin.distributed  # noqa: E402
from cluster.grid import Grid, grid  # noqa: E402, F401  # a fixture
from nearkin import streams  # noqa: E402
from nearkin.distributed.cluster import Cluster, ClusterLost, Task  # noqa: E402
from nearkin.distributed.driver import count_batches, form_shares  # noqa: E402
from nearkin.distributed.tasks import learn_share, pack, unpack  # noqa: E402
from nearkin.learners import merge_states  # noqa: E402
from nearkin.streams import FileStream  # noqa: E402
from streams import tables  # noqa: E402

HOW = {"n_shards": 3, "merge_every": 128, "timeout": 60.0}


def learner(**more):
    return nearkin.RobustLODML(n_components=3, triplets=nearkin.OCTG(update_centers=True), random_state=0, **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tables.write(tmp_path_factory.mktemp("rows") / "data", "parquet", *tables.rows())["source"]


def opened(folder, **more):
    return streams.open(folder, label="y", **{"batch_rows": 64, **more})


def in_shares(model, stream, n_shards, n_batches, epochs=1):
    """The same without any cluster: tasks called one after the other."""
    for epoch in range(epochs):
        at = 0
        if not model.__sklearn_is_fitted__():
            first = stream.batch(stream.pieces(0, 0))
            model.partial_fit(first.X, first.y)
            at = 1
        while at < stream.n_batches:
            shares = form_shares(stream, epoch, at, n_shards, n_batches)
            at += sum(map(len, shares))
            results = [
                learn_share(pack(model), stream.describe(one), i, len(shares), test=False)
                for i, one in enumerate(shares)
            ]
            states = [unpack(one["learner"]).state_ for one in results]
            model.state_ = merge_states(model.state_, states)
    return model


@pytest.fixture(scope="module")
def undisturbed(folder):
    return in_shares(learner(), opened(folder), 3, 2)


def same(one, other):
    return pack(one.state_) == pack(other.state_)


@pytest.fixture(scope="module")
def client(grid, undisturbed):  # noqa: F811  # what is compiled for the latter is there for the workers
    with nearkin.distributed.connect(grid.address) as connected:
        connected.wait_for_workers(3, timeout=90)
        yield connected


# ---------------------------------------------------------------- what is learned


def test_a_cluster_learns_what_the_shares_learn_one_after_the_other(client, folder, undisturbed):
    reports = []
    ours = nearkin.distributed.fit(learner(), opened(folder), client=client, on_report=reports.append, **HOW)
    assert same(ours, undisturbed)
    assert ours.n_rows_seen_ == tables.N
    assert [one.batch for one in reports] == list(range(1, 39))
    assert reports[-1].accuracy > 0.7
    assert ours.plausibility(*tables.rows()).shape == (tables.N,)
    nearkin.RobustKNeighborsClassifier(ours).fit(*tables.rows(300))


def test_a_pass_is_merged_four_times_unless_shares_become_small(folder):
    stream = opened(folder, batch_rows=4)
    assert count_batches(stream, 2, None) == -(-stream.n_batches // 8) > 8
    assert count_batches(stream, 1000, None) == 8
    assert count_batches(stream, 2, 10) == 3


def test_one_shard_is_the_run_of_one_process(client, folder):
    for shuffle in (False, True):
        stream = opened(folder, shuffle=shuffle)
        ours = nearkin.distributed.fit(learner(), stream, client=client, n_shards=1, merge_every=256, epochs=2)
        theirs = streams.fit_stream(learner(), stream, epochs=2)
        assert same(ours, theirs)
        np.testing.assert_array_equal(ours.plausibility_, theirs.plausibility_)


def test_columns_of_a_cluster_go_by_name(client, folder, undisturbed, tmp_path):
    from pyarrow import parquet

    (tmp_path / "turned").mkdir()
    for one in sorted(Path(folder).iterdir()):
        table = parquet.read_table(one)
        parquet.write_table(table.select(table.column_names[::-1]), tmp_path / "turned" / one.name, row_group_size=500)
    model = streams.fit_stream(learner(), opened(folder))
    plain, turned = (
        nearkin.distributed.fit(copy.deepcopy(model), opened(one), client=client, **HOW)
        for one in (folder, tmp_path / "turned")
    )
    assert same(plain, turned)
    there, here = (
        parquet.read_table(score(model, opened(tmp_path / "turned"), tmp_path / name, **more)[0])
        for name, score, more in (
            ("there", nearkin.distributed.score, {"client": client}),
            ("here", streams.score_stream, {}),
        )
        if not (tmp_path / name).mkdir()
    )
    assert there.equals(here)


@pytest.mark.parametrize("kind", ["csv", "npy", "vectors"])
def test_every_kind_of_file_can_be_read_by_workers(kind, folder, tmp_path):
    given = tables.write(tmp_path / "data", kind, *tables.rows())
    stream = streams.open(given["source"], label=given["label"], batch_rows=200)
    batches = [stream.pieces(0, one) for one in (2, 7)]
    again, pieces = FileStream.from_description(stream.describe(batches))
    assert len(again.units) <= len(stream.units)
    for one, other in zip(batches, pieces, strict=True):
        np.testing.assert_array_equal(stream.batch(one).X, again.batch(other).X)


def test_all_rows_are_scored_on_the_cluster_as_in_one_process(client, folder, undisturbed, tmp_path):
    stream = opened(folder)
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    here = streams.score_stream(undisturbed, stream, tmp_path / "one")
    there = nearkin.distributed.score(undisturbed, stream, tmp_path / "many", client=client)
    for one, other in zip(here, there, strict=True):
        assert one.read_bytes() == other.read_bytes()


# ---------------------------------------------------------------- faults


def test_a_worker_killed_in_the_middle_of_a_round(client, grid, folder, undisturbed):  # noqa: F811
    grid.order("die")
    ours = nearkin.distributed.fit(learner(), opened(folder), client=client, **HOW)
    assert (grid.orders / "die.done").exists()
    assert same(ours, undisturbed)


def test_a_worker_that_hangs_is_not_waited_for(client, grid, folder, undisturbed):  # noqa: F811
    client.wait_for_workers(3, timeout=60)
    grid.order("stop")
    begun = time.monotonic()
    ours = nearkin.distributed.fit(learner(), opened(folder), client=client, **{**HOW, "timeout": 4.0})
    assert (grid.orders / "stop.done").exists()
    assert same(ours, undisturbed)
    assert time.monotonic() - begun < 60


def test_tasks_that_wait_for_their_turn_do_not_hang(client):
    client.wait_for_workers(3, timeout=60)

    def work(number):
        time.sleep(1.0)
        return {"number": number}

    cluster = Cluster(client, timeout=2.5)
    found = cluster.run([Task(work, (number,), f"task {number}") for number in range(12)])
    assert [one["number"] for one in found] == list(range(12))
    assert len(cluster.workers()) == 3  # none was taken for hanging


def test_all_workers_of_a_host_lost_at_once(client, grid, folder, undisturbed):  # noqa: F811
    client.wait_for_workers(3, timeout=60)
    found = []
    thread = threading.Thread(
        target=lambda: found.append(nearkin.distributed.fit(learner(), opened(folder), client=client, **HOW))
    )
    thread.start()
    grid.wait_until_busy()
    grid.kill(grid.hosts[0])  # the nanny too: nobody restarts them
    thread.join(timeout=120)
    assert same(found[0], undisturbed)
    assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1


def test_rows_that_kill_every_worker_are_named(client, folder, tmp_path):
    X, y = tables.rows()
    tables.write(tmp_path / "data", "parquet", X, y)
    (tmp_path / "data" / "1.parquet").rename(tmp_path / "data" / "poison.parquet")
    model = learner()
    with pytest.raises(ClusterLost, match=r"poison.parquet, .*: every worker that began this has died \(6 of them\)"):
        nearkin.distributed.fit(model, opened(tmp_path / "data"), client=client, **HOW)
    assert model.n_rows_seen_ >= 64


def test_a_damaged_row_group_is_named_and_what_came_before_is_kept(client, folder, tmp_path):
    from pyarrow import parquet

    tables.write(tmp_path / "data", "parquet", *tables.rows())
    path = tmp_path / "data" / "1.parquet"
    stream = opened(tmp_path / "data")
    whole = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    at = column.dictionary_page_offset or column.data_page_offset
    whole[at : at + 200] = b"\xff" * 200
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"1.parquet, row group 1 cannot be read"):
        nearkin.distributed.fit(learner(), stream, client=client, checkpoint=tmp_path / "ck", **HOW)
    from nearkin.streams.checkpoint import Checkpoint

    assert Checkpoint(tmp_path / "ck").read()["learner"].n_rows_seen_ == 64 + 4 * 3 * 128


def test_other_files_are_refused(client, tmp_path):
    tables.write(tmp_path / "data", "parquet", *tables.rows())
    how = {"client": client, "checkpoint": tmp_path / "ck", "resume": True, **HOW}
    assert nearkin.distributed.fit(learner(), opened(tmp_path / "data"), **how).n_rows_seen_ == tables.N
    tables.write(tmp_path / "data", "parquet", *tables.rows(seed=1))
    with pytest.raises(ValueError, match=r"belongs to another run: 0\.parquet had"):
        nearkin.distributed.fit(learner(), opened(tmp_path / "data"), **how)


def test_a_driver_killed_and_resumed(client, grid, folder, undisturbed, tmp_path):  # noqa: F811
    code = """
import sys
import nearkin, nearkin.distributed
from nearkin import streams
address, folder, checkpoint = sys.argv[1:4]
model = nearkin.RobustLODML(n_components=3, triplets=nearkin.OCTG(update_centers=True), random_state=0)
stream = streams.open(folder, label="y", batch_rows=64)
nearkin.distributed.fit(model, stream, client=address, n_shards=3, merge_every=128, checkpoint=checkpoint,
                        checkpoint_every=0, on_report=lambda report: print(report.batch, flush=True))
"""
    process = tables.python(code, grid.address, folder, tmp_path / "ck", stdout=-1)
    while int(process.stdout.readline()) < 14:
        pass
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    process.wait(timeout=30)
    reports = []
    ours = nearkin.distributed.fit(
        learner(), opened(folder), client=client, checkpoint=tmp_path / "ck", resume=True, on_report=reports.append,
        merge_every=128,
    )  # fmt: skip
    assert reports[0].batch > 1
    assert same(ours, undisturbed)
    with pytest.raises(ValueError, match="belongs to another run: shards"):
        nearkin.distributed.fit(
            learner(), opened(folder), client=client, checkpoint=tmp_path / "ck", resume=True, **{**HOW, "n_shards": 2}
        )


def lose_scheduler(own, folder, seconds, **more):
    """Learn on a cluster, kill its scheduler after some seconds of work; return the error, and when it came."""
    failed = []

    def drive():
        try:
            nearkin.distributed.fit(learner(), opened(folder), client=own.address, **{**HOW, **more})
        except BaseException as error:
            failed.append((error, time.monotonic()))

    thread = threading.Thread(target=drive)
    thread.start()
    own.wait_until_busy()
    time.sleep(seconds)
    own.kill(own.scheduler)
    begun = time.monotonic()
    thread.join(timeout=100)
    assert not thread.is_alive()
    return failed[0][0], failed[0][1] - begun


@pytest.mark.parametrize("where", ["banana", "tcp://banana", "ten:port", "a b:1", "tcp://:"])
def test_what_is_not_an_address_is_refused_at_once(where):
    with pytest.raises(nearkin.errors.InputError, match="HOST:PORT"), nearkin.distributed.connect(where):
        pass


def test_a_scheduler_killed_and_started_again(folder, undisturbed, tmp_path):
    """Also a cluster without workers, and an address where nobody listens."""
    own = Grid(tmp_path / "grid")
    try:
        own.start_scheduler()
        with pytest.raises(ClusterLost, match=r"no worker, and none has come within 0\.5 s"):
            nearkin.distributed.fit(learner(), opened(folder), client=own.address, timeout=0.5)
        own.add_host(1)
        error, waited = lose_scheduler(own, folder, 0.0, checkpoint=tmp_path / "ck")
        assert isinstance(error, ConnectionError)
        assert "scheduler" in str(error)
        assert "resume" in str(error)
        assert waited < 20  # the documented 15, and a busy machine
        own.kill(own.hosts[0])
        own.start_scheduler()
        own.add_host(1)
        ours = nearkin.distributed.fit(
            learner(), opened(folder), client=own.address, checkpoint=tmp_path / "ck", resume=True, **HOW
        )
        assert same(ours, undisturbed)
        assert same(in_shares(learner(), opened(folder), 3, 2), undisturbed)
        error, waited = lose_scheduler(own, folder, 0.7, epochs=50)
        assert isinstance(error, ConnectionError)
        assert waited < 20
    finally:
        own.close()
    with (
        pytest.raises(ConnectionError, match="no Dask scheduler answers"),
        nearkin.distributed.connect(own.address, timeout=0.5),
    ):
        pass


def test_a_worker_of_another_version_is_refused_by_name_at_the_start_and_when_it_joins(folder, tmp_path):
    own = Grid(tmp_path / "grid")
    found = r"the worker tcp://127\.0\.0\.1:\d+ has python 3\.\d+, numpy \d\.\d+, nearkin 0\.0\.7, this process python"
    try:
        own.start_scheduler()
        own.add_host(1)

        def join(report):
            if report.batch == 5:
                own.add_host(1, NEARKIN_TEST_VERSION="0.0.7")

        with nearkin.distributed.connect(own.address) as client:
            model = learner()
            with pytest.raises(ValueError, match=found):
                nearkin.distributed.fit(model, opened(folder), client=client, epochs=500, on_report=join, **HOW)
            assert model.n_rows_seen_ > 64
            model = learner()
            with pytest.raises(ValueError, match=found):
                nearkin.distributed.fit(model, opened(folder), client=client, **HOW)
            assert not model.__sklearn_is_fitted__()
            with pytest.raises(ValueError, match=found):
                nearkin.distributed.score(learner().fit(*tables.rows(300)), opened(folder), tmp_path, client=client)
    finally:
        own.close()


# ---------------------------------------------------------------- bad input


def test_bad_input_is_refused_before_anything_is_learned(client, folder, tmp_path):
    for call, error, message in (
        (lambda m: nearkin.distributed.fit(m, streams.open([(np.eye(2), [0, 1])]), client=client), TypeError, "files"),
        (lambda m: nearkin.distributed.fit(m, opened(folder), client=client, n_shards=0), ValueError, "`n_shards`"),
        (lambda m: nearkin.distributed.fit(m, opened(folder), client=client, timeout=0), ValueError, "`timeout`"),
        (lambda m: nearkin.distributed.fit(m, opened(folder), client=7), TypeError, "local:N"),
        (lambda m: nearkin.distributed.fit(m, opened(folder), client="local"), ValueError, "local:N"),
        (
            lambda m: nearkin.distributed.fit(m, opened(folder), client="local:99999"),
            ValueError,
            "at most .* processes",
        ),
        (lambda m: nearkin.distributed.fit(m, opened(folder), n_shards=10**9), ValueError, "`n_shards` must be"),
    ):
        model = learner()
        with pytest.raises(error, match=message):
            call(model)
        assert not model.__sklearn_is_fitted__()
    with pytest.raises(ValueError, match="OKS: learning in shards"):
        nearkin.distributed.fit(nearkin.OKS(random_state=0), opened(folder), client=client, **HOW)
    with (
        pytest.raises(FileNotFoundError),
        nearkin.distributed.connect("tls://127.0.0.1:1", tls=[tmp_path / "a", tmp_path / "b", tmp_path / "c"]),
    ):
        pass


def test_an_encrypted_connection_passes_through(folder, tmp_path):
    """Certificates of a moment; a client without them is not answered."""
    pytest.importorskip("cryptography", reason="it makes the certificates of this test")
    made = distributed.Security.temporary()
    files = [tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem")]
    for path, text in zip(files, (made.tls_ca_file, made.tls_client_cert, made.tls_client_key), strict=True):
        path.write_text(text)
    with nearkin.distributed.connect("local:1", tls=files) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1")
        stream = opened(folder)
        ours = nearkin.distributed.fit(learner(), stream, client=client, n_shards=1, merge_every=512)
        assert same(ours, streams.fit_stream(learner(), stream))
        with pytest.raises(ConnectionError), nearkin.distributed.connect(address, timeout=2):
            pass
