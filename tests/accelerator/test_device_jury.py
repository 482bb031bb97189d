"""Neighbours and votes of a jury on a device: those that the processor finds and counts."""

import copy

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.accelerator import computing_on, keep_there, sending_once
from nearkin.accelerator.device import send
from nearkin.cli import main
from nearkin.jury import LocalNeighbours
from nearkin.jury.decision import assemble_jury

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


@pytest.fixture(scope="module")
def jury():
    """A jury of all kinds of voters, with learned labels in six classes, one of them without a vote in places."""
    X, y = rows_of(900)
    y = np.where(X[:, 4] > 1.0, 4 + (X[:, 5] > 0.0), y)
    return assemble_jury(X, y.astype(np.int64), 6, "auto", random_state=0)[0], X


def weigh(kind, n):
    return {
        "equal": np.ones(n),
        "own": np.random.default_rng(1).random(n),
        "some": np.where(np.arange(n) % 3 == 0, 0.0, 1.0),
    }[kind]


@pytest.mark.parametrize("kind", ["equal", "own", "some"])
@pytest.mark.parametrize("voter", range(5))
def test_every_voter_says_on_a_device_what_it_says_on_the_processor(there, jury, voter, kind):
    asked, X = jury
    weights, one = weigh(kind, len(X)), asked.voters[voter]
    some = np.r_[0:40, 700:900]
    queries = np.concatenate([X[:50] + np.float32(0.05), np.float32(1e9) * X[:3], np.float32(1e30) * X[3:5]])
    here = one.left_out(weights)(some), one.answers(queries, weights)
    # As from a file: nothing that was found on the processor may be at hand.
    forget = copy.deepcopy(one)
    for owner in (forget, getattr(forget, "near", None)):
        for name in ("_said", "_equal", "_last", "_made", "_leaves", "_members", "_among"):
            vars(owner).pop(name, None) if owner is not None else None
    with computing_on(there, "test"):
        other = forget.left_out(weights)(some), forget.answers(queries, weights)
    for a, b in zip(here, other, strict=True):
        np.testing.assert_allclose(b.sum(axis=1), 1.0, rtol=1e-9)
        # Rounding may swap two neighbours that are as near.
        assert (np.abs(a - b).max(axis=1) < 2e-4).mean() > 0.99
        assert (a.argmax(axis=1) == b.argmax(axis=1)).mean() > 0.99


def test_blocks_of_work_do_not_change_votes(there, jury, monkeypatch):
    asked, X = jury
    weights, queries = weigh("own", len(X)), X[:301] * np.float32(1.1)
    with computing_on(there, "test"):
        whole = asked.answers(queries, weights)
        monkeypatch.setattr("nearkin.accelerator.device_votes._AT_ONCE", 1 << 12)
        # Sums in single precision are added in another order.
        np.testing.assert_allclose(copy.deepcopy(asked).answers(queries, weights), whole, atol=5e-5)


def test_a_device_keeps_arrays_as_long_as_they_are_those_of_their_owner():
    class Owner:
        pass

    made, owner, rows = [], Owner(), np.ones(3)
    make = lambda *arrays: made.append(arrays) or len(made)  # noqa: E731
    assert [keep_there(owner, "rows", "here", make, rows) for _ in range(2)] == [1, 1]
    assert keep_there(owner, "rows", "here", make, rows.copy()) == 2
    assert keep_there(owner, "rows", "there", make, rows) == 3
    assert keep_there(Owner(), "rows", "there", make, rows) == 4


def test_an_array_is_sent_once_within_a_block_and_anew_outside():
    rows, device = np.ones((2, 3)), torch.device("cpu")
    with sending_once():
        assert send(rows, device) is send(rows, device)
        assert send(rows.copy(), device) is not send(rows, device)
    assert send(rows, device) is not send(rows, device)


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
