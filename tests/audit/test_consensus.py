"""Several answers per row: labels, annotators, rows to ask again, and what is refused."""

import re
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer, load_wine

import nearkin
from nearkin.audit import Answers, find_consensus
from nearkin.cli import main
from nearkin.noise import AnswerCodes, pool_answers


def ask(y, rng, quality=(0.95, 0.85, 0.7, 0.6, 0.4, 0.33), share=0.5):
    """Let annotators answer; some rows stay unanswered (-1)."""
    k = int(y.max()) + 1
    shape = len(y), len(quality)
    right = rng.random(shape) < quality
    answers = np.where(right, y[:, None], (y[:, None] + rng.integers(1, k, shape)) % k)
    return np.where(rng.random(shape) < share, answers, -1)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    answers = ask(y, np.random.default_rng(1))
    answers[5] = -1  # nobody knows this one
    return X, y, answers, find_consensus(X, answers, random_state=0, missing=-1)


def majority(answers):
    counts = np.stack([(answers == c).sum(axis=1) for c in range(answers.max() + 1)], axis=1)
    return counts.argmax(axis=1)


def test_features_and_annotators_together_beat_the_majority(wine):
    _, y, answers, found = wine
    alone = find_consensus(None, answers, missing=-1)
    assert (found.label == y).mean() > 0.97 > (alone.label == y).mean() > (majority(answers) == y).mean() + 0.03
    assert found.n_answers[5] == 0 and found.label[5] == y[5]


def test_confidence_tells_which_rows_to_ask_again(wine):
    _, y, answers, found = wine
    alone = find_consensus(None, answers, missing=-1)
    wrong = alone.label != y
    asked = alone.ask_again
    assert wrong[asked].mean() > 2 * wrong[np.setdiff1d(np.arange(len(y)), asked)].mean()
    assert (np.diff(alone.confidence[asked]) >= 0).all() and (alone.confidence[asked] < 0.8).all()
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)


def test_the_quality_of_annotators_is_found_with_its_interval(wine):
    _, y, answers, found = wine
    quality = np.array([one.quality for one in found.annotators])
    is_right = np.array([(answers[a >= 0, j] == y[a >= 0]).mean() for j, a in enumerate(answers.T)])
    assert np.abs(quality - is_right).max() < 0.1
    assert sum(one.low <= true <= one.high for one, true in zip(found.annotators, is_right, strict=True)) >= 5
    assert all(0 <= one.low <= one.quality <= one.high <= 1 for one in found.annotators)
    assert found.annotators[0].n_answers == (answers[:, 0] >= 0).sum()
    told = found.annotators_to_columns()
    assert told["annotator"][0] == 0 and told["quality"] == sorted(told["quality"], reverse=True)
    assert "% right [" in dict(found.summary())["best" if len(quality) > 6 else "annotators"]


