"""Data larger than memory: labelled rows from files or iterators, learned batch by batch, resumable."""

from nearkin.streams.batch import Batch, Stream
from nearkin.streams.columns import Columns
from nearkin.streams.file_stream import FileStream, sample_rows
from nearkin.streams.fitting import Memory, fit_stream, memory_estimate
from nearkin.streams.history import History, Ledger, LedgerEntry
from nearkin.streams.late import LabelTable, LateLabels, Waiting
from nearkin.streams.logbook import LogBook, read_log
from nearkin.streams.monitor import Alarm, Cuts, Monitor, Shares
from nearkin.streams.onto import fit_onto
from nearkin.streams.opening import open_stream as open
from nearkin.streams.outcome import FileNote, Outcome
from nearkin.streams.page import write_page
from nearkin.streams.pupil import hold_rows
from nearkin.streams.run import Report
from nearkin.streams.scores import score_stream
from nearkin.streams.watch import Seen, Watch

__all__ = [
    "Alarm", "Batch", "Columns", "Cuts", "FileNote", "FileStream", "History", "LabelTable", "LateLabels", "Ledger",
    "LedgerEntry", "LogBook", "Memory", "Monitor", "Outcome", "Report", "Seen", "Shares", "Stream", "Waiting", "Watch",
    "fit_onto", "fit_stream", "hold_rows", "memory_estimate", "open", "read_log", "sample_rows", "score_stream",
    "write_page",
]  # fmt: skip
