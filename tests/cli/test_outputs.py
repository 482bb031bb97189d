"""Outputs never destroy: no option and no call replaces an input, another output, or a file that is not nearkin's."""

import json
import os
import re
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin import files, streams
from nearkin.audit import COLUMNS
from nearkin.audit.decisions import fingerprint
from nearkin.cli import main
from nearkin.cli._options import OutputFile
from nearkin.errors import InputError
from nearkin.files import KINDS, claim, replacing
from nearkin.model_files import remember_names
from nearkin.search import Index, SimilarityAdapter
from nearkin.tables import write_arrays, write_columns

#: A command line that works for every command with outputs, without the outputs; each names where its inputs are.
WORKS = {
    "fit": (["--label", "y", "--stream", "--batch-rows", "50", "--voters", "50"], ["rows.csv"]),
    "predict": ([], ["model.nearkin", "rows.csv"]),
    "transform": ([], ["model.nearkin", "rows.csv"]),
    "audit": (["--label", "y"], ["rows.csv"]),
    "apply": (["--label", "y"], ["decisions.json"]),
    "consensus": (["--annotators", "y,z"], ["answers.csv"]),
    "watch": ([], ["metrics.jsonl"]),
    "demo": ([], []),
    "adapt": (["--queries", "q.npy", "--items", "d.npy", "--feedback", "clicks.csv"], []),
}
#: Other options that an output needs.
ALSO = {("fit", "suspects"): ["--label", "y"]}
INPUTS = {"adapt": ["q.npy", "d.npy", "clicks.csv"]}


def commands(group=main, path=()):
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from commands(one, (*path, name))
        else:
            yield " ".join((*path, name)), one


def options_of_files():
    """Every option or argument of every command that takes a path, with the command."""
    for name, command in commands():
        for one in command.params:
            if isinstance(one.type, click.Path):
                yield name, one


OUTPUTS = [(name, one) for name, one in options_of_files() if isinstance(one.type, OutputFile)]


def suffix_of(option):
    return next(iter(KINDS[option.type.kind][1])) or (".html" if option.type.kind == "page" else "")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = y[:, None] * 3 + rng.normal(size=(120, 3))
    rows = "a,b,c,y\n" + "".join(f"{a:.6f},{b:.6f},{c:.6f},k{k}\n" for (a, b, c), k in zip(X, y, strict=True))
    (folder / "rows.csv").write_text(rows)
    classes, given = ["k0", "k1"], [f"k{k}" for k in y]
    one = {"row": 0, "given": given[0], "decision": "drop"}
    held = {"nearkin": "decisions", "format": 1, "audit": fingerprint(classes, y), "n_rows": 120, "decisions": [one]}
    (folder / "decisions.json").write_text(json.dumps(held | {"data": "rows.csv"}))
    header, *lines = rows.splitlines()
    (folder / "answers.csv").write_text("\n".join([f"{header},z", *(f"{one},k{one[-1]}" for one in lines)]))
    model = nearkin.RobustKNeighborsClassifier(random_state=0).fit(X, y)
    remember_names(model, ["a", "b", "c"], "y")
    nearkin.save(model, folder / "model.nearkin")
    stream = streams.open([(X, y)], batch_rows=40)
    streams.fit_stream(nearkin.RobustLODML(random_state=0), stream, log=folder / "metrics.jsonl", log_every=1)
    np.save(folder / "q.npy", rng.normal(size=(40, 4)))
    np.save(folder / "d.npy", rng.normal(size=(60, 4)))
    clicks = [f"{q},{(7 * q) % 60},{(7 * q + 1) % 60}" for q in range(40)]
    (folder / "clicks.csv").write_text("query,clicked,skipped\n" + "\n".join(clicks) + "\n")
    return folder


@pytest.fixture
def home(made, tmp_path, monkeypatch):
    for one in made.iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line_for(name, option, value):
    """Arguments of a command that writes to ``value`` by this option, and elsewhere by those that it requires."""
    options, data = WORKS[name]
    command = dict(commands())[name]
    outputs = [one for one in command.params if isinstance(one.type, OutputFile) and one is not option]
    needed = [one for one in outputs if one.required or (name, one.name) == ("fit", "output")]
    others = [part for one in needed for part in (one.opts[0], f"other{suffix_of(one)}")]
    if (name, option.name) in ALSO:
        options = ALSO[name, option.name]
    return [*name.split(), *data, *options, *others, option.opts[0], str(value)]


