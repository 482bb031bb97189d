"""Which code a number came from: a digest of the sources that decide it, kept with every record."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from functools import cache
from pathlib import Path

import nearkin

__all__ = ["digest_sources", "list_sources", "strip_words"]

#: Rooms and files that decide what the learners and classifiers of the paper answer.
_OF_PAPER = (
    "steps.py", "losses.py", "measures.py", "directions.py", "discriminant", "rows", "labels.py", "kernels",
    "triplets", "parameters", "learners", "neighbors", "noise", "paper/methods.py", "paper/protocol.py",
    "paper/scores.py", "paper/tables.py",
)  # fmt: skip

#: What the column nearkin adds to these.
_OF_JURY = ("jury",)

#: What Table 1 and the figures of Wine follow from.
_OF_WINE = ("measures.py", "rows", "triplets", "kernels", "noise", "paper/protocol.py", "paper/wine.py")


def list_sources(what: str) -> list[Path]:
    """Files behind "paper", "nearkin" or "wine", in order.

    Examples
    --------
    >>> list_sources("paper")[0].name
    'directions.py'
    """
    rooms = {"paper": _OF_PAPER, "nearkin": (*_OF_PAPER, *_OF_JURY), "wine": _OF_WINE}[what]
    folder = Path(nearkin.__file__).parent
    found = [folder / room for room in rooms]
    return sorted(path for one in found for path in (one.rglob("*.py") if one.is_dir() else [one]))


@cache
def digest_sources(what: str) -> str:
    """Digest of the code behind a number; comments, docstrings and blank lines do not count.

    Examples
    --------
    >>> len(digest_sources("paper"))
    12
    """
    found = hashlib.sha256()
    for path in list_sources(what):
        found.update(path.name.encode() + strip_words(path.read_text("utf-8")).encode())
    return found.hexdigest()[:12]


def strip_words(source: str) -> str:
    r"""Code without what is for readers alone.

    Examples
    --------
    >>> strip_words('def f(x):  # a comment\n    "Words."\n\n    return x\n')
    'def f(x):\n    return x'
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            end = node.end_lineno or node.lineno
            lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
