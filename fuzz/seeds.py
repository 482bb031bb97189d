"""Good files of every kind, made once; attacks begin from them."""

from __future__ import annotations

import gzip
import inspect
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import nearkin
from nearkin import learners, saving, streams
from nearkin.search import SimilarityAdapter

ROWS, FEATURES = 48, 4
CHECKPOINT = streams.checkpoint.KIND
GENERATORS: dict[str, Callable[[], Any]] = {
    "drawn": lambda: np.random.Generator(np.random.MT19937(5)),
    "philox": lambda: np.random.Generator(np.random.Philox(5)),
    "legacy": lambda: np.random.RandomState(5),
}
#: Learners in the paper's form, without a start, and a start with centres beside it.
PRINTED: dict[str, Callable[[], Any]] = {
    "printed map": lambda: nearkin.RobustLODML(init="auto", triplets="octg", C=0.1, random_state=0),
    "printed matrix": lambda: nearkin.RobustODML(init="identity", triplets="octg", C=0.1, random_state=0),
    "printed similarity": lambda: nearkin.RobustOASIS(init="identity", triplets="octg", C=0.1, random_state=0),
    "start with centres": lambda: nearkin.RobustLODML(triplets=nearkin.OCTG(max_centers=6), random_state=0),
}
HAS_DEEP = find_spec("torch") is not None and find_spec("safetensors") is not None