def refuse(args):
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("nearkin: ") and done.stderr.count("\n") == 1
    return done.stderr


def contents(folder):
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file() and not one.is_symlink()}


def test_every_path_of_every_command_is_known_as_input_or_output():
    """An option that is called output, or whose help says that it writes, must be one."""
    names = {f"{name} {one.opts[0]}" for name, one in OUTPUTS}
    assert names >= {"fit -o", "fit --log", "fit --checkpoint", "fit --suspects", "audit --cleaned", "audit --all"}
    assert {name for name, _ in OUTPUTS} == set(WORKS)
    writing = re.compile(r"\b(write|save|log|checkpoint|CSV of)\b", re.IGNORECASE)
    others = [(name, one) for name, one in options_of_files() if not isinstance(one.type, OutputFile)]
    suspicious = [f"{name} {one.opts[0]}" for name, one in others if writing.search(getattr(one, "help", "") or "")]
    assert suspicious == []
    assert all(one.type.kind in KINDS for _, one in OUTPUTS)


@pytest.mark.parametrize(("name", "option"), OUTPUTS, ids=lambda one: getattr(one, "name", one))
def test_no_option_destroys_anything(home, name, option):
    foreign = home / f"mine{suffix_of(option)}"
    foreign.write_text("my only copy\n")
    (home / f"link{suffix_of(option)}").symlink_to(foreign)
    (home / f"folder{suffix_of(option)}").mkdir()
    os.mkfifo(home / f"pipe{suffix_of(option)}")
    before = contents(home)
    assert "exists and is not a nearkin" in refuse(line_for(name, option, foreign))
    assert "exists and is not a nearkin" in refuse(line_for(name, option, f"link{suffix_of(option)}"))
    assert "names a folder" in refuse(line_for(name, option, f"new{suffix_of(option)}/"))
    assert "names a folder" in refuse(line_for(name, option, f"new{suffix_of(option)}/."))
    assert "is a folder" in refuse(line_for(name, option, f"folder{suffix_of(option)}"))
    assert "a device or a pipe" in refuse(line_for(name, option, f"pipe{suffix_of(option)}"))
    assert "there is no folder" in refuse(line_for(name, option, f"no/where{suffix_of(option)}"))
    for one in [*WORKS[name][1], *INPUTS.get(name, [])]:
        same = home / f"same{suffix_of(option)}"
        os.link(home / one, same)
        assert "is an input of this command" in refuse(line_for(name, option, same))
        assert "is an input of this command" in refuse(line_for(name, option, one))
        same.unlink()
    assert contents(home) == before


@pytest.mark.parametrize(("name", "option"), OUTPUTS, ids=lambda one: getattr(one, "name", one))
def test_two_outputs_of_a_command_are_two_files(home, name, option):
    for other in (one for command, one in OUTPUTS if command == name and one is not option):
        if suffix_of(other) in ("", suffix_of(option)) and not option.required and not other.required:
            args = [*line_for(name, option, f"x{suffix_of(option)}"), other.opts[0], f"x{suffix_of(option)}"]
            assert "named twice" in refuse(args)
    assert "named twice" in refuse([*line_for("fit", dict(fit_options())["checkpoint"], "m"), "-o", "m"])


def fit_options():
    return ((one.name, one) for name, one in OUTPUTS if name == "fit")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "option"), OUTPUTS, ids=lambda one: getattr(one, "name", one))
def test_what_a_command_wrote_it_may_write_again(home, name, option):
    args = line_for(name, option, f"mine{suffix_of(option)}")
    args += ["-q"] if name != "demo" else []
    assert CliRunner().invoke(main, args).exit_code == 0
    again = [*args, *(["--resume"] if option.name == "checkpoint" else [])]
    done = CliRunner().invoke(main, again)
    assert done.exit_code == 0, done.output
    assert [one.name for one in home.iterdir() if one.name.endswith(".part")] == []


