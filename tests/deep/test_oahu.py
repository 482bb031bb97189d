"""OAHU: bounds, Hedge over layers, and its robust form."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402

import nearkin  # noqa: E402
from nearkin.deep import OAHU, AdaptiveBounds, RobustOAHU, oahu  # noqa: E402
from nearkin.deep.oahu import LayerObjective  # noqa: E402
from nearkin.losses import RescaledHinge  # noqa: E402
from networks import make  # noqa: E402


def fast(cls=OAHU, **parameters):
    settings = {"hidden": (16, 16), "n_components": 4, "n_epochs": 30, "learning_rate": 0.01, "random_state": 0}
    return make(cls, **{**settings, **parameters})


@given(margin=st.floats(0.01, 0.66), curve=st.sampled_from(["exponential", "linear", lambda t: t**2]))
def test_bounds_have_the_ends_of_the_article_and_leave_something_to_learn(margin, curve):
    bounds = AdaptiveBounds(margin, curve)
    distance = torch.linspace(0, 2, 41, dtype=torch.float64)
    near, far = bounds.similar(distance), bounds.dissimilar(distance)
    torch.testing.assert_close(near[[0, -1]], torch.tensor([0.0, margin], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(far[[0, -1]], torch.tensor([2 - margin, 2.0], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    assert (near.diff() > 0).all()
    assert (far.diff() > 0).all()
    assert (near[1:] < distance[1:]).all()  # every pair is pulled
    assert (far[:-1] > distance[:-1]).all()  # and every other one pushed
    table = bounds.loss(distance[:, None], distance[None, :])
    assert (table >= 0).all()
    assert (table <= 1).all()
    assert (table.diff(dim=0) > -1e-12).all()
    assert (table.diff(dim=1) < 1e-12).all()
    assert table[0, -1] == pytest.approx(0.0, abs=1e-9)


def test_the_exponential_bound_is_a_exp_D_plus_b():
    D = torch.linspace(0, 2, 9, dtype=torch.float64)
    a = 0.3 / (np.e**2 - 1)
    torch.testing.assert_close(AdaptiveBounds(0.3).similar(D), a * torch.exp(D) - a, rtol=1e-6, atol=1e-7)
    b = 0.3 / (1 - np.e**-2)
    torch.testing.assert_close(AdaptiveBounds(0.3).dissimilar(D), 2 - 0.3 + b - b * torch.exp(-D), rtol=1e-6, atol=1e-7)


def test_bounds_are_constants_for_autograd():
    near = torch.tensor(1.0, requires_grad=True)
    AdaptiveBounds(0.5).loss(near, torch.tensor(2.0)).backward()
    assert near.grad.item() == pytest.approx(0.25)


@pytest.mark.parametrize(("parameters", "said"), [({"margin": 0.7}, "`margin`"), ({"curve": "cubic"}, "`curve`")])
def test_wrong_bounds_are_named(parameters, said):
    with pytest.raises(ValueError, match=said):
        AdaptiveBounds(**parameters)


def test_hedge_over_layers_is_that_of_the_package(rings, monkeypatch):
    X, y = rings(n=64)
    losses = []

    class Watched(LayerObjective):
        def reweigh(self, found, shares):
            losses.append(found.by_group.mean(dim=0).double().numpy())
            return super().reweigh(found, shares)

    monkeypatch.setattr(oahu, "LayerObjective", Watched)
    model = fast(floor=0.0, n_epochs=4).fit(X, y)
    experts = nearkin.Hedge(3, beta=0.99)
    for one in losses:
        experts.update(one)
    assert len(losses) == 4
    np.testing.assert_allclose(model.layer_weights_, experts.weights_, rtol=1e-6)


def test_weights_of_layers_sum_to_one_above_the_floor(rings):
    X, y = rings()
    model = fast(beta=0.1, floor=0.3).fit(X, y)
    assert model.layer_weights_.sum() == pytest.approx(1.0)
    assert model.layer_weights_.min() >= 0.3 / 3 / 1.3  # normalised after it
    assert np.ptp(model.layer_weights_) > 0.01


def test_the_distance_is_the_weighted_sum_of_those_of_the_layers(rings):
    X, y = rings()
    model = fast(beta=0.5).fit(X, y)
    mapped = model.transform(X).reshape(len(X), 3, 4)
    lengths = (mapped**2).sum(axis=2)
    np.testing.assert_allclose(lengths, np.tile(model.layer_weights_, (len(X), 1)), rtol=1e-3)
    between = ((mapped[:1] - mapped) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(model.pair_distance(X[[0] * len(X)], X) ** 2, between, atol=1e-6)


@pytest.mark.parametrize("cls", [OAHU, RobustOAHU])
def test_it_learns_what_no_linear_map_does(rings, cls):
    X, y = rings(n=200)
    model = fast(cls).fit(X[:120], y[:120])
    near = KNeighborsClassifier(5).fit(model.transform(X[:120]), y[:120])
    assert near.score(model.transform(X[120:]), y[120:]) > 0.9
    assert model.layer_weights_.argmin() == 0  # the input alone cannot do it


@pytest.mark.slow
def test_the_robust_form_finds_wrong_labels_and_the_plain_one_trusts_all(blobs):
    X, y = blobs(n=200, spread=0.3)
    noisy, is_wrong = nearkin.flip_labels(y, 0.3, random_state=0)
    plain, robust = fast(OAHU).fit(X, noisy), fast(RobustOAHU).fit(X, noisy)
    assert (plain.plausibility_ == 1).all()
    assert roc_auc_score(is_wrong, -robust.plausibility_) > 0.95
    zero = fast(RobustOAHU, eta=0.0).fit(X, noisy)
    assert np.array_equal(zero.transform(X), plain.transform(X))


def test_the_robust_loss_is_the_rescaled_hinge_of_the_layers_together():
    rng = np.random.default_rng(0)
    members = tuple(torch.tensor(rng.normal(size=(9, 12)), dtype=torch.float32) for _ in range(3))
    loss, shares = RescaledHinge(4.0), np.array([0.5, 0.3, 0.2])
    objective = LayerObjective(loss, AdaptiveBounds(), beta=0.99, floor=0.1)
    found = objective.losses(members, shares, is_robust=True)
    together = objective.by_layer(members, 3).numpy() @ shares
    np.testing.assert_allclose(found.values.numpy(), loss.value(1.0 - together), rtol=1e-5)
    np.testing.assert_allclose(found.plausibility.numpy(), loss.plausibility(1.0 - together), rtol=1e-5)


def test_streams_and_explicit_triplets(rings, random_triplets):
    X, y = rings()
    model = fast().partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert model.n_rows_seen_ == 120
    assert fast(n_epochs=2).fit_triplets(*random_triplets(30, 4)).transform(X).shape == (120, 12)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"hidden": ()}, "`hidden` must be one or more whole numbers"),
        ({"hidden": 3}, "`hidden`"),
        ({"hidden": (10**9,)}, "`hidden`"),
        ({"n_components": 10**9}, "`n_components` must be a whole number in"),
        ({"hidden": (100_000,) * 900}, r"a network of 8,990,\d+,\d+,\d+ weights needs about .* GB of memory"),
        ({"bounds": 0.1}, "`bounds`"),
        ({"beta": 1.0}, "`beta`"),
        ({"floor": -0.1}, "`floor`"),
    ],
)
def test_wrong_parameters_are_named(rings, parameters, said):
    with pytest.raises(ValueError, match=said):
        fast(**parameters).fit(*rings())
