"""The runner: nothing finished is lost, nothing is measured twice, and several at once give the same numbers."""

import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from nearkin.paper import TABLES, Cell, Log, Outcome, measure, narrow, reproduce, run_cells
from small_datasets import make_dataset

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
    serial = run_cells(cells, data, log)
    together = run_cells(cells, data, Log(tmp_path / "together.jsonl"), n_jobs=2)
    assert numbers(serial) == numbers(together)
    assert [one.cell for one in together] == cells


def test_what_is_in_the_log_is_not_measured_again(cells, data, log):
    first = run_cells(cells[:4], data, log)
    measured = []
    again = run_cells(cells, data, log, by=lambda cell, one: measured.append(cell) or measure(cell, one))
    assert measured == cells[4:]
    assert again[:4] == first
    assert len(log.path.read_text().splitlines()) == len(cells)


def test_a_cell_of_another_seed_budget_or_kind_is_another_cell(cells, log):
    log.append(Outcome(cells[0], [1.0], None, {}, 0.0))
    for change in ({"seed": 1}, {"n_draws": 2}, {"kind": "boundary"}, {"selection": "nested", "budget": 4}):
        assert log.list_missing([replace(cells[0], **change)])
    assert not log.list_missing([cells[0]])


def test_a_line_cut_off_by_a_kill_is_measured_again_and_spoils_no_other(cells, data, log):
    first = run_cells(cells[:2], data, log)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-20])
    assert log.list_missing(cells[:2]) == [cells[1]]
    again = run_cells(cells[:2], data, log)
    assert again[0] == first[0]
    assert numbers(again) == numbers(first)


def test_lines_that_are_not_outcomes_do_not_count(cells, log):
    log.path.write_text('{"cell": {"dataset": "tiny"}}\n[]\n7\n\x00\n{"a": 1}\n')
    assert log.read() == {}
    log.append(Outcome(cells[0], [1.0], None, {}, 0.0))
    assert list(log.read()) == [cells[0].key]


def test_progress_counts_every_cell_and_ends_with_nothing_left(cells, data, log):
    told = []
    run_cells(cells, data, log, say=told.append)
    assert [line.split()[0] for line in told] == [f"[{done}/{len(cells)}]" for done in range(1, len(cells) + 1)]
    assert all(line.endswith(" left") for line in told[:-1])
    assert told[-1].endswith("; done")


KILLED = """
import os, signal, sys
from pathlib import Path
from nearkin.paper import TABLES, narrow, reproduce

def say(line):
    if line.startswith("[2/"):
        os.kill(os.getpid(), signal.SIGKILL)

methods = ("Euclidean", "ODML", "OPML")
table = narrow(TABLES["table3"], datasets=("wine",), noise=(20.0,), methods=methods)
reproduce(table, Path(sys.argv[1]), say=say)
"""


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_where_it_was(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    done = subprocess.run([sys.executable, "-c", KILLED, str(killed)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (killed / "table3.json").exists()
    kept = (killed / "cells.jsonl").read_text()
    assert len(kept.splitlines()) == 2

    table = narrow(TABLES["table3"], datasets=("wine",), noise=(20.0,), methods=METHODS)
    told = []
    resumed = reproduce(table, killed, say=told.append)
    assert "2 of 3 cells" in told[0] and [line.split(", ")[2].split(":")[0] for line in told[1:]] == ["OPML"]
    assert (killed / "cells.jsonl").read_text().startswith(kept)
    uninterrupted = reproduce(table, whole)
    assert [{**one, "seconds": 0} for one in resumed.records] == [
        {**one, "seconds": 0} for one in uninterrupted.records
    ]
