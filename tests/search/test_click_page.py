"""The page of clicks: what it holds, what a real browser shows, and decisions that come back."""

import json
import os
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from nearkin.cli import main
from nearkin.search import Feedback, adapt, read_decisions, write_click_page
from search_worlds import turned

BROWSER = os.environ.get("NEARKIN_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "</script><script>document.title='hit'</script>"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A page of a small world in which some clicks fall on items of other topics, with hostile ids and texts."""
    rng = np.random.default_rng(0)
    queries, items, relevant = turned(rng, n_queries=150, n_items=200)
    rows = []
    for n in range(900):
        q = int(rng.integers(150))
        shown = np.concatenate([rng.choice(np.flatnonzero(relevant[q]), 3), rng.integers(0, 200, 5)])
        shown = rng.permutation(np.unique(shown))
        rows += [(n, q, i, int((relevant[q, i] and rng.random() < 0.7) or rng.random() < 0.03)) for i in shown]
    query_ids = np.array([f"=q{i},{HOSTILE}" for i in range(150)])
    item_ids = np.array([f"i{i}\u202e" for i in range(200)])
    n, q, i, clicked = np.array(rows).T
    feedback = Feedback.from_impressions(
        n, query_ids[q], item_ids[i], clicked, query_ids=query_ids, item_ids=item_ids, bad="skip"
    )
    done = adapt(queries, items, feedback, random_state=0)
    path = tmp_path_factory.mktemp("page") / "clicks.html"
    ids = {"query_ids": query_ids, "item_ids": item_ids}
    texts = [f"text {j} {HOSTILE}" for j in range(150)]
    write_click_page(done, queries, items, path, **ids, query_texts=texts, title="A <title>")
    return path, done, relevant, ids, (queries, items)


def suspects_of(path):
    text = path.read_text()
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def test_the_page_lists_the_least_plausible_clicks_with_evidence(made, tmp_path):
    path, done, relevant, ids, vectors = made
    held = suspects_of(path)
    found = held["suspects"]
    assert 10 < len(found) <= 300 and [one["p"] for one in found] == sorted(one["p"] for one in found)
    wrong = [not relevant[one["q"], one["i"]] for one in found[:20]]
    assert np.mean(wrong) > 0.5  # though hardly a tenth of all clicks are
    for one in found:
        assert [one["i"], 1] in one["list"] and 1 <= len(one["near"]) <= 5 and one["clicks"] <= one["shown"]
        assert held["queries"][str(one["q"])][0] == ids["query_ids"][one["q"]]
    assert "http" not in path.read_text().replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    kept = {(found[0]["q"], found[0]["i"])}
    write_click_page(done, *vectors, tmp_path / "again.html", kept=kept)
    again = suspects_of(tmp_path / "again.html")["suspects"]
    assert (again[0]["q"], again[0]["i"]) == (found[1]["q"], found[1]["i"])


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no browser here: pages were not tested (apt-get install chromium)")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_in_a_browser_clicks_are_decided_and_decisions_come_back(made, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here")
    path, done, _, ids, _ = made
    found = suspects_of(path)["suspects"]
    said = []
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = opened.new_context(viewport={"width": 390, "height": 800}, accept_downloads=True).new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        assert page.title() == "A <title>"
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.locator(".decide select").nth(0).select_option("wrong")
        page.locator(".decide select").nth(1).select_option("keep")
        more = page.locator(".why button").nth(0)
        more.focus()
        page.keyboard.press("Enter")
        assert more.get_attribute("aria-expanded") == "true" and page.locator(".detail").count() == 1
        page.fill("#query", f"text {found[2]['q']} ")
        assert page.locator("#body tr:not(.detail)").count() < 5
        for button, name in (("#download", "decisions.csv"), ("#download-json", "decisions.jsonl")):
            with page.expect_download() as download:
                page.click(button)
            assert download.value.suggested_filename == name
            download.value.save_as(tmp_path / name)
        opened.close()
    assert said == []
    for name in ("decisions.csv", "decisions.jsonl"):
        decided = read_decisions(tmp_path / name, **ids)
        assert decided.query.tolist() == [one["q"] for one in found[:2]]
        assert decided.is_wrong.tolist() == [True, False] and decided.kept == {(found[1]["q"], found[1]["i"])}
        assert decided.apply(done.feedback).n_clicks == done.feedback.n_clicks - found[0]["clicks"]


def test_the_command_writes_the_page_and_takes_decisions(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    queries, items, relevant = turned(rng, n_queries=80, n_items=100)
    np.save("q.npy", queries)
    np.save("d.npy", items)
    shown = {q: [int(i) for i in np.flatnonzero(relevant[q])[:3]] + [q] for q in range(80) if relevant[q].any()}
    lines = [json.dumps({"query": q, "items": one, "clicks": [1]}) for q, one in shown.items()]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (tmp_path / "texts.txt").write_text("\n".join(f"text {i}" for i in range(80)))
    run = ["adapt", "--queries", "q.npy", "--items", "d.npy", "--feedback", "log.jsonl", "-o", "a.nearkin"]
    run += ["--clicks-as", "positions"]
    done = CliRunner().invoke(main, [*run, "--page", "c.html", "--query-texts", "texts.txt"])
    assert done.exit_code == 0, done.output
    assert "page" in done.output and "text 1" in (tmp_path / "c.html").read_text()
    first = json.loads(lines[0])
    (tmp_path / "decisions.csv").write_text(
        f"query,item,decision\n{first['query']},{first['items'][0]},wrong\nx,y,keep\n0,99,wrong\n0,99,keep\n"
    )
    done = CliRunner().invoke(main, [*run, "--decisions", "decisions.csv"])
    told = " ".join(done.output.split())
    assert done.exit_code == 0 and "1 clicked pair is wrong, 0 right; 1 pair was never clicked in this log" in told
    assert "1 pair was decided both ways, the last one holds; 1 about queries" in told
    for more, message in (
        (["--query-texts", "texts.txt"], "--query-texts is for the page"),
        (["--page", "c.html", "--item-texts", "texts.txt"], "texts.txt holds 80 lines for 100 vectors"),
        (["--decisions", "texts.txt"], "texts.txt holds no decisions"),
    ):
        done = CliRunner().invoke(main, [*run, *more])
        assert done.exit_code == 2 and message in done.output and done.output.count("\n") == 1
