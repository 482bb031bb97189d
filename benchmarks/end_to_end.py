"""From raw rows to a learned metric through the public `fit`, against popular batch metric learners.

One pass with default parameters (scaling, centres, triplets, learning and the scores of all rows included). Every peer
fits in a process of its own, with its defaults, on one thread, and reports its own time; loading is not counted on
either side. Peers see z-scored rows, which they need and which is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import nearkin

from .settings import HERE, Settings
from .timing import Task, Times, interleave, row, skipped

SECTION = "fit"
VENV = HERE / ".peers-venv"
WANTED = ("metric-learn", "scikit-learn<1.8")
METRIC_LEARN = ("LSML", "SCML", "LMNN", "ITML")
FITS = 4
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}

#: Rows to fit a peer on: the whole training set, or a subset if that would take too long.
ROWS = {
    ("digits", False): {"NCA": None, "LSML": None, "SCML": None, "LMNN": None, "ITML": None},
    ("digits", True): {"NCA": None, "LSML": None, "SCML": 300, "LMNN": 300, "ITML": 300},
    ("letters", False): {"NCA": 2000, "LSML": None, "SCML": 2000, "LMNN": 2000, "ITML": 2000},
    ("letters", True): {"NCA": 500, "LSML": 2000},
}

OURS = {
    "RobustLODML": lambda: nearkin.RobustLODML(random_state=0),
    "RobustODML": lambda: nearkin.RobustODML(random_state=0),
    "RobustLODML, 4 centres by k-means": lambda: nearkin.RobustLODML(
        triplets=nearkin.OCTG(n_centers=4), random_state=0
    ),
}


def run(settings: Settings) -> Iterator[dict]:
    python, why = peers_python(install=not settings.quick)
    for name, load in (("digits", _digits), ("letters", _letters)):
        split = load(settings)
        if split is None:
            yield skipped(SECTION, name, "no letters.npz; name its folder with --data or NEARKIN_DATA")
            continue
        yield from _ours(name, split, settings)
        for peer, n in ROWS[name, settings.quick].items():
            interpreter = sys.executable if peer == "NCA" else python
            if interpreter is None:
                yield skipped(SECTION, f"{name} {peer}", why)
            else:
                yield _against(name, peer, split, n, str(interpreter), settings)


def _ours(name: str, split, settings: Settings) -> Iterator[dict]:
    X, y, *_ = split
    models = {key: make().fit(X, y) for key, make in OURS.items()}
    tasks = [Task(key, len(X), lambda _, make=make: make().fit(X, y)) for key, make in OURS.items()]
    times = interleave(tasks, max(settings.rounds, 5))
    for key, model in models.items():
        values = {
            "rows": len(X),
            "seconds": times[key].cpu,
            "us/row": 1e6 * times[key].per_unit,
            "3-NN accuracy": _accuracy(model.transform, split),
        }
        yield row(SECTION, f"{name} {key}", values, {key: times[key]})


def _against(name: str, peer: str, split, n: int | None, python: str, settings: Settings) -> dict:
    """The peer and ours in turn on the same rows; a slow peer once."""
    label, n_all = f"{name} {peer}", len(split[0])
    X, y, X_test, y_test = _subset(split, n)
    tasks = [Task(key, len(X), lambda _, key=key: OURS[key]().fit(X, y)) for key in ("RobustLODML", "RobustODML")]
    times = {key: Times(len(X)) for key in [*(task.name for task in tasks), peer]}
    ratios: dict[str, list[float]] = {task.name: [] for task in tasks}
    for _ in range(3):
        said = _peer(peer, X, y, X_test, y_test, python, settings)
        if "error" in said:
            return skipped(SECTION, label, said["error"])
        times[peer].cpu.append(said["cpu"])
        times[peer].wall.append(said["wall"])
        for key, ours in interleave(tasks, FITS).items():
            times[key].cpu += ours.cpu
            times[key].wall += ours.wall
            ratios[key] += [said["cpu"] / seconds for seconds in ours.cpu]
        if said["cpu"] > 5.0:
            break
    values = {"rows": len(X), "seconds": times[peer].cpu, "us/row": 1e6 * times[peer].per_unit}
    notes = []
    if len(X) < n_all:
        notes.append(f"subset, {len(X)} of {n_all} rows")
    if said["stopped"]:
        notes.append("stopped, the ratio is at least this")
    else:
        values["3-NN accuracy"] = said["accuracy"]
    values |= {f"x {key}": ratio for key, ratio in ratios.items()}
    return row(SECTION, label, values, times, "; ".join(notes))


def _peer(peer: str, X, y, X_test, y_test, python: str, settings: Settings) -> dict:
    """Output of the peer's process, or why there is none."""
    mean, std = X.mean(axis=0), X.std(axis=0)
    std[std == 0] = 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        np.savez(file, X=(X - mean) / std, y=y, X_test=(X_test - mean) / std, y_test=y_test)
        try:
            done = subprocess.run(
                [python, str(HERE / "peers.py"), peer, str(file), str(settings.peer_timeout)],
                env={**os.environ, **ONE_THREAD}, capture_output=True, text=True,
                timeout=60 + 3 * settings.peer_timeout,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error": f"no answer within {60 + 3 * settings.peer_timeout:g} s"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"error": f"it failed: {last[0][:200]}"}
    return json.loads(done.stdout.splitlines()[-1])


def peers_python(install: bool) -> tuple[Path | None, str]:
    """Interpreter of the peers' environment, created if needed; None with the reason if that fails."""
    python = VENV / "bin" / "python"
    if _has_metric_learn(python):
        return python, ""
    if not install:
        return None, "metric-learn's environment is made by the full benchmark only"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True, capture_output=True, timeout=120)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *WANTED]
        subprocess.run(pip, check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"metric-learn could not be installed ({type(error).__name__})"
    return (python, "") if _has_metric_learn(python) else (None, "metric-learn cannot be imported after installation")


def _has_metric_learn(python: Path) -> bool:
    if not python.exists():
        return False
    return subprocess.run([str(python), "-c", "import metric_learn"], capture_output=True).returncode == 0


def _split(X, y):
    """Seven tenths to learn from, in a fixed random order."""
    order = np.random.default_rng(0).permutation(len(X))
    cut = int(0.7 * len(X))
    X, y = np.ascontiguousarray(X, dtype=np.float64)[order], np.asarray(y)[order]
    return X[:cut], y[:cut], X[cut:], y[cut:]


def _digits(settings: Settings):
    from sklearn.datasets import load_digits

    return _split(*load_digits(return_X_y=True))


def _letters(settings: Settings):
    if settings.data is None or not (settings.data / "letters.npz").exists():
        return None
    with np.load(settings.data / "letters.npz") as file:
        return _split(file["X"], np.unique(file["y"], return_inverse=True)[1])


def _subset(split, n: int | None):
    X, y, X_test, y_test = split
    return (X, y, X_test, y_test) if n is None else (X[:n], y[:n], X_test[:1000], y_test[:1000])


def _accuracy(transform, split) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    X, y, X_test, y_test = split
    return KNeighborsClassifier(3).fit(transform(X), y).score(transform(X_test), y_test)
