"""Click logs as people have them: every form and file gives the same feedback, and odd rows are counted."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from nearkin.search import Feedback, parse_times, read_feedback

IDS = {"query_ids": ["shoes", "7", "red hat"], "item_ids": ["a", "12", "c", "x-9"]}
#: Query, items from the top, clicked ones, time.
SHOWN = [
    ("shoes", ["a", "12", "c"], ["12"], "2026-03-01T10:00:00"),
    ("7", ["c", "a"], [], "2026-03-01T11:00:00+01:00"),
    ("red hat", ["x-9", "c", "12", "a"], ["x-9", "a"], "2026-03-02"),
    ("shoes", ["12", "a"], ["12"], "2026-03-03 08:00"),
]
#: The same by number.
WANTED = [
    (0, [0, 1, 2], [0, 1, 0]),
    (1, [2, 0], [0, 0]),
    (2, [3, 2, 1, 0], [1, 0, 0, 1]),
    (0, [1, 0], [1, 0]),
]


def rows_of(shown=SHOWN):
    return [
        {"impression": f"s{n}", "query": q, "item": i, "clicked": int(i in clicks), "rank": r, "time": time}
        for n, (q, items, clicks, time) in enumerate(shown)
        for r, i in enumerate(items, 1)
    ]


def as_csv(rows, delimiter=","):
    lines = [list(rows[0]), *([str(one) for one in row.values()] for row in rows)]
    return "".join(delimiter.join(f'"{one}"' if delimiter in one else one for one in line) + "\n" for line in lines)


def lists_of(feedback):
    cuts = zip(feedback.start[:-1], feedback.start[1:], strict=True)
    return [
        (int(q), feedback.item[a:b].tolist(), feedback.relevant[a:b].astype(int).tolist())
        for q, (a, b) in zip(feedback.query, cuts, strict=True)
    ]


def read(path, content=None, **options):
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_feedback(path, **IDS, **options)


def lists_table(items="items", clicks="clicks", how=list, marks=lambda shown, clicked: clicked):
    return [
        {"query": q, items: how(shown), clicks: how(marks(shown, clicked)), "time": time}
        for q, shown, clicked, time in SHOWN
    ]


def in_quotes(values):
    return json.dumps(list(values)).replace('"', '""')


FILES = {
    "rows.csv": lambda: as_csv(rows_of()),
    "rows.tsv": lambda: as_csv(rows_of(), "\t"),
    "semicolons.csv": lambda: as_csv(rows_of(), ";"),
    "rows.csv.gz": lambda: gzip.compress(as_csv(rows_of()).encode()),
    "rows.jsonl": lambda: "\n".join(map(json.dumps, rows_of())),
    "lists.jsonl": lambda: "\n\n".join(map(json.dumps, lists_table())),
    "lists.jsonl.gz": lambda: gzip.compress("\n".join(map(json.dumps, lists_table("results", "clicked_ids"))).encode()),
    "positions.jsonl": lambda: "\n".join(
        json.dumps(one) for one in lists_table(marks=lambda shown, clicked: [shown.index(c) + 1 for c in clicked])
    ),
    "flags.jsonl": lambda: "\n".join(
        json.dumps(one) for one in lists_table(marks=lambda shown, clicked: [int(i in clicked) for i in shown])
    ),
    "bars.csv": lambda: as_csv(lists_table(how="|".join)),
    "json_cells.csv": lambda: "query,items,clicks\n" + "".join(
        f'{q},"{in_quotes(shown)}","{in_quotes(clicked)}"\n' for q, shown, clicked, _ in SHOWN
    ),
    "python_cells.csv": lambda: "query,items,clicks\n" + "".join(
        f'{q},"{shown}","{clicked}"\n' for q, shown, clicked, _ in SHOWN
    ),
    "objects.jsonl": lambda: "\n".join(
        json.dumps({"query": q, "results": [{"id": i, "clicked": i in clicked, "score": 0.5} for i in shown]})
        for q, shown, clicked, _ in SHOWN
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_file_and_form_gives_the_same_lists(name, tmp_path):
    found = read(tmp_path / name, FILES[name]())
    assert lists_of(found) == WANTED and found.form == "impressions" and found.skipped == {}
    assert (found.n_without_click, found.n_clicks) == (1, 4)


@pytest.mark.parametrize("form", ["rows", "lists"])
def test_parquet_with_lists_numbers_and_times(form, tmp_path):
    rows = rows_of() if form == "rows" else lists_table()
    table = pa.Table.from_pylist(rows)
    times = pa.array([int(1e6 * one) for one in parse_times([row["time"] for row in rows])], pa.timestamp("us"))
    table = table.set_column(table.schema.get_field_index("time"), "time", times)
    if form == "rows":
        table = table.set_column(1, "query", table.column("query").dictionary_encode())
    parquet.write_table(table, tmp_path / "log.parquet", row_group_size=2)
    found = read(tmp_path / "log.parquet")
    assert lists_of(found) == WANTED
    np.testing.assert_array_equal(found.time, parse_times([one[3] for one in SHOWN]))


def test_without_ids_of_impressions_runs_of_rows_are_lists(tmp_path):
    rows = [{k: v for k, v in row.items() if k not in ("impression", "time")} for row in rows_of()]
    assert lists_of(read(tmp_path / "log.csv", as_csv(rows))) == WANTED
    # Without ranks, an item that comes again begins the next list.
    text = "query,item,clicked\nshoes,a,0\nshoes,c,1\nshoes,a,1\nshoes,c,0\n7,a,0\n"
    assert lists_of(read(tmp_path / "log.csv", text)) == [(0, [0, 2], [0, 1]), (0, [0, 2], [1, 0]), (1, [0], [0])]


def test_rows_of_an_impression_need_not_be_together_and_parts_do_not_matter(tmp_path, monkeypatch):
    rows = rows_of()
    mixed = [rows[0], *rows[1:][::-1]]
    monkeypatch.setattr("nearkin.tables.log_files.LogFile.parts.__defaults__", (2,))
    found = read(tmp_path / "log.csv", as_csv(mixed))
    assert sorted(lists_of(found)) == sorted(WANTED)
    runs = [{k: v for k, v in row.items() if k != "impression"} for row in rows]
    assert lists_of(read(tmp_path / "runs.csv", as_csv(runs))) == WANTED


def test_clicks_alone_and_several_files(tmp_path):
    (tmp_path / "one.csv").write_text("query,item\nshoes,a\n7.0,12\n")
    (tmp_path / "two.jsonl").write_text('{"query": 7, "item": 12}\n{"query": "red hat", "item": "x-9"}\n')
    found = read_feedback([tmp_path / "one.csv", tmp_path / "two.jsonl"], **IDS)
    assert found.form == "clicks"
    assert lists_of(found) == [(0, [0], [1]), (1, [1], [1]), (1, [1], [1]), (2, [3], [1])]


def test_a_second_row_may_tell_of_the_click(tmp_path):
    """Logs of events have a row for the impression and another one for the click."""
    rows = [{k: v for k, v in row.items() if k != "rank"} for row in rows_of()]
    events = [row | {"clicked": 0} for row in rows] + [row for row in rows if row["clicked"]]
    found = read(tmp_path / "log.csv", as_csv(events))
    assert lists_of(found) == WANTED and found.skipped == {"duplicate": 4}


def test_a_judgement_that_contradicts_an_earlier_one_is_named_with_its_file(tmp_path):
    for name, rows in (("a.csv", "shoes,a,0\n7,a,1\n"), ("b.csv", "7,c,1\nshoes,a,3\n")):
        (tmp_path / name).write_text("query,item,relevant\n" + rows)
    found = read_feedback([tmp_path / "a.csv", tmp_path / "b.csv"], **IDS)
    assert found.relevant.all() and list(found.skipped.values()) == [1]
    assert next(iter(found.first_skipped.values())).endswith("b.csv, data row 2")


def test_dwell_time_says_what_a_click_counts(tmp_path):
    text = "impression,query,item,dwell\n1,shoes,a,15\n1,shoes,c,\n2,shoes,c,90\n2,shoes,a,0\n"
    found = read(tmp_path / "log.csv", text, grade="dwell")
    assert found.worth.tolist() == [0.5, 0, 1, 0] and found.relevant.tolist() == [True, False, True, False]
    text = "impression,query,item,clicked,dwell\n1,shoes,a,1,3\n1,shoes,c,1,\n2,shoes,c,0,90\n"
    assert read(tmp_path / "log.csv", text, grade="dwell").worth.tolist() == pytest.approx([0.1, 1, 0])
    with pytest.raises(ValueError, match="no column 'dwell' of seconds"):
        read(tmp_path / "log.csv", "query,item\nshoes,a\n", grade="dwell")


ODD = {
    "missing query": ",a,1", "unknown query": "hats,a,1", "missing item": "shoes,,1", "unknown item": "shoes,nope,1",
    "odd 'clicked'": "shoes,a,often", "wrong number of fields": "shoes,a",
}  # fmt: skip


def test_odd_rows_are_counted_and_the_first_of_each_kind_is_named(tmp_path):
    good = "shoes,a,1\nshoes,c,0\n7,12,1\n7,a,0\nred hat,c,1\nred hat,a,0\n" * 3
    found = read(tmp_path / "log.csv", "query,item,clicked\n" + good + "\n".join(ODD.values()))
    assert found.skipped == dict.fromkeys(ODD, 1)
    assert [one.split(", ")[1].split(":")[0] for one in found.first_skipped.values()]
    assert "log.csv, data row 19" in found.first_skipped["missing query"]
    assert "log.csv, data row 22: 'nope'" in found.first_skipped["unknown item"]


@pytest.mark.filterwarnings("error")
def test_ranks_below_zero_and_grades_that_are_none_are_odd_rows(tmp_path):
    good = "1,shoes,a,1,0\n1,shoes,c,0,1\n1,shoes,12,2,2\n"
    text = "impression,query,item,clicked,rank\n" + good + "2,7,a,1,-7\n2,7,c,1e300,1\n"
    found = read(tmp_path / "log.csv", text)
    assert found.skipped == {"odd 'clicked'": 1, "odd 'rank'": 1} and len(found) == 1
    assert found.first_skipped["odd 'clicked'"].endswith("data row 5: '1e300'")
    with pytest.raises(ValueError, match=r"no click in 1 lists.* Left out: 1 x odd 'relevant' \(first: .*row 2: '-3'"):
        read(tmp_path / "log.csv", "query,item,relevant\nshoes,a,0\nshoes,c,-3\n")


@pytest.mark.parametrize("name, text, message", [
    ("a.csv", "query,item,clicked\n7,a,1\nhats,a,1\n7,zz,1\n7,a\n", "row 1: query 'hats'"),
    ("a.csv", "query,item,clicked\n7,zz,1\nhats,a,1\n7,a,?\n", "row 0: item 'zz'"),
    ("a.csv", "query,item,clicked\n7,a,1\n7,a\nhats,a,1\n", "data row 2: wrong number of fields"),
    ("a.jsonl", '{"query": "7", "items": ["zz"], "clicks": []}\n{"query": "7", "items": []}', "row 0: item 'zz'"),
    ("a.jsonl", '{"query": "7", "items": ["a"], "clicks": []}\n{"query": "7", "items": []}', "row 2: list without"),
])  # fmt: skip
def test_a_strict_reader_names_the_first_odd_row_whatever_is_odd(name, text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name, text, bad="raise", clicks_as="ids")


def test_a_byte_that_is_not_text_costs_one_row(tmp_path):
    found = read(tmp_path / "log.csv", b"query,item\nshoes,a\n7,a\nch\xe4ssis,a\n")
    assert len(found) == 2 and found.skipped == {"unknown query": 1}


def test_a_quote_that_is_never_closed_costs_one_row(tmp_path):
    good = ["shoes,a,1", "7,12,1", '"red hat",c,1', "shoes,c,1"]
    for at in range(4):  # with and without a quote further down
        lines = [*good[:at], 'shoes,"a,1', *good[at:], ""]
        found = read(tmp_path / "log.csv", "query,item,clicked\n" + "\n".join(lines))
        assert len(found) == 4 and found.skipped == {"wrong number of fields": 1}
        assert found.first_skipped["wrong number of fields"].endswith(f"data row {at + 1}")
    text = 'query,item,note\nshoes,a,"two\nlines"\n"7","12",x\n'
    assert lists_of(read(tmp_path / "log.csv", text)) == [(0, [0], [1]), (1, [1], [1])]


def test_a_log_of_which_most_rows_are_odd_is_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"log\.csv: 3 of 5 rows cannot be used: 3 x unknown item \(first: .*row 3"):
        read(tmp_path / "log.csv", "query,item\nshoes,a\n7,a\n7,n1\n7,n2\n7,n3\n")
    with pytest.raises(ValueError, match="there is no click in 1 lists"):
        read(tmp_path / "log.csv", "impression,query,item,clicked\n1,7,a,0\n")


@pytest.mark.parametrize("name, content, message", [
    ("a.jsonl", "[\n{}]", "holds one JSON array"),
    ("a.jsonl", "hello\n", "holds no JSON object"),
    ("a.jsonl.gz", b"\x1f\x8bxx", "a.jsonl.gz is not"),
    ("a.csv", "query,items\nshoes,a|12\n", "there is no column 'clicks'"),
    ("a.jsonl", '{"query": "7", "items": ["a", "12"], "clicks": ["zz"]}', "clicks fit no item"),
    ("a.csv", "query,items,clicks\n7,1|2|3,2\n", "clicks may be ids or positions; say what they are"),
    ("a.xlsx", b"PK", "save it as CSV"),
])  # fmt: skip
def test_logs_that_cannot_be_read_are_named_in_one_line(name, content, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path / name, content)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_damaged_lines_of_json_are_counted(tmp_path):
    lines = [json.dumps(row) for row in rows_of()]
    found = read(tmp_path / "log.jsonl", "\n".join([*lines, lines[0][:20], "[1]", '"text"']))
    assert lists_of(found) == WANTED
    assert found.skipped == {"line that is not JSON": 1, "line that is not a JSON object": 2}
    strange = [
        json.dumps(rows_of()[0] | {name: [1, {}]}) for name in ("impression", "query", "item", "clicked", "time")
    ]
    found = read(tmp_path / "log.jsonl", "\n".join([*lines, *strange]))
    assert lists_of(found) == WANTED and sum(found.skipped.values()) == 5


def test_a_long_log_is_sampled_by_whole_lists_the_same_every_time(tmp_path):
    rows = [(n, n % 50, i, int(i == n % 7)) for n in range(3000) for i in range(10)]
    text = "impression,query,item,clicked\n" + "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "log.csv").write_text(text)
    options = {"query_ids": 50, "item_ids": 10, "max_rows": 9000}
    one, two = (read_feedback(tmp_path / "log.csv", **options) for _ in range(2))
    assert one.share == 0.25 and len(one.item) <= 9000 and len(one.item) == 10 * len(one)
    assert 600 < len(one) < 900 and (np.diff(one.start) == 10).all()
    np.testing.assert_array_equal(one.query, two.query)


def test_times_are_read_in_the_units_that_logs_use():
    same = ["2026-03-01T12:00:00Z", "2026-03-01 13:00:00+01:00", 1772366400, "1772366400000", 1772366400000000]
    assert parse_times(same).tolist() == [1772366400.0] * 5
    assert np.isnan(parse_times(["", None, "yesterday"])).all()


def test_names_that_many_logs_use_are_known_and_others_can_be_given(tmp_path):
    text = "qid,doc_id,is_clicked,position\nshoes,a,1,1\nshoes,c,0,2\n"
    assert lists_of(read(tmp_path / "log.csv", text)) == [(0, [0, 2], [1, 0])]
    nested = '{"request": {"q": "shoes"}, "hit": "a"}\n'
    found = read(tmp_path / "log.jsonl", nested, column={"query": "request.q", "item": "hit"})
    assert lists_of(found) == [(0, [0], [1])]
    with pytest.raises(ValueError, match="there is no column 'who'"):
        read(tmp_path / "log.csv", text, column={"query": "who"})


def test_arrays_and_files_agree(tmp_path):
    rows = rows_of()
    columns = {name: [row[name] for row in rows] for name in ("impression", "query", "item", "clicked", "rank")}
    made = Feedback.from_impressions(**columns, time=[row["time"] for row in rows], **IDS)
    found = read(tmp_path / "log.csv", as_csv(rows))
    assert lists_of(made) == lists_of(found) == WANTED
    np.testing.assert_array_equal(made.time, found.time)
