"""One file per model: arrays as npy and the rest as JSON inside a zip, never pickle.

Only classes of this package are written and read. A file is written beside its destination and moved there when it
is complete, so an interrupted save leaves the old one.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from nearkin import stored
from nearkin._version import __version__
from nearkin.archives import FORMAT, Newer, open_regular, read_archive, write_archive
from nearkin.errors import explain
from nearkin.files import replacing
from nearkin.settings import exclusive
from nearkin.stored import ArrayOf, Count, Kind, Number, Text

__all__ = [
    "FORMAT", "Newer", "check_model", "from_tree", "load", "read_tree", "save", "to_tree", "write_tree",
]  # fmt: skip

MODEL = "nearkin-model"
#: Models that only a file of the same class gives way to, by the kinds of `nearkin.files`; others are "model".
_KINDS = {
    "search.SimilarityAdapter": "adapter", "search.Index": "index", "audit.LabelAuditor": "auditor",
    "audit.StreamAudit": "auditor", "audit.LabelAudit": "saved_audit",
}  # fmt: skip


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model (fitted or not) or an audit to one file.

    Parameters
    ----------
    model : estimator of this package or LabelAudit
        A learner, a classifier or an audit, with all its rows.
    path : path-like
        Destination; replaced only when the new file is complete and on disk. What lies there may be a model of the
        same kind only: an adapter does not replace a classifier.

    Examples
    --------
    >>> import tempfile, pathlib, nearkin
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.nearkin"
    ...     nearkin.save(nearkin.RobustODML(C=0.5), path)
    ...     nearkin.load(path)
    RobustODML(C=0.5)
    """
    if not _stands_alone(model):
        raise TypeError(f"save takes a learner, a classifier or an audit; got {type(model).__name__}.")
    kind = _KINDS.get(_name_of(type(model)) or "", "model")
    with exclusive(model), replacing(path, kind, durable=True) as file:  # whole, also if another thread learns
        write_tree(model, file)


def write_tree(value: Any, file: BinaryIO, kind: str = MODEL) -> None:
    """Write a value made of this package's objects, arrays and plain Python as one archive of the given kind."""
    tree, arrays = to_tree(value)
    write_archive(file, {"kind": kind, "format": FORMAT, "nearkin": __version__, "model": tree}, arrays)


def to_tree(value: Any) -> tuple[Any, list[np.ndarray]]:
    """Return a JSON tree of a value, and the arrays that it refers to by number."""
    arrays: list[np.ndarray] = []
    tree = _encode(value, arrays, "model")
    stored.check_stored(value)  # what could not be read is not written
    return tree, arrays


def from_tree(tree: Any, arrays: Sequence[np.ndarray]) -> Any:
    """Return the value of a JSON tree, if it is complete, uses every array, and is what its classes declare."""
    reader = _Reader(arrays)
    value = reader.decode(tree)
    if unused := set(range(len(arrays))) - reader.used:
        raise ValueError(f"nothing refers to array {min(unused)}")
    stored.check_stored(value)
    return value


