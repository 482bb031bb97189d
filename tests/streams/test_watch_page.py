"""The page of a log: read as it is, also damaged, old or very long; one file that asks for nothing."""

import json
import re

import pytest
from click.testing import CliRunner

from nearkin.cli import main
from nearkin.streams import read_log, write_page

HOSTILE = "</title><script>alert(1)</script>"


def line(batch, rows=100, **more):
    """A line as a run writes it."""
    new = {"rows": rows, "dropped": 1, "accuracy": 0.9, "plausibility": 0.8, "shares": {"a": 0.7, HOSTILE: 0.3}}
    facts = {"batch": batch, "rows": batch * rows, "event": "learned", "time": "2026-01-02T03:04:05+01:00", "new": new}
    return json.dumps(
        {**facts, "version": "0.1.0", "file": f"day{batch // 3}.csv", "seconds": 0.01, "alarms": [], **more}
    )


@pytest.fixture
def log(tmp_path):
    alarm = {"signal": "accuracy", "row": 500, "before": 0.9, "after": 0.5, "text": f"accuracy fell {HOSTILE}"}
    lines = [line(number) for number in range(1, 9)]
    lines[4] = line(5, alarms=[alarm])
    lines.insert(5, json.dumps({"batch": 5, "rows": 500, "event": "waiting", "waiting": 17, "oldest": None}))
    lines += ['{"batch": 3, "rows', "[]", '{"batch": -1, "rows": 3}', "NaN", ""]
    lines.append(json.dumps({"batch": 8, "rows": 800, "event": "put aside", "file": HOSTILE, "reason": "row 3 is odd"}))
    lines.append(json.dumps({"batch": 8, "rows": 800, "event": "refused", "reason": "no such column"}))
    (tmp_path / "log").write_text("\n".join(lines))
    return tmp_path / "log"


def test_a_log_is_read_and_damaged_lines_are_counted(log):
    book = read_log(log)
    assert (book.n_rows, book.n_lines, book.n_damaged) == (800, 15, 4)
    assert [one.reason for one in (*book.put_aside, *book.refused)] == ["row 3 is odd", "no such column"]
    assert [(one.at, one.signal) for one in book.alarms] == [(500, "accuracy")]
    assert [one.n_rows for one in book.by_file()] == [200, 300, 300, 0, 0]
    assert book.by_file()[1].accuracy == pytest.approx(0.9)


def test_lines_of_the_first_version_are_read(tmp_path):
    old = {"epoch": 0, "recent_accuracy": 0.9, "recent_plausibility": 0.7, "dropped": 0, "classes": 3}
    lines = [json.dumps({"batch": 16 * i, "rows": 1600 * i, **old, "drift": i == 3}) for i in (1, 2, 3)]
    (tmp_path / "log").write_text("\n".join(lines))
    book = read_log(tmp_path / "log")
    assert [one.n_rows for one in book.entries] == [1600] * 3
    assert len(book.alarms) == 1


def test_the_page_is_one_file_with_nothing_of_the_data_as_markup(log, tmp_path):
    path = tmp_path / "watch.html"
    write_page(read_log(log), path, title=HOSTILE)
    page = path.read_text()
    assert HOSTILE not in page
    assert page.count("<script") == 1
    assert not re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//", page)
    assert "default-src 'none'" in page
    assert "1 alarm" in page
    assert "row 3 is odd" in page
    assert "4 of 15 lines, which are damaged" in page
    assert "Rows that wait for a label" in page
    assert page.count('class="chart"') == 4
    write_page(read_log(log), path)  # its own kind may be replaced
    assert "<title>log</title>" in path.read_text()


def test_a_long_log_is_thinned(tmp_path):
    lines = [line(number) for number in range(1, 5001)]
    (tmp_path / "log").write_text("\n".join(lines))
    book = read_log(tmp_path / "log")
    points = book.thinned(300)
    assert len(points) <= 300
    assert sum(one.n_rows for one in points) == 500_000
    write_page(book, tmp_path / "watch.html")
    assert (tmp_path / "watch.html").stat().st_size < 400_000


def test_the_command_prints_writes_and_refuses(log, tmp_path):
    def run(*args):
        return CliRunner().invoke(main, ["watch", *map(str, args)])

    done = run(log, "-o", tmp_path / "watch.html")
    assert done.exit_code == 0
    assert re.search(r"alarms +1, the latest", done.stdout)
    assert (tmp_path / "watch.html").exists()
    assert run(log, "-q").stdout == ""
    (tmp_path / "empty").write_text("")
    (tmp_path / "other").write_text("a,b\n1,2\n")
    for name, words in (("empty", "holds no line of a log."), ("other", "2 lines are not"), ("none", "No such file")):
        refused = run(tmp_path / name)
        assert refused.exit_code == 2
        assert words in refused.stderr
    assert "input" in run(log, "-o", log).stderr
