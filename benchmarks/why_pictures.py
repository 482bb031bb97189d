"""Pictures of the factorial experiment, as SVG drawn by hand: they need no other package."""

from __future__ import annotations

from html import escape
from typing import Any

from .why import FACTORS, estimate, get_pair_signs, get_signs, list_contrasts

#: Levels of noise from few to many wrong labels; people who see few colours tell these apart (Okabe and Ito).
_COLOURS = ("#56B4E9", "#0072B2", "#D55E00")
_ROW, _LEFT, _WIDTH, _TOP = 46, 250, 470, 64

_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
font-family="sans-serif" font-size="13" role="img" aria-label="{title}">
<title>{title}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="26" font-size="16" fill="#222222">{title}</text>
"""


def draw_main(runs: list[dict[str, Any]]) -> str:
    """Main effects at every level of noise, with 95 % intervals."""
    levels = sorted({run["noise"] for run in runs})
    contrasts = list_contrasts()
    cells = {(one, noise): estimate(runs, get_signs(*one), noise) for one in contrasts for noise in levels}
    low = min(mean - 2.0 * error for mean, error in cells.values())
    high = max(mean + 2.0 * error for mean, error in cells.values())
    low, high = min(low, 0.0) - 0.5, max(high, 0.0) + 0.5

    def place(value: float) -> float:
        return _LEFT + _WIDTH * (value - low) / (high - low)

    height = _TOP + _ROW * len(contrasts) + 50
    parts = [_HEAD.format(width=_LEFT + _WIDTH + 30, height=height, title="What each part adds: points of accuracy")]
    parts += [
        f'<circle cx="{_LEFT + 130 * i}" cy="46" r="5" fill="{_COLOURS[i]}"/>'
        f'<text x="{_LEFT + 10 + 130 * i}" y="50" fill="#222222">{noise:g} % wrong</text>'
        for i, noise in enumerate(levels)
    ]
    parts.append(
        f'<line x1="{place(0):.1f}" x2="{place(0):.1f}" y1="{_TOP}" y2="{height - 40}" stroke="#888888" '
        'stroke-dasharray="4 3"/>'
    )
    step = 5 if high - low > 12 else 1
    for tick in range(int(low // step) * step, int(high) + 1, step):
        if tick >= low:
            parts.append(f'<text x="{place(tick):.1f}" y="{height - 22}" text-anchor="middle">{tick:+d}</text>')
    for i, (name, level) in enumerate(contrasts):
        y = _TOP + _ROW * i + 14
        parts.append(
            f'<text x="16" y="{y + 10}" fill="#222222">{escape(name)}: {escape(level)}</text>'
            f'<text x="16" y="{y + 25}" font-size="11" fill="#777777">against {escape(FACTORS[name][0])}</text>'
        )
        for j, noise in enumerate(levels):
            mean, error = cells[(name, level), noise]
            at, begin, end = y + 11 * j, place(mean - 1.96 * error), place(mean + 1.96 * error)
            parts.append(
                f'<line x1="{begin:.1f}" x2="{end:.1f}" y1="{at}" y2="{at}" '
                f'stroke="{_COLOURS[j]}" stroke-width="2"/>'
                f'<circle cx="{place(mean):.1f}" cy="{at}" r="4" fill="{_COLOURS[j]}"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def draw_interactions(runs: list[dict[str, Any]]) -> str:
    """Two-way interactions over all noise as a table of colours; those beyond two standard errors are bold."""
    contrasts, side, left, top = list_contrasts(), 68, 190, 150
    width = left + side * len(contrasts) + 20
    title = "Points that two parts add beyond the sum of both"
    parts = [_HEAD.format(width=width, height=top + side * len(contrasts) + 20, title=title)]
    for i, (name, level) in enumerate(contrasts):
        middle = top + side * i + side // 2
        parts.append(
            f'<text x="{left - 8}" y="{middle}" text-anchor="end">{escape(level)}</text>'
            f'<text x="{left - 8}" y="{middle + 15}" text-anchor="end" font-size="11" fill="#777777">{name}</text>'
        )
        x = left + side * i + side // 2
        parts.append(f'<text transform="translate({x},{top - 8}) rotate(-45)">{escape(level)}</text>')
        for j, other in enumerate(contrasts):
            if name != other[0] and j < i:
                parts.append(
                    _draw_cell(estimate(runs, get_pair_signs((name, level), other)), left + side * j, top + side * i)
                )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_cell(cell: tuple[float, float], x: float, y: float) -> str:
    """A number with its error on a ground that is the bluer or redder the larger it is."""
    mean, error = cell
    share = min(1.0, abs(mean) / 6.0)
    red, green, blue = (0, 114, 178) if mean > 0 else (213, 94, 0)
    ground = ",".join(f"{255 - share * 0.7 * (255 - one):.0f}" for one in (red, green, blue))
    weight = "bold" if abs(mean) > 2.0 * error else "normal"
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="66" height="66" fill="rgb({ground})"/>'
        f'<text x="{x + 34}" y="{y + 33}" text-anchor="middle" font-weight="{weight}">{mean:+.1f}</text>'
        f'<text x="{x + 34}" y="{y + 50}" text-anchor="middle" font-size="11" fill="#444444">± {error:.1f}</text>'
    )
