"""Files of decisions: what is refused, how reviewers are joined, and the labels that follow."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import nearkin
from each import each
from nearkin.audit.decisions import fingerprint, join_decisions, read_decisions, review_labels
from nearkin.cli import main
from nearkin.errors import InputError
from nearkin.labels import sorted_classes

GIVEN = np.array(["cat", "dog", "dog", "cat", "hen", "dog"])


def entry(row, decision, label=None, given=None):
    kept = {} if label is None else {"label": label}
    return {"row": row, "given": str(GIVEN[row]) if given is None else given, "decision": decision, **kept}


def file_of(decisions=(), undecided=(), sample=(), labels=GIVEN, **more):
    classes, codes = sorted_classes(labels)
    return {
        "nearkin": "decisions", "format": 1, "audit": fingerprint(classes.tolist(), codes), "n_rows": len(labels),
        "decisions": list(decisions), "undecided": list(undecided), "sample": list(sample), **more,
    }  # fmt: skip


def review(*held, labels=GIVEN, numbers=None):
    found, conflicts = join_decisions(held)
    numbers = np.arange(len(labels)) if numbers is None else numbers
    return review_labels(found, labels, sorted_classes(labels)[0], numbers), conflicts


def test_labels_follow_decisions_and_then_rules():
    decided = [entry(0, "suggested", "dog"), entry(1, "drop"), entry(2, "given", "dog"), entry(4, "label", "goose")]
    ruled = [entry(5, "drop"), entry(3, "suggested", "hen")]
    done, _ = review(file_of(decided, ruled, [{"row": 3, "answer": "unsure"}]))
    assert done.label[done.kept].tolist() == ["dog", "dog", "hen", "goose"]
    assert done.kept.tolist() == [True, False, True, True, True, False]
    assert done.changed.tolist() == [True, False, False, True, True, False]
    assert done.n_decided == 4 and done.answers == {3: "unsure"}
    assert str(done) == (
        "4 rows decided, 3 labels changed, 2 rows dropped (1 by the rules, not looked at), 4 left; "
        "labels that no row had before: 'goose'"
    )
    assert done.n_by_rule == 1 and done.new_labels == ("goose",)


def test_a_longer_label_is_not_cut():
    done, _ = review(file_of([entry(4, "label", "guinea fowl")]))
    assert done.label[4] == "guinea fowl"


def test_numbers_stay_numbers():
    labels = np.array([1, 2, 2, 10])
    done, _ = review(file_of([entry(0, "suggested", "10", "1")], labels=labels), labels=labels)
    assert done.label.dtype.kind == "i" and done.label.tolist() == [10, 2, 2, 10]
    with pytest.raises(InputError, match="labels are int"):
        review(file_of([entry(0, "label", "ten", "1")], labels=labels), labels=labels)


def test_later_reviewers_take_precedence_and_differences_are_named():
    ann = file_of([entry(0, "suggested", "dog"), entry(1, "drop")], [entry(5, "drop")])
    bob = file_of([entry(0, "given", "cat"), entry(5, "given", "dog")], [entry(1, "suggested", "cat")])
    done, conflicts = review(ann, bob)
    assert conflicts == [0]
    assert done.label[0] == "cat" and not done.kept[1] and done.kept[5] and done.n_decided == 3
    done, _ = review(bob, ann)
    assert done.label[0] == "dog" and done.kept[5]  # a decision is above another file's rule


def test_rows_without_a_label_count():
    done, _ = review(file_of([{**entry(3, "drop"), "row": 7}]), numbers=np.array([0, 2, 4, 7, 8, 9]))
    assert np.flatnonzero(~done.kept).tolist() == [3]


def test_other_data_are_refused():
    for held, words in (
        (file_of([entry(0, "drop", given="hen")]), "had the label 'hen'"),
        (file_of([{**entry(0, "drop"), "row": 6}]), "no such row"),
        (file_of(labels=GIVEN[:5]), "5 labelled rows, and there are 6"),
        (file_of(labels=GIVEN[::-1]), "about other labels"),
    ):
        with pytest.raises(InputError, match=words):
            review(held)
    with pytest.raises(InputError, match="different labels"):
        review(file_of(), file_of(labels=GIVEN[::-1]))


BAD = {
    "another file": {"nearkin": "0.1"},
    "another format": file_of() | {"format": 2},
    "no rows": file_of() | {"n_rows": "6"},
    "negative rows": file_of() | {"n_rows": -1},
    "boolean rows": file_of() | {"n_rows": True},
    "no audit": file_of() | {"audit": 3},
    "no list": file_of() | {"decisions": {"0": "drop"}},
    "no objects": file_of() | {"decisions": ["drop"]},
    "no row": file_of([{"given": "cat", "decision": "drop"}]),
    "huge row": file_of([{**entry(0, "drop"), "row": 1 << 60}]),
    "boolean row": file_of([{**entry(0, "drop"), "row": True}]),
    "fraction": file_of([{**entry(0, "drop"), "row": 0.5}]),
    "another decision": file_of([entry(0, "eval", "dog")]),
    "a drop with a label": file_of([entry(0, "drop", "dog")]),
    "no label": file_of([entry(0, "suggested")]),
    "a label that is a number": file_of([entry(0, "label", 3)]),
    "twice": file_of([entry(0, "drop"), entry(0, "given", "cat")]),
    "another answer": file_of(sample=[{"row": 0, "answer": "maybe"}]),
    "an unhashable answer": file_of(sample=[{"row": 0, "answer": []}]),
    "an unhashable decision": file_of([entry(0, [], "dog")]),
}


@each(name=list(BAD))
def test_bad_files_are_refused(name):
    with pytest.raises(InputError):
        read_decisions(BAD[name])


@pytest.mark.parametrize("text", ["", "{", "[]", "nul", '{"nearkin": "decisions"', "[" * 100_000, "\ufeff[]"])
def test_damaged_files_are_refused(tmp_path, text):
    path = tmp_path / "decisions.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        read_decisions(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError):
        read_decisions(path)
    with pytest.raises(InputError, match="no such file"):
        read_decisions(tmp_path / "none.json")


# ---------------------------------------------------------------------- the command


def run(*arguments, code=0):
    found = CliRunner().invoke(main, [str(one) for one in arguments])
    assert found.exit_code == code, found.output
    return found


@pytest.fixture
def home(tmp_path, monkeypatch):
    table = pd.DataFrame({"name": list("abcdef"), "animal": GIVEN, "size": [1.5, 2, 3, 4, 5, 6]})
    table.to_csv(tmp_path / "zoo.csv", index=False)
    table.to_parquet(tmp_path / "zoo.parquet")
    decided = [entry(0, "suggested", "dog"), entry(1, "drop")]
    held = file_of(decided, [entry(5, "given", "dog")], data="zoo.csv", label="animal")
    (tmp_path / "decisions.json").write_text(json.dumps(held))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_comes_back_with_its_labels(home):
    told = run("apply", "decisions.json", "-o", "cleaned.csv").stderr
    assert "2 rows decided, 1 labels changed, 1 rows dropped, 5 left; in cleaned.csv" in told
    cleaned = pd.read_csv("cleaned.csv", keep_default_na=False)
    assert cleaned.columns.tolist() == ["name", "animal", "size", "row", "given_label", "decision"]
    assert cleaned.name.tolist() == list("acdef") and cleaned["size"].tolist() == [1.5, 3, 4, 5, 6]
    assert cleaned.animal.tolist() == ["dog", "dog", "cat", "hen", "dog"]
    assert cleaned.decision.tolist() == ["suggested", "", "", "", "rule"]
    run("apply", "decisions.json", "-o", "cleaned.csv")  # its own file is replaced
    run("apply", "decisions.json", "--data", "zoo.parquet", "-o", "cleaned.parquet")
    assert pd.read_parquet("cleaned.parquet").animal.tolist() == cleaned.animal.tolist()


def test_what_was_reviewed_is_audited_again_without_the_columns_of_the_review(home, rng):
    kind = rng.integers(0, 2, 60)
    table = pd.DataFrame({"size": kind * 4 + rng.normal(size=60), "animal": np.array(["cat", "dog"])[kind]})
    table["row"] = np.delete(np.arange(61), 7)
    table["given_label"] = table.animal
    table["decision"] = ["label", *[""] * 59]
    table.to_csv("reviewed.csv", index=False)
    told = run("audit", "reviewed.csv", "--label", "animal").stdout
    assert told.count("left out: nearkin apply wrote it") == 3
    told = run("audit", "reviewed.csv", "--label", "animal", "--show", "decision").stdout
    assert told.count("left out: nearkin apply wrote it") == 2
    run("fit", "reviewed.csv", "--label", "animal", "-o", "m.nearkin")
    table[["size"]].to_csv("new.csv", index=False)
    run("predict", "m.nearkin", "new.csv", "-o", "p.csv")
    named = nearkin.TableEncoder(features=["size", "given_label"]).fit(table)
    assert [one.is_left_out for one in named.columns_] == [False, False]


def test_a_table_is_reviewed_again(home):
    run("apply", "decisions.json", "-o", "cleaned.csv")
    labels = pd.read_csv("cleaned.csv").animal.to_numpy(dtype=str)
    again = file_of([{**entry(1, "drop"), "given": labels[1]}], data="cleaned.csv", label="animal", labels=labels)
    (home / "again.json").write_text(json.dumps(again))
    run("apply", "again.json", "-o", "twice.csv")
    twice = pd.read_csv("twice.csv")
    assert twice.columns.tolist() == ["name", "animal", "size", "row", "given_label", "decision"]
    assert twice.name.tolist() == list("adef") and twice.row.tolist() == [0, 2, 3, 4]


def test_rows_that_share_a_name_are_told(home):
    table = pd.read_csv("zoo.csv")
    many = pd.concat([table] * 5, ignore_index=True)
    many["name"] = ["a", "a", None, *(f"n{i}" for i in range(27))]
    many.to_csv("many.csv", index=False)
    told = " ".join(run("audit", "many.csv", "--label", "animal", "--id", "name").stdout.split())
    assert "2 rows share their names (such as 'a'), 1 row without a name" in told


@pytest.mark.parametrize(
    ("delimiter", "encoding", "line_end"), [(";", "utf-8-sig", "\r\n"), ("\t", "utf-16", "\n"), (",", "utf-8", "\r\n")]
)
def test_a_csv_file_is_written_as_it_was(home, delimiter, encoding, line_end):
    table = pd.read_csv("zoo.csv", dtype=str)
    table["size"] = table["size"].str.replace(".", "," if delimiter == ";" else ".")
    table.loc[0, "name"] = f"m\u00fc{delimiter}ller"  # needs quotes
    text = table.to_csv(index=False, sep=delimiter, lineterminator=line_end)
    (home / "zoo.csv").write_bytes(text.encode(encoding))
    held = json.loads((home / "decisions.json").read_text())
    for key in ("digest", "id_name"):
        held.pop(key, None)
    (home / "decisions.json").write_text(json.dumps(held))
    run("apply", "decisions.json", "-o", "cleaned.csv")
    raw = (home / "cleaned.csv").read_bytes()
    assert raw.startswith({"utf-8-sig": b"\xef\xbb\xbf", "utf-16": "\ufeff".encode("utf-16-le")}.get(encoding, b"name"))
    found = raw.decode(encoding)
    lines, given = found.split(line_end), text.split(line_end)
    assert lines[0] == delimiter.join([given[0], "row", "given_label", "decision"])
    assert lines[1].startswith(f'"m\u00fc{delimiter}ller"{delimiter}')
    assert "\r" not in found.replace("\r\n", "") and found.count("\n") == found.count(line_end)
    cleaned = pd.read_csv("cleaned.csv", sep=delimiter, encoding=encoding, dtype=str)
    assert cleaned["size"].tolist() == table["size"][cleaned["row"].astype(int)].tolist()
    run("apply", "decisions.json", "-o", "cleaned.tsv")
    assert (home / "cleaned.tsv").read_bytes().decode(encoding).startswith("name\t")


def test_without_an_output_it_is_printed(home):
    assert run("apply", "decisions.json").stdout.splitlines()[1] == "a,dog,1.5,0,cat,suggested"


def test_arrays_and_files_of_labels(home):
    np.savez("zoo.npz", X=np.eye(6), y=GIVEN)
    run("apply", "decisions.json", "--data", "zoo.npz", "--label", "y", "-o", "a.csv")
    np.save("zoo.npy", np.eye(6))
    (home / "labels.txt").write_text("\n".join(GIVEN))
    run("apply", "decisions.json", "--data", "zoo.npy", "--labels", "labels.txt", "-o", "b.csv")
    first, second = pd.read_csv("a.csv"), pd.read_csv("b.csv")
    assert first.y.tolist() == second.label.tolist() == ["dog", "dog", "cat", "hen", "dog"]


def test_several_reviewers(home):
    other = file_of([entry(0, "given", "cat")], data="zoo.csv", label="animal")
    (home / "bob.json").write_text(json.dumps(other))
    told = run("apply", "decisions.json", "bob.json", "-o", "cleaned.csv").stderr
    assert "1 row decided differently by several reviewers, the last one counts: 0" in told
    assert pd.read_csv("cleaned.csv").animal[0] == "cat"


def test_rows_without_a_label_stay(home):
    table = pd.read_csv("zoo.csv")
    table = pd.concat([table[:1], pd.DataFrame({"name": ["x"], "animal": [None], "size": [0.0]}), table[1:]])
    table.to_csv("gaps.csv", index=False)
    held = file_of([{**entry(1, "drop"), "row": 2}], label="animal")
    (home / "gaps.json").write_text(json.dumps(held))
    told = run("apply", "gaps.json", "--data", "gaps.csv", "-o", "cleaned.csv").stderr
    assert "1 row without a label" in told
    assert pd.read_csv("cleaned.csv").name.tolist() == list("axcdef")


def test_mistakes_change_nothing(home):
    before = {one.name: one.read_bytes() for one in home.iterdir()}
    (home / "elsewhere").mkdir()
    held = json.loads((home / "decisions.json").read_text())
    for name, change in (("none", {"data": None}), ("gone", {"data": "../../gone.csv"}), ("no_label", {"label": None}),
                         ("changed", {"audit": "0" * 16})):  # fmt: skip
        (home / "elsewhere" / f"{name}.json").write_text(json.dumps(held | change))
    for arguments, words in (
        (("elsewhere/none.json",), "name them with --data"),
        (("elsewhere/gone.json",), "'gone.csv', which lies neither"),
        (("elsewhere/no_label.json",), "--label is needed"),
        (("elsewhere/changed.json",), "about other labels"),
        (("decisions.json", "--label", "name"), "had the label"),
        (("decisions.json", "--label", "animl"), "Did you mean 'animal'"),
        (("zoo.csv",), "is not JSON"),
        (("no.json",), "no such file"),
        ((), "Missing argument"),
    ):
        told = run("apply", *arguments, "-o", "cleaned.csv", code=2).stderr
        assert words in told, told
    told = run("apply", "decisions.json", "-o", "zoo.csv", code=2).stderr
    assert "zoo.csv" in told
    assert {one.name: one.read_bytes() for one in home.iterdir() if one.is_file()} == before


def test_the_whole_way_from_audit_to_cleaned_data(home):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 4)) + 4.0 * np.eye(3, 4)[y]
    names = np.array(["cat", "dog", "hen"])[y]
    names[[0, 50]] = "dog", "cat"
    table = pd.DataFrame(X, columns=list("abcd")).assign(animal=names)
    table.to_csv("rows.csv", index=False)
    run("audit", "rows.csv", "--label", "animal", "-o", "rows.html", "-q")
    audit = nearkin.audit_labels(X, names, random_state=0)
    decided = [{"row": 0, "given": "dog", "decision": "suggested", "label": "cat"}]
    held = file_of(decided, labels=names, data="rows.csv", label="animal")
    assert held["audit"] == audit.fingerprint
    (home / "d.json").write_text(json.dumps(held))
    run("apply", "d.json", "-o", "cleaned.csv")
    assert pd.read_csv("cleaned.csv").animal.tolist() == audit.apply(home / "d.json").label.tolist()
