"""An audit of more rows than its processes may hold: ``python -m benchmarks audit_cluster [--rows 10000000]``.

Rows of 64 float32 features in Parquet: every class is several clusters that overlap, a tenth of the labels is wrong.
Two workers of this machine that Dask allows 2 GB each audit them. Peaks of memory are those that the processes
themselves report. On the first rows alone the same audit and one in memory are compared.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import machine
from .settings import HERE

CLASSES, FEATURES, CLUSTERS, RATE = 10, 64, 3, 0.1
#: Rows of a file, made at once, and of a row group.
FILE, GROUP = 500_000, 1 << 17
COMPARED = 200_000


def write_rows(folder: Path, n: int) -> None:
    """Write files with the columns f0 ... f63, y, and is_wrong, which no audit sees."""
    import pyarrow as pa
    from pyarrow import parquet

    centres = np.random.default_rng(1).normal(size=(CLASSES, CLUSTERS, FEATURES)).astype(np.float32)
    for number, start in enumerate(range(0, n, FILE)):
        rng, m = np.random.default_rng([2, number]), min(FILE, n - start)
        true = rng.integers(0, CLASSES, m)
        X = rng.standard_normal((m, FEATURES), np.float32) * np.float32(2.2)
        X += centres[true, rng.integers(0, CLUSTERS, m)]
        is_wrong = rng.random(m) < RATE
        given = np.where(is_wrong, (true + rng.integers(1, CLASSES, m)) % CLASSES, true)
        columns = {f"f{i}": X[:, i] for i in range(FEATURES)}
        table = pa.table({**columns, "y": given, "is_wrong": is_wrong})
        parquet.write_table(
            table, folder / f"{number:04d}.parquet", row_group_size=GROUP, compression="none", use_dictionary=["y"]
        )


def read_wrong(folder: Path, n: int) -> np.ndarray:
    """Return which labels are wrong."""
    from pyarrow import parquet

    parts = [parquet.read_table(one, columns=["is_wrong"]) for one in sorted(folder.glob("*.parquet"))]
    return np.concatenate([one.column(0).to_numpy() for one in parts])[:n]


def read_found(folder: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tier and score of every row: 2 for wrong, 1 for worth a look; 0 and a score of 1 for others."""
    from pyarrow import parquet

    tiers, scores = np.zeros(n, np.int8), np.ones(n)
    for path in sorted(folder.glob("suspects-*.parquet")):
        found = parquet.read_table(path, columns=["row", "tier", "score"])
        rows = found.column(0).to_numpy()
        tiers[rows] = np.where(found.column(1).to_numpy() == "wrong", 2, 1)
        scores[rows] = found.column(2).to_numpy()
    return tiers, scores


def tell(tiers: np.ndarray, scores: np.ndarray, is_wrong: np.ndarray) -> list[str]:
    """Return precision and recall of the first tier, and of both, and the AUROC of suspects by score, in percent."""
    from sklearn.metrics import roc_auc_score

    found = []
    for least in (2, 1):
        hit = tiers >= least
        both = (hit & is_wrong).sum()
        found += [f"{100 * both / max(1, hit.sum()):.2f}", f"{100 * both / max(1, is_wrong.sum()):.2f}"]
    return [*found, f"{100 * roc_auc_score(is_wrong, -np.where(tiers > 0, scores, 1.0)):.2f}"]


def peak() -> float:
    """Return the largest memory that this process has had, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def spent() -> float:
    """Return the processor seconds that this process has taken."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def audit_here(data: Path, n: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Audit the first rows in memory; return tiers, scores and processor seconds."""
    from pyarrow import parquet

    import nearkin

    table = parquet.read_table(sorted(data.glob("*.parquet"))[0]).slice(0, n)
    X = np.column_stack([table.column(f"f{i}").to_numpy() for i in range(FEATURES)])
    begun = spent()
    found = nearkin.audit_labels(X, table.column("y").to_numpy(), random_state=0)
    return np.where(found.is_wrong, 2, found.is_suspect.astype(np.int8)), found.score, spent() - begun


