"""What is known about a data set before its numbers are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DatasetInfo", "NoisyLabels"]


@dataclass(frozen=True)
class NoisyLabels:
    """Labels that people gave, with their mistakes.

    Parameters
    ----------
    array : str
        Its name in the file.
    wrong : float
        Share of labels that differ from the right ones.
    about : str
        How the labels came about.
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
        As `load` knows it.
    title : str
        As people know it.
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
        Where the numbers in the file were taken from.
    paper : str
        Table of the paper that uses it, and what the paper does to it first.
    class_names : tuple of str, default=()
        Names of the classes 0, 1, ...; empty where they are mere numbers.
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
        Function of ``sklearn.datasets`` that gives the same data.
    openml : int or None, default=None
        Number of the same data on OpenML.
    content : str or None, default=None
        Checksum of rows and labels in sorted order, for the sources that have no file of ours.
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
