"""What is wrong with built pages: links that lead nowhere, pictures without words, things loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Folders whose pages are of the theme, not ours.
FOREIGN = ("_static",)


class Page(HTMLParser):
    """Anchors, links, addresses that a browser loads, and pictures of one page."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.wordless: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if "src" in found:
            self.loaded.append(found["src"])
        if "href" in found:
            (self.loaded if tag == "link" else self.links).append(found["href"])
        if tag == "img" and "alt" not in found:  # "" says that words nearby are enough
            self.wordless.append(found.get("src", ""))


def find_faults(site: Path) -> Iterator[str]:
    """Yield a sentence for every fault of the pages below a folder."""
    paths = [path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] not in FOREIGN]
    pages = {path.resolve(): Page(path) for path in paths}
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        yield from (f"{name}: a picture without words, {one}" for one in page.wordless)
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    yield f"{name}: loads {address} from elsewhere"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: no file {address}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: no anchor {address}"
