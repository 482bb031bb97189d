"""One file per model: arrays as npy and the rest as JSON inside a zip, never pickle.

Only classes of this package are written and read. A file is written beside its destination and moved there when it
is complete, so an interrupted save leaves the old one.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from nearkin._version import __version__
from nearkin.files import replacing
from nearkin.stored import attributes_of, is_stored, state_of

__all__ = ["FORMAT", "Newer", "load", "model_from", "read_tree", "save", "to_tree", "write_tree"]

FORMAT = 1
MODEL = "nearkin-model"
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


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
    with replacing(path, "model", durable=True) as file:
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
    return _check_model(_decode(tree, arrays))


def read_tree(file: BinaryIO | Path, kind: str = MODEL) -> Any:
    """Read what `write_tree` wrote; anything wrong with it is an exception of some kind."""
    with zipfile.ZipFile(file) as archive:
        header = json.loads(archive.read("model.json"))
        if not isinstance(header, dict) or header.get("kind") != kind:
            raise KeyError(f"{kind} expected, {header.get('kind') if isinstance(header, dict) else 'nothing'} found")
        if not isinstance(header.get("format"), int) or header["format"] > FORMAT:
            raise Newer(header.get("nearkin", "unknown"))
        names = [n for n in archive.namelist() if n.endswith(".npy")]
        arrays = {n[:-4]: np.lib.format.read_array(io.BytesIO(archive.read(n)), allow_pickle=False) for n in names}
        return _decode(header["model"], arrays)


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
        return _check_model(read_tree(path))
    except (FileNotFoundError, PermissionError, ImportError):  # an extra may be missing
        raise
    except Newer as error:
        raise ValueError(
            f"{path} was written by a newer nearkin ({error}); this is {__version__}. Upgrade nearkin to read it."
        ) from None
    except Exception as error:  # whatever a foreign or damaged file raises, it is not a model
        raise ValueError(
            f"{path} is not a nearkin model, or it is damaged ({type(error).__name__}: {error})."
        ) from None


def _check_model(model: Any) -> Any:
    """Return a model that a file held, if it is one and complete."""
    if not isinstance(model, BaseEstimator) or not hasattr(model, "fit"):
        raise TypeError(f"it holds {type(model).__name__}, which is not a model")
    return model


class Newer(Exception):
    """The file's format is newer than this package."""


def _encode(value: Any, arrays: list[np.ndarray], where: str) -> Any:
    """Turn a value into a JSON tree, and collect its arrays beside it; ``where`` names it in messages."""
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
    name = _name_of(type(value))
    if name is None:
        raise TypeError(
            f"cannot save {where}: {type(value).__module__}.{type(value).__name__} is not a class of nearkin that may "
            "stand in a file. Models with parts of your own cannot be written to a nearkin file."
        )
    return {"$class": name, "state": {k: _encode(v, arrays, f"{where}.{k}") for k, v in state_of(value).items()}}


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are the same numbers in memory."""
    described = [(a.ctypes.data, a.shape, a.strides, a.dtype) for a in (one, other)]
    return one.size > 0 and described[0] == described[1]


def _decode(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Turn a JSON tree and its arrays back into a value."""
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


def _name_of(cls: type) -> str | None:
    """Name of a class in a file, with its package: "parameters.FullMatrix"; None if it may not stand there."""
    top, _, rest = cls.__module__.partition(".")
    room = rest.split(".")[0]
    if top != "nearkin" or not room:
        return None
    try:
        return f"{room}.{cls.__name__}" if _find_class(room, cls.__name__) is cls else None
    except KeyError:
        return None


def _find_class(room: str, name: str) -> type:
    """Class that a package of nearkin exports and that may stand in a file."""
    if not room.isidentifier() or room.startswith("_") or importlib.util.find_spec(f"nearkin.{room}") is None:
        raise KeyError(f"class {room}.{name}")
    package = importlib.import_module(f"nearkin.{room}")
    found = getattr(package, name) if name in package.__all__ else None
    if not isinstance(found, type) or not (is_stored(found) or issubclass(found, BaseEstimator)):
        raise KeyError(f"class {room}.{name}")
    return found


def _object(tree: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    room, _, name = str(tree["$class"]).partition(".")
    cls = _find_class(room, name)
    made: Any = object.__new__(cls)
    vars(made).update({str(k): _decode(v, arrays) for k, v in tree["state"].items()})
    needed = set(made.get_params(deep=False)) if issubclass(cls, BaseEstimator) else set(attributes_of(cls))
    if missing := needed - set(vars(made)):
        raise KeyError(f"{name} without {sorted(missing)}")
    return made
