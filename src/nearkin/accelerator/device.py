"""Devices: finding one, moving numbers to it and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from nearkin.errors import DeviceError, Option

__all__ = [
    "computing_device", "computing_on", "find", "full_precision", "keep_device", "keep_there", "name_of_type", "send",
    "sending_once", "shared_memory", "step_settings", "to_device", "to_host",
]  # fmt: skip

_INSTALL = "pip install 'nearkin[gpu]'"

#: Bytes of one piece of an upload; two such pieces of page-locked memory are filled and sent in turn.
_PIECE = 1 << 24


def find(device: str, owner: str, *, needs_triton: bool = True) -> Any:
    """The `torch.device`, ready for use.

    Parameters
    ----------
    device : str
        "cuda" or "cuda:N".
    owner : str
        Named in the message.
    needs_triton : bool, default=True
        Whether device code of this package will run there.

    Raises
    ------
    DeviceError
        If there is no such device, or if torch or Triton is missing; it is a RuntimeError. Nothing falls back to the
        processor silently.

    Examples
    --------
    >>> try:
    ...     device = find("cuda", "my program")
    ... except RuntimeError as error:
    ...     device = None  # str(error) says what is missing
    """
    given, other = Option("device", device), Option("device", "cpu")
    try:
        import torch

        if not torch.cuda.is_available():  # before Triton, which would not help
            raise DeviceError(
                f"{{given}}, but torch {torch.__version__} sees no NVIDIA GPU on this machine. Use {{other}}.",
                owner=owner, given=given, other=other,
            )  # fmt: skip
        if needs_triton:
            import triton  # noqa: F401
    except ImportError as error:
        raise DeviceError(
            f"{{given}} needs torch and Triton, and {error.name} is not installed: {_INSTALL}. Or use {{other}}.",
            owner=owner, given=given, other=other,
        ) from None  # fmt: skip
    found = torch.device(device)
    count = torch.cuda.device_count()
    if found.index is not None and found.index >= count:
        raise DeviceError(
            f"{{given}}, but this machine has {count} GPU{'s' if count > 1 else ''}, numbered from 0. "
            f"Use 'cuda:{count - 1}' or less.",
            owner=owner, given=given,
        )  # fmt: skip
    return found


#: Where the jury computes.
_computing: ContextVar[Any] = ContextVar("nearkin_device", default=None)


@contextmanager
def computing_on(device: str, owner: str) -> Iterator[None]:
    """Let the searches of a jury inside the block run on a device; "cpu" is the processor.

    Examples
    --------
    >>> with computing_on("cpu", "my program"):
    ...     computing_device() is None
    True
    """
    token = _computing.set(None if device == "cpu" else find(device, owner))
    try:
        yield
    finally:
        _computing.reset(token)


def keep_device(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return work that computes, in whatever thread, where this thread computes now."""
    device = _computing.get()

    def there(*arguments: Any) -> Any:
        token = _computing.set(device)
        try:
            return work(*arguments)
        finally:
            _computing.reset(token)

    return there


def computing_device() -> Any:
    """Return the `torch.device` on which a jury computes now; None for the processor."""
    return _computing.get()


#: What a device holds for an object, by name: the arrays it was made of, the device, and what was made.
_kept: WeakKeyDictionary[Any, dict[str, tuple[tuple[Any, ...], Any, Any]]] = WeakKeyDictionary()


def keep_there(owner: Any, name: str, device: Any, make: Callable[..., Any], *arrays: Any) -> Any:
    """Return ``make(*arrays, device)``, made once and kept as long as the owner and these arrays are in use.

    Models are saved and copied without what a device holds for them.
    """
    kept = _kept.setdefault(owner, {})
    known = kept.get(name)
    if known is None or known[1] != device or any(a is not b for a, b in zip(known[0], arrays, strict=True)):
        known = kept[name] = arrays, device, make(*arrays, device)
    return known[2]


#: Arrays that were sent to the device, by their identity.
_sent: ContextVar[dict[int, tuple[Any, Any]] | None] = ContextVar("nearkin_sent", default=None)


@contextmanager
def sending_once() -> Iterator[None]:
    """Let `send` send every array once inside the block, which must not change them."""
    token = _sent.set({})
    try:
        yield
    finally:
        _sent.reset(token)


def send(array: np.ndarray, device: Any) -> Any:
    """Return a tensor on the device with the array's numbers; see `sending_once`."""
    sent = _sent.get()
    if sent is None:
        return to_device(array, device)
    if id(array) not in sent:
        sent[id(array)] = array, to_device(array, device)
    return sent[id(array)][1]


@contextmanager
def full_precision() -> Iterator[None]:
    """Matrix products of float32 in float32, whatever the process has set for them."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def to_device(array: np.ndarray, device: Any) -> Any:
    """A tensor on the device with the array's numbers, sent from two page-locked buffers in turn.

    Ordinary memory cannot be sent while the processor goes on.
    """
    import torch

    array = np.ascontiguousarray(array)
    if device.type == "cpu":
        return torch.from_numpy(array.copy())
    out = torch.empty(array.shape, dtype=torch.from_numpy(array[:0]).dtype, device=device)
    source, target = array.reshape(-1), out.view(-1)
    size = max(1, _PIECE // array.itemsize)
    if source.size <= size:
        target.copy_(torch.from_numpy(source))
        return out
    buffers = [torch.empty(size, dtype=out.dtype, pin_memory=True) for _ in range(2)]
    sent = [torch.cuda.Event() for _ in buffers]
    for number, start in enumerate(range(0, source.size, size)):
        turn = number % 2
        if number >= 2:
            sent[turn].synchronize()
        part = source[start : start + size]
        buffers[turn].numpy()[: part.size] = part
        target[start : start + part.size].copy_(buffers[turn][: part.size], non_blocking=True)
        sent[turn].record(torch.cuda.current_stream(device))
    torch.cuda.current_stream(device).synchronize()  # before the buffers are freed
    return out


def to_host(tensor: Any) -> np.ndarray:
    """The tensor's numbers as an array."""
    return tensor.detach().cpu().numpy()


def name_of_type(tensor: Any) -> str:
    """Name of the type of a tensor's numbers, as NumPy has it."""
    return str(tensor.dtype).rpartition(".")[2]


def shared_memory(device: Any) -> int:
    """Most bytes of shared memory of a thread block."""
    import torch

    if device.type == "cpu":
        return 1 << 18
    found: Any = torch.cuda.get_device_properties(device)
    return int(found.shared_memory_per_block_optin)


def step_settings(C: float, params: tuple[float, float]) -> np.ndarray:
    """Two numbers of a learner that device code takes: the longest step ``C beta eta``, and eta in powers of two."""
    slope, eta = params
    return np.array([C * slope, eta / np.log(2.0)])
