"""Device code in CUDA C on the processor: the same source, compiled against `device.cuh` of this folder."""

import ctypes
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from nearkin.accelerator import cuda

HERE = Path(__file__).parent


def compiler():
    """A C++ compiler, of the system or of the package ziglang; None if there is neither."""
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    # As a C compiler, so that it does not first build a library of C++, which is not needed.
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


class EmulatedFunction:
    """Like `nearkin.accelerator.cuda.DeviceFunction`."""

    def __init__(self, start):
        self.start = start

    def __call__(self, blocks, threads, *arguments):
        held = [ctypes.c_void_p(one.data_ptr()) if hasattr(one, "data_ptr") else ctypes.c_int(one) for one in arguments]
        places = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in held))
        self.start(blocks, threads, places)


@cache
def device_function(name, device, shared, **constants):
    """Like `nearkin.accelerator.cuda.device_function`; some functions in this folder are for the tests alone."""
    assert shared <= 1 << 18
    own = HERE / f"{name}.cu"
    text = cuda.include(own.read_text()) if own.exists() else cuda.source(f"{name}.cu")
    text = (HERE / "device.cuh").read_text() + text + f"STARTED({name})\n"
    folder = Path(tempfile.mkdtemp())
    (folder / "kernel.cpp").write_text(text)
    done = subprocess.run(
        [*compiler(), "-std=c++17", "-O1", "-w", "-fPIC", "-shared", *cuda.define(constants),
         "-o", folder / "kernel.so", folder / "kernel.cpp"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(folder / "kernel.so")
    shutil.rmtree(folder)
    return EmulatedFunction(library.start)
