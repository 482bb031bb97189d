"""Goals of the project, beside the measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A bound on one value of one row."""

    what: str
    section: str
    row: str
    value: str
    bound: float
    at_least: bool = True

    def verdict(self, measured: dict[str, float]) -> str:
        """Decided by the median; "close" if the quartiles lie on both sides of the goal."""
        met = measured["median"] >= self.bound if self.at_least else measured["median"] <= self.bound
        if measured["low"] < self.bound < measured["high"]:
            return "met, close" if met else "missed, close"
        return "met" if met else "**missed**"

    @property
    def sign(self) -> str:
        return "≥" if self.at_least else "≤"


def _all() -> Iterator[Goal]:
    for d, bound in ((100, 0.65), (512, 0.80), (1024, 0.85), (2048, 0.92)):
        yield Goal(f"full matrix, share of the limit, d = {d}", "full", f"float32 d={d}", "similarity of limit", bound)
    for d, bound in ((16, 150), (64, 45), (100, 28), (512, 15), (1024, 20)):
        yield Goal(f"full matrix, times literal, d = {d}", "full", f"float32 d={d}", "similarity x literal", bound)
    for d in (512, 1024, 2048):
        yield Goal(f"distance relative to similarity, d = {d}", "full", f"float32 d={d}", "distance / similarity", 0.85)
    for d in (512, 1024, 2048):
        name = f"three half-quadratic iterations against one, d = {d}"
        yield Goal(name, "full", f"float32 d={d}", "similarity HQ 3:1", 1.15, at_least=False)
    for d, r, bound in ((512, 10, 0.55), (512, 64, 0.95), (1024, 64, 0.95), (2048, 64, 0.95)):
        yield Goal(f"low rank, share of the limit, ({d}, {r})", "lowrank", f"float32 d={d} r={r}", "of limit", bound)
    for d, r in ((512, 10), (512, 64), (1024, 64), (2048, 64)):
        name = f"low rank, three iterations against one, ({d}, {r})"
        yield Goal(name, "lowrank", f"float32 d={d} r={r}", "HQ 3:1", 1.15, at_least=False)
    for d, bound in ((34, 8), (100, 15), (200, 25), (512, 80)):
        yield Goal(f"cone, times eigh each step, most leave, d = {d}", "cone", f"leaving d={d}", "x eigh", bound)
        yield Goal(f"cone, share of steps that leave, d = {d}", "cone", f"leaving d={d}", "left the cone", 0.5)
    for system in ("OPML", "SLMOML", "ITML", "OMDML", "LSMDML", "LPA-ODML", "OKS"):
        yield Goal(f"{system}, times literal, d = 100", "systems", f"{system} float32 d=100", "x literal", 15)
    for d in (64, 512):
        yield Goal(f"OCTG, 500 centres, share of GEMM, d = {d}", "octg", f"float32 d={d}", "of GEMM", 0.85)
    for peer, bound in (("LMNN", 1000), ("ITML", 1000), ("NCA", 100)):
        yield Goal(f"digits, one pass, times {peer}", "fit", f"digits {peer}", "x RobustLODML", bound)
    for n in (100_000, 1_000_000):
        name = f"cost of a row, {n:,} rows against 10,000"
        yield Goal(name, "growth", f"stream n={n} d=64", "against shortest", 1.15, at_least=False)
    name = "1,000,000 x 512 in float32: memory beyond chunk and model, MB"
    yield Goal(name, "growth", "stream n=1000000 d=512", "over chunk and model MB", 100, at_least=False)
    for d, r in ((64, 10), (512, 64)):
        for n in (256, 8192):
            for call in ("fit_triplets", "partial_fit_triplets"):
                name = f"{call} of {n:,} triplets, share of the kernel, ({d}, {r})"
                yield Goal(name, "calls", f"{n} triplets ({d}, {r}) scale=None", f"kernel in {call}", 0.85)
            name = f"partial_fit of {n:,} rows, share of the kernels, ({d}, {r})"
            yield Goal(name, "calls", f"partial_fit {n} rows ({d}, {r})", "kernel in partial_fit", 0.85)
    for learner in ("RobustLODML r=16", "RobustLODML r=64", "RobustODML", "RobustOASIS"):
        name = f"partial_fit of 256 rows, share outside kernels, {learner}"
        yield Goal(name, "calls", f"partial_fit 256 rows d=64 {learner}", "outside", 1 / 3, at_least=False)


GOALS = tuple(_all())
