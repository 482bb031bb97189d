"""The blocks of other packages on the pages that set them beside ours run, where these packages are installed."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from test_examples import python_blocks

ROOT = Path(__file__).resolve().parents[1]
#: Not among the parts that `make parts` installs: run where they are, and missed nowhere.
BY_HAND = {"umap", "capymoa", "metric_learn"}

#: What a room of ours needs.
OF_ROOMS = {"nearkin.deep": "pytorch_metric_learning", "nearkin.river": "river"}


def blocks(page):
    """What a page shows and does not run by itself, with the package that each block needs."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for code in re.findall(r"^```\{code-block\} python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        found = re.findall(r"^(?:from|import) ([\w.]+)", code, re.MULTILINE)
        packages = [OF_ROOMS.get(one, one).partition(".")[0] for one in found]
        yield next(one for one in packages if one not in ("nearkin", "sklearn", "torch")), code


PAGES = ("docs/coming-from.md", "docs/with-others.md")
CASES = sorted({(page, package) for page in PAGES for package, _ in blocks(page)})


@pytest.mark.slow
@pytest.mark.parametrize(("page", "package"), [one for one in CASES if one[1] not in BY_HAND or find_spec(one[1])])
def test_blocks_of_others_run(page, package, tmp_path):
    if find_spec(package) is None:
        pytest.skip(f"{page} needs {package}")
    script = tmp_path / "blocks.py"
    script.write_text(
        "\n".join([python_blocks(ROOT / page), *(code for needs, code in blocks(page) if needs == package)])
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_package_of_the_pages_is_found():
    shown = {package for _, package in CASES}
    assert shown == {"cleanlab", "river", "pytorch_metric_learning", "metric_learn", "umap", "capymoa"}
    for page in PAGES:
        for _, code in blocks(page):
            ast.parse(code)
