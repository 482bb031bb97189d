"""A real browser for tests of pages: Debian's chromium, driven by playwright."""

import importlib.util
import os
import shutil

import pytest

BROWSER = os.environ.get("NEARKIN_BROWSER") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-dev-shm-usage",
]
IN_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="no playwright here: pip install 'nearkin[browser]'"
    ),
    pytest.mark.skipif(BROWSER is None, reason="no browser here: pages were not tested (apt-get install chromium)"),
    # Driver and browser talk over pipes that are closed by the collector of garbage.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]
