"""OPML and COPML: the literal twins, the published step, and the cold start."""

import numpy as np
import pytest

import nearkin
from each import each
from nearkin.triplets import OnePassTriplets
from printed import printed
from reference import opml

PUBLISHED = {"C": opml.C_RELEASED}


def assert_same_run(model, run):
    size = max(1.0, np.abs(run.parameter).max())
    np.testing.assert_allclose(model.components_.T, run.parameter, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(model.plausibility_, run.plausibility, rtol=0, atol=1e-12)
    assert model.n_updates_ == run.n_updates


@each(eta=[0.0, 0.5, 2.0], d=[3, 12])
@pytest.mark.parametrize(("C", "exact"), [(5e-4, False), (0.01, False), (0.01, True), (0.1, True)])
def test_robust_opml_is_its_literal_twin(C, exact, eta, d, random_triplets):
    sets = random_triplets(300, d, 1.2 / np.sqrt(d))
    model = nearkin.RobustOPML(C=C, eta=eta, exact=exact, scale=None).fit_triplets(*sets)
    run = opml.opml(*sets, C=C, eta=eta, exact=exact)
    assert run.n_updates > 100
    assert_same_run(model, run)


def test_opml_is_the_twin_with_the_plain_hinge(random_triplets):
    sets = random_triplets(200, 5, 0.6)
    assert_same_run(nearkin.OPML(**PUBLISHED, scale=None).fit_triplets(*sets), opml.opml(*sets))


@each(loss=["hinge", "rescaled_hinge"], init=["discriminant", "identity"])
def test_exact_opml_is_lodml_with_all_components(loss, init, blobs):
    X, y = blobs(60, 5)
    how = {"loss": loss, "init": init, "triplets": "one_pass", "random_state": 0}
    one = nearkin.OPML(exact=True, **how).fit(X, y)
    other = nearkin.LODML(5, **how).fit(X, y)
    np.testing.assert_array_equal(one.components_, other.components_)


def test_the_published_step_goes_beyond_the_kink_and_stays_below_the_bound():
    """u = 0, |v| = 1 and L = I: the loss is gone at lambda = 0 already, for a margin of 1; so let |v| be 0.5."""
    x, positive, negative = np.array([[0.5, 0.0]]), np.array([[0.5, 0.0]]), np.array([[0.0, 0.0]])
    z = {}
    for exact in (True, False):
        for C in (1.5, 1e9, np.inf):
            model = nearkin.OPML(C=C, exact=exact, scale=None).fit_triplets(x, positive, negative)
            z[exact, C] = 0.25 * model.metric_[0, 0]
    assert z[True, 1.5] == pytest.approx(1.0) == z[True, 1e9] == z[True, np.inf]
    assert z[False, 1.5] == pytest.approx(0.25 / (1.0 - 0.75) ** 2)
    assert z[False, 1e9] == z[False, np.inf] == pytest.approx(0.25e12, rel=1e-6)


# ---------------------------------------------------------------- cold start


@pytest.fixture
def late(blobs, rng):
    """Rows of which the first twelve are of one class."""
    X, y = blobs(60, 4, 3)
    first = np.flatnonzero(y == 0)[:12]
    order = np.r_[first, rng.permutation(np.setdiff1d(np.arange(60), first))]
    return X[order], y[order]


@each(eta=[0.0, 1.0], exact=[False, True])
def test_cold_start_is_copml(eta, exact, late):
    X, y = late
    how = {"C": 0.01, "eta": eta, "exact": exact, "shuffle": False, "rescore": False, "scale": None}
    model = printed(nearkin.RobustOPML, cold_start=True, **how).fit(X, y)
    assert_same_run(model, opml.copml(X, list(y), C=0.01, C_pair=0.01, eta=eta, exact=exact))
    assert (model.plausibility_[1:12] <= np.exp(-eta)).all()


def test_without_the_cold_start_the_first_class_teaches_nothing(late):
    X, y = late
    for cold_start in (False, True):
        model = nearkin.OPML(cold_start=cold_start).partial_fit(X[:12], y[:12], classes=[0, 1, 2])
        assert model.n_updates_ == (11 if cold_start else 0)


def test_a_first_batch_of_one_class_is_enough_for_a_cold_start_only(late):
    X, y = late
    with pytest.raises(ValueError, match="OPML: at least two classes"):
        nearkin.OPML().partial_fit(X[:12], y[:12])
    model = nearkin.OPML(cold_start=True).partial_fit(X[:12], y[:12])
    assert model.classes_.tolist() == [0]
    assert model.partial_fit(X[12:], y[12:]).classes_.tolist() == [0, 1, 2]


def test_chunks_of_a_cold_start_give_the_same_model(late):
    X, y = late
    how = {"cold_start": True, "scale": None}
    whole = printed(nearkin.RobustOPML, **how).partial_fit(X, y)
    parts = printed(nearkin.RobustOPML, **how)
    for at in (slice(0, 1), slice(1, 5), slice(5, 14), slice(14, 60)):
        parts.partial_fit(X[at], y[at])
    np.testing.assert_allclose(parts.components_, whole.components_, rtol=0, atol=1e-12)


def test_the_source_itself_may_start_cold(late):
    X, y = late
    given, asked = (
        nearkin.OPML(random_state=0, **how).fit(X, y)
        for how in ({"triplets": OnePassTriplets(cold_start=True)}, {"cold_start": True})
    )
    np.testing.assert_array_equal(given.components_, asked.components_)
    assert asked.triplets == "one_pass"


def test_cold_triplets_are_pairs_until_a_second_class_comes():
    X = np.arange(6.0)[:, None]
    triplets = OnePassTriplets(cold_start=True).build(X, ["a", "a", "a", "b", "a", "b"])
    anchor = triplets.row_origin[triplets.anchor]
    positive, negative = (triplets.pool_origin[one] for one in (triplets.positive, triplets.negative))
    found = list(zip(anchor.tolist(), positive.tolist(), negative.tolist(), strict=True))
    assert found == [(1, 0, 1), (2, 1, 2), (4, 2, 3), (5, 3, 4)]


def test_the_cold_start_needs_its_own_triplets(blobs):
    X, y = blobs()
    model = nearkin.OPML(cold_start=True, triplets="octg")
    with pytest.raises(ValueError, match=r"OPML: cold_start=True needs triplets='one_pass'.*got triplets='octg'"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="cold_start"):
        model.fit_triplets(X, X, X)


def test_a_cold_start_survives_saving(late, tmp_path):
    X, y = late
    model = nearkin.RobustOPML(cold_start=True).partial_fit(X[:5], y[:5])
    nearkin.save(model, tmp_path / "model")
    again = nearkin.load(tmp_path / "model").partial_fit(X[5:], y[5:])
    np.testing.assert_array_equal(again.components_, model.partial_fit(X[5:], y[5:]).components_)
