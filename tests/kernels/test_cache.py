"""Compiled loops on disk: whatever happens to a file, a fit ends well, and nothing foreign is ever run."""

import errno
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nearkin
from nearkin.kernels.machine import cache
from nearkin.kernels.machine.compile import kernel

FIT = """
import numpy as np, nearkin
model = nearkin.RobustOASIS(scale=None).fit_triplets(*np.random.default_rng(0).normal(size=(3, 5, 3)))
print(model.n_updates_)
"""


def add_one(x):
    return x + 1.0


def add_two(x):
    return x + 2.0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cache._say_once.cache_clear()
    monkeypatch.setattr(cache, "own_folder", lambda: tmp_path)
    return tmp_path


def was_loaded(function=add_one, expected=2.0):
    """Call the loop as a new process would; whether its code came from disk."""
    loop = kernel(function)
    assert loop(1.0) == expected
    return bool(loop.stats.cache_hits)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def as_folder(path):
    path.unlink()
    path.mkdir()


def in_its_place(path):
    """The whole file of another loop under this name."""
    was_loaded(add_two, 3.0)
    (other,) = path.parent.glob("*add_two*")
    shutil.copy(other, path)


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "short": lambda path: path.write_bytes(b"torn"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped": flip,
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "text": lambda path: path.write_text("not code at all\n" * 500),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_compiled_anew_and_replaced(damage, folder):
    assert not was_loaded()
    assert was_loaded()
    (path,) = folder.glob("*.nbc")
    DAMAGES[damage](path)
    assert not was_loaded()
    assert was_loaded()


def test_code_for_something_else_is_not_run(folder):
    was_loaded()
    (path,) = folder.glob("*add_one*")
    in_its_place(path)
    assert not was_loaded()


class Bomb:
    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_foreign_pickle_is_never_read(folder):
    was_loaded()
    (path,) = folder.glob("*.nbc")
    Bomb.path = str(folder / "ran")
    path.write_bytes(pickle.dumps(Bomb()) + bytes(32))
    assert not was_loaded()
    assert not Path(Bomb.path).exists()


def test_a_folder_in_the_place_of_a_file_costs_time_only(folder, caplog):
    was_loaded()
    (path,) = folder.glob("*.nbc")
    as_folder(path)
    assert not was_loaded()
    assert not was_loaded()
    assert "compiled loops cannot be kept in" in caplog.text


def test_a_full_disk_is_told_once_and_stops_nothing(folder, monkeypatch, caplog):
    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache, "replacing", full)
    for _ in range(2):
        assert not was_loaded()
    assert caplog.text.count("No space left on device") == 1
    assert "set NUMBA_CACHE_DIR" in caplog.text


def test_a_folder_that_cannot_be_written_is_still_read(folder, monkeypatch):
    def refused(*given):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    was_loaded()
    monkeypatch.setattr(cache, "replacing", refused)
    assert was_loaded()
    assert not was_loaded(add_two, 3.0)


# ---------------------------------------------------------------- whose folder


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.numba.config, "CACHE_DIR", str(tmp_path / "given"))
    cache._say_once.cache_clear()
    cache.own_folder.cache_clear()
    yield tmp_path / "given" / (f"nearkin-{os.getuid()}" if os.name == "posix" else "nearkin")
    cache.own_folder.cache_clear()


def test_the_folder_belongs_to_the_user_alone(base):
    found = cache.own_folder()
    assert found.parent == base
    if os.name == "posix":
        assert [one.stat().st_mode & 0o777 for one in (base, found)] == [0o700, 0o700]


@pytest.mark.skipif(os.name != "posix", reason="modes of folders are those of POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(base, mode, caplog):
    base.mkdir(parents=True)
    base.chmod(mode)
    assert cache.own_folder() is None
    assert "others may write to" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="links need no rights on POSIX only")
def test_a_link_is_not_followed(base, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    base.parent.mkdir()
    base.symlink_to(tmp_path / "elsewhere")
    assert cache.own_folder() is None


def test_a_file_where_the_folder_should_be(base, caplog):
    base.parent.write_text("not a folder")
    assert cache.own_folder() is None
    assert was_loaded() is False
    assert "compiled loops cannot be kept" in caplog.text


def test_other_sources_have_another_folder(base, monkeypatch):
    before = cache._hash_of_sources()
    monkeypatch.setattr(cache.numba, "__version__", "0.0")
    assert cache._hash_of_sources() != before


# ---------------------------------------------------------------- real processes


def start(folder):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", FIT], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended_well(process):
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out.strip()) == (0, "3"), err
    return err


def fill(given):
    """Files of a fit, copied from those of this process."""
    nearkin.RobustOASIS(scale=None).fit_triplets(*np.random.default_rng(0).normal(size=(3, 5, 3)))
    target = given / cache.own_folder().parent.name / cache.own_folder().name
    target.mkdir(parents=True)
    given.chmod(0o700)
    target.parent.chmod(0o700)
    target.chmod(0o700)
    for path in cache.own_folder().glob("nearkin.kernels.full.one_by_one-*.nbc"):
        shutil.copy(path, target)
    return sorted(target.glob("*.nbc"))


def test_a_fit_survives_a_cache_of_garbled_files(tmp_path):
    files = fill(tmp_path / "cache")
    assert files
    for path in files:
        flip(path)
    damaged = [path.read_bytes() for path in files]
    ended_well(start(tmp_path / "cache"))
    assert any(path.read_bytes() != before for path, before in zip(files, damaged, strict=True))


@pytest.mark.slow
def test_processes_that_compile_at_once_leave_whole_files(tmp_path):
    for process in [start(tmp_path / "cache") for _ in range(3)]:
        ended_well(process)
    assert len([*tmp_path.rglob("*.nbc")]) == 1
    assert not [*tmp_path.rglob("*.part")]
    ended_well(start(tmp_path / "cache"))


@pytest.mark.slow
def test_a_fit_after_kills_at_any_moment(tmp_path):
    draw = random.Random(0)
    for _ in range(3):
        process = start(tmp_path / "cache")
        time.sleep(draw.uniform(0.5, 5.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    ended_well(start(tmp_path / "cache"))


@pytest.mark.slow
def test_a_place_without_a_folder_warns_and_fits(tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert "compiled loops cannot be kept" in ended_well(start(tmp_path / "cache"))
