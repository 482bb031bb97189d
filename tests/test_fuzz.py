"""The attacks: their own measure is right, and a short run of all kinds finds nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzz import report as reports
from fuzz.mutate import mutate_array, mutate_bytes, mutate_tree

ROOT = Path(__file__).resolve().parents[1]


def _fuzz(*args, timeout):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "fuzz", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout)


def test_damage_is_damage_and_the_same_for_the_same_seed():
    content = b"some,cells\n1,2\n" * 20
    for seed in range(200):
        made = mutate_bytes(content, np.random.default_rng(seed))
        assert made != content
        assert made == mutate_bytes(content, np.random.default_rng(seed))


def test_forging_leaves_the_original_alone():
    tree, arrays = {"state": {"C": 1.0, "names": ["a", "b"]}}, [np.arange(6.0).reshape(2, 3)]
    for seed in range(200):
        mutate_tree(tree, arrays, np.random.default_rng(seed))
        mutate_array(arrays[0], np.random.default_rng(seed))
    assert tree == {"state": {"C": 1.0, "names": ["a", "b"]}}
    assert np.array_equal(arrays[0], np.arange(6.0).reshape(2, 3))


def test_a_failure_is_counted_saved_and_can_be_repeated(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reports, "FAILURES", tmp_path / "failures")
    monkeypatch.setattr(reports, "HERE", tmp_path / "fuzz")
    report = reports.Report(kind="laws")
    for case in report.cases(60.0, seed=7, limit=4):
        (case.folder / "input.txt").write_text(str(case.number))
        report.count(case, "sums", f"{case.number} is odd" if case.number % 2 else None)
    assert report.rows() == [("laws", "sums", 4, 2, 2)]
    assert (tmp_path / "failures" / "laws-7-1" / "input.txt").read_text() == "1"
    assert report.failures[0].repeat == "python -m fuzz --only laws --seed 7 --case 1"
    assert len(report.faults()) == 1  # they differ by a number only
    assert "1 is odd" in capsys.readouterr().err
    again = reports.Report(only=3, kind="laws")
    assert [case.number for case in again.cases(60.0, seed=7)] == [3]


def test_every_way_to_end_is_told_apart(tmp_path):
    done = _fuzz("--only", "selfcheck", "--seed", 0, "--json", tmp_path / "counts.json", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "counts.json").read_text())["counts"][0]["held"] == 5


@pytest.mark.slow
def test_a_short_run_of_all_attacks_finds_nothing(tmp_path):
    done = _fuzz("--seconds", 12, "--seed", 0, "--json", tmp_path / "counts.json", timeout=300)
    assert done.returncode == 0, done.stdout[-4000:]
    assert len({one["kind"] for one in json.loads((tmp_path / "counts.json").read_text())["counts"]}) >= 6
