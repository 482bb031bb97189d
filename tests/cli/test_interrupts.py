"""Ctrl-C ends every command soon, with exit code 130, and leaves nothing half written."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
from sklearn.datasets import load_breast_cancer

from nearkin.progress import advance, hold_interrupts, notice_interrupts

#: Ctrl-C is pressed at the n-th call of a function; then comes the program.
PRESSED = """
import importlib, os, signal, sys
module, name, n, *args = sys.argv[1:]
owner = importlib.import_module(module)
*path, last = name.split(".")
for one in path:
    owner = getattr(owner, one)
called, calls = getattr(owner, last), 0
def pressing(*args, **options):
    global calls
    calls += 1
    if calls == int(n):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):  # so that Python looks at its signals here
            pass
    return called(*args, **options)
setattr(owner, last, pressing)
"""
COMMAND = """
from nearkin.cli import main
main(args)
"""
#: Something is compiled while a file is being written.
WRITING = """
import numba
from nearkin.progress import notice_interrupts
from nearkin.files import replacing
with notice_interrupts("nearkin: interrupted.", 130), replacing("out.csv", "csv") as file:
    file.write(b"half")
    numba.njit(lambda x: x + 1)(1)
"""
AUDIT = ("audit", "rows.csv", "--label", "target", "-q")
FIT = ("fit", "rows.csv", "--label", "target", "-o", "model.nearkin", "-q")
COMPILER = "numba.core.compiler_machinery PassManager.run"


@pytest.fixture
def folder(tmp_path):
    load_breast_cancer(as_frame=True).frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


def pressed(folder, where, n, *args, program=COMMAND, env=None):
    """Run with Ctrl-C at a call; returns exit code, stderr, and the files that are there."""
    done = subprocess.run(
        [sys.executable, "-c", PRESSED + program, *where.split(), str(n), *args],
        cwd=folder, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    return done.returncode, done.stderr, sorted(one.name for one in folder.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "n", "command"),
    [
        # What an object raises when it is thrown away is lost, and so is what the call of a weak reference raises.
        ("llvmlite.binding.ffi ObjectRef.__del__", 30, AUDIT),
        ("llvmlite.binding.ffi ObjectRef.__del__", 40, FIT),
        ("numba.core.types.abstract _on_type_disposal", 3, AUDIT),
        (COMPILER, 2, FIT),
    ],
)
def test_an_interrupt_is_not_lost_while_loops_are_compiled(folder, tmp_path_factory, where, n, command):
    nothing = {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    code, said, files = pressed(folder, where, n, *command, env=nothing)
    assert code == 130
    assert said == "\nnearkin: interrupted.\n"  # had the compiler gone on, it would have said so
    assert files == ["rows.csv"]


@pytest.mark.slow
def test_what_is_half_written_while_something_is_compiled_is_removed(folder):
    code, _, files = pressed(folder, COMPILER, 1, program=WRITING)
    assert (code, files) == (130, ["rows.csv"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("nearkin.tables read_training", []),
        ("nearkin.audit.label_audit render_page", []),
        ("nearkin.audit.page.contents as_json", []),
        ("nearkin.tables.output _cells", ["rows.html"]),  # in the middle of the table, which comes after the page
    ],
)
def test_an_interrupt_at_any_other_moment(folder, where, left):
    code, said, files = pressed(folder, where, 1, *AUDIT)
    assert code == 130
    assert said.endswith("\nnearkin: interrupted.\n") and "Traceback" not in said
    assert files == sorted([*left, "rows.csv"])


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


def test_an_interrupt_that_was_swallowed_ends_the_work_at_the_next_report():
    before = signal.getsignal(signal.SIGINT)
    reached = []
    with pytest.raises(KeyboardInterrupt), notice_interrupts("nearkin: interrupted.", 130):
        with contextlib.suppress(KeyboardInterrupt):  # as a compiled library may do
            press()
        reached.append("swallowed")
        advance("learning", 1, 2)
        reached.append("went on")
    assert reached == ["swallowed"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_comes_out_as_another_error_is_one():
    with pytest.raises(KeyboardInterrupt), notice_interrupts("nearkin: interrupted.", 130):
        try:
            press()
        except KeyboardInterrupt:
            raise SystemError("returned a result with an exception set") from None


def test_an_interrupt_that_was_swallowed_at_the_very_end_is_one():
    with (
        pytest.raises(KeyboardInterrupt),
        notice_interrupts("nearkin: interrupted.", 130),
        contextlib.suppress(KeyboardInterrupt),
    ):
        press()
    with hold_interrupts():  # it is over with the block
        pass


def test_an_interrupt_waits_for_what_must_not_be_cut_short():
    reached = []
    with pytest.raises(KeyboardInterrupt), notice_interrupts("nearkin: interrupted.", 130):
        with hold_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
            reached.append("drawn")
        reached.append("went on")
    assert reached == ["drawn"]
