"""Feedback, vectors and ids that are wrong, huge, empty or foreign: one line that says where, never a wrong match."""

import io

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from nearkin.cli import main
from nearkin.search import Feedback, Index, adapt, evaluate, read_feedback, read_vectors

RNG = np.random.default_rng(0)
QUERIES, ITEMS = RNG.normal(size=(40, 4)), RNG.normal(size=(50, 4))
TRIPLETS = np.column_stack([RNG.integers(0, 40, 300), RNG.integers(0, 25, 300), RNG.integers(25, 50, 300)])


@pytest.fixture
def home(tmp_path):
    np.save(tmp_path / "q.npy", QUERIES)
    np.save(tmp_path / "d.npy", ITEMS)
    return tmp_path


def table(at=None, line="", header="query,clicked,skipped", rows=TRIPLETS):
    lines = [header, *(",".join(map(str, one)) for one in rows)]
    if at is not None:
        lines[at] = line
    return ("\n".join(lines) + "\n").encode()


def run(home, content, name="f.csv", *more):
    (home / name).write_bytes(content)
    given = {
        "--queries": home / "q.npy",
        "--items": home / "d.npy",
        "--feedback": home / name,
        "-o": home / "a.nearkin",
    }
    outcome = CliRunner().invoke(main, ["adapt", *(str(one) for pair in given.items() for one in pair), "-q", *more])
    assert outcome.exit_code in (0, 2), outcome.output
    assert outcome.stderr.count("\n") == (outcome.exit_code == 2), outcome.stderr
    return outcome


# ---------------------------------------------------------------- files

LINES = {
    "nan": "nan,1,30", "inf": "inf,1,30", "huge": "99999999999999999999999,1,30", "beyond": "9223372036854775808,1,30",
    "far": "1e30,1,30", "negative": "-1,1,30", "text": "abc,1,30", "nothing": ",1,30", "half": "1.5,1,30",
    "short": "1,2", "long": "1,2,30,4", "escape": "\x1b[31mred,1,30", "true": "true,1,30", "same": "1,2,2",
}  # fmt: skip


@pytest.mark.parametrize("kind", LINES)
def test_a_bad_line_is_named_with_its_file(kind, home):
    outcome = run(home, table(7, LINES[kind]), "f.csv", "--strict")
    assert outcome.exit_code == 2
    assert "f.csv" in outcome.stderr
    assert "data row 7" in outcome.stderr
    assert "\x1b" not in outcome.stderr
    found = read_feedback(home / "f.csv", query_ids=40, item_ids=50)
    assert len(found) == 299 and sum(found.skipped.values()) == 1
    assert "data row 7" in next(iter(found.first_skipped.values()))


