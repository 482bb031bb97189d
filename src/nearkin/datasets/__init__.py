"""Data sets of the paper and a few others: where to find them, what they are, and what to beware of.

The package holds no data. `load` reads it from a folder of yours, from scikit-learn, or from OpenML.
"""

from nearkin.datasets.loading import Dataset, DatasetNotFound, WrongChecksum, load, where
from nearkin.datasets.registry import DatasetInfo, NoisyLabels, info, names

__all__ = [
    "Dataset", "DatasetInfo", "DatasetNotFound", "NoisyLabels", "WrongChecksum", "info", "load", "names", "where",
]  # fmt: skip
