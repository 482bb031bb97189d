"""How quick the page of a large audit is under real keys and clicks: ``python -m benchmarks.page``.

20,000 rows of 50 classes, a tenth of the labels wrong, with names, labels and texts that try to break out of their
place. The page is opened in Debian's chromium (``make parts``). A time is that from the key or the click, as the
browser stamps it, to the end of the frame that shows what became of it. The record is benchmarks/results/page.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import nearkin

from .settings import HERE

N_ROWS, N_CLASSES, N_FEATURES = 20_000, 50, 20
N_LOADS, N_DECISIONS = 9, 60
HOSTILE = (
    "</script><script>document.title='hit'</script>",
    "\"'`${x}",
    "שלום\u202eabc",
    "👩‍👩‍👧 family",
    "=cmd|'/c calc'!A1",
)
#: Keeps, for every key and click, the milliseconds until the next frame is through.
WATCH = """() => { window.took = []; for (const kind of ["keydown", "click", "input", "change"])
  addEventListener(kind, (event) => { const begun = event.timeStamp;
    requestAnimationFrame(() => { const channel = new MessageChannel();
      channel.port1.onmessage = () => took.push(performance.now() - begun);
      channel.port2.postMessage(0); }); }, true); }"""


def write_page(path: Path) -> nearkin.LabelAudit:
    """Audit rows of 50 classes with wrong labels and write the page."""
    rng = np.random.default_rng(0)
    y = np.arange(N_ROWS) % N_CLASSES
    X = (2.2 * rng.normal(size=(N_CLASSES, N_FEATURES)))[y] + 1.3 * rng.normal(size=(N_ROWS, N_FEATURES))
    noisy, _ = nearkin.flip_labels(y, 0.1, random_state=0)
    names = [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(N_CLASSES)]
    audit = nearkin.audit_labels(X, [names[i] for i in noisy], random_state=0)
    words = rng.integers(10**9, 10**10, N_ROWS)  # that no packing makes small
    ids = [f"{i} {HOSTILE[i % len(HOSTILE)]}" for i in range(N_ROWS)]
    texts = [
        " ".join(map(str, [HOSTILE[i % len(HOSTILE)], *words.take(range(i, i + 900), mode="wrap")]))
        for i in range(N_ROWS)
    ]
    audit.to_html(path, title=HOSTILE[0], ids={"name": ids}, texts=texts)
    return audit


def wait_for(page: Any, script: str, is_there: Callable[[Any], bool]) -> Any:
    """Return what a script says once it is there; the page's policy forbids playwright's own way to wait."""
    while not is_there(found := page.evaluate(script)):
        page.wait_for_timeout(5)
    return found


def measure_loads(browser: Any, path: Path) -> dict[str, list[float]]:
    """Open the page in empty browsers: when it is first painted, and when it can be used."""
    times: dict[str, list[float]] = {"first paint": [], "ready to decide": []}
    for _ in range(N_LOADS):
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        page = context.new_page()
        page.add_init_script(
            "window.readyAt = null; new MutationObserver(() => {"
            " if (document.documentElement.dataset.ready) readyAt ??= performance.now(); })"
            ".observe(document, { subtree: true, attributes: true, attributeFilter: ['data-ready'] })"
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        paint, ready = wait_for(
            page, "[performance.getEntriesByName('first-contentful-paint')[0]?.startTime, window.readyAt]", all
        )
        times["first paint"].append(paint)
        times["ready to decide"].append(ready)
        context.close()
    return times


def measure_work(browser: Any, path: Path) -> dict[str, list[float]]:
    """Work in the page as a reader does."""
    page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.evaluate(WATCH)

    def timed(act: Callable[[], Any]) -> float:
        page.evaluate("took.length = 0")
        act()
        return float(max(wait_for(page, "took", bool)))

    def keys(letters: str) -> list[float]:
        return [timed(partial(page.keyboard.press, letters[i % len(letters)])) for i in range(N_DECISIONS)]

    def clicks(target: Any, n: int) -> list[float]:
        return [timed(target.click) for _ in range(n)]

    times: dict[str, list[float]] = {}
    page.locator("#review").click()
    times["decide by key and see the next row"] = keys("akd")
    page.keyboard.press("l")
    times["the same, looking closer"] = keys("akd")
    times["undo by key"] = keys("u")
    page.keyboard.press("Escape")
    page.locator("#check-begin").click()
    times["answer in the check by sample"] = [timed(partial(page.keyboard.press, "r")) for _ in range(40)]
    page.keyboard.press("Escape")
    choices = page.locator("#body select")
    times["decide in the table"] = [
        timed(partial(choices.nth(i).select_option, "3")) for i in range(30)
    ]  # fmt: skip
    times["open the evidence of a row"] = []
    for i in range(20):
        times["open the evidence of a row"].append(timed(page.locator("#body .why button").nth(i).click))
        page.keyboard.press("Escape")
    times["sort a column"] = clicks(page.locator("th[data-key=plausibility] button"), 15)
    page.locator("#query").click()
    times["a letter in the search"] = [timed(partial(page.keyboard.press, one)) for one in "family 2"]
    page.locator("#filters button[type=reset]").click()
    page.wait_for_timeout(200)
    times["decide about all suspects at once"] = clicks(page.locator("#bulk button[value='2']"), 9)
    assert page.title() != "hit"
    page.context.close()
    return times


def tell(times: dict[str, list[float]]) -> Iterator[str]:
    for name, some in times.items():
        yield f"| {name} | {statistics.median(some):.0f} | {max(some):.0f} | {len(some)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__).parse_args(arguments)
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        path = Path(scratch) / "page.html"
        audit = write_page(path)
        chromium = os.environ.get("NEARKIN_BROWSER") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        times = measure_loads(browser, path) | measure_work(browser, path)
        version, size = browser.version, path.stat().st_size
        browser.close()
    facts = (
        f"{audit.n_rows:,} rows, {audit.n_suspects:,} suspects, {len(audit.classes)} classes; every row with a "
        f"name and a text of 10 kB. The file has {size / 1e6:.2f} MB. Chromium {version.split('.')[0]} without a "
        f"graphics card, {os.cpu_count()} cores that other work shared. `python -m benchmarks.page`."
    )
    text = "\n".join([facts, "", "| milliseconds | median | worst | times |", "|---|---|---|---|", *tell(times), ""])
    (HERE / "results" / "page.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
