"""What else is wrong with the data, as the page shows it: real clicks, and names that attack."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import nearkin
from browsing import IN_BROWSER

pytestmark = IN_BROWSER
NAMES = np.array(["<b onclick=alert(1)>cat</b>", "dog\u202e", "</script><script>alert(1)</script>", "=SUM(A1)"])
COLUMN = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    rng = np.random.default_rng(0)
    X, y = make_blobs(600, 5, centers=4, cluster_std=4.0, random_state=3)
    y[200:260] = rng.permutation(y[200:260])
    X[[599, 598]] = X[[7, 9]]
    y[599], y[598] = (y[7] + 1) % 4, y[9]
    X[300] += 200.0
    labels = NAMES[y].astype(object)
    labels[[0, 1]] = None
    labels[::9] = np.where(labels[::9] == NAMES[1], "Dog\u202e", labels[::9])
    with pytest.warns(UserWarning, match="look the same"):
        audit = nearkin.audit_labels(X, labels.tolist(), random_state=0)
    folder = tmp_path_factory.mktemp("page")
    audit.to_html(folder / "plain.html")
    ids = [f"<i>{row}</i>\u202e" for row in range(600)]
    audit.to_html(folder / "named.html", ids={"id": ids})
    return folder, audit


def part_of(page, title):
    return page.locator(".finding", has=page.get_by_text(title, exact=True))


def test_every_finding_is_shown_as_plain_text(open_page, made):
    folder, audit = made
    page = open_page(folder / "plain.html")
    assert page.locator(".finding").count() == len(audit.findings)
    assert {"conflicts", "far", "copies", "spellings", "order", "unlabelled"} <= {one.kind for one in audit.findings}
    for one in audit.findings:
        part = part_of(page, one.title)
        assert not part.locator("p").first.is_visible()
        part.locator("summary").click()
        assert part.locator("p").first.inner_text() == f"{one.meaning} {one.advice}"
        assert part.locator("li").all_inner_texts() == list(one.items)
        assert part.locator("summary b").inner_text() == f"{one.count:,}"
        named = ", ".join(map(str, one.numbers[:20].tolist())) + (
            f" and {len(one.rows) - 20} more" * (len(one.rows) > 20)
        )
        assert not len(one.rows) or part.locator(".rows").inner_text() == f"Rows: {named}"
    assert page.locator(".finding img, .finding i, .finding script").count() == 0


def test_a_column_that_gives_the_label_away_is_named(open_page, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = make_blobs(300, 5, centers=2, cluster_std=9.0, random_state=3)
    audit = nearkin.audit_labels(pandas.DataFrame(X).add_prefix("x").assign(**{COLUMN: y}), NAMES[y], random_state=0)
    audit.to_html(tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    part = part_of(page, "columns that give the label away")
    part.locator("summary").click()
    (note,) = [one for one in audit.notes if "gives the label away" in one]
    assert "may be far too low" in note and note in page.locator(".caution").all_inner_texts()
    assert part.locator("li").all_inner_texts() == [COLUMN] and page.locator(".finding img").count() == 0


def test_a_finding_narrows_the_table_to_its_suspects_until_cleared(open_page, made):
    folder, audit = made
    page = open_page(folder / "plain.html")
    told = next(one for one in audit.findings if one.kind == "copies")
    suspects = [row for row in audit.order[: audit.n_suspects].tolist() if row in set(told.rows.tolist())]
    assert suspects
    part = part_of(page, told.title)
    part.locator("summary").click()
    button = part.get_by_role("button", name="Show")
    assert ("the suspect" if len(suspects) == 1 else f"the {len(suspects)} suspects") in button.inner_text()
    page.locator("#query").fill("nothing has this name")
    button.click()
    page.locator("#among").wait_for()
    assert told.title in page.locator("#among").inner_text()
    rows = page.locator("#body tr").evaluate_all("lines => lines.map((line) => Number(line.dataset.row))")
    assert rows == suspects
    page.locator("#filters button[type=reset]").click()
    page.locator("#count", has_text=f"{audit.n_wrong} wrong").wait_for()
    assert page.locator("#among").is_hidden()


def test_a_finding_names_its_rows_and_offers_to_look_at_them(open_page, made):
    folder, audit = made
    page = open_page(folder / "named.html")
    for one in audit.findings:
        part = part_of(page, one.title)
        part.locator("summary").click()
        concerned = one.rows if len(one.rows) else np.isin(audit.given_code, one.codes)
        has_suspects = bool(audit.is_suspect[concerned].any())
        assert part.get_by_role("button", name="Show").count() == int(has_suspects), one.kind
        assert part.get_by_role("button", name="Look at").count() == int(len(one.rows) > 0), one.kind
        if len(one.rows):
            first = audit.numbers()[one.rows[0]]
            assert part.locator(".rows bdi").first.inner_text() == f"<i>{first}</i>\\u202e"


def test_a_finding_about_classes_shows_the_suspects_that_bear_their_labels(open_page, made):
    folder, audit = made
    page = open_page(folder / "plain.html")
    told = next(one for one in audit.findings if one.kind == "spellings")
    assert {str(audit.classes[code]).lower() for code in told.codes} == {"dog\u202e"} and len(told.codes) == 2
    suspects = [row for row in audit.order[: audit.n_suspects].tolist() if audit.given_code[row] in told.codes]
    part = part_of(page, told.title)
    part.locator("summary").click()
    button = part.get_by_role("button", name="Show")
    assert button.inner_text() == f"Show the {len(suspects)} suspects of these classes"
    assert part.get_by_role("button", name="Look at").count() == 0 and part.locator(".rows").is_hidden()
    button.click()
    page.locator("#among").wait_for()
    rows = page.locator("#body tr").evaluate_all("lines => lines.map((line) => Number(line.dataset.row))")
    assert len(suspects) > 1 and rows == suspects[:50]


def test_rows_of_a_finding_are_looked_at_one_by_one_with_all_their_values(open_page, made, tmp_path):
    folder, audit = made
    page = open_page(folder / "plain.html")
    told = next(one for one in audit.findings if one.kind == "far")
    part = part_of(page, told.title)
    part.locator("summary").click()
    part.get_by_role("button", name="Look at").click()
    row = next(one for one in told.rows[:20].tolist() if not audit.is_suspect[one])
    for _ in range(told.rows.tolist().index(row)):
        page.keyboard.press("n")
    assert page.locator("#room-title").inner_text() == f"Row {audit.numbers()[row]}"
    assert page.locator("#room .row-cells dt").count() == len(audit.contrast.columns[:40])
    assert page.locator("#room [data-key=a]").is_hidden() and page.locator("#room [data-key=d]").is_visible()
    page.keyboard.press("a")  # there is no suggestion to accept
    page.keyboard.press("d")
    page.keyboard.press("Escape")
    with page.expect_download() as waiting:
        page.locator("#export").click()
    waiting.value.save_as(tmp_path / "decisions.json")
    done = audit.apply(tmp_path / "decisions.json")
    assert not done.kept[row] and done.n_decided == 1


def test_keys_open_a_finding_and_a_phone_shows_it_whole(open_page, made):
    page = open_page(made[0] / "plain.html")
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator(".finding summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".finding p").first.is_visible()
    for part in page.locator(".finding summary").all()[1:]:
        part.click()
    wide = page.locator(".finding").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
    )
    assert wide == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
