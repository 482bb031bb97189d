"""Triplets of neighbours, against a plain loop."""

import numpy as np
import pytest

import nearkin
from nearkin.rows import Rows
from nearkin.triplets import NeighbourTriplets, Triplets


def triplets_plainly(source, rows, codes, start):
    """A row is an anchor if its draw is below twice its weight.

    Nearest trusted witnesses, every one with every one that is not farther by the margin.
    """
    found, weight, _ = start.judge(rows, codes)
    trusted = start.witnesses.weight >= 0.5
    draws = source.rng_.random(len(rows))
    out = []
    for i in range(len(rows)):
        if draws[i] >= 2 * weight[i]:
            continue
        own, other = (
            [(j, at) for j, at in zip(which[i], distances[i], strict=True) if j >= 0 and trusted[j]]
            for which, distances in ((found.own, found.near), (found.other, found.far))
        )
        for positive, near in own[: source.n_targets]:
            out += [(i, positive, negative) for negative, far in other[: source.n_impostors] if far - near < 1]
    return out


@pytest.mark.parametrize("sizes", [(3, 3), (1, 2), (10, 10)])
def test_triplets_are_those_of_a_plain_loop(sizes, blobs, rng):
    X, y = blobs(200, n_classes=4, spread=1.0)
    y = np.where(rng.random(200) < 0.3, rng.integers(0, 4, 200), y)
    source = NeighbourTriplets(n_targets=sizes[0], n_impostors=sizes[1])
    model = nearkin.RobustLODML(triplets=source, random_state=0).partial_fit(X[:120], y[:120])
    state, made = model.state_, model.state_.source
    rows, codes = state.scaled(X[120:]), state.codes_of(y[120:])
    expected = triplets_plainly(made.copy(), rows, codes, state.start)
    found = Triplets.join(list(made.copy().generate(Rows(rows), codes, state)))
    assert len(found) == len(expected) > 0
    anchor, positive, negative = np.array(expected).T
    witnesses = state.start.witnesses
    pool = found.pool.dense
    np.testing.assert_array_equal(found.rows.dense[found.anchor], rows[anchor])
    np.testing.assert_array_equal(pool[found.positive], witnesses.placed[positive])
    np.testing.assert_array_equal(pool[found.negative], witnesses.placed[negative])
    assert (witnesses.codes[positive] == codes[anchor]).all()
    assert (witnesses.codes[negative] != codes[anchor]).all()


def test_rows_whose_neighbours_contradict_them_are_learned_rarely(blobs):
    X, y = blobs(300, spread=0.1)
    wrong = np.arange(300) % 10 == 0
    labels = np.where(wrong, (y + 1) % 3, y)
    model = nearkin.RobustLODML(rescore=False, random_state=0).fit(X, labels)
    assert model.plausibility_[wrong].max() < 0.3 < 0.9 < model.plausibility_[~wrong].min()


def test_a_learner_without_a_start_is_refused(blobs):
    X, y = blobs(60)
    for settings in ({"init": "identity"}, {"init": "pca", "n_components": 2}):
        with pytest.raises(ValueError, match="init='discriminant'"):
            nearkin.RobustLODML(triplets="neighbours", random_state=0, **settings).fit(X, y)
