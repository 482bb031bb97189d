"""`nearkin audit` as its users meet it."""

import csv
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_wine

import nearkin
from nearkin.cli import main


def run(*args):
    """Run in this process; a bug must not hide behind an exit code."""
    outcome = CliRunner().invoke(main, ["audit", *(str(one) for one in args)])
    assert "Traceback" not in outcome.stderr
    assert outcome.exit_code != 1, outcome.stderr
    return outcome


def fails(*args):
    """Run what must fail: one line, exit code 2; returns the line."""
    outcome = run(*args)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("nearkin: ") and outcome.stderr.count("\n") == 1
    return outcome.stderr


def files_in(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.fixture(scope="module")
def wine():
    frame = load_wine(as_frame=True).frame
    names = np.array(["barolo", "grignolino", "barbera"])
    given, _ = nearkin.flip_labels(names[frame.pop("target")], 0.15, random_state=1)
    frame.insert(0, "bottle", [f"b{i:03d}" for i in range(len(frame))])
    frame["note"] = [f"smells of {i}" for i in range(len(frame))]
    frame["cultivar"] = given
    return frame


@pytest.fixture
def folder(tmp_path, wine):
    wine.to_csv(tmp_path / "wine.csv", index=False)
    return tmp_path


def test_a_default_name_never_takes_the_page_of_another_audit(folder, wine, monkeypatch):
    monkeypatch.chdir(folder)
    wine = wine.assign(**{"<i>other": wine["cultivar"].to_numpy()[::-1]})
    wine.to_csv("wine.csv", index=False)
    wine.to_parquet("wine.parquet")
    run("wine.csv", "--label", "cultivar", "-q")
    first = (folder / "wine.html").read_bytes()
    told = run("wine.csv", "--label", "<i>other", "--drop", "cultivar").stdout
    assert "wine.2.html" in told and "wine.2.suspects.csv" in told
    run("wine.parquet", "--label", "cultivar", "-q")
    assert (folder / "wine.html").read_bytes() == first and (folder / "wine.3.html").is_file()
    run("wine.csv", "--label", "<i>other", "--drop", "cultivar", "--seed", "1", "-q")  # again: its own page
    assert files_in(folder) == [
        *("wine.2.html", "wine.2.suspects.csv", "wine.3.html", "wine.3.suspects.csv", "wine.csv", "wine.html"),
        *("wine.parquet", "wine.suspects.csv"),
    ]


def test_it_writes_a_page_a_table_and_a_few_lines(folder, wine):
    outcome = run(
        folder / "wine.csv", "--label", "cultivar", "--id", "bottle", "--show", "note", "-o", folder / "out.html"
    )
    assert outcome.exit_code == 0, outcome.stderr
    assert outcome.stderr == ""
    names = [line[2:].split("  ")[0] for line in outcome.stdout.splitlines() if not line.startswith("   ")]
    assert names == [
        "rows", "classes", "voters", "wrong labels", "suspects", "suggestions", "confused", "worst classes",
        "column", "column", "columns", "time", "page", "suspects in",
    ]  # fmt: skip
    assert files_in(folder) == ["out.html", "out.suspects.csv", "wine.csv"]
    page = (folder / "out.html").read_text()
    assert "<title>wine.csv</title>" in page and "labels look wrong" in page
    audit = nearkin.audit_labels(wine.drop(columns=["bottle", "note", "cultivar"]).to_numpy(), wine.cultivar, None, 0)
    with (folder / "out.suspects.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [one["bottle"] for one in rows] == [f"b{i:03d}" for i in audit.order[: audit.n_suspects]]
    assert [int(one["row"]) for one in rows] == audit.order[: audit.n_suspects].tolist()
    assert [one["suggested_label"] for one in rows] == audit.suggested_label[audit.order[: audit.n_suspects]].tolist()


def test_every_format_gives_the_same_suspects(folder, wine):
    X = wine.drop(columns=["bottle", "note", "cultivar"]).to_numpy()
    wine.to_parquet(folder / "wine.parquet")
    np.savez(folder / "wine.npz", X=X, y=wine.cultivar.to_numpy(dtype=str), bottle=wine.bottle.to_numpy(dtype=str))
    np.save(folder / "wine.npy", X)
    (folder / "labels.txt").write_text("\n".join(wine.cultivar) + "\n")
    found = []
    for name, options in {
        "wine.csv": ["--label", "cultivar", "--id", "bottle", "--drop", "note"],
        "wine.parquet": ["--label", "cultivar", "--id", "bottle", "--drop", "note"],
        "wine.npz": ["--id", "bottle"],
        "wine.npy": ["--labels", folder / "labels.txt"],
    }.items():
        outcome = run(folder / name, *options, "-o", folder / "out.html", "-q")
        assert outcome.exit_code == 0, outcome.stderr
        assert outcome.output == ""
        found.append(pd.read_csv(folder / "out.suspects.csv"))
    for one in found[1:]:
        assert np.array_equal(one.row, found[0].row)
        assert np.allclose(one.plausibility, found[0].plausibility)
    assert list(found[2].bottle) == list(found[0].bottle)


@pytest.mark.parametrize("how", ["drop", "relabel"])
def test_cleaned_labels_and_all_rows_on_request(folder, wine, how):
    pytest.importorskip("pyarrow")
    relabel = ["--how", "relabel", "--min-confidence", "0.4", "--tier", "all"] if how == "relabel" else []
    outcome = run(
        folder / "wine.csv", "--label", "cultivar", "--id", "bottle", "--drop", "note", "--cleaned",
        folder / "cleaned.csv", "--all", folder / "all.parquet", "-o", folder / "out.html",
        "--suspects", folder / "doubts.csv", *relabel,
    )  # fmt: skip
    cleaned, every = pd.read_csv(folder / "cleaned.csv"), pd.read_parquet(folder / "all.parquet")
    assert list(cleaned.columns) == ["bottle", "row", "label", "given_label", "confidence"]
    is_doubted = every.is_suspect if how == "relabel" else every.tier == "wrong"  # as asked, and by default
    kept = ~is_doubted | ((every.confidence >= 0.4) & (how == "relabel"))
    left = every[kept]
    assert list(cleaned.bottle) == list(left.bottle) and list(cleaned.given_label) == list(left.given_label)
    label, sure = ("suggested_label", "confidence") if how == "relabel" else ("given_label", "plausibility")
    assert list(cleaned.label) == list(left[label])
    assert np.allclose(cleaned.confidence, left[sure])
    changed = int((cleaned.label != cleaned.given_label).sum())
    assert (changed > 0) == (how == "relabel")
    counts = f"{len(cleaned)} rows left, {changed} relabelled, {len(every) - len(cleaned)} dropped"
    assert counts in " ".join(outcome.stdout.split())
    assert "confidence" in pd.read_csv(folder / "doubts.csv").columns


def test_pictures_are_found_beside_the_data(folder, wine):
    image = pytest.importorskip("PIL.Image")
    (folder / "pics").mkdir()
    for i in range(len(wine)):
        image.new("RGB", (40, 30), (i, 100, 100)).save(folder / "pics" / f"{i}.png")
    wine.assign(file=[f"pics/{i}.png" for i in range(len(wine))]).to_csv(folder / "with.csv", index=False)
    options = ["--label", "cultivar", "--drop", "bottle,note", "-o", folder / "out.html"]
    assert run(folder / "with.csv", *options, "--image", "file").exit_code == 0
    assert "data:image/jpeg" in (folder / "out.html").read_text()
    wine.assign(file="gone.png").to_csv(folder / "with.csv", index=False)
    assert "holds no picture that can be read" in fails(folder / "with.csv", *options, "--image", "file")


def test_a_second_run_replaces_the_first(folder):
    options = [folder / "wine.csv", "--label", "cultivar", "--drop", "bottle,note", "-o", folder / "out.html"]
    assert run(*options).exit_code == 0
    before = (folder / "out.html").read_bytes()
    assert run(*options).exit_code == 0
    assert (folder / "out.html").read_bytes() == before


def test_audits_of_two_files_leave_each_other_alone(folder, wine, monkeypatch):
    monkeypatch.chdir(folder)
    wine[::2].to_csv(folder / "half.csv", index=False)
    for name in ("wine.csv", "half.csv"):
        assert run(name, "--label", "cultivar", "--drop", "bottle,note", "-q").exit_code == 0
    tables = ["half.suspects.csv", "wine.suspects.csv"]
    assert files_in(folder) == sorted(["half.csv", "half.html", "wine.csv", "wine.html", *tables])
    (folder / "may").mkdir()
    wine[1::2].to_csv(folder / "may" / "wine.csv", index=False)
    before = (folder / "wine.html").read_bytes()
    assert run("may/wine.csv", "--label", "cultivar", "--drop", "bottle,note", "-q").exit_code == 0
    assert (folder / "wine.html").read_bytes() == before
    assert (folder / "may_wine.html").exists() and (folder / "may_wine.suspects.csv").exists()
    rows = [pd.read_csv(folder / one).row.max() for one in tables]
    assert rows[0] <= len(wine) // 2 < rows[1]


@pytest.mark.parametrize("name", ["out.html", "out.suspects.csv"])
def test_what_is_not_ours_is_not_replaced(folder, name):
    (folder / name).write_text("mine")
    line = fails(folder / "wine.csv", "--label", "cultivar", "--drop", "bottle,note", "-o", folder / "out.html")
    assert "exists and is not a nearkin" in line
    assert (folder / name).read_text() == "mine"
    assert files_in(folder) == sorted([name, "wine.csv"])


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda one: one, ["--label", "kultivar"], "Did you mean 'cultivar'"),
        (lambda one: one, ["--label", "cultivar", "--id", "botle"], "Did you mean 'bottle'"),
        (lambda one: one, ["--label", "cultivar", "--text", "nothing"], "no column 'nothing'"),
        (lambda one: one, [], "--label is needed"),
        (lambda one: one.assign(cultivar="one"), ["--label", "cultivar"], "one class"),
        (lambda one: one.assign(cultivar=range(len(one))), ["--label", "cultivar"], "178 different values"),
        (lambda one: one.assign(cultivar=[None] * len(one)), ["--label", "cultivar"], "no label at all"),
        (lambda one: one.assign(hue=[np.inf, *one.hue[1:]]), ["--label", "cultivar"], "'hue'"),
        (lambda one: one.assign(row=1), ["--label", "cultivar", "--id", "row"], "rename it"),
        (lambda one: one, ["--label", "cultivar", "--noise-rate", "20"], "20 percent is 0.2"),
        (lambda one: one, ["--label", "cultivar", "-o", "page.txt"], "must end in .html"),
        (lambda one: one, ["--label", "cultivar", "-o", "no/such/folder.html"], "no folder"),
        (lambda one: one, ["--label", "cultivar", "--cleaned", "wine.suspects.csv"], "named twice"),
        (lambda one: one, ["--label", "cultivar", "--how", "drop"], "name a file for them with --cleaned"),
        (lambda one: one, ["--label", "cultivar", "--min-confidence", "0.5"], "name a file for them with --cleaned"),
        (lambda one: one, ["--label", "cultivar", "--cleaned", "c.csv", "--min-confidence", "0.5"], "--how relabel"),
        (
            lambda one: one,
            ["--label", "cultivar", "--cleaned", "c.csv", "--how", "relabel", "--min-confidence", "80"],
            "80 percent is 0.8",
        ),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(folder, wine, monkeypatch, change, options, message):
    monkeypatch.chdir(folder)
    drops = ["--drop", "bottle,note"]
    if any(one in ("--id", "--text") for one in options):
        drops = ["--drop", "note"]
    change(wine).to_csv(folder / "wine.csv", index=False)
    assert message in fails("wine.csv", *options, *drops)
    assert files_in(folder) == ["wine.csv"]


@pytest.mark.parametrize("content", [b"PAR1 and no more", b"", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_broken_parquet_file(tmp_path, content):
    pytest.importorskip("pyarrow")
    (tmp_path / "broken.parquet").write_bytes(content)
    line = fails(tmp_path / "broken.parquet", "--label", "y", "-o", tmp_path / "out.html")
    assert "broken.parquet" in line
    assert files_in(tmp_path) == ["broken.parquet"]


def test_a_parquet_file_whose_pages_are_damaged(tmp_path, wine):
    pytest.importorskip("pyarrow")
    path = tmp_path / "wine.parquet"
    wine.to_parquet(path)
    data = bytearray(path.read_bytes())
    data[200:2000] = os.urandom(1800)
    path.write_bytes(data)
    outcome = run(path, "--label", "cultivar", "--drop", "bottle,note", "-o", tmp_path / "out.html")
    assert outcome.exit_code == 2 and outcome.stderr.count("\n") == 1
    assert files_in(tmp_path) == ["wine.parquet"]


def test_help_answers_without_loading_anything_heavy():
    code = "import sys\nfrom nearkin.cli import main\ntry: main(['audit', '--help'])\nexcept SystemExit: pass\n"
    code += "assert not {'numpy', 'sklearn', 'numba', 'jinja2'} & set(sys.modules), sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--image" in done.stdout


def test_without_pillow_one_line_says_how_to_get_it(folder, wine, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    line = fails(
        folder / "wine.csv", "--label", "cultivar", "--drop", "bottle", "--image", "note", "-o", folder / "out.html"
    )
    assert "pip install 'nearkin[images]'" in line


def test_rows_of_a_group_do_not_vouch_for_each_other(tmp_path, wine):
    frame = wine.drop(columns=["note", "bottle"]).assign(cellar=[f"c{i // 4}" for i in range(len(wine))])
    frame.to_csv(tmp_path / "wine.csv", index=False)
    given = tmp_path / "wine.csv", "--label", "cultivar", "-o", tmp_path / "out.html", "--all", tmp_path / "all.csv"
    outcome = run(*given, "--group", "cellar", "--seed", 0)
    assert outcome.exit_code == 0, outcome.stderr
    assert "13 features" in outcome.stdout
    X = frame.drop(columns=["cultivar", "cellar"]).to_numpy()
    expected = nearkin.audit_labels(X, frame["cultivar"], random_state=0, groups=frame["cellar"])
    np.testing.assert_allclose(pd.read_csv(tmp_path / "all.csv").sort_values("row")["score"], expected.score, atol=1e-6)
    assert "vineyard" in fails(*given, "--group", "vineyard")


def test_an_audit_is_compared_where_ids_repeat(folder, wine, monkeypatch):
    monkeypatch.chdir(folder)
    wine.loc[:3, "bottle"] = "b000"
    wine.to_csv("wine.csv", index=False)
    run("wine.csv", "--label", "cultivar", "--id", "bottle", "--drop", "note", "--save", "monday.nearkin")
    wine.drop(index=[2, 9]).to_csv("cleaned.csv", index=False)
    told = run(
        "cleaned.csv", "--label", "cultivar", "--id", "bottle", "--drop", "note", "--before", "monday.nearkin"
    ).stdout
    assert "178 -> 176 (176 in both, 2 dropped, 0 added)" in told
    assert "173 by name, 3 by features under a repeated name" in told


def test_audits_that_cannot_be_compared_are_refused_before_the_work(folder, wine, monkeypatch):
    monkeypatch.chdir(folder)
    run("wine.csv", "--label", "cultivar", "--drop", "note,bottle", "--save", "monday.nearkin")
    other = wine.iloc[:170].assign(alcohol=wine["alcohol"] + 1.0)
    other.to_csv("other.csv", index=False)
    monkeypatch.setattr("nearkin.audit.audit_rows", None)  # which is not reached
    args = ("other.csv", "--label", "cultivar", "--drop", "note,bottle", "--before", "monday.nearkin")
    assert "0 have the same features" in fails(*args)
