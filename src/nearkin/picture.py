"""A picture of rows in two spaces side by side, as SVG drawn by hand: it needs no other package."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.arrays import Array, Codes, Mask

__all__ = ["draw_spaces", "flatten"]

#: Colours that people who see few colours tell apart (Okabe and Ito).
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#555555")
_SIDE, _EDGE, _TOP, _BOTTOM = 380, 24, 58, 46

_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="sans-serif" font-size="14" role="img" aria-label="{title}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>nearkin: {title}</dc:title></metadata>
<title>{title}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{edge}" y="26" font-size="17" fill="#222222">{title}</text>
"""


def flatten(rows: Array) -> Array:
    """Return the two leading principal components of rows, scaled to [0, 1] by the wider of them.

    >>> flatten(np.array([[0.0, 0.0, 1.0], [0.0, 4.0, 1.0], [0.0, 2.0, 2.0]])).shape
    (3, 2)
    """
    centred = np.asarray(rows, dtype=np.float64) - np.mean(rows, axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(centred), 2))
    found = centred @ axes[:2].T
    signs = np.sign(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])])
    flat[:, : found.shape[1]] = found * signs  # as SVD leaves them open
    low, high = flat.min(axis=0), flat.max(axis=0)
    return 0.5 + (flat - (low + high) / 2.0) / max(float((high - low).max()), 1e-300)


def draw_spaces(
    title: str, panels: Sequence[tuple[str, Array]], codes: Codes, names: Sequence[Any], is_ringed: Mask,
    ring: str = "wrong label",
) -> str:  # fmt: skip
    """Return an SVG with a panel for each space, coloured by class, with a ring around some rows.

    Parameters
    ----------
    title : str
        Heading.
    panels : sequence of (str, ndarray of shape (n_samples, n_dimensions))
        Caption and rows of each space.
    codes : ndarray of int of shape (n_samples,)
        Class of each row.
    names : sequence
        Names of the classes.
    is_ringed : ndarray of bool of shape (n_samples,)
        Rows with a ring.
    ring : str
        What a ring means.

    Examples
    --------
    >>> drawn = draw_spaces("Two rows", [("as they are", np.eye(2))], np.array([0, 1]), "ab", np.array([False, True]))
    >>> drawn.count("<circle"), "wrong label" in drawn  # three in the legend
    (5, True)
    """
    width, height = _EDGE + len(panels) * (_SIDE + _EDGE), _TOP + _SIDE + _BOTTOM
    parts = [_HEAD.format(width=width, height=height, title=escape(title), edge=_EDGE)]
    for at, (caption, rows) in enumerate(panels):
        parts.append(_draw_panel(_EDGE + at * (_SIDE + _EDGE), caption, flatten(rows), codes, is_ringed))
    parts.append(_draw_legend(height - 16, names, ring))
    return "".join(parts) + "</svg>\n"


def _draw_panel(left: int, caption: str, flat: Array, codes: Codes, is_ringed: NDArray[np.bool_]) -> str:
    inner = _SIDE - 24
    lines = [
        f'<text x="{left}" y="48" fill="#444444">{escape(caption)}</text>\n'
        f'<rect x="{left}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#cccccc"/>\n'
    ]
    for row in np.argsort(is_ringed, kind="stable"):  # rings on top
        x, y = left + 12 + inner * flat[row, 0], _TOP + 12 + inner * (1.0 - flat[row, 1])
        lines.append(_draw_row(x, y, int(codes[row]), bool(is_ringed[row])))
    return "".join(lines)


def _draw_row(x: float, y: float, code: int, has_ring: bool) -> str:
    line = 'stroke="#111111" stroke-width="1.8"' if has_ring else 'stroke="#ffffff" stroke-width="0.6"'
    colour = _COLOURS[code % len(_COLOURS)]
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}" fill-opacity="0.85" {line}/>\n'


def _draw_legend(y: int, names: Sequence[Any], ring: str) -> str:
    x, parts = _EDGE + 6, []
    for code, name in enumerate([*names, ring]):
        if code < len(names):
            parts.append(_draw_row(x, y, code, has_ring=False))
        else:
            parts.append(f'<circle cx="{x}" cy="{y}" r="4.5" fill="none" stroke="#111111" stroke-width="1.8"/>\n')
        parts.append(f'<text x="{x + 10}" y="{y + 5}" fill="#222222">{escape(str(name))}</text>\n')
        x += 34 + 8 * len(str(name))
    return "".join(parts)
