"""Deep learners in safetensors files: arrays by name and a JSON header, never pickle.

The metadata of a file hold the header and a digest of all bytes of the file, for which its own place counts as zeros.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from nearkin import saving
from nearkin._version import __version__
from nearkin.archives import FORMAT, MOST_MEMBERS, Newer, check_array, open_regular, parse_header
from nearkin.deep.learner import DeepLearner
from nearkin.deep.network import network_of
from nearkin.errors import InputError, explain
from nearkin.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["load", "save"]

KIND = "nearkin-deep-model"

#: Name of the digest among the metadata, and what stands in its place when it is computed.
_SEAL, _BLANK = "nearkin_sha256", "0" * 64


def save(model: DeepLearner, path: str | os.PathLike[str]) -> None:
    """Write a deep learner (fitted or not) to one safetensors file.

    The weights of the network have their own names in it, after ``network.``, so other programs can read them. Of a
    module of your own the file holds only the weights: give the module to `load` again.

    Parameters
    ----------
    model : DeepMetric, OAHU or RobustOAHU
        The learner; `nearkin.save` also takes it if it built its network itself.
    path : path-like
        Destination; replaced only when the new file is complete and on disk.

    Examples
    --------
    >>> import tempfile
    >>> from nearkin.deep import DeepMetric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     save(DeepMetric(eta=1.0), path)
    ...     load(path)
    DeepMetric(eta=1.0)
    """
    if not isinstance(model, DeepLearner):
        raise TypeError(f"nearkin.deep.save takes a deep learner; got {type(model).__name__}. Use nearkin.save.")
    bare, own = _without_module(model)
    tree, arrays = saving.to_tree(bare)
    names = _names(bare, arrays)
    header = {"kind": KIND, "format": FORMAT, "nearkin": __version__, "names": names, "own": own, "model": tree}
    metadata = {"nearkin": json.dumps(header, allow_nan=False), _SEAL: _BLANK}
    data = bytearray(_safetensors().numpy.save(dict(zip(names, arrays, strict=True)), metadata))
    at = _find_digest(data)
    data[at : at + len(_BLANK)] = hashlib.sha256(data).hexdigest().encode()
    with replacing(path, "model", durable=True) as file:
        file.write(data)


def load(path: str | os.PathLike[str], module: nn.Module | Callable[[int], nn.Module] | None = None) -> Any:
    """Read a deep learner written by `save`.

    Parameters
    ----------
    path : path-like
        File.
    module : nn.Module, callable or None, default=None
        The learner's own module, if it had one; the weights come from the file.

    Returns
    -------
    DeepMetric, OAHU or RobustOAHU
        Equal to the one saved; it can continue to learn.

    Raises
    ------
    ValueError
        If the file is damaged, of another kind, written by a newer version, or needs a module.

    Examples
    --------
    >>> import tempfile
    >>> from nearkin.deep import DeepMetric
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     save(DeepMetric(n_epochs=1).fit([[0.0], [0.1], [1.0]], [0, 0, 1]), path)
    ...     load(path).classes_.tolist()
    [0, 1]
    """
    path = Path(path)
    safetensors = _safetensors()
    try:
        with open_regular(path) as file:
            header, arrays = _read(file.read(), safetensors)
        model = saving.check_model(saving.from_tree(header["model"], arrays))
        if not isinstance(model, DeepLearner) or not isinstance(header["own"], (str, NoneType)):
            raise TypeError(f"it holds {type(model).__name__}")
    except (FileNotFoundError, PermissionError):
        raise
    except Newer as error:
        raise InputError(
            f"{path} was written by a newer nearkin ({error}); this is {__version__}. Upgrade nearkin to read it."
        ) from None
    except Exception as error:  # a damaged file can raise anything
        raise InputError(f"{path} is not a deep model of nearkin, or it is damaged ({explain(error)}).") from None
    if header["own"] is not None and module is None:
        raise InputError(f"{path} holds the weights of a module of your own; give it: load(path, module=...).")
    if header["own"] is None and module is not None:
        raise InputError(f"{path} was written by a learner that built its network itself; leave out `module`.")
    if module is not None:
        model.set_params(module=module)
        if hasattr(model, "state_"):
            _give_module(model, path)
    return model


def _give_module(model: DeepLearner, path: Path) -> None:
    network = network_of(model.state_)
    module = model._plan(network.n_features)
    try:
        network.give_module(module, model.state_.source)
    except ValueError as error:
        raise InputError(f"the module is not the one whose weights {path} holds: {error}") from None


def _without_module(model: DeepLearner) -> tuple[DeepLearner, str | None]:
    """Split a learner from its own module, which comes as text."""
    own = getattr(model, "module", None)
    if own is None:
        return model, None
    bare = copy.copy(model)
    bare.set_params(module=None)
    if hasattr(model, "state_"):
        state = model.state_.copy()
        network_of(state).plan = None
        bare.state_ = state
    return bare, repr(own)


def _names(model: DeepLearner, arrays: list[np.ndarray]) -> list[str]:
    """Name every array: a weight of the network by its own name, others by number."""
    weights = network_of(model.state_).weights if hasattr(model, "state_") else {}
    names = {one.ctypes.data: f"network.{name}" for name, one in weights.items() if one.size}
    return [names.get(one.ctypes.data, str(number)) for number, one in enumerate(arrays)]


def _read(data: bytes, safetensors: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return our header and the arrays in the order in which it names them, if the digest is right."""
    n = int.from_bytes(data[:8], "little")
    if not 0 < n <= len(data) - 8:
        raise ValueError("it is too short")
    if data[8 : 8 + n].count(b"{") > MOST_MEMBERS:
        raise ValueError("it names too many arrays")
    metadata = json.loads(data[8 : 8 + n])["__metadata__"]
    header = parse_header(metadata["nearkin"], KIND)
    if _SEAL in metadata:
        at = _find_digest(data)
        blank = hashlib.sha256(data[:at] + _BLANK.encode())
        blank.update(memoryview(data)[at + len(_BLANK) :])
        if blank.hexdigest() != metadata[_SEAL]:
            raise ValueError("its digest is not that of its content")
    elif header["format"] > 1:
        raise ValueError("its digest is missing")
    arrays = safetensors.numpy.load(data)
    if sorted(arrays) != sorted(header["names"]):
        raise ValueError("its arrays are not those that its header names")
    return header, [check_array(arrays[name]) for name in header["names"]]


def _find_digest(data: bytes | bytearray) -> int:
    """Where the digest stands; texts inside other texts have their quotes escaped, so there is one such place."""
    start = f'"{_SEAL}":"'.encode()
    if data.count(start) != 1:
        raise ValueError("it has more than one digest")
    return data.index(start) + len(start)


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "files of deep learners need safetensors, which is not installed: pip install 'nearkin[deep]'"
        ) from None
    return safetensors
