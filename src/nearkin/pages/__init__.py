"""Pages in one file that needs nothing else: one frame, one style, and a policy that allows nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from nearkin._version import __version__
from nearkin.errors import printable

__all__ = ["Page", "as_json"]

#: Characters of anything that is written into a page as text.
_LONGEST = 1000


class Page:
    """A kind of page: ``page.html``, ``page.css`` and the scripts of a package, in the common frame.

    Parameters
    ----------
    package : str
        Package with the files; the template extends ``base.html``.
    kind : str
        Last word of the page's generator, by which its files are known.
    scripts : sequence of str, default=("page",)
        Names of the scripts of the package, in the order in which they run.
    """

    def __init__(self, package: str, kind: str, scripts: Sequence[str] = ("page",)):
        self.kind = kind
        self._frame, self._body = _read(__package__, "base.html"), _read(package, "page.html")
        self._style = _read(__package__, "base.css") + _read(package, "page.css")
        self._script = _read(__package__, "base.js") + "".join(_read(package, f"{name}.js") for name in scripts)

    @property
    def size(self) -> int:
        """Characters of the page without its contents."""
        return sum(map(len, (self._frame, self._body, self._style, self._script)))

    def render(self, title: str, **facts: Any) -> str:
        """Return the page. Text is escaped, and control characters in it are written out."""
        from jinja2 import DictLoader, Environment

        loader = DictLoader({"base.html": self._frame, "page.html": self._body})
        environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_show, loader=loader)
        return environment.get_template("page.html").render(
            title=title, kind=self.kind, version=__version__, style=self._style, script=self._script,
            style_hash=_hash(self._style), script_hash=_hash(self._script), **facts,
        )  # fmt: skip


def as_json(value: Any) -> str:
    r"""JSON that may stand inside a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _read(package: str | None, name: str) -> str:
    file = resources.files(package or "") / name
    return file.read_text("utf-8") if file.is_file() else ""


def _show(value: Any) -> Any:
    """What the template writes: text with control characters as escapes, except for parts of the page itself."""
    return value if hasattr(value, "__html__") else printable(value, _LONGEST)


def _hash(text: str) -> str:
    """Hash by which a content security policy allows an inline style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
