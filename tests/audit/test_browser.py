"""The page in a real browser: Debian's chromium, driven by playwright."""

import csv
import json

import numpy as np
import pytest

import nearkin
from browsing import IN_BROWSER
from nearkin import streams
from nearkin.errors import printable
from nearkin.tables.cells import unquote_formula

HOSTILE = [
    "</script><script>document.title='hit'</script>",
    "<img src=x onerror=\"document.title='hit'\">",
    "שלום\u202eabc",
]
#: Elements whose text does not stand out from its ground by 4.5, the level AA of the WCAG.
PALE = """() => {
  const part = (x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(part);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!colour.startsWith("rgba(0, 0, 0, 0")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const pale = [];
  for (const one of document.querySelectorAll("h1,h2,p,dt,dd,th,td,bdi,button,label,figcaption")) {
    if (!one.offsetWidth || !one.textContent.trim() || one.closest("[hidden],.hidden,.skip,#tip")) continue;
    if (ground(one).startsWith("color(")) continue; /* mixed, with the ink of all text on it */
    const both = [light(getComputedStyle(one).color), light(ground(one))];
    const contrast = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (contrast < 4.5) pale.push([one.tagName, one.className, one.textContent.slice(0, 20), contrast]);
  }
  return pale;
}"""

pytestmark = IN_BROWSER


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A page with hostile labels, ids and texts, and the audit behind it."""
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(600) % 3)
    X = (1.5 * rng.normal(size=(3, 5)))[y] + rng.normal(size=(600, 5))
    given, _ = nearkin.flip_labels(np.array(HOSTILE)[y], 0.2, random_state=0)
    audit = nearkin.audit_labels(X, given, random_state=0)
    ids = [f'<b onclick="x">{i}</b>,"{i}"' for i in range(600)]
    texts = [f"text of {i} </td><script>document.title='hit'</script>" for i in range(600)]
    audit.to_html(folder / "page.html", title="A <title>", ids={"name, of row": ids}, texts=texts)
    return folder / "page.html", audit, ids


@pytest.fixture
def page(open_page, made):
    return open_page(made[0])


def cells(page, column):
    return page.locator(f"#body tr td:nth-child({column})").all_inner_texts()


def test_it_opens_with_the_most_doubtful_rows(page, made):
    _, audit, ids = made
    shown = page.locator("#body tr td:nth-child(1) .name > div > bdi").all_inner_texts()
    assert shown == [ids[row] for row in audit.order[:50]]
    n_look = audit.n_suspects - audit.n_wrong
    assert page.locator("#count").inner_text().startswith(f"{audit.n_wrong} wrong, {n_look} worth a look")
    tiers = page.locator("#body .tier").all_inner_texts()
    assert tiers == [{"wrong": "wrong", "look": "worth a look"}[one] for one in audit.tier[audit.order[:50]]]
    rate = f"{100 * audit.noise_rate:.0f}\N{NO-BREAK SPACE}%"
    assert rate in page.locator("#headline").inner_text()


def test_hostile_strings_are_shown_as_text(page, made):
    _, audit, _ = made
    assert page.title() == "A <title>"
    given = cells(page, 2)
    assert given == [printable(one) for one in audit.given_label[audit.order[:50]]]
    assert page.locator("#body script, #body b, .matrix script, .matrix img, .mini img").count() == 0
    # A label that writes from right to left does not turn its surroundings round.
    assert page.locator("#body td:nth-child(2) bdi").count() == 50
    assert "<script>" in page.locator("#body .text").first.inner_text()


@pytest.mark.parametrize(
    ("column", "key"), [(4, "plausibility"), (5, "confidence"), (1, "row"), (2, "given"), (3, "best")]
)
def test_columns_sort_both_ways(page, made, column, key):
    _, audit, _ = made
    head = page.locator(f"th[data-key={key}]")
    head.locator("button").click()
    first = head.get_attribute("aria-sort")
    once = cells(page, column)
    head.locator("button").press("Enter")
    assert {first, head.get_attribute("aria-sort")} == {"ascending", "descending"}
    again = cells(page, column)
    assert once != again
    if column in (4, 5):
        values = {"plausibility": audit.plausibility, "confidence": audit.confidence}[key][audit.is_suspect]
        both = sorted([float(one.strip("<> ")) for one in some] for some in (once, again))
        for shown, expected in zip(both, (np.sort(values), np.sort(values)[::-1]), strict=True):
            assert shown == pytest.approx(expected[:50].tolist(), abs=0.0101)
    assert page.locator("[aria-sort]").count() == 1


def test_filters_narrow_the_table(page, made):
    _, audit, ids = made
    row = int(audit.order[60])
    page.locator("#query").fill(f">{row}<")
    assert page.locator("#body tr").count() == 1
    assert ids[row] in cells(page, 1)[0]
    page.get_by_role("button", name="Clear").click()
    page.locator("#by-given").select_option(label=HOSTILE[1])
    n = int((audit.given_label[audit.is_suspect] == HOSTILE[1]).sum())
    assert page.locator("#count").inner_text().startswith(f"{n} of {audit.n_suspects}")
    page.locator("#by-best").select_option(label=HOSTILE[0])
    both = (audit.given_label == HOSTILE[1]) & (audit.suggested_label == HOSTILE[0])
    assert page.locator("#count").inner_text().startswith(f"{int((both & audit.is_suspect).sum())} of")
    page.locator("#query").fill("there is no such row")
    assert page.locator("#body").inner_text() == "Nothing matches. Clear shows all suspects."


def test_pages_of_the_table_turn(page, made):
    audit = made[1]
    before = cells(page, 1)
    page.locator("#after").click()
    assert cells(page, 1) != before
    assert page.locator("#where").inner_text().endswith(f"of {audit.n_suspects}")
    page.locator("#before").click()
    assert cells(page, 1) == before
    assert page.locator("#before").is_disabled()


def test_evidence_opens_and_shows_the_neighbours(page, made):
    _, audit, ids = made
    why = audit.evidence(int(audit.order[1]))
    page.locator("#body tr").nth(1).locator(".why button").press("Enter")
    room = page.locator("#room")
    assert room.locator("#room-title").inner_text() == f"name, of row {ids[why.row]}"
    page.keyboard.press("l")
    lists = room.locator(".near")
    names = "li > span > bdi:nth-child(2)"
    assert lists.nth(0).locator(names).all_inner_texts() == [ids[one.row] for one in why.neighbours]
    assert lists.nth(1).locator(names).all_inner_texts() == [ids[one.row] for one in why.trusted]
    columns = room.locator(".features tbody th").all_inner_texts()
    assert columns == [one.name for one in why.features]
    assert f"{why.given.distance:.3g}" in room.inner_text()
    said = lists.nth(0).locator("li .cast").all_inner_texts()
    for text, one in zip(said, why.neighbours, strict=True):
        assert text.endswith("; itself a suspect") == one.is_suspect and all(name in text for name in one.voters)
    shares = room.locator(".opinions:not(.features) tbody td:nth-child(2)").all_inner_texts()
    assert sum(int(one.split()[0]) for one in shares) == 100
    page.keyboard.press("k")  # the line of the table is drawn again, and the focus is at the next one
    page.keyboard.press("Escape")
    focused = f"() => document.activeElement.closest('tr')?.dataset.row === '{audit.order[2]}'"
    page.wait_for_function(focused)
    page.keyboard.press("Enter")
    assert room.is_visible()
    page.keyboard.press("Escape")
    page.wait_for_function(focused)


def downloaded(page, tmp_path):
    with page.expect_download() as waiting:
        page.locator("#download").click()
    waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
    with (tmp_path / "cleaned-labels.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def by_row(rows, ids):
    """What was downloaded, by row of the audit."""
    place = {one: i for i, one in enumerate(ids)}
    return {place[one["name, of row"]]: one for one in rows}


def as_expected(found, audit, **how):
    """Whether rows, labels and confidence are those that Python gives."""
    held = audit.cleaned_columns(**how)
    assert sorted(found) == held["row"].tolist()
    for row, label, given, confidence in zip(*held.values(), strict=True):
        assert found[row]["label"] == label and found[row]["given_label"] == given
        assert float(found[row]["confidence"]) == pytest.approx(confidence, abs=0.0051)


def test_wrong_labels_are_dropped_by_default_and_those_worth_a_look_on_request(page, made, tmp_path):
    _, audit, ids = made
    for tier, n_dropped in (("wrong", audit.n_wrong), ("all", audit.n_suspects)):
        if tier == "all":
            page.locator("#rest-look").select_option(label="are dropped")
        counts = f"{600 - n_dropped} rows, 0 labels changed, {n_dropped} rows dropped"
        assert counts in page.locator("#done").inner_text()
        as_expected(by_row(downloaded(page, tmp_path), ids), audit, tier=tier)
    assert page.locator("#done").inner_text().startswith("Downloaded:")


def test_a_tier_can_be_listed_alone(page, made):
    audit = made[1]
    for name, n in (("wrong", audit.n_wrong), ("worth a look", audit.n_suspects - audit.n_wrong)):
        page.locator("#by-tier").select_option(label=name)
        assert page.locator("#count").inner_text() == f"{n} of {audit.n_suspects} suspects"
        assert set(page.locator("#body .tier").all_inner_texts()) == {name}


@pytest.mark.parametrize("least", [None, 0, 0.5])
def test_confident_suggestions_are_taken_on_request(page, made, tmp_path, least):
    _, audit, ids = made
    assert not page.locator("#least").is_visible()
    page.locator("#rest").select_option(label="take the suggested label")
    assert page.locator("#least").is_visible() and page.locator("#least").input_value() == "0.8"
    if least is not None:
        page.locator("#least").select_option(value=str(least))
    found = by_row(downloaded(page, tmp_path), ids)
    as_expected(found, audit, how="relabel", min_confidence=least)
    n_changed = sum(one["label"] != one["given_label"] for one in found.values())
    assert f"{n_changed} labels changed, {600 - len(found)} rows dropped" in page.locator("#done").inner_text()


def test_labels_may_be_kept(page, made, tmp_path):
    _, audit, ids = made
    page.locator("#rest").select_option(label="keep the given label")
    found = by_row(downloaded(page, tmp_path), ids)
    assert [found[i]["label"] for i in range(600)] == audit.given_label.tolist()
    shown = [float(found[i]["confidence"]) for i in range(600)]
    assert shown == pytest.approx(audit.plausibility.tolist(), abs=0.0051)


def test_decisions_decide_what_is_downloaded(page, made, tmp_path):
    _, audit, ids = made
    first, second, third = (int(row) for row in audit.order[:3])
    for line, choice in enumerate(("given", "drop", "suggested")):
        page.locator("#body tr").nth(line).locator("select").select_option(label=choice)
    assert "3 decided" in page.locator("#count").inner_text()
    assert f"1 label changed, {audit.n_wrong - 2} rows dropped" in page.locator("#done").inner_text()
    rows = by_row(downloaded(page, tmp_path), ids)
    assert rows[first]["label"] == audit.given_label[first]
    assert float(rows[first]["confidence"]) == pytest.approx(audit.plausibility[first], abs=0.0006)
    assert second not in rows
    assert rows[third]["label"] == audit.suggested_label[third]
    assert float(rows[third]["confidence"]) == pytest.approx(audit.confidence[third], abs=0.0011)
    assert len(rows) == 600 - audit.n_wrong + 2


def test_a_whole_tier_is_decided_at_once_and_leaving_warns_where_nothing_can_be_kept(page, made, tmp_path):
    _, audit, ids = made
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    page.locator("#query").click()  # browsers ask only those who touched the page
    page.locator("#by-tier").select_option(label="worth a look")
    page.locator("#bulk button", has_text="Drop").click()
    n_look = audit.n_suspects - audit.n_wrong
    assert f"{n_look} decided" in page.locator("#count").inner_text()
    assert f"{audit.n_suspects} rows dropped" in page.locator("#done").inner_text()
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.evaluate("setTimeout(() => location.reload())")
    page.wait_for_timeout(500)
    assert asked == ["beforeunload"]
    assert "export them before you leave" in page.locator("#kept").inner_text()
    as_expected(by_row(downloaded(page, tmp_path), ids), audit, tier="all")
    page.reload()
    page.wait_for_selector("html[data-ready=yes]")
    assert asked == ["beforeunload"]  # what was downloaded is not lost


def test_a_click_in_the_map_finds_the_row(page, made):
    audit = made[1]
    box = page.locator("#map").bounding_box()
    found = 0
    for x in range(20, int(box["width"]), 16):
        for y in range(20, int(box["height"]), 16):
            page.mouse.move(box["x"] + x, box["y"] + y)
            if "suggested" in page.locator("#tip").inner_text():
                page.mouse.click(box["x"] + x, box["y"] + y)
                page.locator("#count", has_text=f"1 of {audit.n_suspects}").wait_for()
                found = page.locator("#body tr").count()
                break
        if found:
            break
    assert found == 1
    assert page.locator("#count").inner_text().startswith(f"1 of {audit.n_suspects}")


def test_light_and_dark(browser, made):
    for scheme, other in (("light", "dark"), ("dark", "light")):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(made[0].as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        colour = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(colour)
        page.locator("#theme").click()
        after = page.evaluate(colour)
        assert page.locator("html").get_attribute("data-theme") == other
        dark, light = (before, after) if scheme == "dark" else (after, before)
        assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
        context.close()


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1280, 1920])
def test_nothing_hangs_over_the_edge(browser, made, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(made[0].as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#suspects .scroll").evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    page.locator("#review").click()
    page.keyboard.press("l")
    cut = page.locator("#room, #room section").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText.slice(0, 40))"
    )
    assert cut == []
    page.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_without_suspects_offers_nothing_to_decide(browser, tmp_path, blobs, width):
    X, y = blobs(n=60, distance=20.0)
    nearkin.audit_labels(X, y, random_state=0).to_html(tmp_path / "page.html")
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert page.locator("#count").inner_text() == "There are none."
    for part in ("#table", "#filters", "#actions", "#pager", "#rule"):
        assert not page.locator(part).is_visible()
    page.close()


def test_the_keyboard_reaches_everything_and_everything_has_a_name(page):
    seen = set()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the suspects"
    for _ in range(50):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.id || document.activeElement.closest('[data-key]')?.dataset.key")
        )
    assert {"theme", "query", "by-given", "by-best", "review", "row", "plausibility"} <= seen
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input')].filter(one =>
             !one.textContent.trim() && !one.labels?.length && !one.getAttribute('aria-label')).length"""
    )
    assert unnamed == 0
    assert page.locator("h1").count() == 1
    assert page.locator("main section:not([aria-labelledby])").count() == 0


