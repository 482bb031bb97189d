"""Today's files onto yesterday's model: each learned once, killed at any moment, refused by name."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import nearkin
from nearkin import streams
from nearkin.cli import main
from nearkin.saving import load
from nearkin.streams import Ledger, LedgerEntry
from nearkin.streams.lock import Lock


def write_day(folder, name, seed, n=120, columns="abcd", header=None):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + 2.0 * np.eye(4)[y]
    order = ["abcd".index(one) for one in columns]
    lines = [",".join([*columns, "y"]) if header is None else header]
    lines += [",".join([*(f"{one:.6f}" for one in row[order]), f"c{label}"]) for row, label in zip(X, y, strict=True)]
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def learner():
    return nearkin.RobustLODML(random_state=0)


def classifier():
    return nearkin.RobustKNeighborsClassifier(learner(), random_state=0)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day in range(3):
        write_day(tmp_path / "in", f"day{day}.csv", day)
    return tmp_path


def onto(path="m.nearkin", source="in", model=None, **more):
    return streams.fit_onto(path, source, **{"model": model or learner(), "label": "y", "batch_rows": 50, **more})


def statuses(outcome):
    return [one.status for one in outcome.notes]


@pytest.mark.parametrize("make", [learner, classifier])
def test_files_one_at_a_time_end_with_the_bits_of_all_at_once(home, make):
    onto("all.nearkin", model=make())
    for day in range(3):
        found = onto("m.nearkin", [f"in/day{one}.csv" for one in range(day + 1)], make())
        assert statuses(found) == ["seen"] * day + ["learned"]
    assert Path("m.nearkin").read_bytes() == Path("all.nearkin").read_bytes()
    before = Path("m.nearkin").stat().st_mtime_ns
    assert statuses(onto("m.nearkin")) == ["seen"] * 3
    assert Path("m.nearkin").stat().st_mtime_ns == before
    assert [one.n_rows for one in load("m.nearkin").history_.ledger] == [120] * 3


def test_a_renamed_file_is_known_and_a_changed_one_is_refused_before_anything_is_learned(home):
    onto()
    (home / "in/day0.csv").rename(home / "in/first.csv")
    found = onto()
    assert statuses(found) == ["seen"] * 3
    assert "day0.csv" in found.notes[2].text
    before = Path("m.nearkin").read_bytes()
    write_day(home / "in", "a_new.csv", 7)
    write_day(home / "in", "day1.csv", 8)
    with pytest.raises(ValueError, match=r"in/day1\.csv.*has changed"):
        onto()
    assert Path("m.nearkin").read_bytes() == before
    found = onto(on_bad_file="skip")
    assert sorted(statuses(found)) == ["changed", "learned", "seen", "seen"]
    assert found.model.n_rows_seen_ == 480


def test_an_empty_folder_is_an_ordinary_day(home):
    (home / "none").mkdir()
    for _ in range(2):
        done = run("fit", "none", "--label", "y", "--onto", "m.nearkin")
        assert (done.exit_code, "nothing new to learn" in done.stdout) == (0, True)
        onto(source="in/day0.csv")
    assert run("fit", "gone", "--label", "y", "--onto", "m.nearkin").exit_code == 2


def test_a_file_that_cannot_be_opened_is_put_aside(home, monkeypatch):
    onto(source="in/day0.csv")
    digest = streams.onto.digest_content

    def locked(paths):
        if str(paths[0]).endswith("day1.csv"):
            raise PermissionError(13, "Permission denied", paths[0])
        return digest(paths)

    monkeypatch.setattr("nearkin.streams.onto.digest_content", locked)
    with pytest.raises(PermissionError):
        onto()
    assert sorted(statuses(onto(on_bad_file="skip"))) == ["bad", "learned", "seen"]


def test_two_files_with_one_content_are_learned_once(home):
    (home / "in/copy.csv").write_bytes((home / "in/day2.csv").read_bytes())
    assert sorted(statuses(onto())) == ["learned", "learned", "learned", "seen"]


def test_settings_that_contradict_the_model_are_refused_with_names(home):
    onto(model=classifier())
    for more, words in (
        ({"batch_rows": 60}, "batch_rows was 50 and is 60"),
        ({"label": "z"}, "label was 'y' and is 'z'"),
        ({"drop": ["a"]}, r"drop was \[\] and is \['a'\]"),
        ({"wishes": {"learner": "OASIS"}}, "learner was RobustLODML and is OASIS"),
        ({"wishes": {"C": 0.5}}, "C was auto and is 0.5"),
        ({"wishes": {"n_voters": 77}}, "n_voters was 10000 and is 77"),
    ):
        with pytest.raises(ValueError, match=words):
            onto(**more)
    streams.fit_onto("m.nearkin", "in")  # nothing need be said again
    with pytest.raises(TypeError, match="'labels'"):
        streams.fit_onto("m.nearkin", "in", labels="y")


def test_columns_go_by_name_and_a_file_without_one_is_refused_with_its_name(home):
    onto(source="in/day0.csv")
    turned = write_day(home / "other", "day1.csv", 1, columns="dcba")
    one = onto(source="in/day1.csv", output="one.nearkin").model
    other = onto(source=turned, output="other.nearkin").model
    assert np.array_equal(one.components_, other.components_)
    short = write_day(home / "other", "short.csv", 1, columns="abd")
    with pytest.raises(ValueError, match=r"short\.csv has no column 'c', which the model needs"):
        onto(source=short)
    more = write_day(home / "other", "more.csv", 4, header="a,b,c,e,y")
    with pytest.raises(ValueError, match="'d'"):
        onto(source=more)


@pytest.mark.parametrize("kind", ["learner", "jury"])
def test_new_columns_are_left_out_refused_or_taken_up(home, kind):
    """The first files say nothing about the class; a column that comes later does."""
    rng = np.random.default_rng(0)
    for day in range(3):
        y = rng.integers(0, 2, 200)
        table = {"a": rng.normal(size=200), "b": rng.normal(size=200), "y": np.array(["no", "yes"])[y]}
        if day:
            table = {"told": 100.0 * y + rng.normal(size=200), **table}
        pd.DataFrame(table).to_csv(f"{day}.csv", index=False)
    if kind == "jury":
        assert run("fit", "0.csv", "--label", "y", "-o", "m.nearkin").exit_code == 0
    else:
        onto(source="0.csv", model=classifier())
    with pytest.raises(ValueError, match=r"1\.csv has columns that the model has not learned: 'told'"):
        onto(source="1.csv", new_columns="error", batch_rows=None)
    left = onto(source="1.csv", output="left.nearkin", batch_rows=None)
    assert left.notes[0].text == "new columns are left out: 'told'"
    for day in (1, 2):
        done = onto(source=f"{day}.csv", new_columns="learn", batch_rows=None)
    assert done.model.feature_names_in_.tolist() == ["a", "b", "told"]
    test = pd.read_csv("2.csv")[["a", "b", "told"]]
    found = load("m.nearkin")
    truth = pd.read_csv("2.csv")["y"]
    assert (found.predict(test) == truth).mean() > 0.95
    assert found.history_.held.rows.shape == (600, 3)
    assert (load("left.nearkin").predict(test[["a", "b"]]) == truth).mean() < 0.7
    with pytest.raises(ValueError, match=r"0\.csv|'told'"):
        onto(source=write_day(home, "old.csv", 3, columns="ab"), batch_rows=None)


def test_a_learner_alone_cannot_take_up_columns_and_more_may_be_dropped(home):
    onto(source="in/day0.csv")
    more = home / "more.csv"
    more.write_text(
        (home / "in/day1.csv").read_text().replace(",y", ",y,note").replace("\n", ",0\n").replace(",0\n", "\n", 1)
    )
    with pytest.raises(ValueError, match="only a classifier"):
        onto(source=more, new_columns="learn")
    assert onto(source=more, drop=["note"]).notes[0].text == ""
    with pytest.raises(ValueError, match="drop was"):
        onto(source=more, drop=["note", "a"])


def test_a_bad_file_is_put_aside_whole_and_tried_again_when_it_changes(home):
    bad = home / "in/day1.csv"
    whole = bad.read_text()
    bad.write_text(whole.replace("\n", "\nn-a,1,1,1,c0\n", 90)[:4000])
    with pytest.raises(ValueError, match=r"day1\.csv, data row"):
        onto()
    assert load("m.nearkin").n_rows_seen_ == 120  # of the file before it
    found = onto(on_bad_file="skip")
    assert statuses(found) == ["seen", "bad", "learned"]
    assert found.model.n_rows_seen_ == 240
    (entry,) = found.model.history_.ledger.quarantined
    assert entry.path == str(bad)
    assert "data row" in entry.problem
    assert sorted(statuses(onto(on_bad_file="skip"))) == ["aside", "seen", "seen"]
    with pytest.raises(ValueError, match=r"day1\.csv, data row"):
        onto()
    bad.write_text(whole)
    found = onto()
    assert sorted(statuses(found)) == ["learned", "seen", "seen"]
    assert found.model.history_.ledger.quarantined == []


def test_files_put_aside_are_tried_again_when_they_are_read_otherwise(home):
    text = (home / "in/day1.csv").read_text()
    (home / "in/day1.csv").write_text(text.replace("\n", "\n,,,,c0\n", 1))
    assert statuses(onto(on_bad_file="skip")) == ["learned", "bad", "learned"]
    assert statuses(onto(on_bad_file="skip")) == ["seen", "aside", "seen"]
    done = onto(on_bad_file="skip", missing="drop")
    assert sorted(statuses(done)) == ["learned", "seen", "seen"]
    assert [one.n_dropped for one in done.model.history_.ledger] == [0, 0, 1]


def test_a_run_in_which_nothing_can_be_learned_leaves_no_model(home):
    assert set(statuses(onto(label="z", on_bad_file="skip"))) == {"bad"}
    assert not Path("m.nearkin").exists()
    assert statuses(onto()) == ["learned"] * 3


def test_a_first_file_of_one_class_waits_for_one_with_two(home):
    rows = (home / "in/day0.csv").read_text().splitlines()
    (home / "in/a_one.csv").write_text("\n".join([rows[0], *(one for one in rows if one.endswith("c0"))]) + "\n")
    with pytest.raises(ValueError, match=r"in/a_one\.csv: all its rows are of one class"):
        onto("one.nearkin", "in/a_one.csv")
    done = onto()
    assert [Path(one.path).name for one in done.model.history_.ledger] == [
        "day0.csv",
        "a_one.csv",
        "day1.csv",
        "day2.csv",
    ]
    assert statuses(onto("n.nearkin", "in/a_one.csv", on_bad_file="skip")) == ["bad"]


def test_files_of_other_kinds_are_judged_one_by_one(home):
    pd.read_csv("in/day0.csv").sample(frac=1.0, random_state=0).to_parquet("in/turned.parquet")
    (home / "in/odd.parquet").write_bytes(b"PAR1 and no more")
    (home / "in/later.csv.gz").write_bytes(b"1")
    (home / "in/old").mkdir()
    done = onto(on_bad_file="skip")
    assert sorted(statuses(done)) == ["bad", *["learned"] * 4]
    assert done.ignored == ["later.csv.gz", "old/"]
    assert "not read: 2 other entries (later.csv.gz, old/)" in run(*LINE, "--on-bad-file", "skip").stderr


def test_models_know_the_files_they_were_fitted_on(home):
    for data, more in (("in", ()), ("in/day0.csv", ()), ("in/day0.csv", ("--stream", "--voters", 0))):
        assert run("fit", data, "--label", "y", "-o", "m.nearkin", *more).exit_code == 0
        done = run("fit", data, "--onto", "m.nearkin")
        assert (done.exit_code, "nothing new to learn" in done.stdout) == (0, True), done.stderr
    model = learner().fit(*(lambda one: (one[list("abcd")], one["y"]))(pd.read_csv("in/day0.csv")))
    nearkin.save(model, "own.nearkin")
    with pytest.warns(UserWarning, match=r"own\.nearkin does not know the files"):
        onto("own.nearkin", "in/day1.csv")


def test_a_dry_run_ends_as_the_run_would(home):
    assert run(*LINE, "--dry-run").exit_code == 0
    whole = (home / "in/day1.csv").read_text()
    (home / "in/day1.csv").write_text(whole[:2000])
    for more, code in ((("--on-bad-file", "skip"), 4), ((), 2)):
        assert run(*LINE, *more, "--dry-run").exit_code == code
        assert run(*LINE, *more).exit_code == code
    (home / "in/day1.csv").write_text(whole)
    assert run(*LINE).exit_code == 0
    (home / "in/day1.csv").write_text(whole.replace("c0", "c1", 1))
    assert run(*LINE, "--dry-run").exit_code == run(*LINE).exit_code == 2


def test_without_a_model_the_default_one_of_the_command_line_begins(home):
    streams.fit_onto("m.nearkin", "in", label="y", batch_rows=50)
    run(*LINE[:4], "--onto", "n.nearkin", "--batch-rows", "50")
    assert np.array_equal(load("m.nearkin").learner_.components_, load("n.nearkin").learner_.components_)


def test_a_dry_run_changes_nothing(home):
    onto(source="in/day0.csv")
    (home / "in/day2.csv").write_text("a,b\n1,2\n")
    before = {one: one.read_bytes() for one in sorted(home.rglob("*")) if one.is_file()}
    found = onto(dry_run=True)
    assert statuses(found) == ["seen", "new", "bad"]
    assert {one: one.read_bytes() for one in sorted(home.rglob("*")) if one.is_file()} == before


def test_a_second_process_is_kept_away(home):
    with Lock(home / "m.nearkin.lock", "m.nearkin"), pytest.raises(ValueError, match="in use"):
        onto()
    onto()
    assert not (home / "m.nearkin.lock").exists()


def test_an_interrupt_keeps_the_files_before_and_the_next_run_decides(home):
    def stop(report):
        if report.batch == 4:
            raise KeyboardInterrupt

    whole = onto("whole.nearkin", model=classifier()).model
    with pytest.raises(KeyboardInterrupt):
        onto(model=classifier(), on_report=stop)
    kept = load("m.nearkin")
    assert [Path(one.path).name for one in kept.history_.ledger] == ["day0.csv"]
    assert not kept.__sklearn_is_fitted__()
    assert statuses(onto()) == ["seen", "learned", "learned"]
    assert Path("m.nearkin").read_bytes() == Path("whole.nearkin").read_bytes()
    assert whole.__sklearn_is_fitted__()


KILLS = """
import os, signal, sys, warnings
from pathlib import Path
import nearkin
from nearkin import streams
from nearkin.reservoir import Reservoir
from nearkin.streams import onto, pupil
warnings.simplefilter("ignore")
onto._BETWEEN_SAVES = 0.0
events, deadly = 0, -1

