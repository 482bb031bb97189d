"""The sources of the documentation hold together: links, includes, pages in reach, and a reference without gaps."""

import ast
import re
import runpy
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
        home = ROOT if page.name.count(".") == 2 else page.parent  # changes go into CHANGELOG.md as they are
        other = (home / path).resolve() if path else page
        if not other.exists():
            yield f"{page.name}: no file {target}"
        elif anchor and other.suffix == ".md" and anchor not in anchors(other):
            yield f"{page.name}: no heading {target}"


def test_every_link_leads_to_a_file_and_a_heading():
    others = [one for folder in ("changes", ".github") for one in (ROOT / folder).glob("*.md")]
    pages = [*PAGES, *ROOT.glob("*.md"), *others]
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


def names_in(page):
    """Names of nearkin that a page uses in its code, or a script, in full: ``nearkin.search.adapt``."""
    text, found, known = page.read_text(encoding="utf-8"), set(), {}
    blocks = re.findall(r"^```(?:\{code-block\} )?python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    nodes = [node for one in (blocks if page.suffix == ".md" else [text]) for node in ast.walk(ast.parse(one))]
    for node in nodes:
        if isinstance(node, ast.Import):
            known |= {one.asname or "nearkin": one.name if one.asname else "nearkin"
                      for one in node.names if one.name.startswith("nearkin")}  # fmt: skip
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nearkin"):
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            first, _, rest = ast.unparse(node).partition(".")
            if first in known and re.fullmatch(r"[\w.]*", rest):
                found.add(f"{known[first]}.{rest}".rstrip("."))
    return found | set(re.findall(r"`(nearkin(?:\.\w+)+)`", text))


def is_module(name):
    path = (ROOT / "src").joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


#: What own settings, parameters and learners are made with: described where they are used, in docs/extending.md.
PARTS = {"nearkin.learners.groups", "nearkin.parameters", "nearkin.settings", "nearkin.measures.DISTANCE"}


def test_the_reference_has_every_name_that_pages_and_examples_use():
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    listed = set(re.findall(r"^   (nearkin\.\S+)$", pages, re.MULTILINE))
    last, lacking = {name.rpartition(".")[2] for name in listed}, set()
    sources = [page for page in [*PAGES, ROOT / "README.md"] if "reference" not in page.parts]
    used = {(page.name, name) for page in [*sources, *(ROOT / "examples").rglob("*.py")] for name in names_in(page)}
    assert len({name for _, name in used}) > 60
    for page, name in sorted(used):
        parts = name.split(".")
        first = next((i for i in range(1, len(parts)) if not is_module(".".join(parts[: i + 1]))), None)
        is_listed = first is None or parts[first] in last or any(name.startswith(f"{one}.") for one in listed)
        if not is_listed and not any(name.startswith(one) for one in PARTS):
            lacking.add(f"{page}: {name}")
    assert lacking == set()


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


def test_faults_of_built_pages_are_found(tmp_path):
    find_faults = runpy.run_path(str(DOCS / "check_pages.py"))["find_faults"]
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "theme.html").write_text("<a href='gone.html'>of the theme</a>")
    (tmp_path / "a b.html").write_text("<h1 id='top'>A</h1><img src='a%20b.html' alt=''><a name='old'></a>")
    good = "".join(f"<a href='{to}'>1</a>" for to in ("a%20b.html#top", "a%20b.html#old", "https://there.org/", "#x"))
    (tmp_path / "good.html").write_text(f"<p id='x'>{good}<img src='data:image/png;base64,AA' alt='a dot'>")
    assert list(find_faults(tmp_path)) == []
    (tmp_path / "bad.html").write_text(
        "<a href='gone.html'>1</a><a href='good.html#gone'>2</a><img src='good.html'>"
        "<script src='//cdn.org/a.js'></script><link href='https://fonts.org/b.css'>"
    )
    assert list(find_faults(tmp_path)) == [
        "bad.html: a picture without words, good.html",
        "bad.html: no file gone.html",
        "bad.html: no anchor good.html#gone",
        "bad.html: loads //cdn.org/a.js from elsewhere",
        "bad.html: loads https://fonts.org/b.css from elsewhere",
    ]
