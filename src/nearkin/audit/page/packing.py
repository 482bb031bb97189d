"""Arrays as text, deflated and in base 64, which a page can read without help."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_json", "pack", "pack_json", "smallest"]


def smallest(values: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Return whole numbers from 0 on in as few bytes as they need.

    Examples
    --------
    >>> smallest(np.array([0, 255])).dtype, smallest(np.array([256])).dtype
    (dtype('uint8'), dtype('uint16'))
    """
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def pack(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Pack arrays one after the other, little-endian; ``layout`` says name, kind and length of each.

    Examples
    --------
    >>> packed = pack({"a": np.array([1, 2], dtype=np.uint8)})
    >>> packed["layout"]
    [['a', 'u1', 2]]
    """
    layout, parts = [], []
    for name, values in arrays.items():
        kind = values.dtype.newbyteorder("<")
        layout.append([name, f"{kind.kind}{kind.itemsize}", int(values.size)])
        parts.append(np.ascontiguousarray(values, dtype=kind).tobytes())
    return {"layout": layout, "data": _deflated(b"".join(parts))}


def pack_json(value: Any) -> str:
    """A JSON value as deflated text."""
    return _deflated(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def as_json(value: Any) -> str:
    r"""JSON that may stand inside a script element: nothing in it can end the element or begin a comment.

    Examples
    --------
    >>> as_json("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "replace").decode()


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()
