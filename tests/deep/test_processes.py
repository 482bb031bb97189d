"""Several processes of torchrun learn what one does with the joined batch."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")

from nearkin.deep import DeepMetric, RescaledHingeTripletLoss  # noqa: E402
from networks import make  # noqa: E402

PROGRAM = """
import sys
import numpy as np
import torch
from torch import distributed, nn
from nearkin.deep import DeepMetric, RescaledHingeTripletLoss
from test_processes import SOURCES, data, learner, linear, triplets

torch.set_num_threads(1)
X, y = data()
found = {}
for source in SOURCES:
    model = learner(source, distributed=True).fit(X, y)  # begins the talk between the processes
    found[source], found[source + " plausibility"] = model.transform(X), model.plausibility_
rank = distributed.get_rank()
found["stream"] = learner("octg", distributed=True).partial_fit(X[:33], y[:33]).partial_fit(X[33:], y[33:]).transform(X)
try:
    learner("octg", distributed=True).fit(X + rank, y)
except ValueError as error:
    found["refused"] = str(error)

# A plain loop of torch, each process with its half of the triplets.
model = nn.parallel.DistributedDataParallel(linear())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mine = slice(20 * rank, 20 * rank + 20)
for _ in range(5):
    members = [model(one[mine]) for one in triplets()]
    optimizer.zero_grad()
    RescaledHingeTripletLoss(eta=1.0)(*members)[0].backward()
    optimizer.step()
found["loop"] = model.module.weight.detach().numpy()
np.savez(sys.argv[1] + f"/{rank}.npz", **found)
distributed.destroy_process_group()
"""

SOURCES = ("octg", "random")


def data():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(67) % 3)  # batches of 16 and one of 19 rows: no halves
    return rng.normal(size=(67, 5)) + 2.0 * np.eye(5)[y], y


def learner(source, **parameters):
    settings = {"n_components": 4, "n_epochs": 3, "batch_size": 16, "warm_up": 5, "random_state": 0}
    return make(DeepMetric, triplets=source, **settings, **parameters)


def linear():
    torch.manual_seed(1)
    return torch.nn.Linear(5, 3, bias=False)


def triplets():
    rng = np.random.default_rng(1)
    return [torch.tensor(rng.normal(size=(40, 5)), dtype=torch.float32) for _ in range(3)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(folder / "program.py"), str(folder)]
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_two_processes_learn_what_one_does(found, source):
    X, y = data()
    one = learner(source).fit(X, y)
    before = learner(source, C=0.0, weight_decay=0.0).fit(X, y)
    for other in found:
        np.testing.assert_allclose(other[source], one.transform(X), atol=2e-4)
        np.testing.assert_allclose(other[source + " plausibility"], one.plausibility_, atol=1e-3)
    assert np.abs(one.transform(X) - before.transform(X)).max() > 0.05
    assert np.array_equal(found[0][source], found[1][source])


@pytest.mark.slow
def test_streams_are_shared_out_too(found):
    X, y = data()
    one = learner("octg").partial_fit(X[:33], y[:33]).partial_fit(X[33:], y[33:])
    np.testing.assert_allclose(found[1]["stream"], one.transform(X), atol=2e-4)


@pytest.mark.slow
def test_processes_with_other_rows_are_refused(found):
    for one in found:
        assert "all processes need the same rows" in str(one["refused"])


@pytest.mark.slow
def test_the_loss_in_a_plain_loop_of_two_processes(found):
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        RescaledHingeTripletLoss(eta=1.0)(*(model(one) for one in triplets()))[0].backward()
        optimizer.step()
    for one in found:
        np.testing.assert_allclose(one["loop"], model.weight.detach().numpy(), atol=1e-6)