@pytest.mark.parametrize(
    "content",
    [
        b"", table()[:22], b"query,clicked,skipped\n", bytes(range(256)) * 20, table(7, "1\0,1,2"),
        table(header="query,query,skipped"), table(header="who,clicked,skipped"),
        b"query,clicked,skipped\n" + b"1,1,30\n" * 50, b"query,clicked,skipped\n1,1,30\n",
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_named(content, home):
    outcome = run(home, content)
    assert outcome.exit_code == 2
    assert "f.csv" in outcome.stderr


@pytest.mark.parametrize(
    ("rank", "row"), [("inf", 4), ("1e30", 4), ("x", 4), ("99999999999999999999999999", 4), ("0.5", 4)]
)
def test_a_rank_that_is_not_a_whole_number_is_named(rank, row, home):
    rows = [f"{i},{i % 40},{(7 * i + j) % 50},{int(j == 2)},{j}" for i in range(60) for j in range(5)]
    rows[3] = f"0,0,3,0,{rank}"
    outcome = run(home, ("impression,query,item,clicked,rank\n" + "\n".join(rows) + "\n").encode(), "f.csv", "--strict")
    assert outcome.exit_code == 2
    assert f"data row {row} holds" in outcome.stderr
    assert "f.csv" in outcome.stderr


@pytest.mark.parametrize(
    "first", [2**63 + 5, 1e300, np.inf, [1], {"a": 1}, b"\xff", True, None, np.datetime64("2020-01-01", "s")]
)
def test_parquet_and_npz_columns_of_odd_kinds_are_refused_in_one_line(first, home):
    q, c, s = TRIPLETS.T
    values = [first] * len(q)
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        values = [first, *(type(first)(one) for one in q[1:])]
    kind = pa.uint64() if first == 2**63 + 5 else None
    file = io.BytesIO()
    parquet.write_table(pa.table({"query": pa.array(values, kind), "clicked": c, "skipped": s}), file)
    outcome = run(home, file.getvalue(), "f.parquet", "--strict")
    assert outcome.exit_code == 2
    assert outcome.stderr.count("f.parquet") == 1
    if not isinstance(first, (dict, bytes, list)) and first is not None:
        file = io.BytesIO()
        np.savez(file, query=np.array(values), clicked=c, skipped=s)
        assert run(home, file.getvalue(), "f.npz", "--strict").exit_code == 2


def test_files_of_json_lines_that_hold_something_else_are_named(home):
    for name, content in (("f.jsonl", b'{"query": "\xff"}\n'), ("f.json", b"[" * 100_000), ("f.jsonl.gz", b"no")):
        outcome = run(home, content, name)
        assert outcome.exit_code == 2 and str(home / name) in outcome.stderr
    assert "cannot tell the format" in run(home, b"a", "f.log").stderr


@pytest.mark.parametrize("side", ["q.npy", "d.npy"])
@pytest.mark.parametrize("factor", [1e160, 1e300, 0.0])
def test_vectors_too_long_or_zero_are_named_with_their_file(side, factor, home):
    vectors = np.load(home / side)
    np.save(home / side, vectors * factor)
    outcome = run(home, table(), "f.csv", "--strict")
    assert outcome.exit_code == 2
    assert side in outcome.stderr
    assert "data row" in outcome.stderr


def test_repeated_ids_are_named_with_the_file_that_holds_them(home):
    (home / "ids.txt").write_text("a\n" * 40)
    outcome = run(home, table(), "f.csv", "--query-ids", str(home / "ids.txt"))
    assert "ids.txt: data row 2 repeats the id 'a'" in outcome.stderr
    with pytest.raises(ValueError, match=r"ids\.txt: row 1 repeats the id 'a'"):
        read_vectors(home / "q.npy", home / "ids.txt")


def test_errors_of_columns_name_the_file_once(home):
    (home / "f.csv").write_bytes(table(7, "nan,1,30"))
    with pytest.raises(ValueError, match=r"^\S*f\.csv: feedback: row 6: column 'query' holds nothing \(1 of"):
        read_feedback(home / "f.csv", query_ids=40, item_ids=50, bad="raise")


# ---------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    "ids",
    [
        [2**63, 1], [2**70, 1], [1e300, 1.0], [float(2**53) + 2, 1.0], [np.inf, 1.0], [np.nan, 1.0], [0.5, 1.0],
        np.array([2**64 - 1, 1], dtype=np.uint64), [None, 1], [b"a", b"b"], [[1], [2]], [[1], [2, 3]], [True, False],
        np.array([1, 2], "M8[s]"), [1j, 2.0],
    ],
)  # fmt: skip
def test_ids_that_would_change_when_stored_are_refused(ids):
    """2**64 - 1 is not -1, and beyond 2**53 two whole numbers are one float."""
    with pytest.raises(ValueError, match=r"ids must be whole|one value per row"):
        Index().fit(ITEMS[:2], ids=ids)
    with pytest.raises(ValueError, match=r"ids must be whole|one value per row"):
        Index().fit(ITEMS[:3], ids=[-1, 2**53, 2**53 + 2]).remove(ids)
    with pytest.raises(ValueError, match=r"ids must be whole|one value per row"):
        Feedback.from_triplets(ids, [0, 1], [1, 2], query_ids=[-1, 1, 2**53, 2**53 + 2], item_ids=3)


def test_whole_numbers_of_any_kind_are_the_same_ids():
    index = Index().fit(ITEMS[:3], ids=np.array([7, 8, 9], dtype=object))
    for one in ([8.0], np.array([8], dtype=np.uint8), np.array([8], dtype=object), ["8"]):
        assert len(Index().fit(ITEMS[:3], ids=[7, 8, 9]).remove(one)) == 2
    assert index.ids_.dtype == np.int64


def test_numbers_do_not_go_on_after_the_largest():
    index = Index().fit(ITEMS[:2], ids=[2**63 - 1, 0])
    with pytest.raises(ValueError, match="no numbers follow its largest id"):
        index.add(ITEMS[:1])
    assert index.add(ITEMS[:1], ids=[5]).ids_.tolist() == [2**63 - 1, 0, 5]


@pytest.mark.parametrize(
    "rank", [[0, np.inf], [0, np.nan], [0, 1e300], np.array([1, 2**64 - 1], dtype=np.uint64), [0, 2**70], ["0", "x"]]
)
def test_ranks_that_are_not_whole_numbers_are_refused_by_row(rank):
    with pytest.raises(ValueError, match="row 1 holds"):
        Feedback.from_impressions([0, 0], [1, 1], [1, 2], [1, 0], rank, query_ids=3, item_ids=3)


@pytest.mark.parametrize("clicked", [[1, np.nan], [1, None], np.array([1, 2], "M8[s]"), [1 + 0j, 0], [1, "maybe"]])
def test_clicks_that_are_neither_true_nor_false_are_refused(clicked):
    with pytest.raises(ValueError, match=r"row [01] holds .* in 'clicked'"):
        Feedback.from_impressions([0, 0], [1, 1], [1, 2], clicked, query_ids=3, item_ids=3)


def test_counts_of_ids_are_whole_numbers():
    for n in (-1, True):
        with pytest.raises(ValueError, match="must be a whole number"):
            Feedback.from_triplets([0], [1], [0], query_ids=n, item_ids=3)
    for odd in ([], [[1], [2, 3]], 3):
        with pytest.raises(ValueError, match=r"no rows|one value per row"):
            Feedback.from_triplets(odd, odd, odd, query_ids=3, item_ids=3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("measure", ["similarity", "distance"])
def test_vectors_whose_scores_would_be_infinite_are_refused(measure):
    for dtype, factor in ((np.float32, 1e30), (np.float64, 1e200)):
        items, queries = ITEMS.astype(dtype), QUERIES.astype(dtype)
        with pytest.raises(ValueError, match="items: row 0 is so long that its square overflows"):
            Index(measure=measure).fit(items * dtype(factor))
        with pytest.raises(ValueError, match="queries: row 0 is so long"):
            Index(measure=measure).fit(items).query(queries * dtype(factor), 2)
        assert np.isfinite(Index(measure="cosine").fit(items * dtype(factor)).query(queries, 2)[0]).all()
    feedback = Feedback.from_triplets(*TRIPLETS.T, query_ids=40, item_ids=50)
    for call in (adapt, evaluate):
        with pytest.raises(ValueError, match="items: row 0 is so long"):
            call(QUERIES, ITEMS * 1e160, feedback, random_state=0)


def test_questions_without_an_answer_are_refused_and_no_question_gets_none():
    index = Index().fit(ITEMS)
    values, ids = index.query(QUERIES[:0], 3)
    assert values.shape == ids.shape == (0, 3)
    for wrong in (np.nan, "x", None, 1j):
        with pytest.raises(ValueError, match="min_plausibility"):
            index.query(QUERIES, 3, min_plausibility=wrong)
    for wrong in (["a"] * 50, [np.nan] * 50, [2.0] * 50):
        with pytest.raises(ValueError, match="plausibility must be"):
            Index().fit(ITEMS, plausibility=wrong)
