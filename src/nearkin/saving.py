"""One file per model: arrays as npy and the rest as JSON inside a zip, never pickle.

Only classes of this package are written and read. A file is written beside its destination and moved there when it
is complete, so an interrupted save leaves the old one.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

import nearkin
from nearkin import files
from nearkin._version import __version__
from nearkin.stored import attributes_of

__all__ = ["load", "save"]

FORMAT = 1
MODEL = "nearkin-model"
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")

#: Parts of models that are not public names; those are found through the package itself.
_PARTS = {
    "EqualShares": "nearkin.parameters",
    "AdaptiveBounds": "nearkin.deep.oahu",
    "ConvPlan": "nearkin.deep.architectures",
    "DeepMetric": "nearkin.deep.deep_metric",
    "CrossFittedVoter": "nearkin.jury",
    "NoiseModel": "nearkin.noise",
    "FullMatrix": "nearkin.parameters",
    "Identity": "nearkin.parameters",
    "Index": "nearkin.search.index",
    "Interval": "nearkin.search.ranking",
    "Jury": "nearkin.jury",
    "JuryDecision": "nearkin.jury",
    "Labels": "nearkin.labels",
    "Landmarks": "nearkin.jury.ridge",
    "LeadingDirections": "nearkin.jury.ridge",
    "LayeredPlan": "nearkin.deep.architectures",
    "LogDet": "nearkin.parameters",
    "LocalNeighbours": "nearkin.jury",
    "LocalMetrics": "nearkin.parameters",
    "LowRank": "nearkin.parameters",
    "Measure": "nearkin.measures",
    "MlpPlan": "nearkin.deep.architectures",
    "ModalFull": "nearkin.parameters",
    "ModalLowRank": "nearkin.parameters",
    "Modalities": "nearkin.parameters",
    "MercerKernel": "nearkin.mercer",
    "NeighbourVoter": "nearkin.jury",
    "Network": "nearkin.deep.network",
    "OAHU": "nearkin.deep.oahu",
    "PairBounds": "nearkin.parameters",
    "Recovered": "nearkin.parameters",
    "Reservoir": "nearkin.audit.stream_audit",
    "RidgeVoter": "nearkin.jury",
    "RobustKNN": "nearkin.neighbors",
    "RobustOAHU": "nearkin.deep.oahu",
    "Scaling": "nearkin.rows",
    "SimilarityAdapter": "nearkin.search.adapter",
    "Sketched": "nearkin.parameters",
    "State": "nearkin.learners.state",
    "Training": "nearkin.deep.training",
    "Supports": "nearkin.parameters",
}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model (fitted or not) to one file.

    Parameters
    ----------
    model : estimator of this package
        A learner or a classifier.
    path : path-like
        Destination; replaced only when the new file is complete and on disk.

    Examples
    --------
    >>> import tempfile, pathlib, nearkin
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.nearkin"
    ...     nearkin.save(nearkin.RobustODML(C=0.5), path)
    ...     nearkin.load(path)
    RobustODML(C=0.5)
    """
    if not isinstance(model, BaseEstimator) or not hasattr(model, "fit"):
        raise TypeError(f"save takes a learner or a classifier; got {type(model).__name__}.")
    with replacing(path) as file:
        write_tree(model, file)


def write_tree(value: Any, file: BinaryIO, kind: str = MODEL) -> None:
    """Write a value made of this package's objects, arrays and plain Python as one archive of the given kind."""
    tree, arrays = to_tree(value)
    header = {"kind": kind, "format": FORMAT, "nearkin": __version__, "model": tree}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # Without the time of writing, equal models are equal files.
        archive.writestr(zipfile.ZipInfo("model.json"), json.dumps(header, allow_nan=False))
        for i, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def to_tree(value: Any) -> tuple[Any, list[np.ndarray]]:
    """Return a JSON tree of a value, and the arrays that it refers to by number."""
    arrays: list[np.ndarray] = []
    return _encode(value, arrays, "model"), arrays


