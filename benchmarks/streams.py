"""Quality and cost of learning in shards: ``python -m benchmarks.streams [--only quality,cost,memory]``.

Shards give the same bits on any cluster, so quality is measured with the tasks of a round called one after the other.
Results go to benchmarks/results/streams.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):  # before anything loads them
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402

import nearkin  # noqa: E402
from nearkin import streams  # noqa: E402
from nearkin.distributed.driver import form_shares  # noqa: E402
from nearkin.distributed.tasks import learn_share, pack, unpack  # noqa: E402
from nearkin.learners import merge_states  # noqa: E402
from nearkin.noise import flip_labels  # noqa: E402
from nearkin.paper.methods import as_printed  # noqa: E402

RESULTS = Path(__file__).parent / "results"
NOISE = 0.2


def synthetic(n, d=32, n_classes=20, seed=0):
    """Clouds of one shape in 8 of 32 directions, the others noise."""
    rng = np.random.default_rng(seed)
    centers = np.zeros((n_classes, d))
    centers[:, :8] = 1.1 * rng.normal(size=(n_classes, 8))
    y = rng.integers(0, n_classes, n)
    return (centers[y] + rng.normal(size=(n, d))).astype(np.float32), y


def data_sets(folder: Path | None):
    """Name, training rows and labels, test rows and labels, batch size, passes, shards' merge intervals."""
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    sets = [("digits", X.astype(np.float32), y, 64, 3, (64, 128, 10**9))]
    if folder is not None:
        with np.load(folder / "letters.npz") as file:
            sets.append(("letters", file["X"].astype(np.float32), file["y"], 128, 3, (128, 512, 2048, 10**9)))
    for name, X, y, size, epochs, every in sets:
        order = rng.permutation(len(X))
        cut = len(X) // 5
        yield name, X[order[cut:]], y[order[cut:]], X[order[:cut]], y[order[:cut]], size, epochs, every
    X, y = synthetic(1_010_000)
    # 244 batches: a merge a pass would be one merge in all
    yield (
        "synthetic 1e6", X[:1_000_000], y[:1_000_000], X[1_000_000:], y[1_000_000:], 4096, 1,
        (4096, 32_768),
    )  # fmt: skip


