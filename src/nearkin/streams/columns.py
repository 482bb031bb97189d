"""Columns of a stream by name: those that a model has learned, in its order, wherever they stand."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from nearkin.errors import quote_names
from nearkin.stored import Count, Maybe, Part, Table, Text, stored
from nearkin.tables import Layout, TableEncoder, label_kind

__all__ = ["Columns", "Named", "arrange", "keep_encoder", "known_columns", "note_new", "without_names"]

#: An entry of a vector.
_ENTRY = re.compile(r"(.+)\[(\d+)\]")


@stored(
    widths=Table(Text(), Count()), labels=Text("whole", "decimal", "number", "text"),
    encoder=Maybe(Part("TableEncoder")),
)  # fmt: skip
@dataclass(frozen=True)
class Columns:
    """Names of feature columns in their order, each with the length of its vectors (0: plain numbers), and how labels
    are written. An encoder, where there is one, makes the features of these columns.
    """

    widths: dict[str, int]
    labels: str
    encoder: TableEncoder | None = field(default=None, compare=False)

    @classmethod
    def of_layout(cls, layout: Layout) -> Columns:
        """Return the columns that a layout reads."""
        if layout.encoder is not None:
            return cls(dict.fromkeys(layout.encoder.codes_, 0), layout.kind, layout.encoder)
        return cls({name: int(width) for name, width in zip(layout.columns, layout.widths, strict=True)}, layout.kind)

    @classmethod
    def of_names(cls, names: list[str], labels: str) -> Columns:
        """Return the columns behind names of features: ``v[0]`` and ``v[1]`` are one column of vectors.

        >>> Columns.of_names(["a", "v[0]", "v[1]", "b[1]"], "text").widths
        {'a': 0, 'v': 2, 'b[1]': 0}
        """
        found: dict[str, int] = {}
        for name in names:
            entry = _ENTRY.fullmatch(name)
            if entry is not None and int(entry[2]) == found.get(entry[1], 0):
                found[entry[1]] = int(entry[2]) + 1
            else:
                found[name] = 0
        return cls(found, labels)

    @property
    def names(self) -> list[str]:
        """One name for every feature; an entry of a vector is called ``name[i]``."""
        widths = list(self.widths.values())
        return Layout(list(self.widths), widths, "", self.labels, "float64", encoder=self.encoder).names


class Named(Protocol):
    """A stream that may know the names of its columns."""

    def arranged(self, learned: Columns, labels: str) -> Self:
        """Return the same rows with these columns in this order and labels of this kind (see `Layout.arranged`).

        A missing column is refused, and others are warned of.
        """


AnyStream = TypeVar("AnyStream", bound=Named)


def known_columns(model: Any) -> Columns | None:
    """Return the columns that a model has learned, from its history or its names; None if it knows no names."""
    history = getattr(model, "history_", None)
    if history is not None and history.columns is not None:
        found: Columns = history.columns
        return found
    names, encoder = getattr(model, "feature_names_in_", None), getattr(model, "encoder_", None)
    if encoder is not None:
        return Columns(dict.fromkeys(encoder.codes_, 0), "text" if _texts(model) else "number", encoder)
    if names is None:
        return None
    return Columns.of_names([str(one) for one in names], "text" if _texts(model) else "number")


def _texts(model: Any) -> list[str]:
    """Return the classes of a model if they are text."""
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    return classes if all(isinstance(one, str) for one in classes) else []


def arrange(stream: AnyStream, model: Any) -> AnyStream:
    """Return a stream with the columns that a model has learned, in its order; arrays without names as they are."""
    known, texts = known_columns(model), _texts(model)
    if known is None:
        return stream
    is_words = known.labels == "text" and bool(texts) and all(label_kind([one]) == "text" for one in texts)
    return stream.arranged(known, "words" if is_words else known.labels)


@contextmanager
def without_names(model: Any) -> Iterator[None]:
    """Let plain arrays in: their columns were matched by name before, and scikit-learn would miss the names."""
    found = [vars(one).pop("feature_names_in_", None) for one in _parts_of(model)]
    names = next((one for one in found if one is not None), None)
    try:
        yield
    finally:
        for one in _parts_of(model):
            if names is not None and getattr(one, "n_features_in_", None) == len(names):
                one.feature_names_in_ = names


def _parts_of(model: Any) -> list[Any]:
    """Return a model and the learners in it."""
    inside = [getattr(model, name, None) for name in ("learner", "learner_")]
    return [model, *(one for one in inside if hasattr(one, "partial_fit"))]


def keep_encoder(model: Any) -> None:
    """Let a model that was learned from a stream encode tables as the stream was encoded."""
    known = known_columns(model)
    if known is not None and known.encoder is not None:
        model.encoder_ = known.encoder


def note_new(place: str, held: Any, learned: Columns, *others: str | None) -> None:
    """Warn of columns that a model has not learned."""
    known = {*learned.widths, *others}
    if learned.encoder is not None:
        known |= {one.name for one in learned.encoder.columns_}
    if new := [name for name in held if name and name not in known]:
        problem = f"{place} has columns that the model has not learned, which are left out: {quote_names(new)}."
        warnings.warn(problem, stacklevel=4)
