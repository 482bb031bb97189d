"""``nearkin fit`` on data larger than memory: many files, kills, plausibility of every row, mistakes."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import nearkin
from nearkin import streams
from nearkin.cli import main
from streams import tables


def run(*args):
    outcome = CliRunner().invoke(main, [str(one) for one in args])
    assert "Traceback" not in outcome.stderr
    assert outcome.exit_code != 1, outcome.stderr
    return outcome


@pytest.fixture
def home(tmp_path):
    tables.write(tmp_path / "big", "parquet", *tables.rows())
    return tmp_path


def fit(home, *more):
    return ("fit", home / "big", "--label", "y", "-o", home / "m.nearkin", "--epochs", 2, "--batch-rows", 200, *more)


def test_many_files_are_learned_in_batches_and_the_model_predicts(home):
    done = run(*fit(home, "--checkpoint", home / "ck", "--log", home / "log"))
    assert done.exit_code == 0, done.stderr
    assert "memory about" in done.stderr
    assert "4,800 learned, 2,400 rows a pass" in done.stdout
    model = nearkin.load(home / "m.nearkin")
    stream = streams.open(home / "big", label="y", batch_rows=200)
    same = streams.fit_stream(nearkin.RobustLODML(n_epochs=2, random_state=0), stream)
    np.testing.assert_array_equal(model.learner_.components_, same.components_)
    assert json.loads((home / "log").read_text().splitlines()[-1])["rows"] == 4800
    predicted = run("predict", home / "m.nearkin", home / "big" / "0.parquet", "-o", home / "p.csv")
    assert "accuracy 8" in predicted.stderr
    shown = run("info", home / "m.nearkin").stdout
    assert "f0, f1" in shown
    again = run(*fit(home, "--checkpoint", home / "ck", "--resume"))
    assert again.exit_code == 0
    refused = run(*fit(home, "--checkpoint", home / "ck"))
    assert refused.exit_code == 2
    assert "exists already" in refused.stderr


def test_all_rows_are_scored_beside_the_input(home):
    done = run(*fit(home, "--plausibility", "--voters", 0))
    assert done.exit_code == 0, done.stderr
    assert "warning" not in done.stderr
    found = parquet.read_table(home / "big" / "1.parquet.plausibility.pq")
    X, y = tables.rows()
    learner = nearkin.load(home / "m.nearkin")
    vars(learner).pop("feature_names_in_")
    np.testing.assert_allclose(found["plausibility"], learner.plausibility(X[1200:], y[1200:]), atol=1e-6)
    assert found["row"].to_pylist() == list(range(1, 1201))
    assert found["label"].to_pylist() == y[1200:].tolist()
    once = (home / "big" / "1.parquet.plausibility.pq").stat().st_mtime_ns
    again = run(*fit(home, "--plausibility", "--voters", 0, "--checkpoint", home / "ck", "--resume"))
    assert again.exit_code == 0  # score files of this model stay and are never read as input
    assert (home / "big" / "1.parquet.plausibility.pq").stat().st_mtime_ns == once


def test_rows_without_scores_are_null(home):
    X, y = tables.rows()
    X[5, 1], labels = np.nan, y.copy()
    labels[7] = 99
    tables.write(home / "odd", "parquet", X, labels)
    learner = streams.fit_stream(nearkin.RobustLODML(random_state=0), streams.open(home / "big", label="y"))
    (path, _) = streams.score_stream(learner, streams.open(home / "odd", label="y", missing="drop"))
    found = parquet.read_table(path)
    assert [i for i, one in enumerate(found["plausibility"].to_pylist()) if one is None] == [5, 7]
    assert found["label"].to_pylist()[5:8] == [None, int(y[6]), 99]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--label", "z"), r"has no column 'z'"),
        (("--suspects", "s.csv"), "--plausibility scores every row"),
        (("--resume",), "must be named"),
        (("--drop", "f0,f1,f2,f3,f4,f5"), "no feature columns left"),
        (("--labels", "y.npy"), "give one of them"),
        (("--epochs", "0"), "0 is not in the range"),
        (("--dask", "local:0"), "local:N"),
        (("--dask", "127.0.0.1:1", "--tls", "a", "b", "c"), "a: No such file"),
    ],
)
def test_a_mistake_is_one_line(home, change, message, monkeypatch):
    if change[0] == "--dask":
        pytest.importorskip("distributed", reason="clusters need the extra dask")
    monkeypatch.chdir(home)
    outcome = run(*fit(home, "-q"), *change)
    assert outcome.exit_code == 2
    assert message in outcome.stderr
    assert outcome.stderr.count("\n") == 1
    assert not (home / "m.nearkin").exists()


def test_options_of_streams_mean_nothing_for_one_table(home):
    for one in (
        ("--resume",), ("--shuffle",), ("--plausibility",), ("--missing", "drop"), ("--shards", 2), ("--voters", 5),
        ("--batch-rows", 9), ("--checkpoint-every", 1), ("--text-labels",), ("--log", home / "l"),
    ):  # fmt: skip
        outcome = run("fit", home / "big" / "0.parquet", "--label", "y", "-o", home / "m.nearkin", *one)
        assert outcome.exit_code == 2
        assert f"{one[0]} is for data that is read in batches" in outcome.stderr
    for one, needed in ((("--shards", 2), "--dask"), (("--checkpoint-every", 1), "--checkpoint")):
        assert f"{one[0]} belongs to {needed}" in run(*fit(home), *one).stderr


def test_a_bad_row_is_named_in_the_words_of_the_command_line_or_dropped(home):
    X, y = tables.rows()
    X[1500, 3] = np.nan
    tables.write(home / "big", "parquet", X, y)
    outcome = run(*fit(home, "-q"))
    assert "1.parquet, data row 301: column 'f3' holds no value." in outcome.stderr
    assert "(--missing drop)" in outcome.stderr
    done = run(*fit(home, "--missing", "drop"))
    assert done.exit_code == 0
    assert f"{2 * (tables.N - 1):,} learned, {tables.N:,} rows a pass, of which 1 dropped" in done.output


@pytest.mark.slow
def test_a_dask_cluster_of_this_machine(home):
    pytest.importorskip("distributed", reason="clusters need the extra dask")
    done = run(*fit(home, "--dask", "local:1", "--shards", 1, "--merge-every", 400, "--plausibility"))
    assert done.exit_code == 0, done.stderr
    stream = streams.open(home / "big", label="y", batch_rows=200)
    same = streams.fit_stream(nearkin.RobustLODML(n_epochs=2, random_state=0), stream)
    np.testing.assert_array_equal(nearkin.load(home / "m.nearkin").learner_.components_, same.components_)
    assert (home / "big" / "0.parquet.plausibility.pq").exists()


@pytest.mark.slow
def test_a_live_line_on_a_terminal_and_an_interrupt_that_can_be_resumed(home):
    """Ctrl-C in the middle: a checkpoint is there, and the run goes on to the same model."""
    X, y = tables.rows(8000)
    tables.write(home / "big", "parquet", X, y, group=2000)
    command = [sys.executable, "-m", "nearkin", *map(str, fit(home, "--checkpoint", home / "ck"))]
    command[command.index("200")] = "20"
    env = {**os.environ, "PYTHONPATH": tables.SOURCES}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL, env=env)
    os.close(theirs)
    seen = b""
    end = time.monotonic() + 100
    while b"rows," not in seen and time.monotonic() < end:
        seen += os.read(ours, 1024)
    process.send_signal(signal.SIGINT)
    with pytest.raises(OSError, match="Input/output"):
        while True:
            seen += os.read(ours, 1024)
    assert process.wait(timeout=60) == 130
    assert b"/s" in seen
    assert b"interrupted" in seen
    assert not (home / "m.nearkin").exists()
    assert subprocess.run([*command, "--resume"], env=env, capture_output=True, timeout=100).returncode == 0
    stream = streams.open(home / "big", label="y", batch_rows=20)
    same = streams.fit_stream(nearkin.RobustLODML(n_epochs=2, random_state=0), stream)
    np.testing.assert_array_equal(nearkin.load(home / "m.nearkin").learner_.components_, same.components_)


def test_alarms_are_told_logged_shown_and_an_exit_code(tmp_path):
    folder = tmp_path / "hours"
    folder.mkdir()
    X, y = tables.rows(6_000)
    for hour in range(6):
        part = slice(1_000 * hour, 1_000 * (hour + 1))
        moved = X[part] + 2.0 * (hour >= 4)
        text = "\n".join(",".join(map(str, [*row, label])) for row, label in zip(moved, y[part], strict=True))
        (folder / f"{hour}.csv").write_text(",".join([*(f"x{i}" for i in range(X.shape[1])), "y"]) + "\n" + text + "\n")
    options = ["--label", "y", "--voters", 0, "--epochs", 1, "--batch-rows", 500, "--log", tmp_path / "log", "-q"]
    made = tmp_path / "m.nearkin"
    done = run("fit", folder, *options, "--log-every", "file", "-o", made, "--fail-on-drift")
    assert done.exit_code == 3
    assert "nearkin: drift: after 4," in done.stderr
    assert "feature 'x" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert len({one["file"] for one in lines}) == 6
    assert any(alarm["signal"] == "features" for one in lines for alarm in one["alarms"])
    assert "moved" in run("info", made).stdout
    calm = run("fit", folder, *options, "-o", tmp_path / "calm.nearkin", "--fail-on-drift", "--false-alarms", 0)
    assert (calm.exit_code, calm.stderr) == (0, "")
    assert run("fit", folder, "--label", "no", "-o", made, "--log", tmp_path / "log").exit_code == 2
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["event"] == "refused"