def test_a_mistake_that_an_annotator_always_makes_is_used_and_named():
    """One swaps two classes on most rows: that tells as much as a right answer."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    answers = ask(y, rng, (0.8, 0.8, 0.75, 0.75), 1.0)
    swapped = np.array([1, 0, 2])[y]
    found = find_consensus(None, np.column_stack([answers, swapped]))
    assert (found.label == y).mean() > (find_consensus(None, answers).label == y).mean() + 0.05
    assert found.annotators[4].mistake.startswith(("0 for 1", "1 for 0")) and found.annotators[4].quality < 0.5


def test_the_answers_of_a_row_do_not_change_the_confusion_that_judges_it():
    """With one answer per annotator, nothing but what all do is known of each."""
    n = 40
    answers = AnswerCodes(np.arange(n), np.arange(n), np.arange(n) % 2, n, n, 2)
    votes = np.full((n, 2), 0.5)
    pooled = pool_answers(answers, votes)
    assert np.ptp(pooled.shares[::2, 0]) < 1e-9 and pooled.quality.std() < 0.01


def test_votes_that_know_nothing_leave_the_answers_alone():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    table = ask(y, rng, (0.9, 0.85, 0.8, 0.7, 0.6), 1.0)
    row, annotator = np.nonzero(table >= 0)
    codes = AnswerCodes(row, annotator, table[row, annotator], 400, 5, 2)
    alone, joined = pool_answers(codes), pool_answers(codes, np.full((400, 2), 0.5))
    assert (joined.shares.argmax(axis=1) == alone.shares.argmax(axis=1)).mean() > 0.97


def same(one, other):
    np.testing.assert_array_equal(one.shares, other.shares)


def test_tables_frames_and_lists_say_the_same():
    y = np.arange(60)
    table = ask(y % 2, np.random.default_rng(0), (0.9, 0.8, 0.6))
    expected = find_consensus(None, table, missing=-1)
    gaps = np.where(table < 0, np.nan, table)
    same(find_consensus(None, gaps), expected)
    same(find_consensus(None, np.ma.masked_less(table, 0)), expected)
    same(find_consensus(None, [[None if one < 0 else int(one) for one in row] for row in table]), expected)
    for frame in (pandas.DataFrame(gaps, columns=list("abc")), polars.DataFrame(gaps, schema=list("abc"))):
        found = find_consensus(None, frame)
        same(found, expected)
        assert [one.name for one in found.annotators] == ["a", "b", "c"]
    row, annotator = np.nonzero(table >= 0)
    listed = Answers.from_list(row, [f"w{one}" for one in annotator], table[row, annotator], n_rows=60)
    first = row[0], f"w{annotator[0]}", 1 - table[row[0], annotator[0]]
    again = Answers.from_list(
        [first[0], *row],
        [first[1], *(f"w{one}" for one in annotator)],
        [first[2], *table[row, annotator]],
        n_rows=60,
    )
    for one in (listed, again):  # of two answers the last counts
        order = np.lexsort(([one.annotators[a] for a in one.codes.annotator], one.codes.row))
        assert len(one) == len(row) and (one.codes.code[order] == table[row, annotator]).all()
    words = np.array(["no", "yes", ""])[table]
    assert find_consensus(None, words).label.tolist() == np.array(["no", "yes"])[expected.code].tolist()


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame])
def test_annotators_may_be_columns_of_the_frame(kind):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:150, :4], y[:150]
    table = ask(y, np.random.default_rng(0), (0.9, 0.8, 0.7), 1.0)
    frame = kind({**{f"f{j}": X[:, j] for j in range(4)}, **{name: table[:, j] for j, name in enumerate("abc")}})
    same(find_consensus(frame, ["a", "b", "c"], random_state=0), find_consensus(X, table, random_state=0))
    with pytest.raises(ValueError, match="'d' is not a column of X"):
        find_consensus(frame, ["a", "d"])


def test_a_frame_may_hold_categories_and_gaps():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    number = np.where(rng.random(120) < 0.1, np.nan, 2 * y + rng.normal(size=120))
    frame = pandas.DataFrame({"number": number, "word": np.where(rng.random(120) < 0.9, np.array(["x", "y"])[y], "z")})
    answers = ask(y, rng, (0.75, 0.75, 0.75), 1.0).astype(object)
    answers[:4] = None
    assert (find_consensus(frame, answers, random_state=0).label == y).mean() > 0.95


BAD = {
    "quantities": ([[1.5, 2.0], [0.5, 1.0]], r"find_consensus: the answer 1.5 is a quantity.*regression.*digitize"),
    "several labels": ([[["a", "b"], ["a"]], [["b"], ["a"]]], r"several labels \(multi-label\)"),
    "one column": (["a", "b"], "For one label per row use audit_labels"),
    "one class": ([["a", "a"], ["a", None]], "all answers are 'a'"),
    "none": ([[None, ""], [float("nan"), None]], "every answer is missing"),
    "ragged": ([["a"], ["a", "b"]], "different lengths"),
    "rows": ([["a", "b"]] * 3, "X has 2 rows, but the answers are about 3"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_refused_by_name(case):
    answers, message = BAD[case]
    if case == "one column":
        answers = np.array(answers)
    with pytest.raises(ValueError, match=message):
        find_consensus(np.eye(2), answers)


def test_lists_are_checked():
    with pytest.raises(ValueError, match="equally many; got 2, 1 and 2"):
        Answers.from_list([0, 1], ["a"], [0, 1])
    with pytest.raises(ValueError, match="about row 7, but there are 3 rows"):
        Answers.from_list([0, 7], ["a", "a"], [0, 1], n_rows=3)
    with pytest.raises(ValueError, match="whole numbers from 0"):
        Answers.from_list([-1, 0], ["a", "a"], [0, 1])


@pytest.mark.parametrize(
    "y, words",
    [
        (np.zeros((6, 3), dtype=int), r"3 columns.*find_consensus\(X, answers\).*multi-label"),
        ([["a"], ["a", "b"], ["b"], ["a"], ["b"], ["a"]], "multi-label"),
        ([{"a"}, {"b"}, {"a"}, {"b"}, {"a"}, {"b"}], "multi-label"),
        (["a", "b", "a|b", "b|c", "c", "a|b|c"], r"'a\|b' is several labels in one \(multi-label\)"),
        ([0.5, 1.25, 3.5, 0.1, 0.2, 0.3], r"numeric target \(regression\)"),
    ],
)
def test_the_audit_of_one_label_says_where_other_targets_belong(y, words):
    with pytest.raises(ValueError, match=words):
        nearkin.audit_labels(np.arange(12.0).reshape(6, 2), y)


def test_the_labels_have_an_audit_of_their_own(wine):
    *_, found = wine
    assert found.audit.given_label.tolist() == found.label.tolist()
    with pytest.raises(ValueError, match="without features"):
        _ = find_consensus(None, [["a", "b"], ["b", "b"]]).audit


def test_the_program_of_the_page_runs_as_printed(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parents[2] / "docs" / "annotators.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/annotators.md", "exec"), {})
    assert "% right [" in capsys.readouterr().out and (tmp_path / "consensus.html").exists()


@pytest.mark.parametrize(
    "classes", [["Paris, France", "Lyon, France"], ["a|b", "c"], ["red, small", "red, large", "blue, small"]]
)
def test_names_with_a_comma_are_classes(classes):
    X = np.random.default_rng(0).normal(size=(30, 2)) + np.arange(30)[:, None] % len(classes)
    assert nearkin.audit_labels(X, [classes[i % len(classes)] for i in range(30)], random_state=0).n_rows == 30


# ------------------------------------------------------------------ the command line


@pytest.fixture
def files(wine, tmp_path, monkeypatch):
    X, _, answers, _ = wine
    monkeypatch.chdir(tmp_path)
    words = np.array(["red", "rose", "white", ""])
    lines = [",".join([f"b{i}", *(f"{v:.9g}" for v in row), *words[answers[i]]]) for i, row in enumerate(X)]
    head = ["bottle", *(f"f{j}" for j in range(X.shape[1])), *"abcdef"]
    (tmp_path / "wine.csv").write_text("\n".join([",".join(head), *lines]))
    told = [f"b{i},{'abcdef'[j]},{words[answers[i, j]]}" for i, j in zip(*np.nonzero(answers >= 0), strict=True)]
    (tmp_path / "told.csv").write_text("\n".join(["bottle,who,colour", *told]))
    return tmp_path, words


def run(*line):
    return CliRunner().invoke(main, ["consensus", "wine.csv", *line])


def test_the_command_writes_labels_annotators_and_a_page(wine, files):
    folder, words = files
    done = run(
        "--id", "bottle", "--annotators", "a,b,c", "--annotators", "d,e,f", "--quality", "q.csv", "--page", "p.html"
    )
    assert done.exit_code == 0, done.output
    assert "6 annotators" in done.output and "a: 9" in done.output
    found = pandas.read_csv(folder / "wine_consensus.csv")
    assert found["label"].tolist() == words[wine[3].label].tolist() and found["bottle"][2] == "b2"
    assert pandas.read_csv(folder / "q.csv")["annotator"][0] == "a"
    page = (folder / "p.html").read_text()
    assert "Most frequent mistake" in page and "Ask again" in page
    listed = [
        "--answers",
        "told.csv",
        "--column",
        "row=bottle",
        "--column",
        "annotator=who",
        "--column",
        "label=colour",
    ]
    again = run("--id", "bottle", *listed, "--drop", "a,b,c,d,e,f", "-o", "again.csv", "-q")
    assert again.exit_code == 0 and again.output == ""
    assert pandas.read_csv(folder / "again.csv")["label"].tolist() == found["label"].tolist()


@pytest.mark.parametrize(
    "line, words",
    [
        ([], "--annotators"),
        (["--annotators", "a,x"], "no column 'x'"),
        (["--annotators", "a,b", "--answers", "told.csv"], "--annotators"),
        (["--answers", "told.csv", "--drop", "bottle,a,b,c,d,e,f"], "no column 'row'"),
        (["--answers", "told.csv", "--column", "row=bottle", "--column", "annotator=who", "--column", "label=colour",
          "--drop", "bottle,a,b,c,d,e,f"],
         "there is no row 'b0' in the data; rows go by number from 0"),
        (["--annotators", "f0,f1"], "quantity"),
        (["--annotators", "a,b", "--column", "row=bottle"], "--answers"),
    ],
)  # fmt: skip
def test_the_command_refuses_in_one_line_and_writes_nothing(files, line, words):
    folder, _ = files
    before = sorted(folder.iterdir())
    done = run(*line)
    assert done.exit_code == 2 and words in done.output and done.output.count("\n") == 1, done.output
    assert sorted(folder.iterdir()) == before


def test_the_audit_sends_columns_of_annotators_to_the_consensus(files):
    done = CliRunner().invoke(main, ["audit", "wine.csv", "--label", "a,b"])
    assert done.exit_code == 2 and "--label takes one column" in done.output and "nearkin consensus" in done.output
    done = CliRunner().invoke(main, ["audit", "wine.csv", "--label", "f0"])
    assert done.exit_code == 2 and "numeric target (regression)" in done.output
