"""A GPU put to the test: build, check against our own CPU core, and time, in one call of a few minutes.

Run as ``python -m benchmarks.gpu`` where there is an NVIDIA GPU; writes ``gpu.json`` and ``gpu.md`` to the results. The
page begins with a verdict: whether the card gives the processor's results, and which goals of speed it meets.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from nearkin import audit_labels, flip_labels
from nearkin.kernels import one_blas_thread
from nearkin.learners import LODML, RobustLODML
from nearkin.losses import RescaledHinge
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.neighbors import RobustKNeighborsClassifier
from nearkin.parameters import FullMatrix, LearningRule, LowRank
from nearkin.rows import Rows
from nearkin.triplets import Triplets

RESULTS = Path(__file__).parent / "results"
LOSS, N_HQ = RescaledHinge(1.0), 3

#: Small enough that nearly every triplet still moves the parameter at the end: the worst case.
C = 0.01


def learn_on(parameter, device, triplets, rule):
    parameter.on(device)
    return parameter.learn(triplets, rule)


def triplets(d: int, n: int, dtype: str = "float32", uses: int = 1, pool: int = 500, seed: int = 0) -> Triplets:
    """Random triplets, every row the anchor of ``uses`` of them; mean squared distance 1/2."""
    rng = np.random.default_rng(seed)
    size = np.sqrt(0.25 / d)
    rows = rng.standard_normal((n // uses, d), dtype=dtype) * np.dtype(dtype).type(size)
    centres = rng.standard_normal((pool, d), dtype=dtype) * np.dtype(dtype).type(size)
    positive = rng.integers(0, pool, n)
    negative = (positive + rng.integers(1, pool, n)) % pool
    anchor = np.repeat(np.arange(n // uses), uses)
    return Triplets(Rows(rows), Rows(centres), anchor, positive[: len(anchor)], negative[: len(anchor)],
                    np.arange(len(rows)), np.full(pool, -1))  # fmt: skip


def seconds(work, rounds: int = 3) -> float:
    """Median wall time; the device is idle before and after."""
    import torch

    taken = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def ceilings(device) -> dict:
    """Peak rates of this card: large products and a large copy."""
    import torch

    found = {"gpu": torch.cuda.get_device_name(device), "torch": torch.__version__}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        a, b = (torch.randn(8192, 8192, device=device, dtype=dtype) for _ in range(2))
        torch.mm(a, b)
        found[f"gemm_{name}_tflops"] = 2 * 8192**3 / seconds(lambda a=a, b=b: torch.mm(a, b)) / 1e12
    x = torch.randn(1 << 29, device=device)
    y = torch.empty_like(x)
    found["copy_tb_per_s"] = 2 * 4 * x.numel() / seconds(lambda: y.copy_(x)) / 1e12
    return found


def checks(device) -> list[dict]:
    """Largest differences to the CPU core; every sweep, both measures, both precisions."""
    from nearkin.accelerator.factor_sweeps import FactorSweep

    found = []
    for measure in (SIMILARITY, DISTANCE):
        for dtype in ("float64", "float32"):
            given = triplets(100, 9000, dtype)
            here, there = (FullMatrix(100, np.dtype(dtype), measure) for _ in range(2))
            p, n = here.learn(given, LearningRule(C, LOSS, N_HQ))
            q, m = learn_on(there, device, given, LearningRule(C, LOSS, N_HQ))
            found.append(difference("full matrix", measure, dtype, C, here.M, there.M, p, q, n, m))
            # The second shape is the largest of its rank that registers hold.
            for d, r in ((100, 20), (512 if dtype == "float32" else 256, 64)):
                given = triplets(d, 400, dtype)
                start = (np.random.default_rng(0).standard_normal((r, d)) / np.sqrt(d)).astype(dtype)
                for step in (C, 3.0):
                    for name, kind in (("low rank, registers", InRegisters), ("low rank, blocks", FactorSweep)):
                        here, there = LowRank(start, measure), LowRank(start, measure)
                        p, n = here.learn(given, LearningRule(step, LOSS, N_HQ))
                        there._sweep = kind(start, measure.is_distance, device)
                        q, m = learn_on(there, device, given, LearningRule(step, LOSS, N_HQ))
                        what = f"{name}, {d} x {r}"
                        found.append(difference(what, measure, dtype, step, here.L, there.L, p, q, n, m))
    return found


class InRegisters:
    """One of the learners of `fit_many`, in place of a `FactorSweep`."""

    def __init__(self, components, is_distance: bool, device):
        from nearkin.accelerator.factor_sweeps import ManyFactors

        self.many = ManyFactors(components[None], is_distance, device)

    def learn(self, vectors, C: float, params, n_hq: int):
        from nearkin.accelerator.device import name_of_type, step_settings, to_device, to_host

        device = self.many.device
        settings = to_device(step_settings(C, params)[None].astype(name_of_type(self.many.L)), device)
        index = to_device(np.stack(vectors[3:]).astype(np.int32), device)
        rows, pool = to_device(vectors.anchors, device), to_device(vectors.positives, device)
        share, moved = self.many.learn(
            rows, pool, index, to_device(np.array([0, index.shape[1]]), device), settings, n_hq
        )
        return to_host(share.double()), int(moved.sum())

    @property
    def result(self):
        return self.many.result[0]


def difference(what, measure, dtype, step, here, there, p, q, n, m) -> dict:
    parameter, plausibility = float(np.abs(here - there).max()), float(np.abs(p - q).max())
    limit = 1e-11 if dtype == "float64" else 1e-4
    agrees = bool(parameter <= limit and plausibility <= limit and n == m)
    return {"what": what, "measure": measure.name, "dtype": dtype, "C": step, "parameter": parameter,
            "plausibility": plausibility, "updates": [int(n), int(m)], "agrees": agrees}  # fmt: skip


def full_matrix(device, ceiling: float) -> list[dict]:
    """One stream, rows sent from the host; the CPU core learns as many triplets as it can in a second or two."""
    found = []
    for d in (512, 1024, 2048):
        for measure in (SIMILARITY, DISTANCE):
            few = triplets(d, max(2048, 40_000_000_000 // (4 * d * d)) // 8)
            cpu = FullMatrix(d, np.dtype("float32"), measure)
            with one_blas_thread():
                cpu.learn(few, LearningRule(C, LOSS, N_HQ))
                start = time.perf_counter()
                cpu.learn(few, LearningRule(C, LOSS, N_HQ))
                cpu_rate = len(few) / (time.perf_counter() - start)
            row = {"d": d, "measure": measure.name, "cpu_core": cpu_rate}
            for uses in (1, 4):
                given = triplets(d, 1 << 17, uses=uses)
                parameter = FullMatrix(d, np.dtype("float32"), measure)
                learn_on(parameter, device, given, LearningRule(C, LOSS, N_HQ))
                moved = []

                def work(parameter=parameter, given=given, moved=moved):
                    moved.append(learn_on(parameter, device, given, LearningRule(C, LOSS, N_HQ))[1])

                row[f"uses_{uses}"] = len(given) / seconds(work)
                row["active"] = moved[-1] / len(given)
            row["of_gemm"] = row["uses_4"] * 4 * d * d / 1e12 / ceiling
            found.append(row)
    return found


def low_rank(device, ceiling: float) -> list[dict]:
    """One stream of low-rank steps (distance)."""
    found = []
    for d, r in ((128, 64), (512, 64), (1024, 64), (2048, 64)):
        start = np.random.default_rng(0).standard_normal((r, d)).astype("float32") / np.sqrt(d, dtype="float32")
        few = triplets(d, 20_000)
        cpu = LowRank(start, DISTANCE)
        with one_blas_thread():
            cpu.learn(few, LearningRule(C, LOSS, N_HQ))
            begun = time.perf_counter()
            cpu.learn(few, LearningRule(C, LOSS, N_HQ))
            cpu_rate = len(few) / (time.perf_counter() - begun)
        given = triplets(d, 1 << 17, uses=4)
        parameter = LowRank(start, DISTANCE)
        learn_on(parameter, device, given, LearningRule(C, LOSS, N_HQ))
        rate = len(given) / seconds(lambda p=parameter, g=given: learn_on(p, device, g, LearningRule(C, LOSS, N_HQ)))
        found.append({"d": d, "r": r, "triplets": len(given), "cpu_core": cpu_rate, "rate": rate,
                      "of_gemm": rate * 8 * d * r / 1e12 / ceiling})  # fmt: skip
    return found


def many(device, ceiling: float) -> list[dict]:
    """128 learners side by side, vectors on the device; the CPU core is one learner on one core."""
    import torch

    from nearkin.accelerator.device import step_settings, to_device
    from nearkin.accelerator.factor_sweeps import ManyFactors

    learners, each = 128, 2000
    found = []
    for d, r in ((64, 32), (128, 64), (512, 64)):
        given = triplets(d, learners * each, uses=8)
        start = np.random.default_rng(0).standard_normal((learners, r, d)).astype("float32") / np.sqrt(
            d, dtype="float32"
        )
        sweep = ManyFactors(start, True, device)
        rows, pool = to_device(given.rows.dense, device), to_device(given.pool.dense, device)
        index = to_device(np.stack([given.anchor, given.positive, given.negative]).astype(np.int32), device)
        bounds = torch.arange(0, learners * each + 1, each, device=device)
        settings = to_device(np.tile(step_settings(C, LOSS.params), (learners, 1)).astype("float32"), device)
        sweep.learn(rows, pool, index, bounds, settings, N_HQ)
        arguments = rows, pool, index, bounds, settings, N_HQ
        rate = learners * each / seconds(lambda sweep=sweep, arguments=arguments: sweep.learn(*arguments))
        few, cpu = triplets(d, 20_000), LowRank(start[0], DISTANCE)
        with one_blas_thread():
            cpu.learn(few, LearningRule(C, LOSS, N_HQ))
            begun = time.perf_counter()
            cpu.learn(few, LearningRule(C, LOSS, N_HQ))
            cpu_rate = len(few) / (time.perf_counter() - begun)
        found.append({"d": d, "r": r, "learners": learners, "cpu_core": cpu_rate, "rate": rate,
                      "of_gemm": rate * 8 * d * r / 1e12 / ceiling})  # fmt: skip
    return found


def scoring(n: int) -> dict:
    """Plausibility of n labelled rows of 512 features, and Robust-kNN for all of them among all of them."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, 512), dtype="float32")
    y = rng.integers(0, 10, n)
    X = rng.standard_normal((n, 512), dtype="float32") * 2 + centres[y]
    wrong = rng.random(n) < 0.2
    noisy = np.where(wrong, (y + rng.integers(1, 10, n)) % 10, y)
    found = {"rows": n, "features": 512, "components": 64}
    learner = RobustLODML(64, random_state=0, device="cuda").fit(X[:20_000], noisy[:20_000])
    model = RobustKNeighborsClassifier(learner, n_neighbors=3)
    model.fit(X[:4096], noisy[:4096]).predict(X[:4096])  # compiles
    start = time.perf_counter()
    model.fit(X, noisy)
    fitted = time.perf_counter()
    predicted = model.predict(X)
    done = time.perf_counter()
    suspects = np.argsort(model.plausibility_)[: wrong.sum()]
    return found | {
        "audit_and_index_s": fitted - start,
        "predict_s": done - fitted,
        "noise_rate": model.noise_rate_,
        "wrong_among_suspects": float(wrong[suspects].mean()),
        "accuracy": float((predicted == y).mean()),
    }


