"""An audit in a notebook: a summary with the first suspects in a cell, and the whole page below one."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkin.audit.exports import count_suspects, describe_rate
from nearkin.bars import in_notebook
from nearkin.errors import printable

if TYPE_CHECKING:
    from nearkin.audit.label_audit import LabelAudit

__all__ = ["ShownPage", "show_page", "summarise_as_html"]

#: Suspects in the summary.
_FIRST = 10
_HEADS = ("row", "given", "suggested", "plausibility", "confidence", "column that speaks most")


@dataclass(frozen=True)
class ShownPage:
    """A page that was written to be looked at; a notebook shows it inside the cell.

    Parameters
    ----------
    path : Path
        The file.
    """

    path: Path

    def __repr__(self) -> str:
        return f"ShownPage({str(self.path)!r})"

    def _repr_html_(self) -> str:
        held = html.escape(self.path.read_text("utf-8"), quote=True)
        style = "width:100%;height:85vh;border:1px solid #ccc"
        return f'<iframe srcdoc="{held}" title="Label audit" style="{style}"></iframe>'


def show_page(write: Callable[[Path], None], path: str | os.PathLike[str] | None) -> ShownPage:
    """Write a page, into a new temporary folder unless a path is given, and open it; a notebook shows it instead."""
    target = Path(tempfile.mkdtemp(prefix="nearkin-")) / "audit.html" if path is None else Path(path)
    write(target)
    if not in_notebook():
        webbrowser.open(target.resolve().as_uri())
    return ShownPage(target)


def summarise_as_html(audit: LabelAudit) -> str:
    """Return a small table of figures, the first suspects, and what else was found; all text is escaped."""
    lines = [f"<b>Label audit</b>: {audit.n_rows:,} rows, {len(audit.classes):,} classes"]
    lines += [f"wrong labels {_text(describe_rate(audit))}", f"suspects {_text(count_suspects(audit))}"]
    lines += [f"<b>note</b> {_text(one)}" for one in audit.notes]
    lines += [f"found {_text(one.tell())}" for one in audit.findings]
    table = _list_suspects(audit)
    n_more = audit.n_suspects - _FIRST
    more = f"<div>and {n_more:,} more; <code>audit.show()</code> opens the page</div>" if n_more > 0 else ""
    return "".join(f"<div>{one}</div>" for one in lines) + table + more


def _list_suspects(audit: LabelAudit) -> str:
    rows = audit.order[: min(audit.n_suspects, _FIRST)]
    if not len(rows):
        return ""
    head = "".join(f"<th>{one}</th>" for one in _HEADS)
    body = []
    for row, called in zip(rows.tolist(), audit.call_rows(rows), strict=True):
        said = audit.contrast.features_of(row, int(audit.given_code[row]), int(audit.suggested_code[row]))
        cells = (
            called, audit.given_label[row], audit.suggested_label[row], _share(audit.plausibility[row]),
            _share(audit.confidence[row]),
            f"{said[0].name} = {said[0].value}" if said else "",
        )  # fmt: skip
        body.append("<tr>" + "".join(f"<td>{_text(one)}</td>" for one in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _share(value: float) -> str:
    """Return a probability as the page writes it: never 0 or 1."""
    return "< 0.01" if value < 0.01 else "> 0.99" if value > 0.99 else f"{value:.2f}"


def _text(value: Any) -> str:
    return html.escape(printable(value, 80 if not isinstance(value, str) else 400))