def test_an_input_behind_a_folder_or_a_pattern_is_an_input(home):
    (home / "many").mkdir()
    (home / "many" / "1.csv").write_bytes((home / "rows.csv").read_bytes())
    for data in ("many", "many/*.csv"):
        line = refuse(["fit", data, "--label", "y", "-o", "m.nearkin", "--log", "many/1.csv"])
        assert "is an input of this command" in line
    assert (home / "many" / "1.csv").read_bytes() == (home / "rows.csv").read_bytes()


def test_scores_replace_scores_only(home):
    (home / "rows.csv.plausibility.pq").write_text("mine")
    stream = streams.open("rows.csv", label="y", batch_rows=50)
    learner = streams.fit_stream(nearkin.RobustLODML(random_state=0), stream)
    with pytest.raises(InputError, match="exists and is not a nearkin table of plausibility"):
        streams.score_stream(learner, stream)
    line = refuse(["fit", "rows.csv", "--label", "y", "--stream", "--plausibility", "-o", "m.nearkin"])
    assert "exists and is not a nearkin table" in line
    assert not (home / "m.nearkin").exists()  # refused before any work
    (home / "rows.csv.plausibility.pq").unlink()
    for _ in range(2):
        streams.score_stream(learner, stream)


def test_results_of_the_paper_replace_such_results_only(home):
    for name, content in {"table1.json": "{}", "table1.md": "mine", "table1.html": "mine", "cells.jsonl": "{}"}.items():
        (home / name).write_text(content)
        assert f"{name} exists and is not a nearkin" in refuse(["reproduce", "table1", "--draws", "1", "--out", "."])
        assert (home / name).read_text() == content
        (home / name).unlink()
    for _ in range(2):
        assert CliRunner().invoke(main, ["reproduce", "table1", "--draws", "1", "--out", "."]).exit_code == 0


def test_calls_of_the_library_destroy_nothing(home):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = y[:, None] * 4 + rng.normal(size=(60, 2))
    audit, learner = nearkin.audit_labels(X, y, random_state=0), nearkin.RobustLODML(random_state=0).fit(X, y)
    stream = streams.open("rows.csv", label="y")
    calls = {
        "to_html": audit.to_html, "to_csv": audit.to_csv, "to_json": audit.to_json,
        "save": lambda path: nearkin.save(learner, path),
        "log": lambda path: streams.fit_stream(nearkin.RobustLODML(), stream, log=path),
        "checkpoint": lambda path: streams.fit_stream(nearkin.RobustLODML(), stream, checkpoint=path),
    }  # fmt: skip
    before = contents(home)
    for name, call in calls.items():
        for path in ("q.npy", "rows.csv"):
            with pytest.raises(
                InputError, match=rf"{path}( exists and is not a nearkin| is an input|: its name must end)"
            ):
                call(path)
        with pytest.raises(FileNotFoundError, match=r"there is no folder no: 'no/page'"):
            call("no/page")
        assert contents(home) == before, name
    for call in (audit.to_html, audit.to_csv, audit.to_json, calls["save"]):
        call("own.html")
        call("own.html")
        (home / "own.html").unlink()


def test_kinds_do_not_replace_each_other(home):
    claim([("model.nearkin", "model")])
    with pytest.raises(InputError, match=r"must end in \.html"):
        claim([("model.nearkin", "page")])
    with pytest.raises(InputError, match="named twice"):
        claim([("new.nearkin", "checkpoint"), ("new.nearkin.lock", "model")])
    for kind in ("checkpoint", "csv", "json", "log", "cells", "adapter", "index", "auditor"):
        with pytest.raises(InputError, match=r"exists and is not a nearkin [\w ]+ but a nearkin model;"):
            claim([("model.nearkin", kind)])
    kinds = ("audit", "cleaned", "doubts", "predictions", "matrix")
    columns = {
        "audit": ["id", *COLUMNS[:-2]],
        "cleaned": ["row", "label", "given_label", "confidence"], "predictions": ["id", "prediction", "share"],
        "doubts": ["row", "label", "plausibility", "score", "doubtful"], "matrix": [f"c{i}" for i in range(5_000)],
    }  # fmt: skip
    for kind in kinds:
        for suffix in (".csv", ".tsv", ".parquet"):
            path = home / f"table{suffix}"
            write_columns(path, {name: [1] for name in columns[kind]}, kind)
            assert [one for one in kinds if allows(path, one)] == [kind]
            path.unlink()
    for header in ("x,c0", "prediction,share,mine", "a,b,row,label", "c0,c1,mine"):
        (home / "mine.csv").write_text(header + "\n1,2,3\n")
        assert not any(allows(home / "mine.csv", one) for one in kinds)


