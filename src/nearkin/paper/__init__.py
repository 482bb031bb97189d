"""The paper's experiments: its protocol, tables and figures, beside the numbers that it prints.

`reproduce` measures a `Table` of `TABLES`; ``nearkin reproduce`` does so on the command line. A table is data: change
it by `narrow`, or make one of your own.
"""

from nearkin.paper.methods import METHODS, PAPER, Method
from nearkin.paper.protocol import KINDS, derive_seed, draw_splits, flip_training_labels, get_protocol, prepare
from nearkin.paper.reproduction import Log, Result, load_available, reproduce, run_cells
from nearkin.paper.tables import SEVEN, TABLES, Cell, Measurement, Outcome, Table, list_cells, measure, narrow, shrink

__all__ = [
    "KINDS", "METHODS", "PAPER", "SEVEN", "TABLES", "Cell", "Log", "Measurement", "Method", "Outcome",
    "Result", "Table", "derive_seed", "draw_splits", "flip_training_labels", "get_protocol", "list_cells",
    "load_available", "measure", "narrow", "prepare", "reproduce", "run_cells", "shrink",
]  # fmt: skip