def test_text_stands_out_from_its_ground(browser, made):
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(made[0].as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        assert page.evaluate(PALE) == []
        context.close()


#: Labels that act on terminals, pages, files and spreadsheets.
EVIL = [
    "a\x1b[31mred\x07",
    "=cmd|'/c calc'!A1",
    "b\u202egnp.exe\u2066",
    "c\x00d\x7f\x9b\ud800e",
    "f\ng\th\u2028<!--<script>",
]


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evil")
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(500) % 5)
    X = (3.0 * rng.normal(size=(5, 5)))[y] + rng.normal(size=(500, 5))
    noisy, _ = nearkin.flip_labels(y, 0.2, random_state=0)
    audit = nearkin.audit_labels(X, [EVIL[one] for one in noisy], random_state=0)
    ids = [f"{EVIL[i % 5]}{i}" for i in range(500)]
    texts = [f"first\nsecond\x1b]0;hit\x07 {EVIL[i % 5]}" for i in range(500)]
    audit.to_html(
        folder / "page.html",
        title=f"t{EVIL[3]}",
        ids={f"id{EVIL[0]}{EVIL[2]}": ids},
        texts=texts,
        notes=dict.fromkeys(EVIL, EVIL[4]),
    )
    return folder / "page.html", audit, ids


def test_characters_that_act_are_shown_as_escapes_and_downloaded_as_they_are(browser, evil, tmp_path):
    path, audit, ids = evil
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    shown = page.locator("#body tr td:nth-child(1) .name > div > bdi").all_inner_texts()
    assert shown == [printable(ids[row]) for row in audit.order[:50]]
    assert cells(page, 2) == [printable(one) for one in audit.given_label[audit.order[:50]]]
    page.locator("#body tr").first.locator(".why button").press("Enter")
    assert page.locator("#room .near li").count() > 0
    acting = """() => [document.title, document.body.innerText, ...[...document.querySelectorAll("*")].flatMap((one) =>
      [...one.attributes].map((attribute) => attribute.value))]
      .join(" ").match(/[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800]/u)"""
    assert page.evaluate(acting) is None
    assert page.locator("#body script, .notes script, .matrix script").count() == 0
    page.keyboard.press("Escape")
    page.locator("#rest").select_option(label="keep the given label")
    with page.expect_download() as waiting:
        page.locator("#download").click()
    waiting.value.save_as(tmp_path / "cleaned.csv")
    with (tmp_path / "cleaned.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    plain = [one.replace("\ud800", "\ufffd") for one in audit.given_label.tolist()]  # half a character has no bytes
    assert [unquote_formula(row[1]) for row in rows] == plain
    assert all(not row[1].startswith("=") for row in rows)
    context.close()
    assert said == []


def test_a_label_of_a_million_characters_does_not_fill_the_page(browser, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = 4.0 * y[:, None] + rng.normal(size=(120, 3))
    y[:4] = 1 - y[:4]
    long = "x" * 1_000_000
    audit = nearkin.audit_labels(X, [("short", long)[one] for one in y], random_state=0)
    audit.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 200_000
    assert len(str(audit.evidence(0))) < 3000 and all(len(value) < 500 for _, value in audit.summary())
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    assert not page.locator("#download").is_visible()  # cut labels are not given out as clean ones
    assert "longer than 100 characters of a label" in page.locator("main").inner_text()
    assert {"short", "x" * 99 + "…"} >= set(cells(page, 2))
    page.close()


def test_the_page_of_a_log_fits_every_width_and_theme_and_is_read_by_keyboard(browser, tmp_path):
    """It shares frame and style with the audit's."""
    lines = []
    for batch in range(1, 60):
        alarms = [{"signal": "accuracy", "text": HOSTILE[0]}] if batch == 30 else []
        new = {"rows": 100, "accuracy": 0.9, "plausibility": 0.8, "shares": {HOSTILE[2]: 0.6, HOSTILE[1]: 0.4}}
        facts = {"batch": batch, "rows": 100 * batch, "event": "learned", "file": "a" * 90, "seconds": 0.1}
        lines.append(json.dumps({**facts, "time": "2026-01-02T03:04:05+01:00", "new": new, "alarms": alarms}))
    (tmp_path / "log").write_text("\n".join(lines))
    streams.write_page(streams.read_log(tmp_path / "log"), tmp_path / "watch.html", title=HOSTILE[1])
    for width, scheme in ((360, "dark"), (1280, "light")):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        problems = []
        page.on("console", lambda message, found=problems: found.append(message.text))
        page.on("pageerror", lambda error, found=problems: found.append(str(error)))
        page.goto((tmp_path / "watch.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(PALE) == []
        assert page.title() != "hit"
        assert page.locator("svg.chart").count() == 3
        page.locator("#theme").click()
        assert page.evaluate(PALE) == []
        seen = set()
        for _ in range(12):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.getAttribute('aria-labelledby') || ''"))
        assert {"chart-1", "alarms-title", "files-title"} <= seen
        assert problems == []
        page.close()
