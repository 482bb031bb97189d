"""Table 1 of the paper: what OCTG makes of Wine with one label in ten wrong."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler, normalize

from nearkin.triplets import OCTG


@pytest.fixture(scope="module")
def figures():
    """Per draw of the noise: triplets with a right anchor, their mean hinge, and the same for a wrong anchor."""
    X, y = load_wine(return_X_y=True)
    X = normalize(StandardScaler().fit_transform(X))
    rows = []
    for draw in range(50):
        rng = np.random.default_rng(draw)
        noisy, is_wrong = y.copy(), np.zeros(len(y), dtype=bool)
        is_wrong[rng.permutation(len(y))[: round(0.1 * len(y))]] = True
        noisy[is_wrong] = (y[is_wrong] + rng.integers(1, 3, is_wrong.sum())) % 3
        triplets = OCTG(n_centers=1, margin=1.0).build(X, noisy)
        hinge, roles = 1.0 - triplets.margins(), triplets.noisy_roles(is_wrong)
        assert not roles.positive.any()
        assert not roles.negative.any()
        wrong = roles.anchor
        rows.append(((~wrong).sum(), hinge[~wrong].mean(), wrong.sum(), hinge[wrong].mean()))
    return np.array(rows, dtype=float)


@pytest.mark.parametrize(
    ("column", "printed"),
    [(0, 105), (1, 0.39), (2, 35), (3, 1.67)],
    ids=["right_triplets", "mean_hinge_of_right_ones", "wrong_triplets", "mean_hinge_of_wrong_ones"],
)
def test_the_octg_column_of_table_1_lies_within_one_standard_deviation(figures, column, printed):
    mean, deviation = figures[:, column].mean(), figures[:, column].std(ddof=1)
    assert abs(mean - printed) <= deviation


def test_wrong_labels_show_in_the_anchor_only_and_with_a_much_larger_hinge(figures):
    assert np.all(figures[:, 3] > 2 * figures[:, 1])
