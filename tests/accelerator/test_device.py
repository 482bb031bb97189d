"""What is said where a device cannot be used, and that nothing happens then."""

import sys

import numpy as np
import pytest

import nearkin
from nearkin.losses import RescaledHinge


def refused(learner, error, match):
    before = dict(vars(learner))
    with pytest.raises(error, match=match):
        learner.fit([[0.0], [1.0]], [0, 1])
    assert vars(learner) == before


@pytest.mark.parametrize("value", ["gpu", "cuda:x", None, 0, "mps"])
def test_device_names(value):
    refused(nearkin.LODML(device=value), ValueError, r"`device` must be 'cpu', 'cuda' or 'cuda:N'; got")


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_a_missing_package_is_named_with_what_to_install(monkeypatch, missing):
    if missing == "triton":
        torch = pytest.importorskip("torch", reason="pip install 'nearkin[gpu]'")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, missing, None)
    refused(nearkin.OASIS(device="cuda"), RuntimeError, rf"{missing} is not installed: pip install 'nearkin\[gpu\]'")


def test_without_a_gpu_nothing_moves_to_the_processor(monkeypatch):
    torch = pytest.importorskip("torch", reason="pip install 'nearkin[gpu]'")
    pytest.importorskip("triton", reason="pip install 'nearkin[gpu]'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(nearkin.RobustLODML(device="cuda"), RuntimeError, r"sees no NVIDIA GPU on this machine. Use device='cpu'")


def test_a_gpu_that_is_not_there(monkeypatch):
    torch = pytest.importorskip("torch", reason="pip install 'nearkin[gpu]'")
    pytest.importorskip("triton", reason="pip install 'nearkin[gpu]'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    refused(nearkin.LOSL(device="cuda:1"), RuntimeError, r"has 1 GPU, numbered from 0. Use 'cuda:0' or less")


class OwnLoss(RescaledHinge):
    @property
    def weight_of_hinge(self):
        return lambda hinge, first, second: 1.0


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        (nearkin.ODML(device="cuda"), r"needs psd='end' or psd='none'; got psd='project'. Or use device='cpu'"),
        (nearkin.ODML(device="cuda", psd="exact"), "got psd='exact'"),
        (nearkin.LODML(device="cuda", solver="subgradient"), "needs solver='exact'"),
        (nearkin.OASIS(device="cuda", loss=OwnLoss()), "knows the losses"),
        (nearkin.OASIS(device="cuda", max_hq_iter=17), "max_hq_iter up to 16; got 17"),
    ],
)
def test_what_a_device_does_not_know(learner, match):
    refused(learner, ValueError, match)


def test_the_device_is_not_part_of_what_was_learned():
    X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), [0, 0, 1, 1]
    model = nearkin.LODML(random_state=0).fit(X, y).set_params(device="cuda")
    assert model.transform(X).shape == (4, 1)  # needs no device


def test_a_missing_compiler_is_named_with_what_to_install(monkeypatch):
    pytest.importorskip("torch", reason="pip install 'nearkin[gpu]'")
    from nearkin.accelerator import cuda

    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(cuda.ctypes, "CDLL", absent)
    cuda._compiler.cache_clear()
    with pytest.raises(
        RuntimeError, match=r"NVRTC.*is not installed: pip install nvidia-cuda-nvrtc.*Or use device='cpu'"
    ):
        cuda._compiler()
