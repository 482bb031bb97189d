"""What people open elsewhere is inert: no cell runs as a formula, no name of the user's controls the terminal."""

import csv
import io
import os
import pty
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.cli import main
from nearkin.errors import printable
from nearkin.tables import open_table, read_training, write_csv
from nearkin.tables.cells import unquote_formula

HARMFUL = ["=cmd|' /C calc'!A0", "+SUM(1)", "-2+3", "@SUM(A1)", "\tx", "\rx", "'=quoted", "''-twice", '=a,"b"\nc']
HARMLESS = ["a", "-1.5", "+2", "-3e4", "'plain", "a=b", "", "1"]


def written(columns):
    file = io.BytesIO()
    write_csv(file, columns)
    return file.getvalue().decode()


def test_no_cell_begins_a_formula_and_numbers_stay_numbers():
    rows = list(csv.reader(io.StringIO(written({"=head": HARMFUL}), newline="")))
    assert all(row[0].startswith("'") for row in rows)
    assert [unquote_formula(row[0]) for row in rows] == ["=head", *HARMFUL]
    same = list(csv.reader(io.StringIO(written({"x": HARMLESS[:-2]}), newline="")))
    assert [row[0] for row in same[1:]] == HARMLESS[:-2]
    assert written({"x": np.array([-1.5, 2.0]), "n": [-1, None]}) == "x,n\n-1.5,-1\n2.0,\n"


@pytest.mark.parametrize("text", [*HARMFUL, *HARMLESS])
def test_our_reader_gives_back_what_was_written(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_bytes(written({"=a": [1.5, -2.5], "+y": [text, "other"], "row": ["x", "y"]}).encode())
    table = open_table(path)
    assert table.names == ["=a", "+y", "row"]
    assert table.values("+y") == [text, "other"]
    assert table.numbers("=a").tolist() == [1.5, -2.5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = 2.5 * np.eye(3)[y] + rng.normal(size=(90, 3))
    names = np.array(["=one()", "\x1b[31mtwo", "three"])
    lines = [f"{a:.4f},{b:.4f},{c:.4f},{names[k]},@{i}" for i, ((a, b, c), k) in enumerate(zip(X, y, strict=True))]
    (here / "rows.csv").write_text("a,b,c,y,\x1b]0;title\x07\n" + "\n".join(lines) + "\n")
    return here


ID = "\x1b]0;title\x07"


def test_every_table_of_an_audit_is_inert_and_comes_back(folder, tmp_path):
    done = CliRunner().invoke(main, [
        "audit", str(folder / "rows.csv"), "--label", "y", "--id", ID, "-o", str(tmp_path / "p.html"),
        "--all", str(tmp_path / "all.csv"), "--cleaned", str(tmp_path / "cleaned.csv"),
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    for name in ("all.csv", "cleaned.csv", "p.suspects.csv"):
        with (tmp_path / name).open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [one for one in cells if one[:1] in "=+@\t\r" and one], name
    labels = set(open_table(tmp_path / "cleaned.csv").values("label"))
    assert labels == {"=one()", "\x1b[31mtwo", "three"}
    assert open_table(tmp_path / "all.csv").values(ID)[0].startswith("@")
    page = (tmp_path / "p.html").read_text()
    assert "\x1b" not in page and r"\x1b[31mtwo" in page


def test_no_control_character_reaches_the_terminal(folder, tmp_path):
    rows, model = str(folder / "rows.csv"), str(tmp_path / "m\x1b[2J.nearkin")
    outcomes = [
        CliRunner().invoke(main, args, color=True)
        for args in (
            ["fit", rows, "--label", "y", "--drop", ID, "-o", model],
            ["info", model],
            ["predict", model, rows, "-o", str(tmp_path / "p\x1b.csv")],
            ["fit", rows, "--label", "\x1b[31mnone", "-o", model],
            ["fit", str(folder / "\x1b[31mno.csv"), "--label", "y", "-o", model],
            ["audit", rows, "--label", "y", "--drop", ID, "-o", str(tmp_path / "p.html")],
        )
    ]
    for one in outcomes:
        shown = one.output.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert all(printable(line) == line for line in shown.split("\n"))
    assert r"\x1b[31mtwo" in outcomes[0].output
    assert [one.exit_code for one in outcomes] == [0, 0, 0, 2, 2, 0]


@pytest.mark.slow
def test_predictions_on_a_terminal_are_inert_and_in_a_pipe_exact(folder, tmp_path):
    model = tmp_path / "m.nearkin"
    rows = read_training(folder / "rows.csv", "y", drop=[ID])
    nearkin.save(nearkin.RobustKNeighborsClassifier(random_state=0).fit(rows.X, rows.y), model)
    command = [sys.executable, "-m", "nearkin", "predict", model, folder / "rows.csv", "--drop", f"y,{ID}", "-q"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"\x1b[31mtwo" in piped
    master, slave = pty.openpty()
    with subprocess.Popen(command, stdout=slave, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        process.wait(60)
    shown = shown.replace(b"\x1b[0m", b"")  # by which colorama says goodbye
    assert b"\x1b" not in shown and rb"\x1b[31mtwo" in shown
