"""Scripts and printed code run as they are shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "examples").rglob("*.py"))
PAGES = [
    "README.md", "docs/start.md", "docs/streams.md", "docs/extending.md", "docs/audit.md", "docs/coming-from.md",
    "docs/with-others.md",
    *(f"docs/tutorials/{who}.md" for who in ("data-scientist", "search-engineer", "stream-owner", "researcher")),
]  # fmt: skip


def python_blocks(page: Path) -> str:
    """All python blocks of a page as one program that keeps the page's line numbers."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.strip().startswith("```")
        opens = fence and not inside and re.fullmatch(r"```python", line.strip()) is not None
        lines.append("" if fence or not inside else line)
        inside = opens or (inside and not fence)
    return "\n".join(lines) + "\n"


def run(script: Path, folder: Path) -> str:
    """Output of a program run in a folder of its own, where any warning is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "template"},  # which shows nothing
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{script.name} failed:\n{done.stdout}\n{done.stderr}"
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


def test_there_are_examples():
    assert len(SCRIPTS) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_runs(script, tmp_path):
    printed = run(script, tmp_path)
    assert printed.strip()
    assert not list(tmp_path.iterdir()), "an example leaves files behind"


@pytest.mark.parametrize("page", [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])])
def test_page_runs_as_printed(page, tmp_path):
    code = python_blocks(ROOT / page)
    assert code.strip(), f"{page} has no python block"
    script = tmp_path / (Path(page).stem + "_blocks.py")
    script.write_text(code, encoding="utf-8")
    assert run(script, tmp_path).strip()


def test_every_python_block_is_closed():
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    assert [page for page, text in texts.items() if len(re.findall(r"^```", text, flags=re.MULTILINE)) % 2] == []
