"""Ctrl-C at any moment: one line, exit code 130, no traceback, nothing left behind."""

import gc
import os
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pytest

from nearkin import progress
from streams import tables


def test_an_interrupt_lost_in_a_callback_is_raised_and_not_printed(capfd):
    class Thing:
        pass

    def press(_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt), progress.notice_interrupts("", 130):
        thing = Thing()
        reference = weakref.ref(thing, press)
        del thing
        gc.collect()
        assert reference() is None
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_stream_interrupted_at_moments_that_no_one_chooses(tmp_path):
    """From the loading of modules to the scores at the end."""
    tables.write(tmp_path / "big", "parquet", *tables.rows(4000), group=500)
    command = [
        sys.executable, "-m", "nearkin", "fit", tmp_path / "big", "--label", "y", "-o", tmp_path / "m.nearkin",
        "--resume", "--batch-rows", "40", "--checkpoint", tmp_path / "ck", "--checkpoint-every", "0.2",
        "--plausibility",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": tables.SOURCES}
    begun = time.monotonic()
    subprocess.run(command, env=env, capture_output=True, timeout=200, check=True)
    whole = time.monotonic() - begun
    for moment in np.random.default_rng(0).uniform(0.3, whole, 5):
        for name in ("ck", "ck.previous"):
            (tmp_path / name).unlink(missing_ok=True)
        process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=100)[1]
        assert process.returncode in (0, 130, -signal.SIGINT), said  # the last while Python itself shuts down
        assert "Traceback" not in said
        assert "Exception ignored" not in said
        assert not list(tmp_path.rglob("*.lock")) + list(tmp_path.rglob("*.part"))
