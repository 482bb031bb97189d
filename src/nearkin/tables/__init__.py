"""Tables are read here, once for all: CSV, Parquet, npy and npz, whole or in batches."""

from nearkin.tables.batches import Chunk, Layout, Reader, Unit, layout_of
from nearkin.tables.cells import NO_LABEL, label_kind, unquote_formulas
from nearkin.tables.choice import REVIEWED
from nearkin.tables.codes import CategoryCode, DateCode, NumberCode, PictureCode, TextCode, VectorCode
from nearkin.tables.csv_files import CsvReader
from nearkin.tables.encoder import ColumnUse, TableEncoder, encode_rows
from nearkin.tables.frames import as_table, is_frame, is_mixed
from nearkin.tables.images import holds_picture_folders, require_pillow
from nearkin.tables.labelled import (
    LabelledRows,
    column_names,
    encode_table,
    kind_of,
    open_table,
    read_for_model,
    read_labelled,
    read_matrix,
    read_training,
)
from nearkin.tables.log_files import LogFile, LogPart, open_log
from nearkin.tables.numpy_files import Arrays, NpyReader, read_labels
from nearkin.tables.originals import OriginalCells
from nearkin.tables.output import check_names, write_arrays, write_columns, write_csv, write_matrix
from nearkin.tables.parquet_files import ParquetReader
from nearkin.tables.shown import ShownColumns
from nearkin.tables.table import ArrowTable, Table, find_gap, require_pyarrow

__all__ = [
    "NO_LABEL", "REVIEWED", "Arrays", "ArrowTable", "CategoryCode", "Chunk", "ColumnUse", "CsvReader", "DateCode",
    "LabelledRows", "Layout", "LogFile", "LogPart", "NpyReader", "NumberCode", "OriginalCells", "ParquetReader",
    "PictureCode", "Reader", "ShownColumns", "Table", "TableEncoder", "TextCode", "Unit", "VectorCode", "as_table",
    "check_names", "column_names", "encode_rows", "encode_table", "find_gap", "holds_picture_folders", "is_frame",
    "is_mixed", "kind_of", "label_kind", "layout_of", "open_log", "open_table", "read_for_model", "read_labelled",
    "read_labels", "read_matrix", "read_training", "require_pillow", "require_pyarrow", "unquote_formulas",
    "write_arrays", "write_columns", "write_csv", "write_matrix",
]  # fmt: skip
