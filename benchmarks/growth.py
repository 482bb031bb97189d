"""Cost of longer streams and wider rows: time per row, and peak memory, each stream in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from nearkin.losses import as_loss
from nearkin.parameters import LearningRule

from .end_to_end import ONE_THREAD
from .low_rank import ETA, C, learner
from .settings import ROOT, Settings
from .timing import Task, enough, interleave, row, skipped
from .triplet_data import begin, draw, part, placed

SECTION = "growth"
CHUNK = 2000
WIDTHS = (16, 64, 256, 1024, 4096)
MB = 1e6


def run(settings: Settings) -> Iterator[dict]:
    yield from longer(settings)
    if not settings.quick:
        yield big(settings)
    yield from wider(settings)


def stream(n: int, d: int, chunk: int, r: int) -> dict:
    """One stream in a fresh process."""
    job = json.dumps({"n": n, "d": d, "chunk": chunk, "r": r})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth_child", job],
        env={**os.environ, **ONE_THREAD}, cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def longer(settings: Settings) -> Iterator[dict]:
    """d = 64, the same chunks, more of them; rounds interleave the lengths."""
    lengths = (10_000, 100_000) if settings.quick else (10_000, 100_000, 1_000_000)
    runs: dict[int, list[dict]] = {n: [] for n in lengths}
    for _ in range(min(3, settings.rounds)):
        for n in lengths:
            runs[n].append(stream(n, 64, CHUNK, 16))
    base = [_later(one, lengths[0]) for one in runs[lengths[0]]]
    for n in lengths:
        later = [_later(one, n) for one in runs[n]]
        values = {
            "us/row": [1e6 * one["cpu"] / n for one in runs[n]],
            "us/row after first chunk": [1e6 * x for x in later],
            "against shortest": [x / y for x, y in zip(later, base, strict=True)],
            "rows/s": [n / one["cpu"] for one in runs[n]],
            "triplets/row": runs[n][0]["triplets"] / n,
            "updates/row": runs[n][0]["updates"] / n,
            "peak MB": [one["peak"] / MB for one in runs[n]],
            "over start MB": [(one["peak"] - one["before"]) / MB for one in runs[n]],
        }
        out = row(SECTION, f"stream n={n} d=64", values, note=f"chunks of {CHUNK}, r = 16, float32")
        out["rounds"] = runs[n]
        yield out


def _later(one: dict, n: int) -> float:
    return (one["cpu"] - one["first_cpu"]) / (n - CHUNK)


def big(settings: Settings) -> dict:
    """A million rows of 512 features: memory is the chunk, the model and a constant."""
    n, d, chunk, r = 1_000_000, 512, 10_000, 64
    name = f"stream n={n} d={d}"
    try:
        one = stream(n, d, chunk, r)
    except subprocess.TimeoutExpired:
        return skipped(SECTION, name, "took more than 900 s")
    over = one["peak"] - one["before"]
    values = {
        "us/row": 1e6 * one["cpu"] / n,
        "rows/s": n / one["cpu"],
        "triplets/row": one["triplets"] / n,
        "updates/row": one["updates"] / n,
        "peak MB": one["peak"] / MB,
        "over start MB": over / MB,
        "over chunk and model MB": (over - one["chunk_bytes"] - one["model_bytes"]) / MB,
    }
    note = f"chunks of {chunk} ({one['chunk_bytes'] / MB:.1f} MB), model {one['model_bytes'] / MB:.2f} MB, float32"
    out = row(SECTION, name, values, note=note)
    out["rounds"] = [one]
    return out


def wider(settings: Settings) -> Iterator[dict]:
    """Low rank, r = 64 (or d, if that is less): the cost of a triplet is d r, whatever d."""
    loss = as_loss("rescaled_hinge", ETA)
    tasks = []
    for d in WIDTHS[:4] if settings.quick else WIDTHS:
        r = min(d, 64)
        data = draw(d, 1 << 18, "float32")
        start = begin(learner(d, r), d, "float32")
        n = enough(
            lambda k, s=start, data=data: s.copy().learn(part(data, 0, k), LearningRule(C, loss, 3)),
            settings.seconds,
            512,
            len(data),
        )
        some = part(data, 0, n)
        tasks.append(
            Task(
                f"width d={d} r={r}",
                n,
                lambda p, some=some: p.learn(some, LearningRule(C, loss, 3)),
                lambda k, start=start: placed(start, k),
            )
        )
    for name, times in interleave(tasks, settings.rounds).items():
        d, r = (int(word.split("=")[1]) for word in name.split()[1:])
        values = {
            "us/triplet": 1e6 * times.per_unit,
            "ns/(d r)": 1e9 * times.per_unit / (d * r),
        }
        yield row(SECTION, name, values, {name: times}, note="float32")
