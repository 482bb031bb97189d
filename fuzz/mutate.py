"""Damage: bytes, trees of JSON and arrays, changed at random."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np

#: Numbers and words on which parsers stumble.
NUMBERS = (0, 1, -1, 2, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30))
FLOATS = (0.0, -0.0, 1e-320, 1e-30, 1e30, 1e308, -1e308, float("inf"), -float("inf"), float("nan"), 0.5, -1.0)
WORDS = (
    "", " ", "nan", "NaN", "inf", "-inf", "1e999", "1e-999", "None", "?", "0x10", "1_000", "9" * 400, "-", "+",
    ".", "e", "=1+1", "@SUM(A1)", "\x00", "\x1b[31m", "\u202e", "\ufeff", '"', "'", '"""', "\r", "\r\n", "\n", ",", ";",
    "\t", "é", "\ud7ff", "💣", "../../etc/passwd", "%s%s%n", "{0}", "true", "1.5.2", "1,5", "２", "𝟙", "null", "y",
)  # fmt: skip
DTYPES = ("<f8", "<f4", "<f2", ">f8", "<i8", "<i4", "<u1", "|b1", "<c16", "<U3", "<M8[ns]", "|S2", "<i2")


def mutate_bytes(content: bytes, rng: np.random.Generator, other: bytes = b"") -> bytes:
    """Return a damaged copy that differs from the content."""
    made = content
    while made == content:
        for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
            made = _BYTES[rng.integers(len(_BYTES))](made, rng, other or content)
    return made


def _place(content: bytes, rng: np.random.Generator) -> int:
    """Return a place; headers stand at the two ends, so those are more likely."""
    n = max(1, len(content))
    near = int(rng.integers(min(n, 256)))
    return [int(rng.integers(n)), near, n - 1 - near][rng.integers(3)]


def _flip(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    made = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 3, 20]))):
        if made:
            made[_place(content, rng)] ^= 1 << int(rng.integers(8))
    return bytes(made)


def _overwrite(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    at, size = _place(content, rng), int(rng.choice([1, 2, 4, 8, 64]))
    fill = [b"\x00" * size, b"\xff" * size, rng.bytes(size), b"\x7f" * size][rng.integers(4)]
    return content[:at] + fill + content[at + size :]


def _cut(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    return content[: _place(content, rng)]


def _delete(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    at = _place(content, rng)
    return content[:at] + content[at + int(rng.choice([1, 2, 8, 100])) :]


def _insert(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    at = _place(content, rng)
    return content[:at] + rng.bytes(int(rng.choice([1, 2, 8, 100]))) + content[at:]


def _repeat(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    a, b = sorted((_place(content, rng), _place(content, rng)))
    return content[:b] + content[a:b] * int(rng.choice([1, 3, 50])) + content[b:] if b - a < 4096 else content[b:]


def _splice(content: bytes, rng: np.random.Generator, other: bytes) -> bytes:
    return content[: _place(content, rng)] + other[_place(other, rng) :]


def _number(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    found = list(re.finditer(rb"\d+(\.\d+)?", content[: 1 << 16]))
    if not found:
        return _flip(content, rng, b"")
    one = found[rng.integers(len(found))]
    values = [*map(str, NUMBERS), *map(str, FLOATS)]
    return content[: one.start()] + values[rng.integers(len(values))].encode() + content[one.end() :]


def _word(content: bytes, rng: np.random.Generator, _: bytes) -> bytes:
    found = list(re.finditer(rb"[\w.+-]+", content[: 1 << 16]))
    if not found:
        return _insert(content, rng, b"")
    one = found[rng.integers(len(found))]
    return content[: one.start()] + WORDS[rng.integers(len(WORDS))].encode() + content[one.end() :]


_BYTES = (_flip, _overwrite, _cut, _delete, _insert, _repeat, _splice, _number, _word)


def mutate_tree(tree: Any, arrays: list[np.ndarray], rng: np.random.Generator) -> tuple[Any, list[np.ndarray]]:
    """Return a copy of a saved model with something forged: a value of the tree, or an array."""
    tree, arrays = copy.deepcopy(tree), list(arrays)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if arrays and rng.random() < 0.5:
            at = int(rng.integers(len(arrays)))
            arrays[at] = mutate_array(arrays[at], rng)
        else:
            tree = _mutate_place(tree, rng)
    return tree, arrays


def _mutate_place(tree: Any, rng: np.random.Generator) -> Any:
    """Change one place of a tree, all places being equally likely."""
    places: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        items = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        for key, value in items:
            places.append((one, key))
            waiting.append(value)
    if not places:
        return _forge(tree, rng)
    holder, key = places[rng.integers(len(places))]
    what = rng.random()
    if what < 0.08:
        del holder[key]
    elif what < 0.16:
        source, other = places[rng.integers(len(places))]
        holder[key] = copy.deepcopy(source.get(other) if isinstance(source, dict) else source[other])
    elif what < 0.2 and isinstance(holder, dict):
        holder[WORDS[rng.integers(len(WORDS))]] = holder.pop(key)
    else:
        holder[key] = _forge(holder[key], rng)
    return tree


def _forge(value: Any, rng: np.random.Generator) -> Any:
    """Return a value in place of another: often of its kind, sometimes of any."""
    kinds: list[tuple[Any, ...]] = [(None, True, False, [], {}), NUMBERS, FLOATS[:-5], WORDS]
    kinds.append(({"$float": "nan"}, {"$float": "inf"}, {"$tuple": []}, {"$array": "0"}, {"$list": [1, "a"]}))
    kinds.append(({"$array": "999"}, {"$dtype": "O"}, {"$objects": [], "shape": [10**9]}, {"$slice": [0, 1, 0]}))
    own = {bool: 0, int: 1, float: 2, str: 3}.get(type(value))
    choice = kinds[own] if own is not None and rng.random() < 0.5 else kinds[rng.integers(len(kinds))]
    if type(value) in (int, float) and rng.random() < 0.3:
        return value + int(rng.integers(-3, 4))
    return copy.deepcopy(choice[rng.integers(len(choice))])


def mutate_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return another array: of another shape, type, or with other values."""
    what = int(rng.integers(9))
    flat = np.ascontiguousarray(array).reshape(-1)
    with np.errstate(all="ignore"):
        try:
            if what == 0 and flat.size:  # extreme values
                made = array.copy()
                pool = FLOATS if array.dtype.kind == "f" else NUMBERS[:6]
                made.reshape(-1)[rng.integers(flat.size)] = pool[rng.integers(len(pool))]
                return made
            if what == 1:
                return array.astype(DTYPES[rng.integers(len(DTYPES))])
            if what == 2 and array.ndim:
                return array[: int(rng.integers(len(array) + 1))].copy()
            if what == 3 and array.ndim:
                return np.concatenate([array] * int(rng.choice([2, 3, 7])))
            if what == 4:
                return np.ascontiguousarray(array.T if array.ndim > 1 else array[None])
            if what == 5:
                return np.zeros(rng.choice([0, 1, 2, 5], size=int(rng.integers(0, 4))), dtype=array.dtype)
            if what == 6:
                return rng.permutation(flat).reshape(array.shape)
            if what == 7:
                return np.frombuffer(rng.bytes(flat.nbytes), dtype=array.dtype).reshape(array.shape).copy()
            return np.full_like(array, FLOATS[rng.integers(len(FLOATS))])
        except (TypeError, ValueError, OverflowError):
            return np.zeros(3)
