"""The loss with the miners, distances and reducers of pytorch-metric-learning."""

import re
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")
pml = pytest.importorskip("pytorch_metric_learning", reason="pip install 'nearkin[pml]'")

from pytorch_metric_learning import distances, losses, miners, reducers  # noqa: E402

from nearkin.deep import RescaledHingeTripletLoss  # noqa: E402
from nearkin.deep.metric_learning import RescaledHingeMetricLoss  # noqa: E402


@pytest.fixture
def batch(rng):
    return torch.tensor(rng.normal(size=(12, 4)), requires_grad=True), torch.arange(12) % 3


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_all_triplets_of_a_batch_as_our_own_loss_sees_them(batch, eta):
    embeddings, labels = batch
    loss = RescaledHingeMetricLoss(eta, margin=0.8, C=2.0)
    value = loss(embeddings, labels)
    a, p, n = loss.triplets
    assert len(a) == 12 * 3 * 8
    expected, plausibility = RescaledHingeTripletLoss(eta, 0.8, C=2.0)(embeddings[a], embeddings[p], embeddings[n])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(loss.plausibility, plausibility)
    ours, theirs = (torch.autograd.grad(one, embeddings)[0] for one in (value, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    "distance",
    [distances.LpDistance(), distances.LpDistance(normalize_embeddings=False, power=2), distances.CosineSimilarity()],
    ids=repr,
)
def test_eta_zero_is_their_triplet_margin_loss(batch, distance):
    settings = {"margin": 0.3, "distance": distance, "reducer": reducers.MeanReducer()}
    theirs = losses.TripletMarginLoss(triplets_per_anchor="all", **settings)(*batch)
    torch.testing.assert_close(RescaledHingeMetricLoss(eta=0.0, **settings)(*batch), theirs)


def test_a_miner_chooses_the_triplets(batch):
    embeddings, labels = batch
    mined = miners.TripletMarginMiner(margin=0.1, type_of_triplets="hard")(embeddings, labels)
    loss = RescaledHingeMetricLoss(eta=1.0)
    value = loss(embeddings, labels, mined)
    assert 0 < len(mined[0]) < 12 * 3 * 8
    assert all(torch.equal(one, other) for one, other in zip(loss.triplets, mined, strict=True))
    expected, _ = RescaledHingeTripletLoss(1.0)(*(embeddings[one] for one in mined))
    torch.testing.assert_close(value, expected)


def test_a_reducer_gathers_the_losses(batch):
    every = RescaledHingeMetricLoss(reducer=reducers.DoNothingReducer())(*batch)["loss"]["losses"]
    assert RescaledHingeMetricLoss(reducer=reducers.SumReducer())(*batch).item() == pytest.approx(every.sum().item())
    nonzero = RescaledHingeMetricLoss(reducer=reducers.AvgNonZeroReducer())(*batch).item()
    assert nonzero == pytest.approx(every[every > 0].mean().item())


def test_a_batch_without_triplets_has_no_loss():
    embeddings = torch.zeros(3, 2, requires_grad=True)
    loss = RescaledHingeMetricLoss()
    value = loss(embeddings, torch.tensor([0, 1, 2]))
    value.backward()
    assert value.item() == 0.0
    assert len(loss.plausibility) == 0


def test_wrong_parameters_are_named():
    with pytest.raises(ValueError, match="`eta` must be"):
        RescaledHingeMetricLoss(eta=-1.0)


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_metric_learning.distances", None)
    monkeypatch.delitem(sys.modules, "nearkin.deep.metric_learning")
    with pytest.raises(ImportError, match=re.escape("pip install 'nearkin[pml]'")):
        import nearkin.deep.metric_learning  # noqa: F401


def test_wrong_labels_count_little_in_their_loop(rng):
    torch.manual_seed(0)
    X = torch.tensor(np.concatenate([rng.normal(-1, 0.3, (30, 4)), rng.normal(1, 0.3, (30, 4))]), dtype=torch.float32)
    y = torch.arange(60) // 30
    y[0] = 1
    model, loss = torch.nn.Linear(4, 2), RescaledHingeMetricLoss(eta=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(30):
        optimizer.zero_grad()
        loss(model(X), y).backward()
        optimizer.step()
    is_wrong = loss.triplets[0] == 0
    assert loss.plausibility[is_wrong].mean() < 0.1 * loss.plausibility[~is_wrong].mean()
