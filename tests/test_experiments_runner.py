"""The runner: nothing finished is lost, nothing is measured twice, and several at once give the same numbers."""

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from experiment_data import make_dataset
from nearkin.paper import runner
from nearkin.paper.cells import Cell, Outcome
from nearkin.paper.log import Log
from nearkin.paper.runner import run

METHODS = ("Euclidean", "ODML", "OPML")


@pytest.fixture
def data():
    return {"tiny": make_dataset("tiny"), "other": make_dataset("other", seed=1)}


@pytest.fixture
def cells(data):
    return [Cell(name, noise, method) for name in data for noise in (0.0, 20.0) for method in METHODS]


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "cells.jsonl")


def numbers(outcomes):
    return [replace(one, seconds=0.0) for one in outcomes]


def test_cells_at_once_give_the_same_numbers_as_one_after_the_other(cells, data, log, tmp_path):
    serial = run(cells, data, log)
    together = run(cells, data, Log(tmp_path / "together.jsonl"), n_jobs=2)
    assert numbers(serial) == numbers(together)
    assert [one.cell for one in together] == cells


def test_what_is_in_the_log_is_not_measured_again(cells, data, log, monkeypatch):
    first = run(cells[:4], data, log)
    measured = []
    real = runner.measure
    monkeypatch.setattr(runner, "measure", lambda cell, one: measured.append(cell) or real(cell, one))
    again = run(cells, data, log)
    assert measured == cells[4:]
    assert again[:4] == first
    assert len(log.path.read_text().splitlines()) == len(cells)


def test_a_cell_of_another_seed_budget_or_kind_is_another_cell(cells, log):
    log.append(Outcome(cells[0], [1.0], None, {}, 0.0))
    for change in ({"seed": 1}, {"n_draws": 2}, {"kind": "boundary"}, {"selection": "nested", "budget": 4}):
        assert log.missing([replace(cells[0], **change)])
    assert not log.missing([cells[0]])


def test_a_line_cut_off_by_a_kill_is_measured_again_and_spoils_no_other(cells, data, log):
    first = run(cells[:2], data, log)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-20])
    assert log.missing(cells[:2]) == [cells[1]]
    again = run(cells[:2], data, log)
    assert again[0] == first[0]
    assert numbers(again) == numbers(first)


def test_lines_that_are_no_outcomes_are_passed_over(cells, log):
    log.path.write_text('{"cell": {"dataset": "tiny"}}\n[]\n7\n\x00\n{"a": 1}\n')
    assert log.read() == {}
    log.append(Outcome(cells[0], [1.0], None, {}, 0.0))
    assert list(log.read()) == [cells[0].key]


def test_progress_counts_every_cell_and_ends_with_nothing_left(cells, data, log):
    told = []
    run(cells, data, log, tell=told.append)
    assert [one.done for one in told] == list(range(1, len(cells) + 1))
    assert {one.total for one in told} == {len(cells)}
    assert told[-1].seconds_left == pytest.approx(0.0)
    assert all(one.seconds_left >= 0 for one in told)


KILLED = """
import os, signal, sys
from pathlib import Path
from nearkin.paper.reproduce import Request, reproduce

def tell(advance):
    if advance.done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

methods = ("Euclidean", "ODML", "OPML")
reproduce(Request("table3", Path(sys.argv[1]), datasets=("wine",), noise=(20.0,), methods=methods), tell=tell)
"""


def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path):
    from nearkin.paper.reproduce import Request, reproduce

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    done = subprocess.run([sys.executable, "-c", KILLED, str(killed)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (killed / "table3.json").exists()
    kept = (killed / "cells.jsonl").read_text()
    assert len(kept.splitlines()) == 2

    asked = Request("table3", killed, datasets=("wine",), noise=(20.0,), methods=("Euclidean", "ODML", "OPML"))
    told = []
    resumed = reproduce(asked, tell=told.append)
    assert [one.outcome.cell.method for one in told] == ["OPML"]
    assert (killed / "cells.jsonl").read_text().startswith(kept)
    uninterrupted = reproduce(replace(asked, out=whole))
    assert [{**one, "seconds": 0} for one in resumed.records] == [
        {**one, "seconds": 0} for one in uninterrupted.records
    ]
