"""The first source: a folder of the user's, whose files are checked before they are believed."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.datasets._errors import WrongChecksum
from nearkin.datasets._info import DatasetInfo

__all__ = ["VARIABLE", "checked_bytes", "data_folder", "read_file"]

#: Environment variable that names the folder.
VARIABLE = "NEARKIN_DATA"


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """Folder that the caller or the environment names; None without one."""
    named = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    if named is None:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        who = VARIABLE if data_dir is None else "data_dir"
        raise NotADirectoryError(f"{who} names {folder}, which is not a folder; name the folder with the data files.")
    return folder


def checked_bytes(info: DatasetInfo, folder: Path | None) -> bytes | None:
    """What the file holds, if there is one; an error if it is not the registered one."""
    if folder is None or not (folder / info.file).is_file():
        return None
    path = folder / info.file
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != info.sha256:
        raise WrongChecksum(str(path), info.sha256, found)
    return data


def read_file(data: bytes) -> dict[str, NDArray[Any]]:
    """Arrays of an npz file; from the bytes that were checked, and never unpickled."""
    with np.load(io.BytesIO(data), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}
