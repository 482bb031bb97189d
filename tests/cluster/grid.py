"""A Dask cluster of real processes on the loopback interface, with faults that can be ordered."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCES = str(Path(__file__).resolve().parents[2] / "src")

#: Runs in every worker before it takes tasks. Learning is slowed down so that there is a middle of a round; a file in
#: the folder of orders makes the worker that finds it first die or stop for good; rows of one file kill whoever reads
#: them, and while an order says so, row 1,500 kills whoever judges it.
PRELOAD = """
import os, signal, time
from nearkin.distributed import tasks
from nearkin.streams.watch import learn_batch as learn

ORDERS = os.environ["NEARKIN_TEST_ORDERS"]
if "NEARKIN_TEST_VERSION" in os.environ:
    import nearkin
    nearkin.__version__ = os.environ["NEARKIN_TEST_VERSION"]

def carry_out(order, number):
    try:
        os.rename(f"{ORDERS}/{order}", f"{ORDERS}/{order}.done")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), number)

def slow(model, batch, classes, *, test):
    open(f"{ORDERS}/busy", "a").close()
    time.sleep(0.02)
    if "poison" in batch.first.source:
        os.kill(os.getpid(), signal.SIGKILL)
    carry_out("die", signal.SIGKILL)
    carry_out("stop", signal.SIGSTOP)
    return learn(model, batch, classes, test=test)

tasks.learn_batch = slow

from nearkin.distributed import audit_tasks
judge = vars(audit_tasks).setdefault("judge_at_once", audit_tasks.Judge.judge)  # Dask may run this file twice

def slow_judge(self, X, codes, numbers):
    open(f"{ORDERS}/busy", "a").close()
    time.sleep(0.02)
    if os.path.exists(f"{ORDERS}/poison") and 1500 in numbers:
        os.kill(os.getpid(), signal.SIGKILL)
    carry_out("die", signal.SIGKILL)
    carry_out("stop", signal.SIGSTOP)
    return judge(self, X, codes, numbers)

audit_tasks.Judge.judge = slow_judge
"""


class Grid:
    """A scheduler and hosts, each host a process group of a nanny and its workers."""

    def __init__(self, folder):
        self.folder = folder
        self.orders = folder / "orders"
        self.orders.mkdir(parents=True)
        (folder / "preload.py").write_text(PRELOAD)
        self.hosts = []
        self.scheduler = None

    def start_scheduler(self, port=0):
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self._run(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            port,
            "--dashboard-address",
            "127.0.0.1:0",
            "--scheduler-file",
            file,
            "--idle-timeout",
            "300s",
        )
        end = time.monotonic() + 60
        while True:
            try:
                self.address = json.loads(file.read_text())["address"]
                return
            except (FileNotFoundError, ValueError):
                assert time.monotonic() < end
                time.sleep(0.05)

    def add_host(self, n_workers, **settings):
        self.hosts.append(
            self._run(
                "worker", self.address, "--host", "127.0.0.1", "--nworkers", n_workers, "--nthreads", 1,
                "--no-dashboard", "--death-timeout", 60, "--preload", self.folder / "preload.py",
                "--local-directory", self.folder, **settings,
            )
        )  # fmt: skip

    def order(self, what):
        (self.orders / what).touch()

    def wait_until_busy(self):
        (self.orders / "busy").unlink(missing_ok=True)
        end = time.monotonic() + 60
        while not (self.orders / "busy").exists():
            assert time.monotonic() < end
            time.sleep(0.01)

    def kill(self, process):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)

    def close(self):
        for one in (*self.hosts, self.scheduler):
            if one is not None and one.poll() is None:
                self.kill(one)

    def _run(self, *arguments, **more):
        settings = {
            **more,
            "PYTHONPATH": SOURCES,
            "NEARKIN_TEST_ORDERS": str(self.orders),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
            "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False",
        }
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *map(str, arguments)],
            env={**os.environ, **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    one = Grid(tmp_path_factory.mktemp("grid"))
    one.start_scheduler()
    one.add_host(2)
    one.add_host(1)
    yield one
    one.close()
