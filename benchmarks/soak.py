"""An endless stream with drift, bad batches, kills and torn files: ``make soak``.

A child process learns from a generator whose classes move, appear and vanish; one batch in a hundred holds
malformed rows. At random it is killed (SIGKILL) or interrupted (SIGINT), or its newest checkpoint is damaged.
At the end its model must equal, to the bit, the one that learns the accepted rows in one clean process.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

import nearkin  # noqa: E402
from nearkin import streams  # noqa: E402
from nearkin.saving import write_tree  # noqa: E402
from nearkin.streams.checkpoint import Checkpoint  # noqa: E402

ROWS, FEATURES, ALIVE = 2048, 16, 8
#: Batches after which a class is replaced by a new one, and rows a second at most.
LIFE, RATE = 40, 60_000


def batch(seed: int, number: int):
    """Batch of a number: the same whoever asks. Classes drift; one batch in a hundred is bad."""
    rng = np.random.default_rng([seed, number])
    y = number // LIFE + rng.integers(0, ALIVE, ROWS)
    angle = 0.002 * number
    X = rng.normal(size=(ROWS, FEATURES))
    for label in np.unique(y):
        home = 2.0 * np.random.default_rng([seed, 1 << 40, int(label)]).normal(size=FEATURES)
        home[:2] = home[0] * np.cos(angle) - home[1] * np.sin(angle), home[0] * np.sin(angle) + home[1] * np.cos(angle)
        X[y == label] += home
    y = np.where(rng.random(ROWS) < 0.1, y.min() + rng.integers(0, ALIVE, ROWS), y).astype(float)
    if rng.random() < 0.01:
        kind, some = rng.integers(4), rng.random(ROWS) < rng.choice([0.01, 0.5, 1.0])
        if kind == 0:
            X[some, rng.integers(FEATURES)] = np.nan
        elif kind == 1:
            X[some, rng.integers(FEATURES)] = np.inf
        elif kind == 2:
            y[some] = np.nan
        else:
            X[some], y[some] = np.nan, np.nan
    return X.astype(np.float32), y


def learner():
    source = nearkin.OCTG(max_centers=4 * ALIVE, update_centers=True, forget_after=5000.0)
    return nearkin.RobustLODML(n_components=8, triplets=source, random_state=0)


def learn(seed: int, folder: Path) -> None:
    """The child: learns until it is stopped, in whatever way."""

    def chunks(first: int):
        number = first // ROWS
        while True:
            yield batch(seed, number)
            number += 1

    begun, rows = time.monotonic(), 0

    def report(_: streams.Report) -> None:
        nonlocal rows
        rows += ROWS
        if (folder / "stop").exists():
            raise KeyboardInterrupt
        time.sleep(max(0.0, rows / RATE - (time.monotonic() - begun)))

    stream = streams.open(chunks, batch_rows=ROWS, missing="drop")
    with warnings.catch_warnings(action="ignore"), contextlib.suppress(KeyboardInterrupt):
        streams.fit_stream(
            learner(), stream, checkpoint=folder / "ck.nearkin", checkpoint_every=0.5, resume=True,
            log=folder / "log.jsonl", on_report=report,
        )  # fmt: skip


def replayed(seed: int, n_batches: int):
    """The accepted rows, learned in one clean process."""
    model = learner()
    for number in range(n_batches):
        X, y = batch(seed, number)
        kept = np.isfinite(X).all(axis=1) & np.isfinite(y)
        if kept.any():
            model.partial_fit(X[kept], y[kept])
    return model


def digest(model) -> str:
    file = io.BytesIO()
    write_tree(model.state_, file)
    return hashlib.sha256(file.getvalue()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="also write the report to this file")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    faults = {"kills": 0, "interrupts": 0, "damaged checkpoints": 0}
    recoveries, peak = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoint = Checkpoint(folder / "ck.nearkin")
        end = time.monotonic() + 60 * options.minutes
        last = False
        while not last:
            last = time.monotonic() > end
            if last:
                (folder / "stop").touch()
            before = batches_done(checkpoint)
            child = os.fork()
            if not child:
                learn(options.seed, folder)
                os._exit(0)
            kind = None if last else rng.choice(["kill", "kill", "interrupt"])
            if kind is not None:
                time.sleep(float(rng.uniform(1.0, 8.0)))
                os.kill(child, signal.SIGKILL if kind == "kill" else signal.SIGINT)
                faults["kills" if kind == "kill" else "interrupts"] += 1
            _, status, usage = os.wait4(child, 0)
            peak = max(peak, usage.ru_maxrss)
            if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
                print("the child failed", file=sys.stderr)
                return 1
            recoveries += batches_done(checkpoint) > before > 0
            if not last and rng.random() < 0.2 and checkpoint.path.exists() and checkpoint.previous.exists():
                whole = checkpoint.path.read_bytes()
                checkpoint.path.write_bytes(whole[: int(rng.integers(len(whole)))])
                faults["damaged checkpoints"] += 1
        kept = checkpoint.read()
        total = kept["watch"]["total"]
        n_batches = kept["watch"]["n_batches"]
        found, wanted = digest(kept["learner"]), digest(replayed(options.seed, n_batches))
        n_centers = len(kept["learner"].triplet_source_.centers_)
        lines = [
            f"minutes             {options.minutes:g} (seed {options.seed})",
            f"rows learned        {total['n_rows']:,} in {n_batches:,} batches",
            f"bad rows dropped    {total['n_dropped']:,}",
            f"classes seen        {n_batches // LIFE + ALIVE:,}, centres kept {n_centers}",
            f"drift signals       {kept['watch']['n_signals']}",
            *(f"{name:<19} {count}" for name, count in faults.items()),
            f"recoveries          {recoveries}",
            f"peak memory         {peak / 1024:.0f} MB",
            f"equal to the replay {'yes, to the bit' if found == wanted else 'NO'}",
        ]
    print("\n".join(lines))
    if options.report is not None:
        options.report.write_text("\n".join(lines) + "\n")
    return 0 if found == wanted else 1


def batches_done(checkpoint: Checkpoint) -> int:
    if not checkpoint.exists():
        return 0
    with warnings.catch_warnings(action="ignore"):
        return int(Checkpoint(checkpoint.path).read()["watch"]["n_batches"])


if __name__ == "__main__":
    sys.exit(main())
