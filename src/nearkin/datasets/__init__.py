"""Data sets of the paper and beyond it: where they are, what they are, and what to beware of.

No data comes with the package: it is read from a folder of yours, from scikit-learn, or from OpenML.
"""

from nearkin.datasets._errors import DatasetNotFound, WrongChecksum
from nearkin.datasets._info import DatasetInfo
from nearkin.datasets._load import Dataset, info, load, names, where

__all__ = ["Dataset", "DatasetInfo", "DatasetNotFound", "WrongChecksum", "info", "load", "names", "where"]
