"""The benchmark of the cost: its data, the power of the growth, and what it writes."""

import numpy as np
import pytest
from benchmarks import audit_growth
from benchmarks.audit_growth_child import draw


def test_a_tenth_of_the_labels_is_flipped():
    X, y, is_wrong = draw(3000, 4, 5)
    assert X.dtype == np.float32 and X.shape == (3000, 4) and 0.07 < is_wrong.mean() < 0.13
    assert sorted(set(y.tolist())) == [0, 1, 2, 3, 4]


def test_the_power_of_the_growth_is_told_where_both_ends_are_known(tmp_path):
    assert audit_growth.exponent({50_000: 1.0, 1_000_000: 20.0}) == pytest.approx(1.0)
    assert audit_growth.exponent({50_000: 1.0}) is None
    one = {"cpu": 1.5, "memory": None, "auroc": 0.9}
    audit_growth.write(tmp_path / "a.md", [f"| 500 x 20, 3 | - | {audit_growth.describe(one)} | - |"], 1.0)
    assert "| 1.50 s, 90.0 |" in (tmp_path / "a.md").read_text() and "power 1.00" in (tmp_path / "a.md").read_text()
