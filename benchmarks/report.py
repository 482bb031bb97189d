"""Results as a page, as a picture, and beside an older run."""

from __future__ import annotations

from pathlib import Path

from .goals import GOALS, Goal

TITLES = {
    "full": "Full matrix",
    "lowrank": "Low rank (RobustLODML)",
    "cone": 'Cone (ODML, psd="project")',
    "systems": "Systems that the paper compares with",
    "octg": "OCTG, 500 centres",
    "fit": "End to end",
    "growth": "Growth",
    "calls": "Calls",
}

EXPLAINED = {
    "full": "Default settings (three half-quadratic iterations); *x literal* compares one iteration with one. "
    "The limit is 4 d² flops per triplet at the GEMM rate of the same round. *Loop traffic of stream*: what a loop "
    "walking M three times per triplet would move, in units of the stream triad; above 1, it could not keep up.",
    "lowrank": "Exact step; the limit is 8 d r flops per triplet. The literal loop takes one sub-gradient step.",
    "cone": "Hinge, float64. Both sides start from the same matrix, after as many steps as are timed.",
    "systems": "Robust forms. *x literal* compares one half-quadratic iteration with one; the literal loops take the "
    "closed forms as printed, O(d²); that of LPA-ODML decomposes a matrix for each of its three projections, hardly "
    "any of which is needed at this C, and that of OKS takes all terms at once.",
    "octg": "Calls of 2,048 rows; *same product* is the bare matrix product of these shapes.",
    "fit": "Seconds of processor time, one thread, default parameters; *x* columns say how many times longer the peer "
    "took on the same rows.",
    "growth": "Streams in fresh processes; memory over start is the peak less what the process held before the stream.",
    "calls": "*Kernel in* is the share of compiled sweeps, and of the search for impostors, in the processor time of a "
    "call. *Outside* is the share of wall time spent neither learning nor searching for impostors nor with the "
    "arithmetic of a discriminant start.",
}


def number(x: float) -> str:
    """Three digits, readable."""
    if x != 0 and abs(x) < 0.001:
        return f"{x:.1e}"
    if abs(x) >= 1e6:
        return f"{x / 1e6:.3g}M"
    if abs(x) >= 1e4:
        return f"{x / 1e3:.3g}k"
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def cell(value: dict[str, float] | None) -> str:
    """Median with its quartiles."""
    if value is None:
        return "–"
    if value["low"] == value["high"]:
        return number(value["median"])
    return f"{number(value['median'])} ({number(value['low'])}–{number(value['high'])})"


def find(results: dict, section: str, name: str) -> dict | None:
    """A row by its place."""
    return next((r for r in results["rows"] if r["section"] == section and r["name"] == name), None)


def markdown(results: dict, picture: str | None = None) -> str:
    """The whole page."""
    lines = [f"# nearkin: speed, run `{results['name']}`", ""]
    lines += ["Median of the rounds, in brackets the quartiles. How it is measured: docs/speed.md.", ""]
    lines += _machine(results)
    if picture:
        lines += [f"![Speed of nearkin]({picture})", ""]
    lines += ["## Goals", "", "| goal | | measured | |", "|---|---|---|---|"]
    sections = {r["section"] for r in results["rows"]}
    for goal in (one for one in GOALS if one.section in sections):
        found = find(results, goal.section, goal.row)
        measured = found["values"].get(goal.value) if found else None
        verdict = _verdict(goal, measured, found["note"]) if found and measured else "not measured"
        lines.append(f"| {goal.what} | {goal.sign} {number(goal.bound)} | {cell(measured)} | {verdict} |")
    lines.append("")
    for section, title in TITLES.items():
        rows = [r for r in results["rows"] if r["section"] == section]
        if rows:
            lines += [f"## {title}", "", EXPLAINED[section], ""]
            for group in _groups(rows):
                lines += _table(group)
    return "\n".join(lines)


def _verdict(goal: Goal, measured: dict[str, float], note: str) -> str:
    """A peer on a subset says nothing about the goal; a peer that was stopped gives a lower bound."""
    if "subset" in note:
        return f"not judged: {note}"
    verdict = goal.verdict(measured)
    if "stopped" in note:
        return "met, at least" if verdict == "met" else "undecided: the peer was stopped"
    return verdict


