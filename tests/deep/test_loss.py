"""The rescaled hinge under autograd: the numbers of `nearkin.losses`, and the derivative of Eq. (10)."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'nearkin[deep]'")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from nearkin.deep import RescaledHingeTripletLoss  # noqa: E402
from nearkin.losses import RescaledHinge  # noqa: E402

MEASURES = ("distance", "similarity")
ETAS = st.floats(0.0, 20.0)


def members(rng, n=40, d=5, scale=1.0):
    return [torch.tensor(scale * rng.normal(size=(n, d)), requires_grad=True) for _ in range(3)]


def margins(measure, a, p, n):
    """By the definition."""
    if measure == "distance":
        return ((a - n) ** 2).sum(1) - ((a - p) ** 2).sum(1)
    return (a * p).sum(1) - (a * n).sum(1)


@pytest.mark.parametrize("measure", MEASURES)
@given(eta=ETAS, seed=st.integers(0, 1000))
def test_loss_and_plausibility_are_those_of_numpy(measure, eta, seed):
    a, p, n = members(np.random.default_rng(seed))
    value, plausibility = RescaledHingeTripletLoss(eta, measure=measure)(a, p, n)
    z = margins(measure, *(one.detach().numpy() for one in (a, p, n)))
    loss = RescaledHinge(eta)
    np.testing.assert_allclose(value.item(), loss.value(z).mean(), rtol=1e-12)
    np.testing.assert_allclose(plausibility.numpy(), loss.plausibility(z), rtol=1e-10, atol=1e-300)
    assert not plausibility.requires_grad


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("eta", [1e-7, 0.3, 2.0, 8.0])
def test_gradient_is_that_of_the_rescaled_hinge_itself(rng, measure, eta):
    ours, plain = members(rng), None
    RescaledHingeTripletLoss(eta, margin=0.7, measure=measure)(*ours)[0].backward()
    plain = [one.detach().clone().requires_grad_() for one in ours]
    hinge = torch.relu(0.7 - margins(measure, *plain))
    (torch.expm1(-eta * hinge) / np.expm1(-eta)).mean().backward()
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("measure", MEASURES)
def test_gradient_is_that_of_finite_differences(rng, measure):
    loss = RescaledHingeTripletLoss(1.5, measure=measure, C=3.0)
    # Far from the kink, where there is a derivative.
    a, p, n = members(rng, n=6, scale=0.3)
    assert (margins(measure, a, p, n).detach() < 0.9).all()
    assert torch.autograd.gradcheck(lambda *one: loss(*one)[0], (a, p, n))


def test_half_quadratic_weights_are_constants(rng):
    a, p, n = members(rng, n=1)
    loss = RescaledHingeTripletLoss(2.0, margin=5.0, measure="similarity")
    value, plausibility = loss(a, p, n)
    (first,) = torch.autograd.grad(value, a, create_graph=True)
    weight = RescaledHinge(2.0).slope * plausibility
    torch.testing.assert_close(first, weight * (n - p))
    assert first.abs().max() > 1e-6
    (second,) = torch.autograd.grad(first.sum(), a)
    assert (second == 0).all()  # a weight with a derivative would have one


@pytest.mark.parametrize("measure", MEASURES)
def test_eta_zero_is_the_hinge_and_the_limit(rng, measure):
    grads, values = [], []
    for eta in (0.0, 1e-9):
        a, p, n = members(np.random.default_rng(3))
        value, plausibility = RescaledHingeTripletLoss(eta, measure=measure)(a, p, n)
        value.backward()
        grads.append(torch.cat([one.grad for one in (a, p, n)]))
        values.append(value.item())
        torch.testing.assert_close(plausibility, torch.ones_like(plausibility))
    hinge = torch.relu(1.0 - margins(measure, *members(np.random.default_rng(3)))).mean()
    assert values[0] == pytest.approx(hinge.item(), rel=1e-12)
    assert values[1] == pytest.approx(values[0], rel=1e-7)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-6, atol=1e-12)


@given(eta=st.floats(0.01, 50.0), margin=st.floats(0.0, 5.0))
def test_plausibility_falls_with_the_hinge_and_stays_positive(eta, margin):
    far = torch.linspace(0, 40, 60, dtype=torch.float64)[:, None]
    zero = torch.zeros_like(far)
    value, plausibility = RescaledHingeTripletLoss(eta, margin).per_triplet(zero, far, zero)
    assert (plausibility.diff() <= 0).all()
    assert (plausibility > 0).all()
    assert (plausibility <= 1).all()
    assert (value.diff() >= 0).all()
    assert value.max() <= 1.0 / -np.expm1(-eta) + 1e-12


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("eta", [0.0, 1.0, 1e4])
def test_degenerate_triplets_give_no_nan(dtype, eta):
    rows = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [200.0, 0.0]]).to(getattr(torch, dtype))
    a = rows.clone().requires_grad_()
    p = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [-200.0, 0.0]]).to(a.dtype)
    value, plausibility = RescaledHingeTripletLoss(eta)(a, p, torch.zeros_like(p))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(a.grad).all()
    assert (plausibility > 0).all()


def test_no_triplet_has_no_loss():
    none = torch.empty(0, 3, requires_grad=True)
    value, plausibility = RescaledHingeTripletLoss()(none, none, none)
    value.backward()
    assert value.item() == 0.0
    assert plausibility.shape == (0,)


def test_C_is_a_factor(rng):
    a, p, n = members(rng)
    assert RescaledHingeTripletLoss(C=2.5)(a, p, n)[0].item() == pytest.approx(
        2.5 * RescaledHingeTripletLoss()(a, p, n)[0].item()
    )


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"eta": -1.0}, "`eta` must be a number"),
        ({"margin": float("nan")}, "`margin` must be a number"),
        ({"measure": "cosine"}, "`measure` must be one of 'distance', 'similarity'; got 'cosine'"),
        ({"C": "1"}, "`C` must be a number"),
    ],
)
def test_wrong_parameters_are_named(parameters, said):
    with pytest.raises(ValueError, match=said):
        RescaledHingeTripletLoss(**parameters)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"one shape .* got \[\(2, 3\), \(1, 3\), \(2, 3\)\]"):
        RescaledHingeTripletLoss()(torch.zeros(2, 3), torch.zeros(1, 3), torch.zeros(2, 3))


def test_it_learns_in_a_plain_loop_and_moves_with_its_module(rng):
    torch.manual_seed(0)
    model, loss = torch.nn.Linear(6, 2), RescaledHingeTripletLoss(eta=1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    a, p, n = (one.detach().float() for one in members(rng, d=6))
    values = []
    for _ in range(60):
        value, _ = loss(model(a), model(p), model(n))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.7 * values[0]
    assert "eta=1.0" in repr(torch.nn.Sequential(model, loss))
