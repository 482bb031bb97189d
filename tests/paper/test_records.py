"""Numbers on the replication page are those of the records, and records know which code they came from."""

import json
from pathlib import Path

import pytest
from benchmarks import records, replication, sentences

from nearkin.paper.sources import digest_sources, strip_words

RESULTS = Path(__file__).parents[2] / "results"
DOCS = replication.DOCS


@pytest.mark.parametrize("page", replication.TABLES)
def test_every_table_of_a_page_is_made_of_its_records(page):
    text = (DOCS / page).read_text("utf-8")
    written = replication.write_tables(text, replication.find_tables(page))
    assert written == text, "run python -m benchmarks.replication --write"


@pytest.mark.parametrize("page", replication.TABLES)
def test_a_page_has_no_section_without_a_record(page):
    text = (DOCS / page).read_text("utf-8")
    lacking = set(replication.TABLES[page]) - set(replication.find_tables(page))
    assert [heading for heading in lacking if f"\n{heading}\n" in text] == []


@pytest.mark.parametrize("picture", replication.PICTURES)
def test_every_picture_is_drawn_from_its_record(picture):
    drawn = (DOCS / "figures" / picture).read_text("utf-8")
    assert drawn == replication.PICTURES[picture](), "run python -m benchmarks.replication --write"


def test_sentences_of_the_pages_say_what_the_records_say():
    texts = {path.name: " ".join(path.read_text("utf-8").split()) for path in DOCS.glob("*.md")}
    missing = [(page, words) for page, words in sentences.list_sentences() if words not in texts[page]]
    assert missing == []


def test_no_claim_waits_for_a_measurement():
    """Rows of the table of claims end with an outcome and where it was measured."""
    text = (DOCS / "replication.md").read_text("utf-8").split("## Every claim of the text")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 15
    for claim, _, outcome, record in rows:
        assert outcome.startswith(("confirmed", "refuted", "undecidable", "not confirmed")), claim
        folders = [name for name in record.split("`") if name.startswith(("results/", "tests/"))]
        assert folders or "](" in record, claim
        assert all((DOCS.parent / name).exists() for name in folders), claim


def test_a_changed_record_is_noticed(monkeypatch):
    text, tables = (DOCS / "replication.md").read_text("utf-8"), replication.find_tables("replication.md")
    load = replication.load
    monkeypatch.setattr(
        replication, "load", lambda *folders: [one | {"mean": one.get("mean", 0.0) + 1.0} for one in load(*folders)]
    )
    assert replication.write_tables(text, tables) != text


def test_a_page_without_a_section_or_its_table_is_refused():
    tables = {"## One": lambda: iter(["| 1 |"])}
    with pytest.raises(ValueError, match=r"no section .## One"):
        replication.write_tables("# A page\n", tables)
    with pytest.raises(ValueError, match=r".## One. has no table"):
        replication.write_tables("# A page\n## One\nWords.\n## Two\n| a |\n|---|\n", tables)
    assert replication.write_tables("# A page\n## One\n| a |\n|---|\n| 0 |\n", tables).endswith("|---|\n| 1 |\n")


def test_words_do_not_change_a_digest_and_code_does():
    code = 'def f(x):\n    """Say something."""\n    return x  # as it is\n'
    assert strip_words(code) == strip_words(code.replace("something", "else").replace("  # as it is", ""))
    assert strip_words(code) != strip_words(code.replace("return x", "return x + 1"))
    assert digest_sources("paper") != digest_sources("nearkin")


def test_records_are_compared_with_the_code_of_their_column(tmp_path):
    folder = tmp_path / "table3"
    folder.mkdir()
    made = [
        {"method": "Robust-ODML", "sources": digest_sources("paper")},
        {"method": "nearkin", "sources": digest_sources("paper")},
        {"method": "Euclidean"},
    ]
    (folder / "table3.json").write_text(json.dumps(made))
    assert records.count_states(folder / "table3.json") == {"current": 1, "older code": 1, "no digest": 1}


def test_every_folder_of_results_holds_one_record():
    for folder in RESULTS.iterdir():
        if folder.is_dir():
            assert len(list(folder.glob("*.json"))) == 1, folder