def _machine(results: dict) -> list[str]:
    machine = results["machine"]
    blas = sorted(
        {f"{p['internal_api']} {p.get('version')}" for p in machine["thread_pools"] if p["user_api"] == "blas"}
    )
    lines = [
        f"* {machine['cpu']}, {machine['cores']} cores, caches "
        + ", ".join(f"{k} {v}" for k, v in machine["caches"].items()),
        "* " + ", ".join(f"{k} {v}" for k, v in machine["packages"].items()) + f", Python {machine['python']}",
        f"* BLAS: {', '.join(blas)}; GEMM, one thread: {machine['gemm_float32_gflops']} Gflop/s in float32, "
        f"{machine['gemm_float64_gflops']} in float64; stream triad {machine['stream_triad_gbytes']} GB/s",
        f"* load average {machine['load_average_before']} before, {machine.get('load_average_after')} after; "
        f"{results['options']['rounds']} rounds" + (", quick" if results["options"]["quick"] else ""),
    ]
    if results.get("date"):
        lines.append(f"* {results['date']}")
    return [*lines, ""]


def _groups(rows: list[dict]) -> list[list[dict]]:
    """Rows with the same columns share a table; rows without values join the last one."""
    groups: list[tuple[tuple, list[dict]]] = []
    for one in rows:
        columns = tuple(one["values"])
        same = next((group for known, group in groups if known == columns or not columns), None)
        if same is not None:
            same.append(one)
        else:
            groups.append((columns, [one]))
    return [group for _, group in groups]


