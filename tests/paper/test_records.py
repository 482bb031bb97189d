"""Numbers on the replication page are those of the records, and records know which code they came from."""

import json
from pathlib import Path

import pytest
from benchmarks import records, replication

from nearkin.paper.sources import digest_sources, strip_words

RESULTS = Path(__file__).parents[2] / "results"


def test_every_table_of_the_replication_page_is_made_of_its_records():
    text = replication.PAGE.read_text("utf-8")
    assert replication.write_tables(text) == text, "run python -m benchmarks.replication --write"


def test_sentences_of_the_replication_page_say_what_the_records_say():
    text = " ".join(replication.PAGE.read_text("utf-8").split())
    for sentence in replication.list_sentences():
        assert sentence in text


def test_a_changed_record_is_noticed(monkeypatch):
    text = replication.PAGE.read_text("utf-8")
    load = replication.load
    monkeypatch.setattr(
        replication, "load", lambda *folders: [one | {"mean": one.get("mean", 0.0) + 1.0} for one in load(*folders)]
    )
    assert replication.write_tables(text) != text


def test_a_page_without_a_section_is_refused():
    with pytest.raises(ValueError, match=r"no section .Table 3"):
        replication.write_tables("# A page\n")


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
