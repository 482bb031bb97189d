"""The comparison with cleanlab: the same draws for all, resumable, and its goals are judged rightly."""

import numpy as np
import pytest
from benchmarks import audit
from benchmarks.audit import JUDGES, OURS, Detection, detect, list_cells, score
from benchmarks.audit_report import average, judge_goals, render

from nearkin import datasets
from nearkin.paper import Cell
from small_datasets import make_dataset


def outcome(method, auroc, *, dataset="wine", kind="uniform", noise=20.0, seed=0, rate=20.0, f1=90.0, seconds=1.0):
    cell = Cell(dataset, noise, method, kind=kind, seed=seed)
    return Detection(cell, auroc, auroc, f1, f1, f1, rate, 20.0 if noise else 0.0, seconds)


def test_a_line_of_the_log_comes_back():
    one = outcome(OURS, 99.0)
    assert Detection.from_line(one.to_line()) == one
    assert Detection.from_line(outcome(OURS, None, noise=0.0).to_line()).auroc is None


def test_cells_hold_every_kind_of_noise_and_human_labels_where_there_are_some():
    data = {"one": make_dataset("one", human=True), "two": make_dataset("two")}
    cells = list_cells(data, 5)
    assert len({cell.key for cell in cells}) == len(cells) == 5 * 4 * (7 + 6)
    assert {(cell.kind, cell.noise) for cell in cells if cell.dataset == "two"} == set(audit.NOISES)
    assert any(cell.kind == "human" for cell in cells if cell.dataset == "one")


def test_the_scores_are_those_of_the_definitions():
    is_wrong, doubt = np.array([1, 0, 0, 1], bool), np.array([0.9, 0.8, 0.1, 0.7])
    found = score(Cell("wine", 50.0, OURS), is_wrong, doubt, np.array([1, 1, 0, 0], bool), 0.4, 1.0)
    assert found.auroc == 75.0
    assert found.average_precision == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert (found.precision, found.recall, found.f1) == (50.0, 50.0, 50.0)
    assert (found.rate, found.true_rate) == (40.0, 50.0)


def test_goals_are_met_or_missed():
    ours, rivals = OURS, tuple(JUDGES)
    found = [outcome(ours, 99.0, rate=21.0)] + [outcome(name, 98.0, rate=15.0, f1=70.0) for name in rivals]
    found += [outcome(ours, None, noise=0.0, rate=3.0)] + [outcome(name, None, noise=0.0, rate=0.0) for name in rivals]
    found += [outcome(ours, 95.0, dataset="letters", seconds=3.0)]
    found += [outcome(name, 95.05, dataset="letters", seconds=2.0) for name in rivals]
    judged = {one.wanted: one for one in judge_goals(average(found), ours, rivals)}
    told = {wanted.split(" ahead")[0].split(" at ")[0]: one.is_met for wanted, one in judged.items()}
    assert told == {
        "AUROC": True,  # a difference of 0.05 is a tie
        "average precision": True,
        "mean F1 of the flagged rows": True,
        "error of the rate on uniform noise": True,
        "error of the rate on clean labels": False,
        "time on letters not above cleanlab, 10-NN": False,
    }
    text = render(found, ours, rivals, ["about"])
    assert "| wine | uniform 20 % | **99.0** (99.0) | 98.0 (98.0)" in text and "**missed**" in text


def test_means_are_over_the_draws():
    found = [outcome(OURS, 90.0, rate=18.0), outcome(OURS, 94.0, seed=1, rate=22.0)]
    (cell,) = average(found).values()
    assert cell[OURS]["auroc"] == 92.0 and cell[OURS]["rate_error"] == 2.0 and cell[OURS]["rate"] == 20.0


def test_our_column_finds_wrong_labels():
    data = make_dataset("wine", n=120, human=True)
    found = detect(Cell("wine", 20.0, OURS), data)
    assert found.auroc > 80 and found.true_rate == 20.0 and found.seconds > 0
    again = detect(Cell("wine", 20.0, OURS), data)
    assert again.auroc == found.auroc and again.rate == found.rate
    assert detect(Cell("wine", 0.0, OURS), data).auroc is None
    assert detect(Cell("wine", "crowd", OURS, kind="human"), data).true_rate > 10


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cleanlab", reason="needs cleanlab: pip install 'nearkin[paper]'")
    monkeypatch.setattr(datasets, "load", lambda name, folder=None: make_dataset(name, n=120))
    options = ["--quick", "--seeds", "1", "--datasets", "wine", "--out", str(tmp_path)]
    audit.main(options)
    assert "[8/8] wine, uniform 20 %, seed 0, cleanlab, logistic: AUROC" in capsys.readouterr().err
    page, log = (tmp_path / "audit.md").read_text(), tmp_path / "audit.jsonl"
    assert "## Goals" in page and page.count("| wine |") == 6
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[:5]) + "\n" + lines[5][:20])  # as a kill would leave it
    audit.main(options)
    told = capsys.readouterr().err
    assert "5 of 8 cells are done already" in told and "[3/3]" in told
    assert (tmp_path / "audit.md").read_text().split("## Seconds")[0] == page.split("## Seconds")[0]


def test_without_cleanlab_the_last_line_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "cleanlab.filter", None)
    with pytest.raises(SystemExit):
        audit.main(["--out", str(tmp_path / "out")])
    assert "nearkin[paper]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
