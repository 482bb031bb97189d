"""Excel workbooks: the first sheet that holds anything, a header row and one row per example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearkin.errors import InputError
from nearkin.tables.table import CellTable, Table, decoding

__all__ = ["read_excel"]


def read_excel(path: Path) -> Table:
    """Read a sheet; what it shows as numbers, dates and truth is read as in CSV."""
    rows = _rows(path)
    if not rows:
        raise InputError(f"{path} is empty; a sheet with a header row was expected.")
    width = max(len(row) for row in rows)
    rows = [row + [""] * (width - len(row)) for row in rows]
    columns: dict[str, list[str]] = {}
    for name, *cells in zip(*rows, strict=True):
        if name.strip() in columns and name.strip():
            raise InputError(f"the header of {path} names {name.strip()!r} twice; give every column its own name.")
        if name.strip() or any(cells):
            columns[name.strip()] = cells
    if len(rows) == 1:
        raise InputError(f"{path} holds a header but no rows.")
    return CellTable(str(path), columns, len(rows) - 1)


def _rows(path: Path) -> list[list[str]]:
    """Return the rows of the first sheet that has any, without those that are empty."""
    try:
        import openpyxl
    except ImportError:
        raise ImportError(f"{path} needs openpyxl; install it with: pip install 'nearkin[excel]'") from None
    with decoding(path, "an Excel workbook"):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            for sheet in book.worksheets:
                rows = [[_text(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
                if rows := [row for row in rows if any(row)]:
                    return rows
        finally:
            book.close()
    return []


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.isoformat(" ") if hasattr(cell, "hour") and hasattr(cell, "year") else str(cell)
