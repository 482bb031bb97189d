"""The table of equations in docs/architecture.md names files and functions that exist."""

import re
from pathlib import Path

import nearkin

SOURCES = Path(nearkin.__file__).parent
PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"


def rows():
    for line in PAGE.read_text(encoding="utf-8").split("## Where each equation lives")[1].splitlines():
        fields = [field.strip() for field in line.strip("|").split("|")]
        if len(fields) == 3 and "`" in fields[1]:
            yield fields[0], re.findall(r"`([^`]+)`", fields[1]), re.findall(r"`([^`]+)`", fields[2])


def find(files):
    """Paths of the files; a bare name lies beside the file before it."""
    folder = SOURCES
    for name in files:
        path = SOURCES / name if "/" in name or (SOURCES / name).is_file() else folder / name
        folder = path.parent
        yield path


def test_every_row_names_files_and_what_they_define():
    offenders, n_rows = [], 0
    for place, files, names in rows():
        n_rows += 1
        paths = list(find(files))
        offenders += [f"{place}: no file {path.relative_to(SOURCES)}" for path in paths if not path.is_file()]
        text = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())
        for name in names:
            last = name.rpartition(".")[2]
            if not re.search(rf"(def|class) {last}\b|^{last}\b.* = ", text, re.MULTILINE):
                offenders.append(f"{place}: none of {files} defines {name}")
    assert n_rows > 20
    assert not offenders, "\n".join(offenders)
