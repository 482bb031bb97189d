"""An audit on a cluster of real processes: the same bits whatever happens to them, or a clear error."""

import threading
import time

import numpy as np
import pytest

distributed = pytest.importorskip("distributed", reason="clusters need the extra dask")
pytestmark = pytest.mark.slow  # processes of a real cluster
import nearkin.distributed  # noqa: E402
from cluster.grid import Grid, grid  # noqa: E402, F401  # a fixture
from nearkin import streams  # noqa: E402
from nearkin.distributed import auditing  # noqa: E402
from nearkin.distributed.cluster import ClusterLost  # noqa: E402
from streams import tables  # noqa: E402


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Batches of 64 rows, one to a task, and 600 references."""
    monkeypatch.setattr(auditing, "_MOST_ROWS", 64)
    monkeypatch.setattr(auditing, "_FEWEST_ROWS", 64)
    monkeypatch.setattr(auditing, "_BATCHES", 1)
    monkeypatch.setattr(auditing, "MOST_MEMBERS", 600)
    count = auditing.count_members
    monkeypatch.setattr(auditing, "count_members", lambda sizes: count(sizes, 600))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tables.write(tmp_path_factory.mktemp("rows") / "data", "parquet", *tables.rows())["source"]


@pytest.fixture(scope="module")
def client(grid):  # noqa: F811
    with nearkin.distributed.connect(grid.address) as connected:
        connected.wait_for_workers(3, timeout=90)
        yield connected


def run(folder, out, client, **more):
    """Audit; return the bytes of all files."""
    nearkin.distributed.audit(streams.open(folder, label="y"), out, client=client, **{"timeout": 60.0, **more})
    return {one.name: one.read_bytes() for one in sorted(out.iterdir())}


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    """One worker, by itself."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_MOST_ROWS", 64), ("_FEWEST_ROWS", 64), ("_BATCHES", 1), ("MOST_MEMBERS", 600)):
            patch.setattr(auditing, name, value)
        count = auditing.count_members
        patch.setattr(auditing, "count_members", lambda sizes: count(sizes, 600))
        return run(folder, tmp_path_factory.mktemp("one") / "out", "local:1")


def test_any_number_of_workers_writes_the_same_bytes(client, folder, undisturbed, tmp_path):
    assert len(undisturbed) == 39
    assert run(folder, tmp_path / "three", client) == undisturbed
    assert run(folder, tmp_path / "two", "local:2") == undisturbed


def test_a_worker_killed_in_the_middle_of_an_audit(client, grid, folder, undisturbed, tmp_path):  # noqa: F811
    client.wait_for_workers(3, timeout=60)
    grid.order("die")
    assert run(folder, tmp_path / "out", client) == undisturbed
    assert (grid.orders / "die.done").exists()


def test_a_worker_that_hangs_is_not_waited_for(client, grid, folder, undisturbed, tmp_path):  # noqa: F811
    client.wait_for_workers(3, timeout=60)
    grid.order("stop")
    begun = time.monotonic()
    assert run(folder, tmp_path / "out", client, timeout=4.0) == undisturbed
    assert (grid.orders / "stop.done").exists()
    assert time.monotonic() - begun < 60


def test_rows_that_kill_every_worker_are_named(client, grid, folder, tmp_path):  # noqa: F811
    client.wait_for_workers(3, timeout=60)
    grid.order("poison")
    try:
        with pytest.raises(ClusterLost, match=r"1.parquet, data row 273 to .*: every worker that began this has died"):
            run(folder, tmp_path / "out", client)
    finally:
        (grid.orders / "poison").unlink()
    assert not (tmp_path / "out").exists()


def test_a_damaged_row_group_is_named(client, tmp_path):
    from pyarrow import parquet

    tables.write(tmp_path / "data", "parquet", *tables.rows())
    path = tmp_path / "data" / "1.parquet"
    column = parquet.ParquetFile(path).metadata.row_group(1).column(0)
    whole, at = bytearray(path.read_bytes()), column.dictionary_page_offset or column.data_page_offset
    whole[at : at + 200] = b"\xff" * 200
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"1.parquet, row group 1 cannot be read"):
        run(tmp_path / "data", tmp_path / "out", client)


def test_a_host_lost_in_the_middle_and_workers_that_come(client, grid, folder, undisturbed, tmp_path):  # noqa: F811
    client.wait_for_workers(3, timeout=60)
    found = []
    thread = threading.Thread(target=lambda: found.append(run(folder, tmp_path / "out", client)))
    thread.start()
    grid.wait_until_busy()
    grid.kill(grid.hosts[0])  # the nanny too: nobody restarts them
    grid.add_host(1)
    thread.join(timeout=120)
    assert found[0] == undisturbed


def test_a_scheduler_that_dies_ends_the_audit(folder, tmp_path):
    own, failed = Grid(tmp_path / "grid"), []
    try:
        own.start_scheduler()
        own.add_host(1)

        def drive():
            try:
                run(folder, tmp_path / "out", own.address)
            except ConnectionError as error:
                failed.append(error)

        thread = threading.Thread(target=drive)
        thread.start()
        own.wait_until_busy()
        own.kill(own.scheduler)
        thread.join(timeout=100)
        assert "scheduler" in str(failed[0])
        assert not (tmp_path / "out").exists()
    finally:
        own.close()


def test_classes_of_one_part_only_are_known_to_all(client, tmp_path):
    X, y = tables.rows()
    y = np.sort(y)  # every part holds one or two classes
    tables.write(tmp_path / "data", "parquet", X, y)
    found = nearkin.distributed.audit(streams.open(tmp_path / "data", label="y"), tmp_path / "out", client=client)
    assert found.classes.tolist() == [0, 1, 2, 3]
