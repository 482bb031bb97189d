"""Whoever judges a row sees all of it: every column but the label, as it stands in the table."""

import base64
import csv
import json
import re
import zlib

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from browsing import IN_BROWSER
from nearkin.cli import main


def inflated(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def values_of(path):
    """What the page holds: the names of the columns, and the values of every row."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)[1])
    return inflated(data["cellNames"]), {int(row): one for row, one in inflated(data["cells"]).items()}, data


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file with numbers, a category, a text in words that repeat, one in words that do not, and a date."""
    rng, words = np.random.default_rng(0), ("mild", "strong", "pain", "after", "walking", "rest", "dizzy", "cough")
    notes = [" ".join(rng.choice(words, 12)) + " and so on, as it was told" for _ in range(120)]
    lines = []
    for i in range(240):
        c = i % 3
        said = (c + 1) % 3 if i % 9 == 0 else c
        lines.append([
            f"C-{i // 2}", f"{4.0 * c + rng.normal():.2f}", f"{rng.normal() - 2 * c:.1f}", ("red", "", "blue")[i % 3],
            notes[i % 120], f"2024-01-{1 + i % 28:02}", f"Report {i}: " + "a long text. " * 9, "abc"[said],
        ])  # fmt: skip
    path = tmp_path_factory.mktemp("table") / "cases.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["case", "size", "depth", "colour", "note", "day", "report", "label"], *lines])
    made = CliRunner().invoke(
        main,
        [
            "audit",
            str(path),
            "--label",
            "label",
            "--id",
            "case",
            "--drop",
            "colour",
            "-q",
            "-o",
            str(path.with_suffix(".html")),
        ],
    )
    assert made.exit_code == 0, made.output
    return path, lines


def test_every_column_but_the_label_is_there_as_it_stands_in_the_file(table):
    path, lines = table
    names, values, data = values_of(path.with_suffix(".html"))
    assert names == ["case", "size", "depth", "colour", "note", "day", "report"]
    assert data["suspects"] > 10 and len(values) >= max(50, data["suspects"])
    for row, found in values.items():
        case, size, depth, colour, note, day, report, _ = lines[row]
        assert found[0] == case and [float(one) for one in found[1:3]] == [float(size), float(depth)]
        assert found[3] == (colour or "missing") and found[4:] == [note, day, report]


def test_a_frame_shows_its_own_columns_also_where_rows_have_no_label(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(table[0])
    frame.loc[:4, "label"] = None
    audit = nearkin.audit_labels(frame, "label", random_state=0)
    audit.to_html(tmp_path / "page.html")
    names, values, _ = values_of(tmp_path / "page.html")
    assert names == [one for one in frame.columns if one != "label"]
    for row, found in values.items():
        assert found[names.index("report")] == frame["report"][int(audit.numbers()[row])]


def test_what_a_review_wrote_beside_the_label_is_not_shown(table, tmp_path):
    lines = table[1]
    with (tmp_path / "mended.csv").open("w", newline="") as file:
        head = ["size", "depth", "label", "row", "given_label", "decision"]
        csv.writer(file).writerows([head, *([*one[1:3], one[-1], i, one[-1], ""] for i, one in enumerate(lines))])
    path = tmp_path / "mended.html"
    made = CliRunner().invoke(main, ["audit", str(tmp_path / "mended.csv"), "--label", "label", "-q", "-o", str(path)])
    assert made.exit_code == 0, made.output
    assert values_of(path)[0] == ["size", "depth"]


def test_a_page_of_wide_rows_stays_small_and_says_what_it_lacks(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng, n = np.random.default_rng(0), 3000
    y = np.arange(n) % 2
    frame = pandas.DataFrame({f"v{j}": rng.normal(size=n) + (j < 5) * y for j in range(300)}).round(6)
    frame["label"] = np.where(rng.random(n) < 0.2, 1 - y, y)
    audit = nearkin.audit_labels(frame, "label", random_state=0)
    audit.to_html(tmp_path / "page.html")
    names, values, data = values_of(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 5_000_000
    assert len(data["cells"]) <= 1_000_000 and len(names) + data["cellsMore"] == 300
    assert names[:40] == [f"v{j}" for j in range(40)]
    assert set(audit.review_sample().to_review.tolist()) <= set(values)
    if data["cellsMore"]:
        assert f"The values of the last {data['cellsMore']} columns" in (tmp_path / "page.html").read_text()


class TestInBrowser:
    pytestmark = IN_BROWSER

    def test_the_sample_shows_the_text_that_was_learned_as_categories(self, open_page, table):
        path, lines = table
        page = open_page(path.with_suffix(".html"))
        page.locator("#check-begin").click()
        _, values, data = values_of(path.with_suffix(".html"))
        row = data["sample"]["row"][0]
        shown = page.locator("#room .row-cells dd").all_inner_texts()
        assert shown == values[row] and lines[row][6] in shown
        assert page.locator("#room .row-cells .long dd").last.is_visible()

    @pytest.mark.parametrize("width", [1400, 390])
    def test_a_closer_look_at_a_suspect_shows_its_values_inside_of_the_window(self, open_page, table, width):
        page = open_page(table[0].with_suffix(".html"))
        page.set_viewport_size({"width": width, "height": 800})
        page.locator("#review").click()
        values = page.locator("#room .all-values dl")
        assert values.is_hidden()
        page.keyboard.press("l")
        line = page.locator("#room .all-values dl div").first
        line.wait_for()
        box, keys = line.bounding_box(), page.locator("#room .keys").bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= keys["y"]
        page.keyboard.press("n")
        assert values.is_visible()  # it stays open from row to row
        page.locator("#room .all-values summary").click()
        page.keyboard.press("n")
        assert values.is_hidden()
        assert page.evaluate(
            "document.querySelector('#room').scrollWidth <= document.querySelector('#room').clientWidth"
        )

    def test_of_many_columns_the_first_are_shown_and_a_button_shows_the_others(self, open_page, tmp_path):
        rng = np.random.default_rng(0)
        y = np.arange(120) % 2
        X = rng.normal(size=(120, 60)) + 3 * y[:, None]
        pandas = pytest.importorskip("pandas")
        nearkin.audit_labels(pandas.DataFrame(X).add_prefix("v"), y, random_state=0).to_html(tmp_path / "page.html")
        page = open_page(tmp_path / "page.html")
        page.locator("#check-begin").click()
        shown = page.locator("#room .row-cells dt:visible")
        assert shown.count() == 40
        page.get_by_role("button", name="Show the other 20 columns").click()
        assert shown.count() == 60
        page.keyboard.press("r")
        assert shown.count() == 60
