"""Which tests are left to run after ``make test`` has passed on these files.

``make test`` leaves a mark when it passed: the files that it looked at, and the test files in which something was
skipped. ``make test-all`` then runs only those once more, with everything installed. Any change of a file makes the
mark void.
"""

import hashlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = ROOT / ".pytest_cache" / "all-passed"


def of_files() -> str:
    """Fingerprint of the files."""
    digest = hashlib.sha256(sys.version.encode())
    names = ("README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "mkdocs.yml", "pyproject.toml")
    looked_at = [ROOT / name for name in names]
    for folder in ("src", "tests", "docs", "examples", "benchmarks"):
        looked_at += [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in sorted(looked_at):
        if path.exists() and "__pycache__" not in path.parts and ".peers-venv" not in path.parts:
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def remember(skipped: set[str]) -> None:
    """All tests passed but those of these files, of which some were skipped."""
    MARK.parent.mkdir(exist_ok=True)
    MARK.write_text(json.dumps({"files": of_files(), "skipped": sorted(skipped)}))


def left() -> list[str] | None:
    """Test files that are left to run; None for all tests."""
    known = json.loads(MARK.read_text()) if MARK.exists() else {}
    return known["skipped"] if known.get("files") == of_files() else None


if __name__ == "__main__":
    rest = left()
    if rest is None:
        sys.exit(1)
    if "--left" in sys.argv:
        sys.stdout.write(" ".join(rest))
    elif rest:
        sys.exit(1)
    else:
        sys.stdout.write("All tests passed on these files, none skipped; they are not run again.\n")
