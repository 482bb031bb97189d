"""Streams larger than memory: labelled rows from files or iterators, learned batch by batch, and resumable."""

from nearkin.streams._batch import Batch
from nearkin.streams._fit import fit_stream
from nearkin.streams._memory import Memory, memory_estimate
from nearkin.streams._open import open_stream as open
from nearkin.streams._run import Report
from nearkin.streams._sample import sample_rows
from nearkin.streams._score import score_stream
from nearkin.streams._source import FileStream, Stream

__all__ = [
    "Batch",
    "FileStream",
    "Memory",
    "Report",
    "Stream",
    "fit_stream",
    "memory_estimate",
    "open",
    "sample_rows",
    "score_stream",
]