def in_shards(stream, n_shards, merge_every, epochs, seed):
    """What a cluster would learn, and how many rounds it takes."""
    model = as_printed(nearkin.RobustLODML, random_state=seed)
    n_batches = max(1, min(-(-merge_every // stream.batch_rows), -(-stream.n_batches // n_shards)))
    rounds = 0
    for epoch in range(epochs):
        at = 0
        if not epoch:
            first = stream.batch(stream.pieces(0, 0))
            model.partial_fit(first.X, first.y)
            at = 1
        while at < stream.n_batches:
            shares = form_shares(stream, epoch, at, n_shards, n_batches)
            at += sum(map(len, shares))
            rounds += 1
            results = [
                learn_share(pack(model), stream.describe(one), i, len(shares), test=False)
                for i, one in enumerate(shares)
            ]
            model.state_ = merge_states(model.state_, [unpack(one["learner"]).state_ for one in results])
    return model, rounds


def quality(folder: Path | None, n_draws: int) -> list[str]:
    lines = [
        "| data | shards | merge every | rounds | accuracy % | to one process | AUROC % | to one process |",
        "|---|---|---|---|---|---|---|---|",
    ]
    worst = {"accuracy": 0.0, "AUROC": 0.0}
    for name, X, y, X_test, y_test, size, epochs, every in data_sets(folder):
        rows: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
        for seed in range({"digits": 5 * n_draws, "letters": n_draws}.get(name, 1)):
            noisy, wrong = flip_labels(y, NOISE, random_state=seed)
            with tempfile.TemporaryDirectory() as here:
                np.save(f"{here}/X.npy", X)
                np.save(f"{here}/y.npy", noisy)
                stream = streams.open(f"{here}/X.npy", label=f"{here}/y.npy", batch_rows=size)
                some = np.linspace(0, len(X) - 1, min(len(X), 20_000)).astype(int)
                for n_shards, merge_every in [(1, size), *((s, m) for s in (2, 4, 8) for m in every)]:
                    model, rounds = in_shards(stream, n_shards, merge_every, epochs, seed)
                    voters = nearkin.RobustKNeighborsClassifier(model, random_state=seed).fit(X[some], noisy[some])
                    auroc = roc_auc_score(~wrong[some], model.plausibility(X[some], noisy[some]))
                    one = 100 * voters.score(X_test, y_test), 100 * auroc, rounds
                    rows.setdefault((n_shards, merge_every), []).append(one)
        base = np.mean(rows[1, size], axis=0)
        for (n_shards, merge_every), found in rows.items():
            accuracy, auroc, rounds = np.mean(found, axis=0)
            shown = "a pass" if merge_every == 10**9 else f"{merge_every:,}"
            lines.append(
                f"| {name} | {n_shards} | {'-' if n_shards == 1 else shown} | {rounds:.0f} | {accuracy:.2f} | "
                f"{accuracy - base[0]:+.2f} | {auroc:.2f} | {auroc - base[1]:+.2f} |"
            )
            print(lines[-1], flush=True)
            if merge_every != 10**9:
                worst["accuracy"] = min(worst["accuracy"], accuracy - base[0])
                worst["AUROC"] = min(worst["AUROC"], auroc - base[1])
    lines.append("")
    lines.append(
        f"Worst with a merge interval: {worst['accuracy']:+.2f} accuracy, {worst['AUROC']:+.2f} AUROC (goal -0.5)."
    )
    return lines


COST = """
import json, os, sys, time, resource
import numpy as np
import nearkin, psutil
from nearkin import streams, distributed
from nearkin.paper.methods import as_printed
folder, shards, every = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def used(processes):
    return sum(sum(one.cpu_times()[:2]) for one in processes)

def main():
    stream = streams.open(folder + "/X.npy", label=folder + "/y.npy", batch_rows=4096)
    small = streams.open(folder + "/X0.npy", label=folder + "/y0.npy", batch_rows=4096)
    if not shards:
        me = [psutil.Process()]
        streams.fit_stream(as_printed(nearkin.RobustLODML, random_state=0), small)
        before, begun = used(me), time.perf_counter()
        streams.fit_stream(as_printed(nearkin.RobustLODML, random_state=0), stream)
        print(json.dumps([used(me) - before, time.perf_counter() - begun, 0]))
        return
    with distributed.connect(f"local:{min(shards, 2)}") as client:
        # Short rounds first, so that every worker has loaded what it needs.
        short = dict(client=client, n_shards=2 * shards, merge_every=4096)
        distributed.fit(as_printed(nearkin.RobustLODML, random_state=0), small, **short)
        all_of_them = [psutil.Process(), *psutil.Process().children(recursive=True)]
        before, begun = used(all_of_them), time.perf_counter()
        distributed.fit(
            as_printed(nearkin.RobustLODML, random_state=0), stream, client=client, n_shards=shards, merge_every=every
        )
        print(json.dumps([used(all_of_them) - before, time.perf_counter() - begun, len(all_of_them)]))

if __name__ == "__main__":
    main()
"""


def cost() -> list[str]:
    """CPU seconds of all processes, after everything is loaded, against one process."""
    d, n = 64, 400_000
    X, y = synthetic(n, d=d, n_classes=20, seed=1)
    noisy, _ = flip_labels(y, NOISE, random_state=0)
    lines = [
        "| shards | merge every | rounds | seconds a round | CPU seconds | over one process |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as here:
        np.save(f"{here}/X.npy", X)
        np.save(f"{here}/y.npy", noisy)
        np.save(f"{here}/X0.npy", X[:40_000])
        np.save(f"{here}/y0.npy", noisy[:40_000])
        script = Path(here) / "cost.py"
        script.write_text(COST)

        def run(shards, every):
            out = subprocess.run(
                [sys.executable, str(script), here, str(shards), str(every)],
                capture_output=True,
                text=True,
                timeout=300,
            )
            return json.loads(out.stdout.splitlines()[-1])

        alone = statistics.median(run(0, 0)[0] for _ in range(3))
        lines.append(f"| one process | - | - | - | {alone:.2f} | - |")
        print(lines[-1], flush=True)
        for shards, every in ((2, 40_960), (2, 16_384)):
            found = [run(shards, every) for _ in range(3)]
            seconds = statistics.median(one[0] for one in found)
            wall = statistics.median(one[1] for one in found)
            rounds = -(-(n - 4096) // (shards * every))
            lines.append(
                f"| {shards} | {every:,} | {rounds} | {wall / rounds:.2f} | {seconds:.2f} | "
                f"{100 * (seconds / alone - 1):+.0f} % |"
            )
            print(lines[-1], flush=True)
    return lines


MEMORY = """
import resource, sys, time
import numpy as np
import nearkin
from nearkin import streams
n = int(float(sys.argv[1]))
rng = np.random.default_rng(0)
centers = rng.normal(size=(10, 16))

def chunks():
    rng = np.random.default_rng(1)
    for at in range(0, n, 50_000):
        y = rng.integers(0, 10, 50_000)
        yield (centers[y] + rng.normal(size=(50_000, 16))).astype(np.float32), y

learner = nearkin.RobustLODML(triplets=nearkin.OCTG(update_centers=False, max_centers=50), random_state=0)
begun = time.perf_counter()
streams.fit_stream(learner, streams.open(chunks), epochs=1)
print(learner.n_rows_seen_, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - begun)
"""


def memory() -> list[str]:
    """Largest resident memory of a process that learns an endless stream."""
    lines = ["| rows | peak memory MB | seconds |", "|---|---|---|"]
    for n in ("1e5", "1e6", "1e7"):
        out = subprocess.run([sys.executable, "-c", MEMORY, n], capture_output=True, text=True, timeout=600, check=True)
        rows, peak, seconds = out.stdout.split()
        lines.append(f"| {int(rows):,} | {float(peak):.0f} | {float(seconds):.0f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--only", default="quality,cost,memory")
    parser.add_argument(
        "--draws",
        type=int,
        default=3,
        help="draws of noise for Letters; five times as many for digits, one for the synthetic set",
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("NEARKIN_DATA"), help="folder with letters.npz")
    options = parser.parse_args()
    kept = RESULTS / "streams.json"
    found = {}
    begun = time.perf_counter()
    for name in options.only.split(","):
        found[name] = {
            "quality": lambda: quality(options.data, options.draws), "cost": cost, "memory": memory,
        }[name]()  # fmt: skip
    results = {**(json.loads(kept.read_text()) if kept.exists() else {}), **found}
    kept.write_text(json.dumps(results, indent=1) + "\n")
    text = [f"# Streams\n\nMeasured by `python -m benchmarks.streams`, {NOISE:.0%} of the labels flipped.\n"]
    for name, lines in results.items():
        text += [f"## {name}\n", *lines, ""]
    (RESULTS / "streams.md").write_text("\n".join(text))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.perf_counter() - begun:.0f} s, {peak:.0f} MB")


if __name__ == "__main__":
    main()
