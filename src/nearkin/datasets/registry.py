"""What is known about a data set before its numbers are read; the entries are in ``registry.toml``."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

__all__ = ["REGISTRY", "DatasetInfo", "NoisyLabels", "info", "names"]


@dataclass(frozen=True)
class NoisyLabels:
    """Labels that people gave, mistakes included.

    Parameters
    ----------
    array : str
        Name of the array in the file.
    wrong : float
        Share of labels that differ from the right ones.
    about : str
        How the labels came about.

    Examples
    --------
    >>> from nearkin import datasets
    >>> datasets.info("cifar10n").noisy_labels["worst"].wrong
    0.417
    """

    array: str
    wrong: float
    about: str


@dataclass(frozen=True, kw_only=True, eq=False)
class DatasetInfo:
    """Registry entry of a data set.

    Parameters
    ----------
    name : str
        Name that `load` takes.
    title : str
        Name that people use.
    file : str
        Name of the file in a data folder.
    sha256 : str
        Checksum of the file.
    n_rows : int
        Rows of ``X``.
    n_features : int
        Columns of ``X``.
    n_classes : int
        Classes of ``y``, which are numbered from 0.
    dtype : str
        Type of ``X``, whatever the source.
    licence : str
        What is known about the right to use it.
    citation : tuple of str
        Works to cite.
    origin : str
        Where the numbers in the file come from.
    paper : str
        Table of the paper that uses it, and how the paper prepares it.
    class_names : tuple of str, default=()
        Names of the classes 0, 1, ...; empty if they have none.
    traps : tuple of str, default=()
        What has misled people, or will.
    drop_columns : tuple of int, default=()
        Columns of ``X`` that the paper leaves out; `load` keeps them.
    groups : str or None, default=None
        Array whose equal values mark rows that must not be split between training and test.
    noisy_labels : mapping of str to NoisyLabels, default={}
        Labels given by people, by their name in ``Dataset.noisy_labels``.
    extra : mapping of str to str, default={}
        Other arrays of the file and what they hold.
    sklearn : str or None, default=None
        Function of ``sklearn.datasets`` that returns the same data.
    openml : int or None, default=None
        Number of the same data on OpenML.
    content : str or None, default=None
        Checksum of rows and labels in sorted order, for sources other than the file.
    elsewhere : str, default=""
        What to know about other sources.

    Examples
    --------
    >>> from nearkin import datasets
    >>> entry = datasets.info("ionosphere")
    >>> entry.n_rows, entry.n_features, entry.drop_columns
    (351, 34, (1,))
    """

    name: str
    title: str
    file: str
    sha256: str
    n_rows: int
    n_features: int
    n_classes: int
    dtype: str
    licence: str
    citation: tuple[str, ...]
    origin: str
    paper: str
    class_names: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    drop_columns: tuple[int, ...] = ()
    groups: str | None = None
    noisy_labels: Mapping[str, NoisyLabels] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    sklearn: str | None = None
    openml: int | None = None
    content: str | None = None
    elsewhere: str = ""


def _read_entry(name: str, fields: dict[str, Any]) -> DatasetInfo:
    people = {key: NoisyLabels(**labels) for key, labels in fields.pop("noisy_labels", {}).items()}
    plain: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return DatasetInfo(name=name, noisy_labels=people, **plain)


def _read_registry() -> dict[str, DatasetInfo]:
    text = resources.files(__package__).joinpath("registry.toml").read_text("utf-8")
    return {name: _read_entry(name, fields) for name, fields in tomllib.loads(text).items()}


#: Entries by name, those of the paper first.
REGISTRY = _read_registry()


def names() -> tuple[str, ...]:
    """Names of all data sets, those of the paper first.

    Returns
    -------
    tuple of str
        Names that `load` and `info` take.

    Examples
    --------
    >>> from nearkin import datasets
    >>> datasets.names()[:3]
    ('wine', 'letters', 'yale')
    """
    return tuple(REGISTRY)


def info(name: str) -> DatasetInfo:
    """Registry entry of a data set; reads no data.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    DatasetInfo
        Size, licence, citation, traps and sources.

    Examples
    --------
    >>> from nearkin import datasets
    >>> datasets.info("letters").title
    'Letter Recognition'
    """
    if name in REGISTRY:
        return REGISTRY[name]
    close = difflib.get_close_matches(str(name).lower(), REGISTRY, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"known are {', '.join(REGISTRY)}."
    raise ValueError(f"there is no data set {name!r}; {hint}")
