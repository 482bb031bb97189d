"""Figures: what they show is what was measured."""

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from nearkin.cli import main
from nearkin.paper import Cell, Outcome, figures, wine
from nearkin.paper.report import make_records
from nearkin.paper.scores import METRICS

CS = (1e-6, 1.0)


@pytest.fixture(scope="module")
def runs():
    return wine.draw_runs(2)


def test_wine_is_divided_as_the_paper_says(runs):
    for run in runs:
        assert len(run.test) == np.ceil(0.3 * 178)
        assert run.is_wrong.sum() == round(0.1 * len(run.labels))
        np.testing.assert_allclose(np.linalg.norm(run.train, axis=1), 1.0)
    assert not np.array_equal(runs[0].labels, runs[1].labels)


def test_a_tiny_c_is_the_euclidean_distance_for_every_curve(runs):
    found = wine.trace_batch(runs, CS) | wine.trace_robust(runs, CS)
    assert len(found) == 5 + 2 + 1
    for name, values in found.items():
        assert values.shape == (len(runs), len(CS))
        if "Robust-kNN" not in name:
            np.testing.assert_allclose(values[:, 0], found["Euclidean"][:, 0])


def test_who_knows_the_wrong_triplets_does_not_do_worse(runs):
    found = wine.trace_batch(runs, (1.0,))
    assert found["ideal ODML"].mean() >= found["ODML"].mean()


def test_records_of_a_figure_hold_the_lead_over_a_line_with_its_standard_error():
    trace = {"one": np.array([[90.0], [94.0]]), "other": np.array([[91.0], [92.0]])}
    one, other = wine.make_trace_records(9, trace, (1.0,), "other")
    assert (one["mean"], one["lead"], one["lead_error"]) == (92.0, 0.5, pytest.approx(1.5))
    assert (other["lead"], other["lead_error"], other["runs"]) == (0.0, 0.0, 2)


def outcome(dataset, noise, method):
    return Outcome(Cell(dataset, noise, method), [90.0, 92.0], [[[8.0, 2.0], [1.0, 9.0]]] * 2, {}, 0.0)


@pytest.mark.slow
def test_every_figure_with_numbers_is_drawn_and_the_others_are_named(tmp_path, monkeypatch):
    files, left_out = figures.draw_figures(tmp_path, n_runs=1, cs=CS)
    assert [path.name for path in files] == [f"figure{number}.svg" for number in (2, 3, 8, 9, 10)] + [
        "figures.json", "figure11.svg",
    ]  # fmt: skip
    assert ["table3" in left_out[0], "table4" in left_out[1]] == [True, True]

    accuracy = [outcome(name, noise, "ODML") for name in ("wine", "wdbc") for noise in (0.0, 20.0)]
    (tmp_path / "table3.json").write_text(json.dumps(make_records(accuracy)))
    covid = [outcome("covid-resnet18", noise, method) for noise in (0.0, 20.0) for method in ("ODML", "OPML")]
    (tmp_path / "table4.json").write_text(json.dumps(make_records(covid, METRICS)))
    seen = []
    monkeypatch.setattr(figures, "_draw_lines", lambda axes, some, value: seen.append([value(one) for one in some]))
    again, left_out = figures.draw_figures(tmp_path, n_runs=1, cs=CS)
    assert [path.name for path in again[-2:]] == ["figure12.svg", "figure14.svg"]
    assert not left_out
    assert seen[:2] == [[91.0, 91.0]] * 2
    assert seen[2] == pytest.approx([2 * 80.0 + 100 * 8 / 9] * 4)
    assert seen[3] == pytest.approx([100 * np.sqrt(0.8 * 0.9)] * 4)


def test_without_matplotlib_one_line_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = CliRunner().invoke(main, ["reproduce", "figures", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "pip install 'nearkin[paper]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_draws_and_names_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "draw_figures", lambda out, seed, n_runs: ([out / "figure2.svg"], [f"seed {seed}"]))
    done = CliRunner().invoke(main, ["reproduce", "figures", "--seed", "3", "--out", str(tmp_path)])
    assert done.exit_code == 0
    assert "left out: seed 3" in done.stderr
    assert "figure2.svg" in done.stdout
