"""Device code in CUDA C: compiled for the card at first use, started on the current stream.

Triton cannot express which thread holds which number, nor what a warp does while it waits. The compiler is NVRTC, which
torch installs.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

__all__ = ["DeviceFunction", "define", "device_function", "include", "real", "source"]

#: Attribute of a function: most shared memory that a launch may use.
_SHARED = 8


class DeviceFunction:
    """A compiled function of the device, and the bytes of shared memory that a thread block takes."""

    def __init__(self, function: ctypes.c_void_p, shared: int):
        self.function = function
        self.shared = shared
        _check(_driver().cuFuncSetAttribute(function, _SHARED, shared), "cuFuncSetAttribute")

    def __call__(self, blocks: int, threads: int, *arguments: Any) -> None:
        """Launch on torch's stream; tensors are passed by address, integers as 32 bits."""
        import torch

        held = [
            ctypes.c_void_p(one.data_ptr()) if isinstance(one, torch.Tensor) else ctypes.c_int(one) for one in arguments
        ]
        if any(isinstance(one, int) and not 0 <= one < 1 << 31 for one in arguments):
            raise ValueError(f"a device counts up to 2^31; got {max(x for x in arguments if isinstance(x, int))}.")
        places = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in held))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = _driver().cuLaunchKernel(self.function, blocks, 1, 1, threads, 1, 1, self.shared, stream, places, None)
        _check(code, "cuLaunchKernel")


@lru_cache(maxsize=64)
def device_function(name: str, device: Any, shared: int, **constants: Any) -> DeviceFunction:
    """The function of that name in the file of that name, compiled for a device; constants become macros."""
    import torch

    with torch.cuda.device(device):
        major, minor = torch.cuda.get_device_capability(device)
        torch.cuda.current_stream().synchronize()  # starts the driver
        image = _compile(source("device.cuh") + source(f"{name}.cu"), f"sm_{major}{minor}", constants)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _check(_driver().cuModuleLoadData(ctypes.byref(module), image), "cuModuleLoadData")
        _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()), "cuModuleGetFunction")
        return DeviceFunction(function, shared)


def source(name: str) -> str:
    """Text of a file with the files that it includes, without ``device.cuh``, which tests replace."""
    return include((resources.files("nearkin.accelerator") / "device_code" / name).read_text())


def include(text: str) -> str:
    """Text with the contents of the files of ``device_code`` that it includes."""
    return re.sub(r'#include "(.+)"', lambda found: source(found[1]), text)


def define(constants: dict[str, Any]) -> list[str]:
    """Constants as options of a compiler, ``-DRANK=2`` or ``-DREAL_IS_DOUBLE`` for one without a value."""
    return [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in constants.items()]


def real(tensor: Any) -> dict[str, Any]:
    """Constants that give device code the number type of a tensor."""
    return {"REAL_IS_DOUBLE": None} if tensor.element_size() == 8 else {}


def _compile(text: str, card: str, constants: dict[str, Any]) -> bytes:
    compiler = _compiler()
    options = [f"--gpu-architecture={card}", "--std=c++17", *define(constants)]
    given = (ctypes.c_char_p * len(options))(*(one.encode() for one in options))
    program = ctypes.c_void_p()
    code = compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"nearkin.cu", 0, None, None)
    if code:
        raise RuntimeError(f"NVRTC could not be started (code {code}).")
    try:
        if compiler.nvrtcCompileProgram(program, len(options), given):
            raise RuntimeError(
                f"device code could not be compiled for {card}; use device='cpu' and report this:\n"
                + _text(compiler.nvrtcGetProgramLogSize, compiler.nvrtcGetProgramLog, program)
                .rstrip(b"\0")
                .decode(errors="replace")
            )
        return _text(compiler.nvrtcGetCUBINSize, compiler.nvrtcGetCUBIN, program)
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size_of: Any, write: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    held = ctypes.create_string_buffer(size.value)
    write(program, held)
    return held.raw


@lru_cache(maxsize=1)
def _compiler() -> Any:
    """NVRTC: the one installed with torch, inside torch or as a package, before the system's."""
    import torch

    found = [Path(torch.__file__).parent / "lib"]
    nvidia = importlib.util.find_spec("nvidia")
    if nvidia is not None:
        found += [Path(one) for one in nvidia.submodule_search_locations or ()]
    version = (torch.version.cuda or "12").partition(".")[0]
    names = [str(one) for folder in found for one in sorted(folder.glob("**/libnvrtc.so*"))]
    for name in (*names, f"libnvrtc.so.{version}", "libnvrtc.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError(
        f"NVRTC, the compiler of CUDA {version}, is not installed: pip install nvidia-cuda-nvrtc-cu{version}. "
        "Or use device='cpu'."
    )


@lru_cache(maxsize=1)
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:
    if code:
        word = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(word))
        raise RuntimeError(f"{what}: {(word.value or b'unknown error').decode()} (code {code}).")