def rows(seed: int = 0, n: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of three classes and their labels, a few of them wrong."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    X = rng.normal(size=(n, FEATURES))
    X[np.arange(n), y] += 3.0
    y[: n // 12] = (y[: n // 12] + 1) % 3
    return X.round(6), y


@dataclass(frozen=True)
class ModelSeed:
    """A model file: how it is written, how it is read, and its bytes."""

    group: str
    value: Any
    write: Callable[[Any, Path], None]
    read: Callable[[Path], Any]
    content: bytes

    def fresh(self) -> Any:
        """Return the model as the good file gives it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(self.content)
            return self.read(path)


@cache
def model_names() -> dict[str, list[str]]:
    """Return the names of all model files by kind."""
    known = [name for name in learners.__all__ if _is_learner(getattr(learners, name))]
    names = {
        "learner": [*known, *PRINTED, *GENERATORS], "classifier": ["jury", "knn"], "audit": ["audit"],
        "adapter": ["adapter"], "stream checkpoint": ["checkpoint"],
    }  # fmt: skip
    return names | ({"network": ["deep metric", "oahu", "zipped oahu"]} if HAS_DEEP else {})


@cache
def model_seed(name: str) -> ModelSeed:
    """Return the good file of a name, made when it is first wanted."""
    group = next(kind for kind, names in model_names().items() if name in names)
    with warnings.catch_warnings(action="ignore"), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        if name == "checkpoint":
            resume(path)
            value, write, read = saving.read_tree(path, CHECKPOINT), _write_checkpoint, resume
        else:
            value, write, read = _make(name), nearkin.save, nearkin.load
            if group == "network" and name != "zipped oahu":
                from nearkin import deep

                write, read = deep.save, deep.load
            write(value, path)
        return ModelSeed(group, value, write, read, path.read_bytes())


def _is_learner(cls: Any) -> bool:
    return inspect.isclass(cls) and issubclass(cls, BaseEstimator) and cls is not learners.OnlineLearner


def _make(name: str) -> Any:
    """Return a fitted model."""
    X, y = rows()
    labels = np.array(["a", "b", "c"])[y]
    if name in learners.__all__:
        cls = getattr(learners, name)
        seeded = {"random_state": 0} if "random_state" in inspect.signature(cls).parameters else {}
        return cls(**seeded).fit(X, labels)
    if name in PRINTED:
        return PRINTED[name]().fit(X, labels)
    if name in GENERATORS:
        return nearkin.RobustLODML(triplets="random", random_state=GENERATORS[name]()).fit(X, labels)
    if name == "jury":
        return nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, labels)
    if name == "knn":
        return nearkin.RobustKNeighborsClassifier(nearkin.RobustODML(random_state=0), n_neighbors=3).fit(X, labels)
    if name == "audit":
        return nearkin.StreamAudit().partial_fit(X, labels)
    if name == "adapter":
        return SimilarityAdapter().fit(*np.random.default_rng(0).normal(size=(3, 40, FEATURES)))
    return _make_network(name)


def _make_network(name: str) -> Any:
    import torch

    from nearkin import deep

    torch.set_num_threads(1)  # a forked child must not inherit threads
    X, y = rows()
    if name == "deep metric":
        return deep.DeepMetric(n_components=2, n_epochs=1, random_state=0).fit(X.astype(np.float32), y)
    return deep.RobustOAHU(hidden=(8,), n_components=3, n_epochs=1, random_state=0).fit(X.astype(np.float32), y)


def resume(path: Path) -> Any:
    """Return the learner of a run that goes on from a checkpoint, if there is one."""
    X, y = rows(n=120)
    stream = streams.open([(X, y)], batch_rows=40)
    learner = nearkin.RobustLODML(random_state=0)
    return streams.fit_stream(learner, stream, checkpoint=path, checkpoint_every=0.0, resume=True)


def _write_checkpoint(value: Any, path: Path) -> None:
    with path.open("wb") as file:
        saving.write_tree(value, file, CHECKPOINT)


@cache
def data_seeds() -> dict[str, bytes]:
    """Return one good table in every format, by suffix."""
    X, y = rows()
    names = np.array(["ale", "bock", "cider"])[y]
    lines = ["f0,f1,f2,f3,y", *(",".join([*map(str, row), label]) for row, label in zip(X, names, strict=True))]
    text = "\n".join(lines) + "\n"
    made = {
        "csv": text.encode(),
        "csv.gz": gzip.compress(text.encode(), mtime=0),
        "tsv": text.replace(",", "\t").encode(),
        "npy": _numpy(np.save, X),
        "npz": _numpy(np.savez, X=X, y=names),
        "labels.npy": _numpy(np.save, names),
        "labels.txt": ("\n".join(names) + "\n").encode(),
    }
    if find_spec("pyarrow"):
        made["parquet"] = parquet({**{f"f{i}": X[:, i] for i in range(FEATURES)}, "y": names.tolist()})
    return made


@cache
def search_seeds() -> dict[str, bytes]:
    """Return vectors and feedback for ``nearkin adapt``, by name of file."""
    rng = np.random.default_rng(1)
    queries, items = rng.normal(size=(30, FEATURES)).round(5), rng.normal(size=(40, FEATURES)).round(5)
    query, clicked, skipped = rng.integers(0, 30, 90), rng.integers(0, 20, 90), rng.integers(20, 40, 90)
    table = {"query": query, "clicked": clicked, "skipped": skipped}
    lines = ["query,clicked,skipped", *(f"{a},{b},{c}" for a, b, c in zip(query, clicked, skipped, strict=True))]
    objects = [dict(zip(table, map(int, one), strict=True)) for one in zip(query, clicked, skipped, strict=True)]
    made = {
        "queries.npy": _numpy(np.save, queries),
        "items.npy": _numpy(np.save, items),
        "feedback.csv": ("\n".join(lines) + "\n").encode(),
        "feedback.npz": _numpy(np.savez, **table),
        "feedback.jsonl": ("\n".join(map(json.dumps, objects)) + "\n").encode(),
        "query_ids.txt": ("\n".join(map(str, range(30))) + "\n").encode(),
    }
    if find_spec("pyarrow"):
        made["feedback.parquet"] = parquet(table)
    return made


def parquet(columns: dict[str, Any]) -> bytes:
    """Return columns as a Parquet file of several row groups."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=20)
    return file.getvalue()


def _numpy(write: Callable[..., None], *arrays: Any, **named: Any) -> bytes:
    file = io.BytesIO()
    write(file, *arrays, **named)
    return file.getvalue()