def around(owner, name):
    inner = getattr(owner, name)
    def wrapped(*args, **more):
        tick()
        found = inner(*args, **more)
        tick()
        return found
    setattr(owner, name, wrapped)

def tick():
    global events
    events += 1
    if events == deadly:
        os.kill(os.getpid(), signal.SIGKILL)

for owner, name in ((onto, "save"), (onto, "_copied"), (onto.Ledger, "add"), (pupil, "learn_batch"), (Reservoir, "add"),
                    (pupil.Pupil, "decide"), (os, "fsync"), (Path, "replace")):
    around(owner, name)

def fit(path):
    model = nearkin.RobustKNeighborsClassifier(nearkin.RobustLODML(random_state=0), random_state=0)
    streams.fit_onto(path, "in", model=model, label="y", batch_rows=60, n_voters=60, log=path + ".jsonl", log_every=1)

fit("warm.nearkin")  # compiles, while the lock shows signs of life, which are events too
events = 0
fit("whole.nearkin")
total, whole = events, Path("whole.nearkin").read_bytes()
log = [one.count(",") for one in Path("whole.nearkin.jsonl").read_text().splitlines()]
print(total)
for k in range(1, total + 1, int(sys.argv[1])):
    for one in Path().glob("m.nearkin*"):
        one.unlink()
    child = os.fork()
    if not child:
        events, deadly = 0, k
        fit("m.nearkin")
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    fit("m.nearkin")
    assert Path("m.nearkin").read_bytes() == whole, k
    assert len(Path("m.nearkin.jsonl").read_text().splitlines()) == len(log), k
