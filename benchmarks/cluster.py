"""Whether two workers pay: ``python -m benchmarks cluster [--rows 480000] [--wall]``.

One process learns a stream of files, then two shares learn it as two workers would: the tasks of every round are called
one after the other, and their processor seconds taken apart. A round takes as long as its longest share, and what the
driver does before and after. This tells what an otherwise idle machine with two cores would need, also on one that has
other work; ``--wall`` runs a real cluster of two processes as well. Accuracy is that of 30 neighbours in the learned
space on 5,000 rows that were not learned, AUROC that of plausibility on 20,000 rows that were.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

import nearkin
from nearkin import distributed, streams
from nearkin.distributed import driver

from .settings import HERE

CLASSES, FEATURES, TOLD = 20, 64, 16
HELD = 20_000


def write_rows(folder: Path, n: int) -> dict[str, np.ndarray]:
    """Rows in files, of which some features tell classes apart, a fifth of the labels wrong; and rows to judge by."""
    rng = np.random.default_rng(0)
    centres = np.zeros((CLASSES, FEATURES), np.float32)
    centres[:, :TOLD] = 1.1 * rng.normal(size=(CLASSES, TOLD))
    true = rng.integers(0, CLASSES, n + HELD)
    X = centres[true] + rng.normal(size=(n + HELD, FEATURES)).astype(np.float32)
    noisy, is_wrong = nearkin.flip_labels(true, 0.2, random_state=0)
    np.save(folder / "x.npy", X[:n])
    np.save(folder / "y.npy", noisy[:n])
    few = slice(0, HELD)
    return {"X": X[n:], "true": true[n:], "seen": X[few], "given": noisy[few], "is_wrong": is_wrong[few]}


def judge(learner: Any, rows: dict[str, np.ndarray]) -> tuple[float, float]:
    """Percent of new rows whose class 30 neighbours in the learned space tell, and AUROC of plausibility."""
    near = KNeighborsClassifier(30, algorithm="brute").fit(learner.transform(rows["seen"]), rows["given"])
    right = near.score(learner.transform(rows["X"][:5000]), rows["true"][:5000])
    auroc = roc_auc_score(rows["is_wrong"], -learner.plausibility(rows["seen"], rows["given"]))
    return 100.0 * right, 100.0 * float(auroc)


class Pretended:
    """Two workers in this process, whose seconds are counted apart."""

    def __init__(self) -> None:
        self.longest, self.all, self.rounds = 0.0, 0.0, 0

    def run(self, tasks: list[Any]) -> list[dict[str, Any]]:
        took, results = [], []
        for task in tasks:
            begun = time.process_time()
            results.append(task.function(*task.arguments, **task.options))
            took.append(time.process_time() - begun)
        self.longest, self.all, self.rounds = self.longest + max(took), self.all + sum(took), self.rounds + 1
        return results

    def check_versions(self) -> None:
        """They are those of this process."""

    def wait_for_workers(self) -> list[str]:
        return ["one", "other"]


def learn_in_shares(learner: Any, stream: Any, **options: Any) -> Pretended:
    """What `distributed.fit` computes, with the tasks called here."""
    cluster = Pretended()
    kept = driver.connect, driver.Cluster
    driver.connect, driver.Cluster = nullcontext, lambda *_: cluster
    try:
        distributed.fit(learner, stream, client=None, **options)
    finally:
        driver.connect, driver.Cluster = kept
    return cluster


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[60_000, 240_000, 480_000])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--merge-every", type=int)
    parser.add_argument("--wall", action="store_true", help="time a real cluster of two processes too")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "cluster.md")
    options = parser.parse_args()
    lines = [
        "| rows | one process | accuracy | AUROC | merges | two shares, all work | accuracy | AUROC | longest shares "
        "| driver | times one process |",
        "|" + "---|" * 11,
    ]
    print("\n".join(lines), flush=True)
    for n in options.rows:
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
            rows = write_rows(Path(folder), n)
            make = lambda: nearkin.RobustLODML(16, random_state=0)  # noqa: E731
            stream = streams.open(f"{folder}/x.npy", label=f"{folder}/y.npy")
            make().partial_fit(rows["X"][:2000], rows["true"][:2000]).partial_fit(rows["X"][:99], rows["true"][:99])
            begun, wall = time.process_time(), time.perf_counter()
            one = streams.fit_stream(make(), stream, epochs=options.epochs)
            alone, alone_wall = time.process_time() - begun, time.perf_counter() - wall
            both, begun = make(), time.process_time()
            cluster = learn_in_shares(both, stream, epochs=options.epochs, merge_every=options.merge_every)
            whole = time.process_time() - begun
            driver_part = whole - cluster.all
            needed = cluster.longest + driver_part
            cells = [
                f"{n:,}", f"{alone:.1f} s", *(f"{value:.2f}" for value in judge(one, rows)), str(cluster.rounds),
                f"{whole:.1f} s", *(f"{value:.2f}" for value in judge(both, rows)), f"{cluster.longest:.1f} s",
                f"{driver_part:.1f} s", f"{alone / needed:.2f}",
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
            if options.wall:
                with distributed.connect("local:2") as client:
                    few = streams.open(f"{folder}/x.npy", label=f"{folder}/y.npy", batch_rows=2048)
                    distributed.fit(make(), few, client=client, epochs=1, merge_every=n)  # both have loaded everything
                    wall = time.perf_counter()
                    distributed.fit(
                        make(), stream, client=client, epochs=options.epochs, merge_every=options.merge_every
                    )
                    wall = time.perf_counter() - wall
                print(f"wall: one process {alone_wall:.1f} s, two workers {wall:.1f} s", flush=True)
    options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
