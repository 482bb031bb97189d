"""Vectors of one triplet: the compiled twin of `nearkin.measures.Measure.directions`."""

from nearkin.kernels.machine.compile import exact_helper, helper
from nearkin.kernels.machine.tiles import direction_rows


@exact_helper
def _differences(anchor, positive, negative, is_distance, g, h):
    """Write ``g`` and ``h``; differences first, as written, so that a common offset of the rows costs no digits."""
    if is_distance:
        for k in range(anchor.shape[0]):
            g[k] = (anchor[k] - positive[k]) + (anchor[k] - negative[k])
            h[k] = positive[k] - negative[k]
    else:
        for k in range(anchor.shape[0]):
            g[k] = anchor[k]
            h[k] = positive[k] - negative[k]


@helper
def directions(anchor, positive, negative, is_distance, g, h):
    """Write ``g`` and ``h`` and return ``g.g, h.h, g.h`` in double precision."""
    _differences(anchor, positive, negative, is_distance, g, h)
    gg = 0.0
    hh = 0.0
    gh = 0.0
    for k in range(g.shape[0]):
        gg += g[k] * g[k]
        hh += h[k] * h[k]
        gh += g[k] * h[k]
    return gg, hh, gh


@exact_helper
def block_directions(anchors, positives, negatives, ia, ip, ineg, start, m, is_distance, vectors, first, size):
    """The same for ``m`` triplets: g in the rows of ``vectors`` from ``first`` on, h ``size`` rows later."""
    d = anchors.shape[1]
    row = vectors.shape[1]
    for t in range(m):
        a, p, n = ia[start + t] * d, ip[start + t] * d, ineg[start + t] * d
        g = (first + t) * row
        h = g + size * row
        if is_distance:
            direction_rows(anchors, a, positives, p, negatives, n, vectors, g, h, d, True)
        else:
            direction_rows(anchors, a, positives, p, negatives, n, vectors, g, h, d, False)
