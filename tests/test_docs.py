"""The sources of the documentation hold together: links, includes, pages in reach, and a reference without gaps."""

import re
from pathlib import Path

import nearkin

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "auto_examples" not in path.parts)
GALLERY = sorted((ROOT / "examples").glob("*/plot_*.py"))


def text_of(page):
    """A page without its blocks of code and its code in lines."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```(?!\{)[^\n]*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page):
    """Anchors of the headings of a page, as Markdown pages make them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        if not other.exists():
            yield f"{page.name}: no file {target}"
        elif anchor and other.suffix == ".md" and anchor not in anchors(other):
            yield f"{page.name}: no heading {target}"


def test_every_link_leads_to_a_file_and_a_heading():
    pages = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert [fault for page in pages for fault in broken_links(page)] == []


def test_every_link_to_an_example_leads_to_one():
    names = {f"/auto_examples/{path.parent.name}/{path.stem}" for path in GALLERY}
    linked = {name for page in PAGES for name in re.findall(r"<(/auto_examples/[\w/]+)>", page.read_text("utf-8"))}
    assert linked
    assert linked - names == set()


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            listed |= {(page.parent / line).with_suffix(".md") for line in block.split() if not line.startswith(":")}
    assert [str(page.relative_to(DOCS)) for page in PAGES if page not in listed and page.name != "index.md"] == []


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    listed = {name.rpartition(".")[2] for name in re.findall(r"^   (nearkin\.\S+)$", pages, re.MULTILINE)}
    assert set(nearkin.__all__) - listed - {"__version__"} == set()


def test_every_example_of_the_gallery_has_a_title_and_a_picture():
    assert len(GALLERY) >= 15
    for path in GALLERY:
        text = path.read_text(encoding="utf-8")
        assert re.match(r'"""\n(.+)\n=+\n\n', text), f"{path.name} does not begin with a title"
        assert "plt.show()" in text, f"{path.name} draws nothing"


def test_files_that_pages_name_exist():
    named = [
        (page.name, one)
        for page in [*PAGES, *ROOT.glob("*.md")]
        for one in re.findall(r"`((?:examples|tests|benchmarks|docs|fuzz)/[\w./-]+\.\w+)`", page.read_text("utf-8"))
    ]
    assert len(named) > 20
    assert [f"{page}: {one}" for page, one in named if not (ROOT / one).exists()] == []