def grid(device: str) -> dict:
    """A grid of C and eta on 4 folds through the public call, against one after the other on the processor."""
    from nearkin.learners import fit_many

    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 256), dtype="float32")
    y = (X[:, :5] @ rng.standard_normal((5, 8), dtype="float32")).argmax(axis=1)
    places = [np.flatnonzero(np.arange(8000) % 4 != fold) for fold in range(4)]
    settings = [(C, eta) for C in np.geomspace(0.001, 1.0, 8) for eta in (0.0, 0.5, 1.0, 2.0)]
    made = [(LODML(64, C=c, loss="rescaled_hinge", eta=eta, random_state=0, device=device, rescore=False), place)
            for c, eta in settings for place in places]  # fmt: skip
    times = []
    for _ in range(4):  # the first compiles
        start = time.perf_counter()
        fit_many([one for one, _ in made], X, y, rows=[place for _, place in made])
        times.append(time.perf_counter() - start)
    cores = [(LODML(**{**one.get_params(), "device": "cpu"}), place) for one, place in made]
    with threadpool_limits(1):
        cores[0][0].fit(X, y)  # compiles
        start = time.perf_counter()
        for one, place in cores[::16]:
            one.fit(X[place], y[place])
        cpu = (time.perf_counter() - start) * 16
        start = time.perf_counter()
        fit_many([one for one, _ in cores], X, y, rows=[place for _, place in cores])
        shared = time.perf_counter() - start
    return {"learners": len(made), "triplets": int(sum(one.n_triplets_seen_ for one, _ in made)), "first": times[0],
            "seconds": float(np.median(times[1:])), "cpu_seconds_estimated": cpu, "cpu_shared": shared}  # fmt: skip


