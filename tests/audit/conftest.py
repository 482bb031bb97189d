"""Pages are drawn with few steps of the layout, which only makes them less pretty."""

import pytest

from browsing import BROWSER, FLAGS
from nearkin.audit.page import contents, layout


@pytest.fixture(scope="session", autouse=True)
def _hasty_layout():
    patch = pytest.MonkeyPatch()
    patch.setattr(layout, "_STEPS", 300)
    patch.setattr(contents, "_LANDMARKS", 120)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser):
    """Open a page in a browser that forgets; anything it says, any error and any request is a failure."""
    contexts, said = [], []

    def opening(path, context=None, **options):
        if context is None:
            context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True, **options)
            contexts.append(context)
        opened = context.new_page()
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on(
            "request", lambda one: said.append(one.url) if not one.url.startswith(("file:", "data:", "blob:")) else None
        )
        opened.goto(path.as_uri())
        opened.wait_for_selector("html[data-ready=yes]")
        return opened

    yield opening
    for context in contexts:
        context.close()
    assert said == []
