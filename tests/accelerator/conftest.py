"""Kernels run on the processor here, Triton's in its interpreter and those in CUDA C in an emulator.

`benchmarks/gpu.py` checks them on a real GPU.
"""

import os
import warnings

import pytest

from accelerator import emulator

os.environ["TRITON_INTERPRET"] = "1"  # read when device code is defined, so before any is imported


@pytest.fixture
def device(monkeypatch):
    torch = pytest.importorskip("torch", reason="pip install 'nearkin[gpu]'")
    pytest.importorskip("triton", reason="pip install 'nearkin[gpu]'")
    if emulator.compiler() is None:
        pytest.skip("no C++ compiler: pip install ziglang")
    monkeypatch.setattr("nearkin.accelerator.cuda.device_function", emulator.device_function)
    monkeypatch.setattr("nearkin.accelerator.factor_sweeps.BLOCK", 16)  # threads of a long block would be too many here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the interpreter, about NumPy
        yield torch.device("cpu")


@pytest.fixture
def gpu(device, monkeypatch):
    """Lets every learner that asks for a GPU find the interpreter."""
    for module in ("learners.base", "learners.groups", "learners.maps", "learners.many", "neighbors.robust_knn"):
        monkeypatch.setattr(f"nearkin.{module}.find", lambda name, owner: device)
    return "cuda"
