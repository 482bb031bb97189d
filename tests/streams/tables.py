"""Small labelled tables in every format, and a process that learns from them and can be killed."""

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from nearkin.saving import write_tree

N, D = 2400, 6
NAMES = [f"f{i}" for i in range(D)]
SOURCES = str(Path(__file__).resolve().parents[2] / "src")


def rows(n=N, d=D, n_classes=4, seed=0, wrong=0.1):
    """Clouds with a tenth of the labels wrong, all in single precision."""
    rng = np.random.default_rng(seed)
    centers = 1.5 * rng.normal(size=(n_classes, d))
    y = rng.integers(0, n_classes, n)
    X = (centers[y] + rng.normal(size=(n, d))).astype(np.float32)
    flipped = rng.random(n) < wrong
    return X, np.where(flipped, rng.integers(0, n_classes, n), y)


def table(X, y, **more):
    return pa.table({**{name: X[:, i] for i, name in enumerate(NAMES)}, "y": y, **more})


def write(folder, kind, X, y, group=500):
    """The rows as files of a kind; returns what `streams.open` takes."""
    folder.mkdir(exist_ok=True)
    if kind == "npy":
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        return {"source": folder / "X.npy", "label": folder / "y.npy"}
    half = len(X) // 2
    for number, part in enumerate((slice(None, half), slice(half, None))):
        if kind == "parquet":
            parquet.write_table(table(X[part], y[part]), folder / f"{number}.parquet", row_group_size=group)
        elif kind == "vectors":
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(X[part].ravel()), X.shape[1])
            parquet.write_table(
                pa.table({"v": vectors, "y": y[part]}), folder / f"{number}.parquet", row_group_size=group
            )
        else:
            csv.write_csv(table(X[part].astype(np.float64), y[part]), folder / f"{number}.csv")
    return {"source": folder, "label": "y"}


def bits(learner):
    """All that a learner has learned and will draw."""
    file = io.BytesIO()
    write_tree(learner.state_, file)
    return file.getvalue()


def python(code, *arguments, **more):
    """A Python process of its own that sees the sources."""
    env = {**os.environ, "PYTHONPATH": SOURCES}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=env, text=True, **more)
