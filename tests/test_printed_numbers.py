"""Numbers of the README stand in the records that it names."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"[+-]?\d+\.\d+(?: ± \d+\.\d+)?")


def list_numbers(text: str) -> Iterator[tuple[str, str]]:
    """Records and numbers of all rows of tables that name a record, or "the same"."""
    record = ""
    for line in text.splitlines():
        *cells, last = line.strip("| ").split(" | ")
        if linked := re.fullmatch(r"\[\w+\]\((benchmarks/results/[\w.]+)\)", last.strip()):
            record = linked[1]
        elif last.strip() != "the same":
            continue
        yield from ((record, number) for number in NUMBER.findall(" ".join(cells)))


def test_every_number_of_the_readme_is_in_its_record():
    found = list(list_numbers((ROOT / "README.md").read_text("utf-8")))
    assert len(found) > 10
    texts = {record: (ROOT / record).read_text("utf-8") for record, _ in found}
    assert [(record, number) for record, number in found if number not in texts[record]] == []


def test_numbers_are_found_where_a_row_names_a_record():
    row = "| what | +2.7 ± 0.5 | [x](benchmarks/results/x.md) |\n| more | 1.5; -2.25 | the same |\n| 3.0 | none |"
    assert [number for _, number in list_numbers(row)] == ["+2.7 ± 0.5", "1.5", "-2.25"]
