"""What an audit on a cluster found: figures and the most doubtful labels here, all suspects in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin._version import __version__
from nearkin.arrays import Array, Index
from nearkin.audit.exports import count_suspects, describe_rate
from nearkin.errors import printable
from nearkin.files import replacing
from nearkin.tables import write_columns

__all__ = ["ClusterAudit", "SuspectFiles"]

#: Columns of the table of suspects, and suspects that stay in memory.
COLUMNS = (
    "row", "file", "file_row", "given_label", "suggested_label", "tier", "plausibility", "confidence", "score"
)  # fmt: skip
_TOP = 1000


@dataclass(frozen=True)
class ClusterAudit:
    """What `nearkin.distributed.audit` found.

    Parameters
    ----------
    n_rows, n_dropped, n_features : int
        Labels that were judged, rows that were left out because they lack a number or a label, and features.
    classes : ndarray
        Sorted classes.
    class_counts : ndarray of int
        Labels of every class.
    n_references : int
        Rows that vote.
    voters : list of (str, int)
        Voters of the jury and their shares in percent.
    noise_rate, noise_rates, noise_interval, rate_is_estimated
        As in `nearkin.audit.LabelAudit`.
    n_suspects, n_wrong : int
        Suspects of both tiers, and of the first.
    class_suspects : ndarray of int
        Suspects of every class.
    pairs : list of (given label, suggested label, int)
        Which labels are suggested instead of which, the most frequent first.
    top : dict of str to list
        The 1,000 most doubtful suspects, columns as in the files.
    paths : list of Path
        Parquet files of all suspects, in the order of the rows.
    notes : tuple of str
        What a reader of the figures should know.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_wine
    >>> from nearkin import distributed, streams
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_wine(as_frame=True).frame.to_csv(f"{folder}/wine.csv", index=False)
    ...     stream = streams.open(f"{folder}/*.csv", label="target")
    ...     audit = distributed.audit(stream, f"{folder}/suspects", client="local:1")
    >>> audit.n_rows, audit.class_counts.tolist(), sorted(audit.top)[:3]
    (178, [59, 71, 48], ['confidence', 'file', 'file_row'])
    """

    n_rows: int
    n_dropped: int
    n_features: int
    classes: NDArray[Any]
    class_counts: Index
    n_references: int
    voters: list[tuple[str, int]]
    noise_rate: float
    noise_rates: Array
    noise_interval: tuple[float, float]
    rate_is_estimated: bool
    n_suspects: int
    n_wrong: int
    class_suspects: Index
    pairs: list[tuple[Any, Any, int]]
    top: dict[str, list[Any]]
    paths: list[Path]
    notes: tuple[str, ...]

    def summary(self) -> list[tuple[str, str]]:
        """Names and values, as the command line prints them."""
        dropped = f", {self.n_dropped:,} dropped" if self.n_dropped else ""
        arrow = "\N{RIGHTWARDS ARROW}"
        pairs = [f"{printable(one, 30)} {arrow} {printable(two, 30)} ({n:,})" for one, two, n in self.pairs[:3]]
        return [
            ("rows", f"{self.n_rows:,} with {self.n_features:,} features{dropped}"),
            ("classes", f"{len(self.classes):,}"),
            ("references", f"{self.n_references:,} rows, drawn from all over the files"),
            ("voters", ", ".join(f"{name} {share} %" for name, share in self.voters)),
            ("wrong labels", describe_rate(self)),
            ("suspects", count_suspects(self)),
            ("confused", ", ".join(pairs) or "none"),
            *(("note", one) for one in self.notes),
        ]

    def __str__(self) -> str:
        """The summary as text."""
        return "\n".join(f"{name}: {value}" for name, value in self.summary())

    def write(self, path: Path) -> None:
        """Write the figures as JSON."""
        figures = {
            name: getattr(self, name)
            for name in ("n_rows", "n_dropped", "n_features", "n_references", "n_suspects", "n_wrong", "noise_rate",
                         "noise_interval", "rate_is_estimated", "notes", "voters")
        }  # fmt: skip
        by_class = [
            {"class": str(name), "rows": int(n), "suspects": int(k), "noise_rate": float(rate)}
            for name, n, k, rate in zip(
                self.classes.tolist(), self.class_counts, self.class_suspects, self.noise_rates, strict=True
            )
        ]
        held = {
            "nearkin": __version__, **figures, "classes": by_class,
            "pairs": [[str(one), str(two), n] for one, two, n in self.pairs],
            "files": [one.name for one in self.paths],
        }  # fmt: skip
        with replacing(path, "audit_json", durable=True) as file:
            file.write(json.dumps(held, ensure_ascii=False).encode("utf-8", "backslashreplace"))


@dataclass
class SuspectFiles:
    """Writes suspects, one file for each part of the rows, and keeps count.

    Parameters
    ----------
    folder : Path
        Where to write.
    classes : ndarray
        Classes.
    sources : list of (str, int)
        Files that the rows are of, and number of the first row of each.
    """

    folder: Path
    classes: NDArray[Any]
    sources: Sequence[tuple[str, int]]
    paths: list[Path] = field(default_factory=list)
    n_suspects: int = 0
    n_wrong: int = 0
    pairs: dict[int, int] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)

    def write(self, found: NDArray[Any], plausibility: Array, is_wrong: NDArray[np.bool_]) -> None:
        """Write the suspects of one part, of the type ``DOUBTED``, with the plausibility that they have in the end."""
        n_classes = len(self.classes)
        starts = np.array([first for _, first in self.sources])
        at = np.searchsorted(starts, found["row"], side="right") - 1
        columns = dict(zip(COLUMNS, (
            found["row"], np.array([path for path, _ in self.sources], dtype=object)[at], found["row"] - starts[at],
            self.classes[found["code"]], self.classes[found["best"]], np.where(is_wrong, "wrong", "look"),
            plausibility, (1.0 - plausibility) * found["share"], found["score"],
        ), strict=True))  # fmt: skip
        path = self.folder / f"suspects-{len(self.paths):05d}.parquet"
        write_columns(path, columns, "suspects_part")
        self.paths.append(path)
        self.n_suspects += len(found)
        self.n_wrong += int(is_wrong.sum())
        for pair, n in zip(*np.unique(found["code"].astype(np.int64) * n_classes + found["best"], return_counts=True),
                           strict=True):  # fmt: skip
            self.pairs[int(pair)] = self.pairs.get(int(pair), 0) + int(n)
        both = {name: np.concatenate([self.top[name], one]) if self.top else one for name, one in columns.items()}
        first = np.lexsort((both["row"], both["plausibility"], both["score"], both["tier"] != "wrong"))[:_TOP]
        self.top = {name: one[first] for name, one in both.items()}

    def list_pairs(self) -> list[tuple[Any, Any, int]]:
        """Given label, suggested label and number of suspects, the most frequent first."""
        names, k = self.classes.tolist(), len(self.classes)
        order = sorted(self.pairs, key=lambda one: (-self.pairs[one], one))
        return [(names[one // k], names[one % k], self.pairs[one]) for one in order]

    def count_by_class(self) -> Index:
        """Suspects of every class."""
        found = np.zeros(len(self.classes), np.int64)
        for pair, n in self.pairs.items():
            found[pair // len(self.classes)] += n
        return found