def _table(rows: list[dict]) -> list[str]:
    columns = list(dict.fromkeys(key for one in rows for key in one["values"]))
    notes = any(one["note"] for one in rows)
    lines = ["| | " + " | ".join(columns) + (" | |" if notes else " |"), "|---" * (len(columns) + 1 + notes) + "|"]
    for one in rows:
        cells = [cell(one["values"].get(key)) for key in columns] + ([one["note"]] if notes else [])
        lines.append(f"| {one['name']} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def compare(new: dict, old: dict) -> str:
    """Every value that both runs have, and their ratio."""
    lines = [f"{'':58s} {'old':>10s} {'new':>10s} {'new/old':>8s}"]
    for one in new["rows"]:
        before = find(old, one["section"], one["name"])
        if before is None:
            continue
        for key, value in one["values"].items():
            if key in before["values"]:
                was, now = before["values"][key]["median"], value["median"]
                ratio = f"{now / was:8.2f}" if was else "       –"
                label = f"{one['section']}: {one['name']}, {key}"
                lines.append(f"{label:58s} {number(was):>10s} {number(now):>10s} {ratio}")
    return "\n".join(lines)


# ---------------------------------------------------------------------- picture

OURS, OTHER, THIRD, FAINT = "#00796b", "#d84315", "#5e35b1", "#9e9e9e"


def draw(results: dict, path: Path) -> bool:
    """Up to six small pictures, one for each section that was measured; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [panel for panel in (_limit, _times, _cone, _peers, _stream, _width) if panel(results, None)]
    if not panels:
        return False
    style = {
        "svg.hashsalt": "nearkin", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
        "axes.spines.right": False, "axes.titlesize": 10, "axes.titlelocation": "left", "legend.frameon": False,
        "legend.fontsize": 8,
    }  # fmt: skip
    with plt.rc_context(style):
        n_columns = min(3, len(panels))
        n_lines = -(-len(panels) // n_columns)
        figure, axes = plt.subplots(n_lines, n_columns, figsize=(4.2 * n_columns, 3.2 * n_lines), squeeze=False)
        for axis in axes.ravel()[len(panels) :]:
            axis.axis("off")
        for panel, axis in zip(panels, axes.ravel(), strict=False):
            panel(results, axis)
        figure.tight_layout(w_pad=2.0, h_pad=2.0)
        metadata = {"Date": None, "Creator": "nearkin"} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)
        plt.close(figure)
    return True


def _series(results: dict, section: str, start: str, value: str, key: str = "d") -> tuple[list, list, list, list]:
    """Points of rows whose name has a prefix: the number after ``key=``, median and quartiles."""
    points = []
    for one in results["rows"]:
        words = dict(word.split("=") for word in one["name"].split() if "=" in word)
        if one["section"] == section and one["name"].startswith(start) and key in words and value in one["values"]:
            v = one["values"][value]
            points.append((int(words[key]), v["median"], v["low"], v["high"]))
    return tuple(map(list, zip(*sorted(points), strict=True))) if points else ([], [], [], [])


def _line(axis, points, color, label, style="-") -> None:
    x, y, low, high = points
    if x:
        axis.plot(x, y, style, color=color, marker="o", markersize=3.5, label=label)
        axis.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def _ticks(axis, xs, log_y: bool = False) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    axis.set_xscale("log")
    xs = sorted(set(xs))
    axis.set_xticks(xs, [f"{x:,}" for x in xs])
    axis.xaxis.set_minor_locator(NullLocator())
    if log_y:
        axis.set_yscale("log")
        axis.yaxis.set_minor_formatter(NullFormatter())


def _goal_points(axis, section: str, value: str, pattern: str, measured: list) -> None:
    points = [(int(g.row.split("d=")[1].split()[0]), g.bound) for g in GOALS
              if g.section == section and g.value == value and pattern in g.row]  # fmt: skip
    points = [point for point in points if point[0] in measured]
    if points:
        axis.plot(*zip(*points, strict=True), "_", color="black", markersize=11, label="goal")


def _limit(results: dict, axis) -> bool:
    lines = [(_series(results, "full", f"{dtype} ", f"{measure} of limit"), color, f"{measure}, {dtype}", style)
             for dtype, style in (("float32", "-"), ("float64", "--"))
             for measure, color in (("similarity", OURS), ("distance", OTHER))]  # fmt: skip
    if axis is None:
        return any(points[0] for points, *_ in lines)
    for points, color, label, style in lines:
        _line(axis, points, color, label, style)
    _goal_points(axis, "full", "similarity of limit", "float32", lines[0][0][0])
    _ticks(axis, [x for points, *_ in lines for x in points[0]])
    axis.set(title="Full matrix: share of the GEMM limit", xlabel="features d", ylim=(0, 1.05))
    axis.legend(loc="lower right")
    return True


def _times(results: dict, axis) -> bool:
    full = _series(results, "full", "float32 ", "similarity x literal")
    distance = _series(results, "full", "float32 ", "distance x literal")
    low = [r for r in results["rows"] if r["section"] == "lowrank" and r["name"].startswith("float32") and r["values"]]
    if axis is None:
        return bool(full[0] or low)
    _line(axis, full, OURS, "full matrix, similarity")
    _line(axis, distance, OTHER, "full matrix, distance")
    for rank, style in (("10", "-"), ("64", "--")):
        chosen = {"rows": [r for r in low if r["name"].endswith(f"r={rank}")]}
        _line(axis, _series(chosen, "lowrank", "float32", "x literal"), THIRD, f"low rank, r = {rank}", style)
    _goal_points(axis, "full", "similarity x literal", "float32", full[0])
    xs = full[0] + [int(r["name"].split("d=")[1].split()[0]) for r in low]
    _ticks(axis, xs, log_y=True)
    axis.set(title="Times the literal NumPy loop, float32", xlabel="features d")
    axis.legend()
    return True


def _cone(results: dict, axis) -> bool:
    eigh = _series(results, "cone", "leaving", "us/step eigh")
    if axis is None:
        return bool(eigh[0])
    _line(axis, eigh, FAINT, "eigh each step")
    _line(axis, _series(results, "cone", "leaving", "us/step"), OTHER, "most steps leave")
    _line(axis, _series(results, "cone", "staying", "us/step"), OURS, "no step leaves")
    _ticks(axis, eigh[0], log_y=True)
    axis.set(title="Cone: µs per step", xlabel="features d")
    axis.legend()
    return True


def _peers(results: dict, axis) -> bool:
    rows = [r for r in results["rows"] if r["section"] == "fit" and "seconds" in r["values"]]
    if axis is None:
        return bool(rows)
    rows = sorted(
        rows, key=lambda r: (r["name"].split()[0], r["values"]["us/row"]["median"] if "us/row" in r["values"] else 1e12)
    )
    labels, values, colors = [], [], []
    for one in rows:
        n, seconds = one["values"]["rows"]["median"], one["values"]["seconds"]["median"]
        labels.append(f"{one['name'].replace(', 4 centres by k-means', ', k-means')} ({n:.0f} rows)")
        values.append(1e6 * seconds / n)
        colors.append(OURS if "Robust" in one["name"] else FAINT)
    axis.barh(range(len(rows)), values, color=colors)
    axis.set_yticks(range(len(rows)), labels, fontsize=7)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set(title="Fit: µs per row", xlabel="processor time")
    return True


def _stream(results: dict, axis) -> bool:
    cost = _series(results, "growth", "stream", "us/row after first chunk", key="n")
    if axis is None:
        return bool(cost[0])
    _line(axis, cost, OURS, "µs per row, d = 64")
    memory = _series(
        {"rows": [r for r in results["rows"] if r["name"].endswith("d=64")]},
        "growth",
        "stream",
        "over start MB",
        key="n",
    )
    _line(axis, memory, OTHER, "peak memory over start, MB")
    _ticks(axis, cost[0])
    axis.set_ylim(0, 1.35 * max(cost[3] + memory[3]))
    axis.set(title="A longer stream", xlabel="rows")
    axis.legend(loc="upper left")
    return True


def _width(results: dict, axis) -> bool:
    cost = _series(results, "growth", "width", "us/triplet")
    if axis is None:
        return bool(cost[0])
    _line(axis, cost, OURS, "RobustLODML, r = min(d, 64)")
    _ticks(axis, cost[0], log_y=True)
    axis.set(title="Wider rows: µs per triplet", xlabel="features d")
    axis.legend(loc="upper left")
    return True
