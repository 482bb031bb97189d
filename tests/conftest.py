"""Where compiled code is kept, how properties are searched, and the data that several tests share."""

import hashlib
import os
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _hash_of_sources() -> str:
    """Numba does not notice a change in a function that was inlined from another file, so each state of the compiled
    sources gets its own cache.
    """
    digest = hashlib.sha256(version("numba").encode())  # whose releases do not read each other's files
    home = ROOT / "src" / "nearkin"
    for path in sorted([*(home / "kernels").rglob("*.py"), *home.glob("*.py")]):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


os.environ["NUMBA_CACHE_DIR"] = str(ROOT / ".numba_cache" / _hash_of_sources())
for _library in ("OPENBLAS", "OMP", "MKL"):  # workers that share the cores would wait for each other's threads
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "nearkin",
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("nearkin")


def pytest_addoption(parser):
    parser.addoption("--case", default="", help="of the tests over many cases, run those with this text in their name")


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers(config):
    """One more than there are cores: often one waits, for a process that it started or a loop that another compiles."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config):
    """Let one worker compile a loop while the others wait for its file: they need the same loops at the same time."""
    if "PYTEST_XDIST_WORKER" not in os.environ or os.name != "posix":
        return
    import fcntl

    from numba.core.caching import NullCache
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compile_loop = Dispatcher.compile
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)

    def compile_once(self, signature):
        if isinstance(self._cache, NullCache):
            return compile_loop(self, signature)
        name = f"{self.py_func.__module__}.{self.py_func.__name__}.lock"
        with global_compiler_lock, (folder / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return compile_loop(self, signature)

    Dispatcher.compile = compile_once


@pytest.fixture(scope="session")
def global_seed() -> int:
    """Tests hold for any seed; ``NEARKIN_SEED=7 pytest`` tries another one."""
    return int(os.environ.get("NEARKIN_SEED", "0"))


@pytest.fixture
def rng(global_seed):
    return np.random.default_rng(global_seed)


@pytest.fixture
def blobs(rng):
    """Maker of labelled rows: one Gaussian cloud per class, rows in random order, every class at least twice."""

    def make(n=60, d=5, n_classes=3, spread=0.6, distance=1.0):
        centers = distance * rng.normal(size=(n_classes, d))
        y = rng.permutation(np.arange(n) % n_classes)
        return centers[y] + spread * rng.normal(size=(n, d)), y

    return make


@pytest.fixture
def random_triplets(rng):
    """Maker of explicit triplets: three arrays of shape (n, d)."""

    def make(n, d, scale=1.0):
        return tuple(scale * rng.normal(size=(3, n, d)))

    return make


def _fail_if_skipped(report):
    """With NEARKIN_NO_SKIPS a skipped test fails: every optional part is installed, so every test can run."""
    if report.skipped and os.environ.get("NEARKIN_NO_SKIPS"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _fail_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _fail_if_skipped((yield))