def blobs(n: int, d: int, spread: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ten classes, a fifth of the labels wrong: rows, labels, right labels."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((10, d), dtype="float32") * np.float32(spread)
    y = rng.integers(0, 10, n)
    X = rng.standard_normal((n, d), dtype="float32")
    X += centres[y]
    return X, flip_labels(y, 0.2, random_state=1)[0], y


def resident(which: str = "VmRSS") -> int:
    """Memory of this process in KiB, now or the most since `reset_peak`."""
    found = re.search(rf"{which}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def jury(rows: int) -> dict:
    """The default audit and the default classifier through the public calls."""
    X, y, _ = blobs(60_000, 512, 0.2)
    here, there = (audit_labels(X, y, random_state=0, device=one) for one in ("cpu", "cuda"))
    found = {
        "suspects": int(here.is_suspect.sum()), "differ": int((here.is_suspect != there.is_suspect).sum()),
        "plausibility": float(np.abs(here.plausibility - there.plausibility).max()),
    }  # fmt: skip
    X, y, right = blobs(100_000, 128, 0.35)
    for device in ("cuda", "cpu"):
        model = RobustKNeighborsClassifier(random_state=0, device=device)
        with threadpool_limits(2 if device == "cpu" else None):
            start = time.perf_counter()
            model.fit(X, y)
            fitted = time.perf_counter()
            predicted = model.predict(X)
            found |= {f"fit_{device}": fitted - start, f"predict_{device}": time.perf_counter() - fitted}
        found[f"accuracy_{device}"] = float((predicted == right).mean())
    X, y, right = blobs(rows, 512, 0.2)
    gc.collect()
    before = resident()
    reset_peak()
    start = time.perf_counter()
    audit = audit_labels(X, y, random_state=0, device="cuda")
    found |= {"rows": rows, "audit": time.perf_counter() - start,
              "right": float((audit.is_suspect == (y != right)).mean()),
              "beyond_gb": (resident("VmHWM") - before) / 2**20}  # fmt: skip
    return found


def networks(rows: int = 4000) -> dict:
    """`RobustOAHU` with its defaults through the public call: 40 passes of many small batches."""
    from nearkin.deep import RobustOAHU

    X, y, _ = blobs(rows, 512, 0.3)
    found: dict = {"rows": rows}
    for device in ("cuda", "cpu"):
        RobustOAHU(n_epochs=1, random_state=0, device=device).fit(X[:500], y[:500])  # starts the device
        start = time.perf_counter()
        RobustOAHU(random_state=0, device=device).fit(X, y)
        found[device] = time.perf_counter() - start
    return found


@dataclass(frozen=True)
class Goal:
    """What a number should at least be, or at most where `is_most`."""

    what: str
    bound: float
    read: Callable[[dict], float]
    unit: str
    is_most: bool = False

    def judge(self, found: dict) -> tuple[list[str], bool]:
        """Row of the table, and whether the goal is met."""
        value = self.read(found)
        is_met = value <= self.bound if self.is_most else value >= self.bound
        sign = "at most" if self.is_most else "at least"
        return [
            self.what,
            f"{value:.2f}",
            f"{sign} {self.bound:g} {self.unit}",
            "met" if is_met else "**missed**",
        ], is_met


def _full(d: int, measure: str) -> Callable[[dict], float]:
    return lambda found: (
        1e-6 * next(one["uses_4"] for one in found["full_matrix"] if (one["d"], one["measure"]) == (d, measure))
    )


def _factor(section: str, d: int) -> Callable[[dict], float]:
    return lambda found: 1e-6 * next(one["rate"] for one in found[section] if one["d"] == d)


def _classifier(found: dict) -> float:
    cpu, cuda = (sum(found["jury"][f"{what}_{one}"] for what in ("fit", "predict")) for one in ("cpu", "cuda"))
    return cpu / cuda


RATE, TIMES, SECONDS = "million triplets/s", "times", "s"
GOALS = (
    Goal("full matrix, similarity, 512", 2.5, _full(512, "similarity"), RATE),
    Goal("full matrix, distance, 512", 2.5, _full(512, "distance"), RATE),
    Goal("full matrix, similarity, 2048", 1.5, _full(2048, "similarity"), RATE),
    Goal("full matrix, distance, 2048", 1.5, _full(2048, "distance"), RATE),
    Goal("one low-rank stream, (1024, 64)", 3.0, _factor("low_rank", 1024), RATE),
    Goal("128 low-rank learners, (512, 64)", 80.0, _factor("many", 512), RATE),
    Goal("`fit_many` of 128 learners against one core", 40.0,
         lambda found: found["grid"]["cpu_seconds_estimated"] / found["grid"]["seconds"], TIMES),
    Goal("default audit of 1,000,000 x 512", 30.0, lambda found: found["jury"]["audit"], SECONDS, is_most=True),
    Goal("its memory of the host beyond the rows", 1.0, lambda found: found["jury"]["beyond_gb"], "GB", is_most=True),
    Goal("default classifier, 100,000 x 128, against two threads", 20.0, _classifier, TIMES),
    Goal("`RobustOAHU`, 4,000 rows", 3.0, lambda found: found["networks"]["cuda"], SECONDS, is_most=True),
    Goal("plausibility and Robust-kNN of 1,000,000 rows", 10.0,
         lambda found: found["scoring"]["audit_and_index_s"] + found["scoring"]["predict_s"], SECONDS, is_most=True),
)  # fmt: skip


def million(rate: float) -> str:
    return f"{rate / 1e6:.2f} M"


def verdict(found: dict) -> list[str]:
    """Whether the card gives the processor's results, and every goal with what was reached."""
    sweeps, jury = found["checks"], found["jury"]
    judged = [goal.judge(found) for goal in GOALS]
    is_right = all(one["agrees"] for one in sweeps) and not jury["differ"]
    return [
        "## Verdict",
        "",
        f"**{'Right' if is_right else 'WRONG'}**: {sum(one['agrees'] for one in sweeps)} of {len(sweeps)} sweeps agree "
        f"with the processor, {jury['differ']} of {jury['suspects']:,} suspects differ.",
        f"**{sum(met for _, met in judged)} of {len(judged)} goals met**.",
        *table(["work", "reached", "goal", ""], [one for one, _ in judged]),
    ]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["", *(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]), ""]


def describe_jury(one: dict) -> list[str]:
    times = {device: one[f"fit_{device}"] + one[f"predict_{device}"] for device in ("cpu", "cuda")}
    return [
        f"Default audit of {one['rows']:,} x 512, the whole call: {one['audit']:.1f} s,",
        f"{one['beyond_gb']:.1f} GB of host memory beyond the rows;",
        f"{one['right']:.2%} of the rows are judged right.",
        f"Default classifier, fit and predict of 100,000 x 128: {times['cuda']:.1f} s;",
        f"with two threads of the processor {times['cpu']:.1f} s,",
        f"{times['cpu'] / times['cuda']:.1f} times as long.",
        f"Accuracy {one['accuracy_cuda']:.2%} and {one['accuracy_cpu']:.2%}.",
        f"60,000 x 512: {one['differ']} of {one['suspects']:,} suspects differ from those found on the processor,",
        f"plausibilities by {one['plausibility']:.0e} at most.",
    ]


def page(found: dict) -> str:
    """The report."""
    top, sweeps, grid, score, nets = (found[name] for name in ("ceilings", "checks", "grid", "scoring", "networks"))
    worst = {t: max(one["parameter"] for one in sweeps if one["dtype"] == t) for t in ("float64", "float32")}
    lines = ["# Learners on a GPU", ""]
    same = (
        "in several calls on the same kind of machine, ceilings in the last" if found.get("merged") else "in one call"
    )
    lines += [
        f"{top['gpu']}, torch {top['torch']}. Measured {same}:",
        f"a matrix product runs at {top['gemm_float32_tflops']:.1f} TFLOP/s in float32",
        f"and {top['gemm_float64_tflops']:.1f} in float64, a copy at {top['copy_tb_per_s']:.2f} TB/s.",
        "Float32, rescaled hinge, three half-quadratic iterations, C = 0.01: nearly every triplet moves the parameter.",
        "Medians of three, wall time. The CPU core is this package on one core beside it.",
        f"The whole call took {found['total_s'] / 60:.1f} minutes.",
        "",
        *verdict(found),
        "## Same results",
        "",
        f"{sum(one['agrees'] for one in sweeps)} of {len(sweeps)} sweeps agree with the CPU core:",
        "as many updates, parameter and plausibility within 1e-11 in float64 and 1e-4 in float32.",
        f"Largest difference of a parameter: {worst['float64']:.1e} in float64, {worst['float32']:.1e} in float32.",
        "",
        "## Full matrix, one stream, triplets/s",
        "",
        "Rows come from the host's memory; a row is the anchor of one triplet or, as with five classes, of four.",
    ]
    lines += table(
        ["d", "measure", "CPU core", "GPU, 1 a row", "GPU, 4 a row", "times the core", "of GEMM (4d²)"],
        [
            [
                str(one["d"]), one["measure"], f"{one['cpu_core'] / 1e3:.1f} k", million(one["uses_1"]),
                million(one["uses_4"]), f"{one['uses_4'] / one['cpu_core']:.0f}", f"{one['of_gemm']:.2f}",
            ]
            for one in found["full_matrix"]
        ],
    )  # fmt: skip
    for name, title in (
        ("low_rank", "one stream, triplets/s"),
        ("many", "128 learners side by side, triplets/s in total"),
    ):
        lines += [f"## Low rank (distance), {title}"]
        lines += table(
            ["d, r", "one learner on a CPU core", "GPU", "times the core", "of GEMM (8dr)"],
            [
                [
                    f"{one['d']}, {one['r']}", f"{one['cpu_core'] / 1e3:.0f} k", million(one["rate"]),
                    f"{one['rate'] / one['cpu_core']:.1f}", f"{one['of_gemm']:.3f}",
                ]
                for one in found[name]
            ],
        )  # fmt: skip
    total = score["audit_and_index_s"] + score["predict_s"]
    lines += [
        "## A grid through `fit_many`",
        "",
        f"{grid['learners']} learners (32 settings, 4 folds, 6000 x 256, r = 64),",
        f"{grid['triplets'] / 1e6:.1f} M triplets:",
        f"{grid['seconds']:.2f} s, all of `fit` included ({grid['first']:.1f} s the first time, with the compiler);",
        f"one after the other on one core about {grid['cpu_seconds_estimated']:.1f} s, from every sixteenth:",
        f"{grid['cpu_seconds_estimated'] / grid['seconds']:.0f} times as long.",
        f"`fit_many` on one core, which shares triplets too, takes {grid['cpu_shared']:.1f} s.",
        "",
        "## The jury",
        "",
        *describe_jury(found["jury"]),
        "",
        "## Networks",
        "",
        f"`RobustOAHU`, {nets['rows']:,} x 512, 40 passes: {nets['cuda']:.1f} s,",
        f"on the processor {nets['cpu']:.1f} s.",
        "",
        "## Scoring",
        "",
        f"{score['rows']:,} raw rows of 512 features from the host's memory, a learner with 64 components.",
        f"Plausibility of all rows, noise rate and index: {score['audit_and_index_s']:.1f} s.",
        f"Robust-kNN (k = 3) of all rows among all kept rows: {score['predict_s']:.1f} s.",
        f"Both together: {total:.1f} s.",
        f"Estimated noise rate {score['noise_rate']:.3f} for a true 0.2; of as many suspects as there are wrong labels",
        f"{score['wrong_among_suspects']:.1%} are wrong; accuracy on clean labels {score['accuracy']:.1%}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="sections to run; the others are taken from an earlier gpu.json")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the scoring section")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for gpu.json and gpu.md")
    arguments = parser.parse_args()
    from nearkin.accelerator import find

    device = find("cuda", "benchmarks.gpu")
    earlier = arguments.out / "gpu.json"
    found: dict = json.loads(earlier.read_text()) if arguments.only else {}
    found["merged"] = bool(arguments.only)
    found["ceilings"] = ceilings(device)
    ceiling = found["ceilings"]["gemm_float32_tflops"]
    begun = time.perf_counter()
    sections = {
        "checks": lambda: checks(device),
        "full_matrix": lambda: full_matrix(device, ceiling),
        "low_rank": lambda: low_rank(device, ceiling),
        "many": lambda: many(device, ceiling),
        "grid": lambda: grid("cuda"),
        "scoring": lambda: scoring(arguments.rows),
        "jury": lambda: jury(arguments.rows),
        "networks": networks,
    }
    for name, section in sections.items():
        if arguments.only and name not in arguments.only:
            continue
        start = time.perf_counter()
        found[name] = section()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        (arguments.out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    found["total_s"] = time.perf_counter() - begun + (found.get("total_s", 0.0) if arguments.only else 0.0)
    (arguments.out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    (arguments.out / "gpu.md").write_text(page(found))
    print(page(found))
    if not all(one["agrees"] for one in found["checks"]) or found["jury"]["differ"]:
        raise SystemExit("some results are not those of the processor; see gpu.json")


if __name__ == "__main__":
    main()