def read_tree(file: BinaryIO | Path, kind: str = MODEL) -> Any:
    """Read what `write_tree` wrote; anything wrong with it is an exception of some kind."""
    if isinstance(file, Path):
        with open_regular(file) as opened:
            return read_tree(opened, kind)
    header, arrays = read_archive(file, kind)
    return from_tree(header["model"], arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model or an audit written by `save`.

    Parameters
    ----------
    path : path-like
        File.

    Returns
    -------
    estimator or LabelAudit
        Equal to the one saved; a model can learn on.

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
        return check_model(read_tree(path))
    except (FileNotFoundError, PermissionError, ImportError):  # an extra may be missing
        raise
    except Newer as error:
        raise ValueError(
            f"{path} was written by a newer nearkin ({error}); this is {__version__}. Upgrade nearkin to read it."
        ) from None
    except Exception as error:  # whatever a foreign or damaged file raises, it is not a model
        raise ValueError(f"{path} is not a nearkin model, or it is damaged ({explain(error)}).") from None


def check_model(model: Any) -> Any:
    """Return a model that a file held, if it is one and complete."""
    if not _stands_alone(model):
        raise TypeError(f"it holds {type(model).__name__}, which is not a model")
    return model


def _stands_alone(value: Any) -> bool:
    """Whether a file may hold this by itself, rather than as a part: a model, or an audit."""
    is_model = isinstance(value, BaseEstimator) and hasattr(value, "fit")
    return is_model or _KINDS.get(_name_of(type(value)) or "") == "saved_audit"


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
    return {"$class": name, "state": {k: _encode(v, arrays, f"{where}.{k}") for k, v in stored.state_of(value).items()}}


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are the same numbers in memory."""
    described = [(a.ctypes.data, a.shape, a.strides, a.dtype) for a in (one, other)]
    return one.size > 0 and described[0] == described[1]


class _Reader:
    """Turns a JSON tree and its arrays back into a value, and notes which arrays it has used."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = arrays
        self.used: set[int] = set()

    def decode(self, tree: Any) -> Any:
        """Return the value of a tree, whose entry has one of a few names."""
        if isinstance(tree, list):
            raise TypeError("a list has no name")
        if not isinstance(tree, dict):
            return tree
        name = next(iter(tree), "")
        others = {"$class": {"state"}, "$objects": {"shape"}, "$scalar": {"dtype"}}.get(name, set())
        if name not in _ENTRIES or tree.keys() - {name} != others:
            raise KeyError(f"unknown entry {sorted(tree)[:3]}")
        return _ENTRIES[name](self, tree)

    def _all(self, trees: Any) -> list[Any]:
        if not isinstance(trees, list):
            raise TypeError(f"a list was expected, {type(trees).__name__} found")
        return [self.decode(one) for one in trees]

    def _array(self, tree: dict[str, Any]) -> np.ndarray:
        number = int(tree["$array"])
        if not 0 <= number < len(self.arrays):
            raise KeyError(f"array {number}")
        self.used.add(number)
        return self.arrays[number]

    def _objects(self, tree: dict[str, Any]) -> np.ndarray:
        values = self._all(tree["$objects"])
        flat = np.empty(len(values), dtype=object)
        for i, one in enumerate(values):
            flat[i] = one
        return flat.reshape(tree["shape"])

    def _scalar(self, tree: dict[str, Any]) -> Any:
        dtype, plain = np.dtype(tree["dtype"]), self.decode(tree["$scalar"])
        if dtype.kind not in "biufUSmM":
            raise TypeError(f"a number of type {dtype}")
        return np.array(plain, dtype=np.int64).view(dtype)[()] if dtype.kind in "mM" else dtype.type(plain)

    def _dict(self, tree: dict[str, Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(value) for key, value in tree["$dict"]}

    def _generator(self, tree: dict[str, Any]) -> np.random.Generator:
        state = self.decode(tree["$generator"])
        check_generator_state(state)
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        return np.random.Generator(bits)

    def _random_state(self, tree: dict[str, Any]) -> np.random.RandomState:
        state = self.decode(tree["$random_state"])
        check_generator_state(state, is_legacy=True)
        made = np.random.RandomState()
        made.set_state(state)
        return made

    def _object(self, tree: dict[str, Any]) -> Any:
        room, _, name = str(tree["$class"]).partition(".")
        cls, state = find_class(room, name), tree["state"]
        if not isinstance(state, dict):
            raise TypeError(f"{name} has no attributes")
        if not issubclass(cls, BaseEstimator) and (unknown := state.keys() - stored.declared_fields(cls).keys()):
            raise KeyError(f"{name} has {sorted(unknown)[:5]}, which it does not declare")
        made: Any = object.__new__(cls)
        vars(made).update({key: self.decode(value) for key, value in state.items()})
        return made


_ENTRIES: dict[str, Callable[[_Reader, dict[str, Any]], Any]] = {
    "$class": _Reader._object,
    "$array": _Reader._array,
    "$objects": _Reader._objects,
    "$scalar": _Reader._scalar,
    "$float": lambda reader, tree: float(tree["$float"]),
    "$dtype": lambda reader, tree: np.dtype(tree["$dtype"]),
    "$dict": _Reader._dict,
    "$generator": _Reader._generator,
    "$random_state": _Reader._random_state,
    "$frozen": lambda reader, tree: FrozenEstimator(reader.decode(tree["$frozen"])),
    "$slice": lambda reader, tree: slice(*reader._all(tree["$slice"])),
    "$list": lambda reader, tree: reader._all(tree["$list"]),
    "$tuple": lambda reader, tree: tuple(reader._all(tree["$tuple"])),
}


def _name_of(cls: type) -> str | None:
    """Name of a class in a file, with its package: "parameters.FullMatrix"; None if it may not stand there."""
    top, _, rest = cls.__module__.partition(".")
    room = rest.split(".")[0]
    if top != "nearkin" or not room:
        return None
    try:
        return f"{room}.{cls.__name__}" if find_class(room, cls.__name__) is cls else None
    except KeyError:
        return None


def find_class(room: str, name: str) -> type:
    """Class that a package of nearkin exports and that may stand in a file."""
    if not room.isidentifier() or room.startswith("_") or importlib.util.find_spec(f"nearkin.{room}") is None:
        raise KeyError(f"class {room}.{name}")
    package = importlib.import_module(f"nearkin.{room}")
    found = getattr(package, name) if name in package.__all__ else None
    if not isinstance(found, type) or not (stored.is_stored(found) or issubclass(found, BaseEstimator)):
        raise KeyError(f"class {room}.{name}")
    return found


# ---------------------------------------------------------------------- states of random generators

_WORD, _HALF = 2**64, 2**32


def check_generator_state(state: Any, is_legacy: bool = False) -> None:
    """Raise a ValueError unless NumPy may be given a state of a generator: it does not look at numbers itself."""
    kinds = {"MT19937"} if is_legacy else set(_STATES)
    if not isinstance(state, dict) or state.get("bit_generator") not in kinds:
        raise ValueError("a random generator of an unknown kind")
    name = state["bit_generator"]
    inner, outer = _STATES[name]
    if is_legacy:
        outer = {"has_gauss": Count(0, 1), "gauss": Number()}
    stored.check_fields(state, name, bit_generator=Text(name), state=stored.Table(Text(), stored.Anything()), **outer)
    stored.check_fields(state["state"], name, **inner)
    if name.startswith("PCG64") and not state["state"]["inc"] % 2:
        raise ValueError(f"{name}.inc is even")
    if name == "MT19937" and not state["state"]["key"].any():
        raise ValueError("MT19937.key is zero, from which it never moves")


_BUFFERED: dict[str, Kind] = {"has_uint32": Count(0, 1), "uinteger": Count(0, _HALF - 1)}
_PCG: dict[str, Kind] = {"state": Count(0, _WORD**2 - 1), "inc": Count(0, _WORD**2 - 1)}

#: For every kind of generator its state, and what it keeps beside that.
_STATES: dict[str, tuple[dict[str, Kind], dict[str, Kind]]] = {
    "PCG64": (_PCG, _BUFFERED),
    "PCG64DXSM": (_PCG, _BUFFERED),
    "MT19937": ({"key": ArrayOf(624, of="words32"), "pos": Count(0, 624)}, {}),
    "Philox": (
        {"counter": ArrayOf(4, of="words"), "key": ArrayOf(2, of="words")},
        {"buffer": ArrayOf(4, of="words"), "buffer_pos": Count(0, 4), **_BUFFERED},
    ),
    "SFC64": ({"state": ArrayOf(4, of="words")}, _BUFFERED),
}