def test_models_replace_models_of_their_kind_only(home):
    written = {
        "model": [nearkin.RobustLODML(), nearkin.RobustKNeighborsClassifier()], "adapter": [SimilarityAdapter()],
        "index": [Index()], "auditor": [nearkin.LabelAuditor()],
    }  # fmt: skip
    for lies, models in written.items():
        nearkin.save(models[-1], "one")
        before = (home / "one").read_bytes()
        for kind, others in written.items():
            for other in others:
                if kind == lies:
                    nearkin.save(other, "one")
                    nearkin.save(models[-1], "one")
                    continue
                with pytest.raises(InputError, match=f"one exists and is not a nearkin {kind} but a nearkin {lies};"):
                    nearkin.save(other, "one")
        assert (home / "one").read_bytes() == before
        (home / "one").unlink()
    nearkin.save(SimilarityAdapter(), "a.nearkin")
    assert "not a nearkin adapter but a nearkin model" in refuse(line_for("adapt", output_of("adapt"), "model.nearkin"))
    assert "not a nearkin model but a nearkin adapter" in refuse(line_for("fit", output_of("fit"), "a.nearkin"))


def output_of(name):
    return next(one for command, one in OUTPUTS if command == name and one.name == "output")


def test_results_of_different_things_do_not_share_a_kind(home):
    audit = nearkin.audit_labels(np.r_[np.zeros((20, 1)), np.ones((20, 1))] + np.arange(40)[:, None] / 99, [0, 1] * 20)
    audit.to_csv("all.csv")
    audit.to_csv("suspects.csv", suspects_only=True)
    audit.to_json("audit.json")
    audit.to_html("audit.html")
    write_arrays("matrix.npz", {"X": np.eye(2)})
    write_arrays("map.npz", {"X": np.eye(2)}, "map")
    for name, kind, other in [
        ("all.csv", "csv", "suspects"), ("suspects.csv", "suspects", "csv"), ("audit.json", "audit_json", "report"),
        ("audit.html", "page", "records"), ("matrix.npz", "matrix", "map"), ("map.npz", "map", "matrix"),
    ]:  # fmt: skip
        assert allows(name, kind) and not allows(name, other)


def allows(path, kind):
    try:
        claim([(path, kind)])
    except InputError:
        return False
    return True


def test_a_full_disk_names_the_file(home):
    with pytest.raises(OSError, match=r"No space left on device: 'here.csv'"), replacing("here.csv", "csv"):
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match=r"Input/output error: 'source'"), replacing("here.csv", "csv"):
        raise OSError(5, "Input/output error", "source")
    assert not list(home.glob("*.part")) and not (home / "here.csv").exists()


def test_leftovers_of_processes_that_are_gone_are_removed_and_nothing_else(home, monkeypatch):
    code = "import os, signal\nfrom nearkin.files import replacing\nwith replacing('x.csv', 'csv') as file:\n"
    code += "    file.write(b'half')\n    file.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    subprocess.run([sys.executable, "-c", code], check=False, cwd=home)
    (left,) = home.glob(".nearkin-*.part")
    host, boot, process, token = left.name.removesuffix(".part").split("-")[1:]
    kept = {
        f".nearkin-{host}-{boot}-{os.getpid()}-{token}.part",  # a process that lives
        f".nearkin-00000000-{boot}-{process}-{token}.part",  # another machine
        f".nearkin-{host}-{boot}-{process}-{token}.part.csv", "mine.part", ".nearkin-abc.part",
    }  # fmt: skip
    old_boot = f".nearkin-{host}-00000000-{os.getpid()}-{token}.part"
    for name in (*kept, old_boot):
        (home / name).write_text("x")
    monkeypatch.setattr(files, "_swept", set())
    with replacing("y.csv", "csv") as file:
        file.write(b"prediction,share\n")
    assert not left.exists() and not (home / old_boot).exists()
    assert {name for name in kept if (home / name).exists()} == kept
