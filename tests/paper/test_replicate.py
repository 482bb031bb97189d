"""Every record has a command that makes it."""

from pathlib import Path

import pytest
from benchmarks import replicate

RESULTS = Path(__file__).parents[2] / "results"


def test_every_folder_of_results_has_a_command():
    folders = {one.name for one in RESULTS.iterdir() if one.is_dir() and list(one.glob("*.json"))}
    assert folders <= set(replicate.COMMANDS)


def test_commands_are_printed_with_their_folder_and_processes(capsys):
    replicate.main(["why", "table1", "--list", "--jobs", "5", "--fresh"])
    why, table = capsys.readouterr().out.splitlines()
    assert why == "python -m benchmarks.why --out results/why --jobs 5"
    assert table == "python -m nearkin reproduce table1 --out results/table1 --jobs 5 --fresh"


def test_a_command_that_fails_is_told(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(replicate, "ROOT", tmp_path)
    monkeypatch.setattr(replicate, "COMMANDS", {"nothing": ("no_such_module",)})
    with pytest.raises(SystemExit) as ended:
        replicate.main(["--jobs", "1"])
    assert ended.value.code == 1
    assert "nothing: failed (1)" in capsys.readouterr().out


def test_an_unknown_folder_is_refused(capsys):
    with pytest.raises(SystemExit):
        replicate.main(["table9"])
    assert "no command makes 'table9'" in capsys.readouterr().err
