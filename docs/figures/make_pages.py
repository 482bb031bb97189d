"""Take the pictures of the audit's page: ``python docs/figures/make_pages.py [FOLDER]``.

Needs playwright and chromium (``make parts``). The data is scikit-learn's wine with a fifth of its labels wrong, so
that everybody gets the same page. With a folder, all four sizes in both schemes are written there, to be looked at.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright
from sklearn.datasets import load_wine

import nearkin

HERE = Path(__file__).parent
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "laptop": (1280, 860), "desktop": (1920, 1080)}
CULTIVARS = np.array(["Barolo", "Grignolino", "Barbera"])


def write_page(path: Path) -> tuple[nearkin.LabelAudit, np.ndarray]:
    """Audit the wines and write the page; return the audit and which labels are wrong."""
    wine = load_wine(as_frame=True)
    given, is_wrong = nearkin.flip_labels(CULTIVARS[wine.target], 0.2, random_state=0)
    audit = nearkin.audit_labels(wine.data, given, random_state=0)
    audit.to_html(path, title="wine.csv")
    return audit, is_wrong


def take(browser: Browser, page_file: Path, is_wrong: np.ndarray, size: str, scheme: str, to: dict[str, Path]) -> None:
    """Take the pictures named in ``to``: "top", "review", "checked" or "whole"."""
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.wait_for_timeout(300)
    if "top" in to:
        page.screenshot(path=to["top"])
    if "whole" in to:
        page.screenshot(path=to["whole"], full_page=True)
    page.locator("#review").click()
    page.wait_for_timeout(200)
    if "review" in to:
        page.screenshot(path=to["review"])
    page.keyboard.press("Escape")
    if "checked" in to:
        page.locator("#check-begin").click()
        while page.locator("#room").is_visible():
            row = int(page.locator("#room-title").inner_text().split()[-1])
            page.keyboard.press("w" if is_wrong[row] else "r")
        page.evaluate("document.activeElement.blur()")
        page.locator("#check").screenshot(path=to["checked"])
    context.close()


def main(folder: str | None) -> None:
    chromium = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        path = Path(scratch) / "wine.html"
        _, is_wrong = write_page(path)
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        if folder is None:
            names = {"top": "audit_page.png", "review": "audit_review.png", "checked": "audit_checked.png"}
            take(browser, path, is_wrong, "laptop", "light", {name: HERE / one for name, one in names.items()})
        else:
            for size in SIZES:
                for scheme in ("light", "dark"):
                    names = {
                        name: Path(folder) / f"{size}-{scheme}-{name}.png" for name in ("review", "checked", "whole")
                    }
                    take(browser, path, is_wrong, size, scheme, names)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
