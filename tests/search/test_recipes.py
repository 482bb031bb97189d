"""The recipes of the page run against the engines that they name."""

import re
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from nearkin.search import SimilarityAdapter
from search_worlds import clicks, turned

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```python\n# (\w+)\n(.*?)```", PAGE, flags=re.DOTALL))
#: Needs a compiler: run where it is installed, and missed nowhere.
BY_HAND = {"hnswlib"} if sys.version_info >= (3, 13) else set()
#: Share of the true neighbours that must be found: all, unless the engine is approximate.
RECALL = {"hnswlib": 0.99, "usearch": 0.99}


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    queries, items, relevant = turned(rng, n_queries=60, n_items=500)
    query, clicked, skipped, _ = clicks(rng, relevant, 4000, 0.1)
    adapter = SimilarityAdapter().fit(queries[query], items[clicked], items[skipped])
    assert not adapter.kept_identity_
    return queries, items, adapter


def test_the_page_has_every_recipe():
    assert set(BLOCKS) == {"numpy", "onnxruntime", "faiss", "hnswlib", "usearch", "qdrant_client", "lancedb"}


def test_every_extra_that_a_page_names_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {
        name
        for page in pages
        for group in re.findall(r"'(?:\.|nearkin)\[([\w,]+)\]'", page.read_text(encoding="utf-8"))
        for name in group.split(",")
    }
    assert {"faiss", "hnswlib", "qdrant", "lancedb"} <= named <= set(extras)


def test_the_program_of_the_page_runs_as_printed(capsys):
    others = [one for one in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if not re.match(r"# \w+\n", one)]
    assert len(others) == 3
    exec(compile("\n".join(others), "docs/searching.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "identity kept: False" in printed and "gain in pairs put right: 0." in printed


@pytest.mark.parametrize("engine", [one for one in BLOCKS if one not in BY_HAND or find_spec(one)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of the engines, not ours
def test_a_recipe_finds_what_exact_search_finds(engine, world, tmp_path, monkeypatch):
    pytest.importorskip(engine, reason=f"the recipe for {engine} needs it; pip install 'nearkin[engines]'")
    queries, items, adapter = world
    monkeypatch.chdir(tmp_path)
    names = {"np": np, "queries": queries, "items": items, "adapter": adapter}
    exec(compile(BLOCKS[engine], f"docs/searching.md:{engine}", "exec"), names)
    exact = np.argsort(-(adapter.map_queries(queries) @ items.T), axis=1)[:, :10]
    plain = np.argsort(-(queries @ items.T), axis=1)[:, :10]
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(names["found"], exact, strict=True)])
    assert share >= RECALL.get(engine, 0.999)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(names["found"], plain, strict=True)]) < 0.9
