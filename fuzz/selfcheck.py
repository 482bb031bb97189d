"""The attacks' own measure: children that crash, hang, eat memory or obey must be told apart."""

from __future__ import annotations

import os
import signal
import time

from fuzz.child import call
from fuzz.report import Report

WEIGHT = 0.01


def run(seconds: float, seed: int, report: Report) -> None:
    """Check that every way to end is seen as what it is."""
    ways = {
        "returns": (lambda: 0, lambda end: end.code == 0 and end.crash is None),
        "raises": (lambda: [][0], lambda end: end.crash is not None and "traceback" in end.crash),
        "is killed": (lambda: os.kill(os.getpid(), signal.SIGSEGV), lambda end: end.signal == signal.SIGSEGV),
        "hangs": (lambda: time.sleep(60), lambda end: end.timed_out),
        "eats memory": (lambda: len(bytearray(1 << 33)), lambda end: "MemoryError" in end.err),
    }
    for case in report.cases(max(seconds, 30.0), seed, limit=len(ways)):
        name, (act, seen) = list(ways.items())[case.number]
        found = call(act, seconds=0.5)
        report.count(case, "ways to end", None if seen(found) else f"a child that {name} was seen as {found}")