def model_from(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return the model of a JSON tree; raises if it is not one, or incomplete."""
    return _checked(_decode(tree, arrays))


def read_tree(file: BinaryIO | Path, kind: str = MODEL) -> Any:
    """Read what `write_tree` wrote; whatever is wrong with it is an exception of some kind."""
    with zipfile.ZipFile(file) as archive:
        header = json.loads(archive.read("model.json"))
        if not isinstance(header, dict) or header.get("kind") != kind:
            raise KeyError(f"{kind} expected, {header.get('kind') if isinstance(header, dict) else 'nothing'} found")
        if not isinstance(header.get("format"), int) or header["format"] > FORMAT:
            raise Newer(header.get("nearkin", "unknown"))
        names = [n for n in archive.namelist() if n.endswith(".npy")]
        arrays = {n[:-4]: np.lib.format.read_array(io.BytesIO(archive.read(n)), allow_pickle=False) for n in names}
        return _decode(header["model"], arrays)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """File to write to; when the block ends it is on disk and takes the place of ``path``, as a whole or not at all."""
    path = Path(path)
    target = path.resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "cannot save: this is no regular file", str(path))
    with ExitStack() as stack:
        try:
            file = stack.enter_context(files.replacing(target, durable=True))
        except OSError as error:
            raise type(error)(error.errno, f"cannot save: {error.strerror}", str(path)) from None
        yield file


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model written by `save`.

    Parameters
    ----------
    path : path-like
        File.

    Returns
    -------
    estimator
        Equal to the one saved; it can learn on.

    Raises
    ------
    ValueError
        If the file is damaged, of another kind, or written by a newer version.

    Examples
    --------
    >>> import tempfile, pathlib, nearkin
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.nearkin"
    ...     nearkin.save(nearkin.LODML().fit([[0.0], [0.1], [1.0]], [0, 0, 1]), path)
    ...     nearkin.load(path).classes_.tolist()
    [0, 1]
    """
    path = Path(path)
    try:
        return _checked(read_tree(path))
    except (FileNotFoundError, PermissionError, ImportError):  # an extra may be missing
        raise
    except Newer as error:
        raise ValueError(
            f"{path} was written by a newer nearkin ({error}); this is {__version__}. Upgrade nearkin to read it."
        ) from None
    except Exception as error:  # whatever a foreign or damaged file brings up, it is no model
        raise ValueError(
            f"{path} is not a nearkin model, or it is damaged ({type(error).__name__}: {error})."
        ) from None


def _checked(model: Any) -> Any:
    """The model, if it is one and complete."""
    if not isinstance(model, BaseEstimator) or not hasattr(model, "fit"):
        raise TypeError(f"it holds {type(model).__name__}, no model")
    model.get_params()
    return model


class Newer(Exception):
    """The file's format is newer than this package."""


def _encode(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    """JSON tree of a value; arrays are collected beside it."""
    if value is None or (isinstance(value, (bool, str, int)) and type(value) in (bool, str, int)):
        return value
    if isinstance(value, np.generic) and not isinstance(value, float | str):
        plain = value.astype(np.int64).item() if value.dtype.kind in "mM" else value.item()
        return {"$scalar": _encode(plain, arrays, where), "dtype": value.dtype.str}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.dtype):
        return {"$dtype": value.str}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"$objects": [_encode(one, arrays, where) for one in value.ravel()], "shape": list(value.shape)}
        for i, known in enumerate(arrays):  # parts of a model may share their rows or labels
            if _is_same(known, value):
                return {"$array": str(i)}
        arrays.append(np.ascontiguousarray(value).reshape(value.shape))
        return {"$array": str(len(arrays) - 1)}
    if isinstance(value, slice):
        return {"$slice": [_encode(one, arrays, where) for one in (value.start, value.stop, value.step)]}
    if isinstance(value, (list, tuple)):
        return {"$" + type(value).__name__: [_encode(one, arrays, where) for one in value]}
    if isinstance(value, dict):
        return {"$dict": [[_encode(k, arrays, where), _encode(v, arrays, where)] for k, v in value.items()]}
    if isinstance(value, np.random.Generator):
        return {"$generator": _encode(value.bit_generator.state, arrays, where)}
    if isinstance(value, np.random.RandomState):
        return {"$random_state": _encode(value.get_state(legacy=False), arrays, where)}
    if isinstance(value, FrozenEstimator):
        return {"$frozen": _encode(value.estimator, arrays, where)}
    name = type(value).__name__
    if type(value) is _class(name):
        declared = attributes_of(type(value))
        if declared is not None:
            kept = {k: getattr(value, k) for k in declared}
        else:
            kept = {k: v for k, v in vars(value).items() if k not in getattr(value, "_transient", ())}
        return {"$class": name, "state": {k: _encode(v, arrays, f"{where}.{k}") for k, v in kept.items()}}
    raise TypeError(
        f"cannot save {where}: {type(value).__module__}.{name} is no class of nearkin. Models with parts of your own "
        "cannot be written to a nearkin file."
    )


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are the same numbers in memory."""
    described = [(a.ctypes.data, a.shape, a.strides, a.dtype) for a in (one, other)]
    return one.size > 0 and described[0] == described[1]


def _decode(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Value of a JSON tree."""
    if not isinstance(tree, dict):
        return tree
    if "$class" in tree:
        return _object(tree, arrays)
    if "$array" in tree:
        return arrays[tree["$array"]]
    if "$objects" in tree:
        flat = np.empty(len(tree["$objects"]), dtype=object)
        flat[:] = [_decode(one, arrays) for one in tree["$objects"]]
        return flat.reshape(tree["shape"])
    if "$scalar" in tree:
        dtype = np.dtype(tree["dtype"])
        plain = _decode(tree["$scalar"], arrays)
        return np.array(plain, dtype=np.int64).view(dtype)[()] if dtype.kind in "mM" else dtype.type(plain)
    if "$float" in tree:
        return float(tree["$float"])
    if "$dtype" in tree:
        return np.dtype(tree["$dtype"])
    if "$dict" in tree:
        return {_decode(k, arrays): _decode(v, arrays) for k, v in tree["$dict"]}
    if "$generator" in tree:
        state = _decode(tree["$generator"], arrays)
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise KeyError(f"generator {state['bit_generator']!r}")
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)
    if "$random_state" in tree:
        made = np.random.RandomState()
        made.set_state(_decode(tree["$random_state"], arrays))
        return made
    if "$frozen" in tree:
        return FrozenEstimator(_decode(tree["$frozen"], arrays))
    if "$slice" in tree:
        return slice(*(_decode(one, arrays) for one in tree["$slice"]))
    if "$list" in tree:
        return [_decode(one, arrays) for one in tree["$list"]]
    if "$tuple" in tree:
        return tuple(_decode(one, arrays) for one in tree["$tuple"])
    raise KeyError(f"unknown entry {sorted(tree)[:3]}")


def _class(name: str) -> type | None:
    """Class of this package that may stand in a file under this name."""
    home = _PARTS.get(name) or nearkin._HOME.get(name)
    found = getattr(importlib.import_module(home), name) if home else None
    return found if isinstance(found, type) else None


def _object(tree: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    cls = _class(tree["$class"])
    if cls is None:
        raise KeyError(f"class {tree['$class']!r}")
    made: Any = object.__new__(cls)
    vars(made).update({str(k): _decode(v, arrays) for k, v in tree["state"].items()})
    return made
