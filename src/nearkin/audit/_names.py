"""Errors speak of what the user called, not of what does the work inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["speaking_as"]


@contextmanager
def speaking_as(name: str, *inner: str) -> Iterator[None]:
    """Let every `ValueError` of the block name ``name``: where it names something inner, or else at its beginning.

    Examples
    --------
    >>> with speaking_as("audit_labels", "RobustKNeighborsClassifier"):
    ...     raise ValueError("RobustKNeighborsClassifier needs two classes.")
    Traceback (most recent call last):
    ValueError: audit_labels needs two classes.
    """
    try:
        yield
    except ValueError as error:
        text = str(error)
        for one in inner:
            text = re.sub(rf"\b{one}\b", name, text)
        if "does not accept missing values" in text:  # what follows is about other packages
            text = f"{text.splitlines()[0]} Fill the gaps, or drop such rows or columns."
        raise ValueError(text if name in text else f"{name}: {text}") from error