print("same")
"""


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_bits(home):
    done = subprocess.run([sys.executable, "-c", KILLS, "7"], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("same\n"), done.stderr


@pytest.mark.slow
def test_ten_noisy_files_one_a_call_end_within_half_a_point_of_one_fit(home):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 7000)
    X = 1.2 * rng.normal(size=(5, 8))[y] + rng.normal(size=(7000, 8))
    noisy, _ = nearkin.flip_labels(y[:2000], 0.2, random_state=0)
    model = classifier().set_params(learner__n_epochs=3)
    for rows in np.split(np.arange(2000), 10):
        name = f"{rows[0]}.npy"
        np.save(name, X[rows])
        np.save("y.npy", noisy[rows])
        done = onto("m.nearkin", name, model, label="y.npy", batch_rows=4096)
    assert done.model.history_.held.n_rows_seen == 2000
    whole = classifier().set_params(learner__n_epochs=3).fit(X[:2000], noisy)
    assert done.model.score(X[2000:], y[2000:]) > whole.score(X[2000:], y[2000:]) - 0.005


# ---------------------------------------------------------------- the ledger


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123"), st.booleans()), max_size=12))
def test_a_ledger_learns_every_content_once_and_never_a_changed_file(events):
    ledger, learned = Ledger(), {}
    for path, digest, is_bad in events:
        status = ledger.judge(path, digest)
        if digest in learned.values():
            assert status == "seen"
        else:
            assert status in ("bad", "changed" if path in learned else "new")
        if status == "new":
            ledger.add(LedgerEntry(path, digest, problem="odd" if is_bad else ""))
            if not is_bad:
                learned[path] = digest
        assert {one.path: one.digest for one in ledger.learned} == learned
        assert len({one.path for one in ledger.quarantined}) == len(ledger.quarantined)


# ---------------------------------------------------------------- the command


def run(*args):
    outcome = CliRunner().invoke(main, [str(one) for one in args])
    assert "Traceback" not in outcome.stderr
    assert outcome.exit_code != 1, outcome.stderr
    return outcome


LINE = ("fit", "in", "--label", "y", "--onto", "m.nearkin", "--log", "metrics.jsonl", "--batch-rows", "50")


def test_the_line_of_every_day(home):
    first = run(*LINE)
    assert first.exit_code == 0, first.stderr
    assert "3 new files learned" in first.stdout
    again = run(*LINE)
    assert (again.exit_code, "nothing new to learn; 3 files learned before" in again.stdout) == (0, True)
    write_day(home / "in", "day3.csv", 3)
    dry = run(*LINE, "--dry-run")
    assert "in/day3.csv: would be learned, 120 rows" in dry.stderr
    assert "1 new file would be learned" in dry.stdout
    assert "in/day3.csv: learned, 120 rows" in run(*LINE).stderr
    logged = [json.loads(one) for one in Path("metrics.jsonl").read_text().splitlines()]
    assert [one["batch"] for one in logged] == sorted({one["batch"] for one in logged})
    shown = run("info", "m.nearkin").stdout
    assert "4 files, 480 rows" in shown
    assert "accuracy" in run("predict", "m.nearkin", "in/day0.csv", "-o", "p.csv").stderr


def test_a_bad_file_has_an_exit_code_of_its_own_and_a_place_in_info(home):
    write_day(home / "in", "day2.csv", 2, columns="abd")
    stopped = run(*LINE, "-q")
    assert stopped.exit_code == 2
    assert "in/day2.csv has no column 'c'" in stopped.stderr
    skipped = run(*LINE, "-q", "--on-bad-file", "skip")
    assert skipped.exit_code == 4
    assert skipped.stderr.startswith("nearkin: put aside: in/day2.csv has no column 'c'")
    again = run(*LINE, "--on-bad-file", "skip")
    assert (again.exit_code, "1 file put aside before" in again.stdout) == (0, True)
    logged = [json.loads(one) for one in Path("metrics.jsonl").read_text().splitlines()]
    assert [one["file"] for one in logged if one["event"] == "put aside"] == ["in/day2.csv"]
    assert "day2.csv" in run("info", "m.nearkin").stdout
    facts = json.loads(run("info", "m.nearkin", "--json").stdout)
    assert facts["history"]["quarantine"][0]["file"].endswith("day2.csv")


def test_options_that_contradict_are_refused(home):
    assert run(*LINE).exit_code == 0
    for more, words in (
        (("--batch-rows", 60), "batch_rows was 50 and is 60"),
        (("--learner", "oasis"), "learner was RobustLODML and is OASIS"),
        (("--epochs", 7), "n_epochs was 3 and is 7"),
        (("--shuffle",), "--shuffle cannot be combined with --onto"),
        (("--suspects", "s.csv"), "--suspects cannot be combined with --onto"),
    ):
        done = run(*LINE, *more)
        assert done.exit_code == 2
        assert words in done.stderr
    for more in (("--dry-run",), ("--on-bad-file", "skip")):
        assert "belongs to --onto" in run("fit", "in", "--label", "y", "-o", "n.nearkin", *more).stderr
    assert "Missing option '-o'" in run("fit", "in", "--label", "y").stderr


@pytest.mark.parametrize("more", [(), ("--neighbors", 3), ("--learner", "oasis"), ("--stream",)])
def test_every_model_of_the_command_line_goes_on(home, more):
    assert run("fit", "in/day0.csv", "--label", "y", "-o", "m.nearkin", *more).exit_code == 0
    done = run("fit", "in/day1.csv", "--onto", "m.nearkin", "-o", "n.nearkin")
    assert done.exit_code == 0, done.stderr
    assert load("n.nearkin").history_.held.n_rows_seen == 240
