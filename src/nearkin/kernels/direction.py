"""Vectors of one triplet: the compiled twin of `nearkin.measures.Measure.directions`."""

from nearkin.kernels._compile import exact_helper, helper


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
def block_directions(anchors, positives, negatives, ia, ip, ineg, start, is_distance, G, H):
    """Rows of G and H for the triplets from ``start`` on, written as in `_differences`."""
    for t in range(G.shape[0]):
        a, p, n = ia[start + t], ip[start + t], ineg[start + t]
        if is_distance:
            for k in range(G.shape[1]):
                G[t, k] = (anchors[a, k] - positives[p, k]) + (anchors[a, k] - negatives[n, k])
                H[t, k] = positives[p, k] - negatives[n, k]
        else:
            for k in range(G.shape[1]):
                G[t, k] = anchors[a, k]
                H[t, k] = positives[p, k] - negatives[n, k]
