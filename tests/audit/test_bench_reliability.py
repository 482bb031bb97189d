"""The picture of reliability: what it counts, and that a small run writes picture and table."""

import numpy as np
import pytest
from benchmarks import reliability
from benchmarks.reliability import Said, bin_claims, calibration_error


def test_probabilities_that_hold_are_no_points_off_and_sets_count_the_same():
    says = np.repeat([0.1, 0.75], [40, 40])
    honest = Said("a", "none", "plausibility", says, np.concatenate([np.arange(40) < 4, np.arange(40) < 30]))
    assert calibration_error(bin_claims([honest])) == pytest.approx(0.0)
    false = Said("b", "none", "plausibility", np.full(8, 0.5), np.ones(8, bool))  # small, and 50 points off
    assert calibration_error(bin_claims([false])) == pytest.approx(50.0)
    assert calibration_error(bin_claims([honest, false])) == pytest.approx(25.0)
    weight, says, right = bin_claims([honest, false])
    assert weight[[1, 5, 7]].tolist() == pytest.approx([0.25, 0.5, 0.25]) and weight.sum() == pytest.approx(1.0)
    assert np.nanmax(np.abs(says - right)[[1, 7]]) == pytest.approx(0.0)
    assert np.isnan(calibration_error(bin_claims([])))


@pytest.mark.slow
def test_a_small_run_writes_the_picture_and_the_table(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    figure, table = tmp_path / "figures" / "r.svg", tmp_path / "r.md"
    reliability.main(["--sets", "digits", "--noise", "uniform 10", "--figure", str(figure), "--table", str(table)])
    assert "<svg" in figure.read_text() and "| plausibility | " in table.read_text()
    assert "digits: plausibility" in capsys.readouterr().err
