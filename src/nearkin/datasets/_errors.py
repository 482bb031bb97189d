"""What can go wrong with a data set: it is not here, or it is not what it should be."""

from __future__ import annotations

__all__ = ["DatasetNotFound", "WrongChecksum"]


class DatasetNotFound(FileNotFoundError):
    """A data set that none of its sources has; the message says how to get it.

    Parameters
    ----------
    message : str
        What is missing, where it was looked for, and where it can come from.

    Examples
    --------
    >>> from nearkin import datasets
    >>> issubclass(datasets.DatasetNotFound, FileNotFoundError)
    True
    """

    def __init__(self, message: str):
        super().__init__(message)


class WrongChecksum(ValueError):
    """Data that is not what the registry describes: another version, or damaged.

    Parameters
    ----------
    what : str
        File, or the name that another source gives to the data.
    expected : str
        sha256 in the registry.
    found : str
        sha256 of what was found.

    Examples
    --------
    >>> from nearkin import datasets
    >>> str(datasets.WrongChecksum("wine.npz", "3baa", "0c1d"))
    'wine.npz has the sha256 0c1d, but 3baa is expected: it is damaged or another version. Get it anew.'
    """

    def __init__(self, what: str, expected: str, found: str):
        self.what, self.expected, self.found = what, expected, found
        super().__init__(what, expected, found)

    def __str__(self) -> str:
        return (
            f"{self.what} has the sha256 {self.found}, but {self.expected} is expected: "
            "it is damaged or another version. Get it anew."
        )
