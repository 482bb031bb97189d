"""Neighbours of a jury on a device: those that the processor finds."""

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.accelerator import computing_on
from nearkin.cli import main
from nearkin.jury import LocalNeighbours

torch = pytest.importorskip("torch", reason="pip install 'nearkin[gpu]'")


@pytest.fixture
def there(monkeypatch):
    """Let a few rows have cells, and torch's processor be the device."""
    monkeypatch.setattr("nearkin.accelerator.device.find", lambda name, owner: torch.device("cpu"))
    monkeypatch.setattr("nearkin.jury.local_scaling._EXACT", 500)
    return "cuda"


def rows_of(n, d=6):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    return (2.0 * np.eye(4, d)[y] + rng.normal(size=(n, d))).astype(np.float32), y


@pytest.mark.parametrize("k", [5, 120, 2999])
def test_neighbours_in_cells_are_those_of_the_processor(there, k):
    X, _ = rows_of(3000)
    near = LocalNeighbours(X)
    here = near.query(X[:200] + np.float32(0.1), k), near.among(min(k, 200), np.arange(0, 3000, 7))
    with computing_on(there, "test"):
        other = LocalNeighbours(X)
        found = other.query(X[:200] + np.float32(0.1), k), other.among(min(k, 200), np.arange(0, 3000, 7))
    np.testing.assert_allclose(other.scale, near.scale, rtol=1e-5)
    for one, same in zip(here, found, strict=True):
        assert (one == same).mean() > 0.999  # rounding may swap two that are as near
    assert not (found[1] == np.arange(0, 3000, 7)[:, None]).any()  # none is its own neighbour


def test_an_audit_and_a_classifier_decide_as_on_the_processor(there):
    X, y = rows_of(1500)
    noisy, _ = nearkin.flip_labels(y, 0.2, random_state=0)
    here, other = (nearkin.audit_labels(X, noisy, random_state=0, device=one) for one in ("cpu", there))
    np.testing.assert_allclose(other.plausibility, here.plausibility, atol=1e-3)
    assert (here.is_suspect != other.is_suspect).sum() <= 1
    model = nearkin.RobustKNeighborsClassifier(random_state=0, device=there).fit(X, noisy)
    assert (model.predict(X) == here.classifier.predict(X)).mean() > 0.999


def test_without_a_gpu_the_jury_says_so():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    X, y = rows_of(100)
    with pytest.raises(RuntimeError, match="audit_labels: device='cuda'"):
        nearkin.audit_labels(X, y, device="cuda")


@pytest.mark.parametrize("device", ["cuda", "gpu"])
def test_the_command_refuses_a_device_that_is_not_there(tmp_path, device):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    (tmp_path / "a.csv").write_text("a,y\n1,x\n2,z\n")
    done = CliRunner().invoke(main, ["audit", str(tmp_path / "a.csv"), "--label", "y", "--device", device])
    assert (done.exit_code, "--device" in done.output) == (2, True)
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]
