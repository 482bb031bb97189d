"""Layouts of a factor, and the pass that moves and projects it, against plain matrices."""

import numpy as np
import pytest

from compiled import Compiled
from each import each
from nearkin.kernels import TripletRows, formulas
from nearkin.kernels.machine import pack

DTYPES = {"float64": 1e-13, "float32": 1e-5}
SHAPES = [(1, 1), (2, 3), (5, 8), (10, 16), (10, 130), (17, 33), (16, 512), (3, 1100), (64, 71), (65, 20)]

factor = Compiled(pack)


@each(slabs=[True, False], dtype=tuple(DTYPES))
@pytest.mark.parametrize(("r", "d"), SHAPES)
def test_unpacking_undoes_packing(r, d, dtype, slabs, rng):
    components = rng.normal(size=(r, d)).astype(dtype)
    packed = factor.make_factor(components, slabs, factor.padded(d, components))
    assert packed.L.ctypes.data % 64 == 0
    back = np.zeros_like(components)
    factor.unpack_factor(packed, back)
    np.testing.assert_array_equal(back, components)


@each(move=[True, False], slabs=[True, False], dtype=tuple(DTYPES))
@pytest.mark.parametrize(("r", "d"), SHAPES)
def test_one_pass_moves_and_projects(r, d, dtype, slabs, move, rng):
    components = (rng.normal(size=(r, d)) / np.sqrt(d)).astype(dtype)
    g0, h0, g, h = (rng.normal(size=(4, d)) / np.sqrt(d)).astype(dtype)
    a, b = rng.normal(size=(2, r)).astype(dtype)
    n = factor.padded(d, components)
    packed = factor.make_factor(components, slabs, n)
    for k, values in enumerate((g0, h0, g, h)):
        packed.vectors[k * n : k * n + d] = values
    packed.along_g[:r], packed.along_h[:r] = a, b
    factor.advance(packed, move, 0, 2 * n)
    p, q = packed.p, packed.q
    moved = components + np.outer(a, g0) + np.outer(b, h0) if move else components
    found = np.zeros_like(components)
    factor.unpack_factor(packed, found)
    for actual, expected in ((found, moved), (p[:r], moved @ g), (q[:r], moved @ h)):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=DTYPES[dtype])
    assert not p[r:].any()
    assert not q[r:].any()


@each(is_distance=[True, False], dtype=tuple(DTYPES), d=[1, 7, 8, 16, 17, 100])
def test_directions_are_the_differences_as_written(d, dtype, is_distance, rng):
    # A large common offset: any other order of the differences would lose digits.
    anchors, positives, negatives = (1000 + rng.normal(size=(3, 4, d))).astype(dtype)
    x, y, z = anchors[2], positives[1], negatives[3]
    g, h = ((x - y) + (x - z) if is_distance else x), y - z
    n = factor.padded(d, anchors)
    gh = factor.aligned(4 * n, anchors)
    rows = TripletRows(anchors, positives, negatives, *np.array([[2], [1], [3]]))
    sums = Compiled(formulas).vector_directions(rows, 0, is_distance, gh, 2 * n)
    np.testing.assert_array_equal(gh[2 * n : 2 * n + d], g)
    np.testing.assert_array_equal(gh[3 * n : 3 * n + d], h)
    assert not gh[: 2 * n].any()
    wide_g, wide_h = g.astype(float), h.astype(float)
    expected = wide_g @ wide_g, wide_h @ wide_h, wide_g @ wide_h
    np.testing.assert_allclose(sums, expected, rtol=0, atol=DTYPES[dtype] * np.linalg.norm(g) ** 2)


def test_few_components_of_many_features_lie_in_strips_and_many_components_in_slabs():
    assert not factor.choose_slabs(np.zeros((10, 512), np.float32))
    assert factor.choose_slabs(np.zeros((10, 16), np.float32))
    assert factor.choose_slabs(np.zeros((64, 512), np.float32))
