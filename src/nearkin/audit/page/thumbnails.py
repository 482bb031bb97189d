"""Small pictures as part of a page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nearkin.tables import require_pillow

__all__ = ["thumbnails"]

#: Edge of a picture in pixels (shown at half of it), and JPEG quality.
_EDGE = 128
_QUALITY = 60


def thumbnails(
    images: Sequence[Any] | NDArray[Any], rows: Iterable[int], budget: int
) -> tuple[dict[int, str], list[int]]:
    """Pictures of rows by row as data URIs, in the given order, until the budget of characters is spent.

    ``images`` are the files of all rows, ``rows`` those to show, the most important first; they may repeat. Rows whose
    file is not a picture come back as well.
    """
    Image = require_pillow()
    pictures: dict[int, str] = {}
    unread: list[int] = []
    for row in dict.fromkeys(rows):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a picture that is a bomb, among others
                with Image.open(Path(images[row])) as image:
                    image.draft("RGB", (_EDGE, _EDGE))
                    small = image.convert("RGBA")
                    small.thumbnail((_EDGE, _EDGE))
                    flat = Image.new("RGB", small.size, "white")
                    flat.paste(small, mask=small.getchannel("A"))
        except Exception:  # whatever a broken or hostile file raises, there is no picture
            unread.append(row)
            continue
        file = io.BytesIO()
        flat.save(file, "JPEG", quality=_QUALITY, optimize=True)
        text = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
        budget -= len(text)
        if budget < 0:
            break
        pictures[row] = text
    return pictures, unread
