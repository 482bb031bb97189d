"""The tables of what the jury is made of: whole juries are those of the classifier, and parts are parts."""

import numpy as np
import pytest
from benchmarks import audit_sets, recipe
from benchmarks.audit_noise import draw_rows

from nearkin import RobustKNeighborsClassifier


@pytest.fixture(scope="module")
def data():
    return audit_sets.load("wine")


def test_the_whole_jury_is_the_classifier(data):
    rows = draw_rows(data, "uniform 20", 0)
    model = RobustKNeighborsClassifier(random_state=rows.seed).fit(rows.X, rows.given)
    found = recipe.compare(data, "uniform 20", 0)
    accuracy, curve = found["all, half way to equal shares"]
    assert accuracy == pytest.approx(100.0 * model.score(rows.X_test, rows.y_test))
    assert curve > 90.0
    assert found["rate"][0] == pytest.approx(100.0 * abs(model.noise_rate_ - np.mean(rows.given != rows.right)))
    of_jury = {one.name for one in model.decision_.jury.voters}
    assert {name for names in recipe.ALONE.values() for name in names} == of_jury


def test_the_sets_are_those_of_the_audits_benchmark():
    assert len(recipe.SETS) == len(set(recipe.SETS)) == 16
    assert set(recipe.SETS) <= set(audit_sets.PLAIN)


def test_tables_leave_out_what_was_not_measured():
    sets = [
        {"one": np.array([90.0, np.nan]), "rate": np.array([2.0, np.nan])},
        {"one": np.array([92.0, np.nan]), "rate": np.array([3.0, np.nan])},
    ]
    lines = list(recipe.tabulate({"none": sets}))
    assert lines[2] == "| one | 91.0 |  |"
    assert lines[-1] == "| error of the estimated share | 2.5 |"