def audit_there(data: list[str], folder: Path, client: Any) -> tuple[Any, dict[str, float]]:
    """Audit on the cluster; return what was found and the seconds of each step."""
    from nearkin import distributed, progress, streams

    steps: dict[str, float] = {}
    at = time.perf_counter()

    def listen(task: str, done: int, total: int) -> None:
        nonlocal at
        now = time.perf_counter()
        steps[task] = steps.get(task, 0.0) + now - at
        at = now

    stream = streams.open(data, label="y", drop=["is_wrong"])
    with progress.listening(listen):
        found = distributed.audit(stream, folder, client=client, timeout=3600.0)  # a busy machine is slow, not stuck
    return found, steps


def main() -> None:
    import distributed as dask

    parser = argparse.ArgumentParser(prog="python -m benchmarks audit_cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where the rows go, kept afterwards; others there are used")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "audit_cluster.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        here = Path(made)
        data = here / "rows"
        data.mkdir()
        load = machine.load()
        write_rows(data, options.rows)
        files = [str(one) for one in sorted(data.glob("*.parquet"))]
        size = sum(Path(one).stat().st_size for one in files)
        cluster = dask.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="2GB", host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        with cluster, dask.Client(cluster) as client:
            written = peak()
            before, begun = {"": spent(), **client.run(spent)}, time.perf_counter()
            found, steps = audit_there(files, here / "all", client)
            wall = time.perf_counter() - begun
            took = [now - before[name] for name, now in {"": spent(), **client.run(spent)}.items()]
            workers = client.run(peak)
            driver = peak()
            n = min(COMPARED, options.rows)
            few = here / "few"
            few.mkdir()
            _cut(Path(files[0]), few / "0.parquet", n)
            before = {"": spent(), **client.run(spent)}
            audit_there([str(few / "0.parquet")], here / "first", client)
            few_took = sum(now - before[name] for name, now in {"": spent(), **client.run(spent)}.items())
        is_wrong, (tiers, scores) = read_wrong(data, options.rows), read_found(here / "all", options.rows)
        (there, there_scores), (inside, inside_scores, inside_took) = read_found(here / "first", n), audit_here(data, n)
        header = (
            "| audit | rows | CPU seconds | precision %, wrong | recall % | precision %, all suspects | recall % "
            "| AUROC % of suspects |"
        )
        lines = [header, "|" + "---|" * 8]
        for name, some, ranked, seconds in (
            ("two workers", tiers, scores, sum(took)),
            ("two workers", there, there_scores, few_took),
            ("in memory", inside, inside_scores, inside_took),
        ):
            cells = [name, f"{len(some):,}", f"{seconds:.0f}", *tell(some, ranked, is_wrong[: len(some)])]
            lines.append("| " + " | ".join(cells) + " |")
        same = 100.0 * float((there == inside).mean())
        same_wrong = 100.0 * float(((there == 2) == (inside == 2)).mean())
        lines += [
            "", f"- {options.rows:,} rows of {FEATURES} float32 features in Parquet, {size / 1e9:.2f} GB; "
            f"{CLASSES} classes of {CLUSTERS} clusters, {100 * RATE:.0f} % of the labels wrong; estimated "
            f"{100 * found.noise_rate:.2f} % ({100 * found.noise_interval[0]:.2f} to "
            f"{100 * found.noise_interval[1]:.2f}).",
            f"- The first {n:,} rows by themselves, on the cluster and in memory: the same tier for {same:.2f} % of "
            f"the rows, the same answer whether a label is wrong for {same_wrong:.2f} %.",
            "- Peak memory: workers " + " and ".join(f"{one / 1e9:.2f} GB" for one in sorted(workers.values()))
            + f", driver {driver / 1e9:.2f} GB (which also wrote the rows and had {written / 1e9:.2f} GB after that).",
            "- Everything that is not a suspect counts alike in AUROC, since files hold suspects alone.",
            f"- Processor seconds: driver {took[0]:.0f}, workers {' and '.join(f'{one:.0f}' for one in took[1:])}. "
            f"On the wall {wall:.0f} s at a load of {load} to {machine.load()}: "
            + ", ".join(f"{name} {seconds:.0f}" for name, seconds in steps.items()) + ".",
            f"- `python -m benchmarks audit_cluster --rows {options.rows}`",
        ]  # fmt: skip
        print("\n".join(lines), flush=True)
        options.output.write_text("\n".join(lines) + "\n")


def _cut(source: Path, target: Path, n: int) -> None:
    """Write the first rows of a file as a file."""
    from pyarrow import parquet

    parquet.write_table(parquet.read_table(source).slice(0, n), target, row_group_size=GROUP)


if __name__ == "__main__":
    main()
