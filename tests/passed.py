"""Whether all tests passed, none skipped, on these files and with these packages.

``make test`` leaves a mark when they did, so that ``make test-all`` need not run the same tests once more. Any change
of a file that tests look at, and any optional package that comes or goes, makes the mark void.
"""

import hashlib
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = ROOT / ".pytest_cache" / "all-passed"


def state() -> str:
    """Fingerprint of the files and of the optional packages."""
    digest = hashlib.sha256(sys.version.encode())
    names = ("README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "mkdocs.yml", "pyproject.toml")
    looked_at = [ROOT / name for name in names]
    for folder in ("src", "tests", "docs", "examples", "benchmarks"):
        looked_at += [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in sorted(looked_at):
        if path.exists() and "__pycache__" not in path.parts and ".peers-venv" not in path.parts:
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(path.read_bytes())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for one in sorted({one for name, parts in extras.items() if name != "docs" for one in parts}):
        digest.update(one.encode())
        try:
            digest.update(importlib.metadata.version(re.split(r"[<>=\[ ]", one)[0]).encode())
        except importlib.metadata.PackageNotFoundError:
            digest.update(b"-")
    return digest.hexdigest()


if __name__ == "__main__":
    if MARK.exists() and MARK.read_text() == state():
        sys.stdout.write("All tests passed on these files and packages, none skipped; they are not run again.\n")
    else:
        sys.exit(1)
