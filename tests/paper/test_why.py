"""The factorial experiment tells parts from each other, and its runner goes on where it was."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from benchmarks import units, why, why_pictures

WORTH = {"OCTG": 1.0, "rescaled": -0.5, "full": 2.0, "low rank": 3.0, "Robust-kNN": 4.0, "z-scores": 5.0}


def add_up(run_worth=0.0, together=0.0):
    """Accuracies in which every level has its own worth, and OCTG with Robust-kNN some more."""
    found = []
    for one in why.DESIGN:
        value = 50.0 + run_worth + sum(WORTH.get(level, 0.0) for level in one)
        found.append(value + (together if {"OCTG", "Robust-kNN"} <= set(one) else 0.0))
    return found


def make_runs(together=0.0):
    return [
        {"dataset": name, "draw": draw, "noise": 0.0, "accuracy": add_up(draw, together)}
        for name in ("a", "b")
        for draw in range(3)
    ]


def test_effects_of_an_additive_world_are_what_was_put_in():
    runs = make_runs()
    for name, level in why.list_contrasts():
        assert why.estimate(runs, why.get_signs(name, level)) == pytest.approx((WORTH.get(level, 0.0), 0.0))
    for one, other in why.list_contrast_pairs():
        assert why.estimate(runs, why.get_pair_signs(one, other)) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_an_interaction_is_found_where_it_is():
    signs = why.get_pair_signs(("triplets", "OCTG"), ("classifier", "Robust-kNN"))
    assert why.estimate(make_runs(together=2.0), signs)[0] == pytest.approx(2.0)


def test_another_level_in_place_of_the_papers_costs_its_worth():
    found = dict(line.strip("| ").split(" | ", 1) for line in why.list_replaced(make_runs()))
    assert (
        found["(accuracy of the whole)"] == "63.5 | 63.5"
    )  # 50, all parts of the paper, and draws worth 1 in the mean
    assert found["classifier: 3-NN, not Robust-kNN"] == "-4.0 ± 0.0 | -4.0 ± 0.0"
    assert found["metric: full, not low rank"] == "-1.0 ± 0.0 | -1.0 ± 0.0"
    assert found["search: inner folds, not default"] == "+0.0 ± 0.0 | +0.0 ± 0.0"


def test_errors_are_those_of_sets_and_draws():
    runs = make_runs()
    for run in runs:
        run["accuracy"] = list(np.array(run["accuracy"]) + run["draw"] * (np.array(why.DESIGN)[:, 0] == "OCTG"))
    mean, error = why.estimate(runs, why.get_signs("triplets", "OCTG"))
    assert mean == pytest.approx(2.0)
    assert error == pytest.approx(np.std([0, 1, 2, 0, 1, 2], ddof=1) / 6**0.5)


def test_one_run_measures_every_combination():
    found = why.measure("wine", 0, 20.0, n_folds=2)["accuracy"]
    assert len(found) == len(why.DESIGN) == 192
    held = dict(zip(why.DESIGN, found, strict=True))
    plain = [value for one, value in held.items() if one[2:5] == ("none", "3-NN", "z-scores")]
    assert len(plain) == 8
    assert len(set(plain)) == 1  # nothing is learned, so triplets, loss and search do not matter
    assert min(plain) > 60.0


def test_pictures_are_whole():
    runs = make_runs(together=2.0)
    for text in (why_pictures.draw_main(runs), why_pictures.draw_interactions(runs)):
        ET.fromstring(text)
        assert "Robust-kNN" in text


def square(number, power):
    return {"found": number**power}


def test_a_stopped_experiment_goes_on_and_measures_again_what_older_code_measured(tmp_path, monkeypatch):
    log, made = tmp_path / "log.jsonl", []
    places = [{"number": one, "power": 2} for one in (1, 2, 3)]

    def count(number, power):
        made.append(number)
        return square(number, power)

    units.measure_all(places[:2], count, log)
    with log.open("a") as file:
        file.write('{"number": 3, "pow')  # cut off by a kill
    assert [one["found"] for one in units.measure_all(places, count, log)] == [1, 4, 9]
    assert made == [1, 2, 3]
    monkeypatch.setattr(units, "digest_sources", lambda what: "other code")
    assert {one["sources"] for one in units.measure_all(places, count, log)} == {"other code"}
    assert made == [1, 2, 3, 1, 2, 3]
