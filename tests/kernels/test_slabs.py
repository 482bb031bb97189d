"""Low-rank sweeps in slabs give what the literal steps give, whatever the rank."""

import numpy as np
import pytest

import nearkin
from reference import lowrank

LEARNERS = {"similarity": (nearkin.RobustLOSL, lowrank.losl), "distance": (nearkin.RobustLODML, lowrank.lodml)}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(("d", "r"), [(20, 15), (20, 16), (21, 17), (40, 33), (66, 64), (71, 65), (70, 70)])
def test_every_rank_agrees_with_the_literal_steps(name, d, r, rng):
    cls, literal = LEARNERS[name]
    A, P, N = (rng.normal(size=(25, d)) / np.sqrt(d) for _ in range(3))
    start = np.linalg.qr(rng.normal(size=(d, r)))[0]
    expected = literal(list(zip(A, P, N, strict=True)), 0.1, start, 1.0)
    model = cls(C=0.1, init=start.T, scale=None).fit_triplets(A, P, N)
    np.testing.assert_allclose(model.components_, expected.parameter.T, rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.plausibility_, expected.plausibility, rtol=0, atol=1e-10)


@pytest.mark.parametrize("r", [3, 16, 40, 100])
def test_single_precision_stays_close_to_double_precision(r, rng):
    triplets = [rng.normal(size=(60, 110)) / np.sqrt(110) for _ in range(3)]
    start = np.linalg.qr(rng.normal(size=(110, r)))[0].T
    wide = nearkin.RobustLODML(init=start, scale=None).fit_triplets(*triplets).components_
    narrow = nearkin.RobustLODML(init=start, scale=None).fit_triplets(*(one.astype(np.float32) for one in triplets))
    assert narrow.components_.dtype == np.float32
    np.testing.assert_allclose(narrow.components_, wide, rtol=0, atol=1e-4)


@pytest.mark.parametrize("r", [4, 20])
def test_a_step_that_waits_is_applied_at_the_end_of_a_call(r, rng):
    triplets = [rng.normal(size=(1, 24)) / 5 for _ in range(3)]
    model = nearkin.LODML(init=np.eye(r, 24), scale=None)
    model.fit_triplets(*triplets)
    assert model.n_updates_ == 1
    assert (model.components_ != np.eye(r, 24)).any()
