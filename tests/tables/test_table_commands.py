"""Tables as people have them: on the command line."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import nearkin
from nearkin import streams
from nearkin.cli import main
from nearkin.cli._show import tell_columns
from nearkin.tables import open_table, read_training

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 160
    kind = rng.choice(["oak", "elm", "fir"], n)
    size = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    y = np.where((kind == "oak") ^ (np.nan_to_num(size) > 1.0), "tall", "small")
    made = {"no": [f"t{i}" for i in range(n)], "kind": kind, "size": size, "site": rng.choice(["a", "b"], n), "y": y}
    return pd.DataFrame(made)


def run(*args):
    return CliRunner().invoke(main, [str(one) for one in args])


def test_an_audit_of_a_mixed_table_says_what_became_of_every_column(table, tmp_path):
    table.assign(y=[None, *table.y[1:]]).to_csv(tmp_path / "t.csv", index=False)
    done = run("audit", tmp_path / "t.csv", "--label", "y", "-o", tmp_path / "t.html", "--group", "site")
    assert done.exit_code == 0, done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "found rows without a label (1)" in lines
    assert "column no: left out: it names the rows" in lines
    assert "column kind: category, 3 values" in lines
    assert "column site: not learned: groups the rows (--group)" in lines
    assert "<dt><bdi>kind</bdi></dt><dd><bdi>category, 3 values</bdi></dd>" in (tmp_path / "t.html").read_text()
    assert open_table(tmp_path / "t.suspects.csv").values("tier")[-1] == "no label"


def test_columns_of_which_the_same_is_told_share_a_line(table, tmp_path):
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random((160, 50)) < 0.1, np.nan, rng.normal(size=(160, 50)))
    wide = table.assign(**{f"x{i}": gaps[:, i] for i in range(50)}, z=1, w=2)
    wide.to_csv(tmp_path / "t.csv", index=False)
    told = [
        value for name, value in tell_columns(read_training(tmp_path / "t.csv", "y").columns) if name.startswith("col")
    ]
    assert told[:3] == ["no: left out: it names the rows", "z: left out: it is 1 in all rows",
                        "w: left out: it is 2 in all rows"]  # fmt: skip
    assert len(told) == 6 and told[4].startswith("size, x0, x1 and 48 more: such as number; ")


def test_an_id_that_is_named_stays_a_feature(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    ways = ([], ["--features", "kind,size", "--id", "size"], ["--id", "size"])
    names = [
        [one.name for one in read_training(tmp_path / "t.csv", "y", others=others, features=features).columns
         if not one.is_left_out]
        for others, features in (((), ()), (["size"], ["kind", "size"]), (["size"], ()))
    ]  # fmt: skip
    assert names == [["kind", "size", "site"], ["kind", "size"], ["kind", "site"]], ways


@pytest.mark.filterwarnings("always:.*not learned")
@pytest.mark.parametrize("how", ["whole", "stream", "onto"])
def test_a_model_of_a_mixed_table_predicts_from_any_file(table, tmp_path, how):
    table[:120].to_csv(tmp_path / "old.csv", index=False)
    table[120:].to_parquet(tmp_path / "new.parquet")
    model = tmp_path / "m.nearkin"
    ways = {"whole": ["-o", model], "stream": ["--stream", "-o", model], "onto": ["--onto", model]}
    done = run("fit", tmp_path / "old.csv", "--label", "y", "--drop", "no", *ways[how])
    assert done.exit_code == 0 and "kind: category, 3 values" in done.stdout
    done = run("predict", model, tmp_path / "new.parquet", "-o", tmp_path / "p.csv")
    assert float(done.stderr.split()[1]) > 80, done.stderr
    assert "column         kind: category, 3 values" in run("info", model).stdout
    assert nearkin.load(model).predict(table[120:]).tolist() == open_table(tmp_path / "p.csv").values("prediction")
    if how == "onto":  # later files are read as the first was
        other = ["yew"] * 10 + table.kind[130:].tolist()
        table[120:].drop(columns="size").assign(size="", kind=other).to_csv(tmp_path / "gone.csv", index=False)
        done = run("fit", tmp_path / "gone.csv", "--label", "y", "--onto", model)
        assert done.exit_code == 0, done.stderr
        assert "column 'kind': 10 of 40 cells hold a value that was not learned ('yew')" in done.stderr
        assert nearkin.load(model).history_.ledger.learned[-1].n_rows == 40


def test_gaps_in_a_stream_of_numbers_are_filled_if_asked(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=100), "b": rng.normal(size=100), "y": np.arange(100) % 2})
    table.loc[3, "a"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", tmp_path / "t.csv", "--stream", "--label", "y", "-o", tmp_path / "m"]
    refused = run(*fit)
    assert refused.exit_code == 2 and "data row 4: column 'a' holds no value" in refused.stderr
    assert run(*fit, "--missing", "fill").exit_code == 0


def test_wide_text_compressed_text_and_workbooks_are_read(table, tmp_path):
    text = table.to_csv(index=False)
    (tmp_path / "wide.csv").write_text(text, encoding="utf-16")
    (tmp_path / "small.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "plain.csv").write_text(text)
    paths = ["wide.csv", "small.csv.gz"]
    try:
        table.to_excel(tmp_path / "book.xlsx", index=False)
        paths.append("book.xlsx")
    except ImportError:
        (tmp_path / "book.xlsx").write_bytes(b"PK")
        assert "pip install 'nearkin[excel]'" in run("audit", tmp_path / "book.xlsx", "--label", "y").stderr
    expected = read_training(tmp_path / "plain.csv", "y")
    for path in paths:
        found = read_training(tmp_path / path, "y")
        np.testing.assert_allclose(found.X, expected.X, atol=1e-12)
        assert found.y.tolist() == expected.y.tolist()
    refused = run("fit", tmp_path / "wide.csv", "--stream", "--label", "y", "-o", tmp_path / "m")
    assert refused.exit_code == 2 and "save it as UTF-8" in refused.stderr


def test_another_process_encodes_as_this_one_does(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    stream = streams.open(tmp_path / "t.csv", label="y", batch_rows=50)
    plain = stream.describe([stream.pieces(0, 2)])
    json.dumps([plain["reader"], plain["units"]])  # which names what a worker has read
    other, (pieces,) = streams.FileStream.from_description(plain)
    np.testing.assert_array_equal(other.batch(pieces).X, list(stream.batches(0))[2].X)


def test_nothing_is_learned_from_names_and_options_that_contradict_are_refused(table, tmp_path):
    files = pd.DataFrame({"file": [f"a/{i}.png" for i in range(30)], "id": range(30), "y": ["p", "q"] * 15})
    files.to_csv(tmp_path / "f.csv", index=False)
    files.drop(columns="file").to_csv(tmp_path / "i.csv", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    f, i, t = (["audit", tmp_path / f"{one}.csv", "--label", "y", "-o", tmp_path / "o.html"] for one in "fit")
    for given, told in (
        (f, "no feature columns left (file: left out: it names picture files"),
        (f, "learn from the pictures with --image file."),
        (i, "rows); if one is worth learning all the same, name it with --features id."),
        ([*t, "--text", "no", "--drop", "no"], "column 'no' is in --text and in --drop"),
        ([*t, "--text", "y"], "column 'y' is the label and cannot be in --text too"),
        ([*t, "--id", "y"], "column 'y' is the label and has no other use (names the rows (--id))"),
        (["consensus", tmp_path / "t.csv", "--annotators", "y", "-o", tmp_path / "c.csv"], "use nearkin audit --label"),
    ):
        refused = run(*given)
        assert refused.exit_code == 2 and told in refused.stderr, refused.stderr


def test_groups_of_one_row_are_noted(table):
    with pytest.warns(UserWarning, match="every row is a group of its own"):
        nearkin.audit_labels(table[["kind", "size"]], table.y, groups=np.arange(len(table)), random_state=0)
