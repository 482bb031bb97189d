"""The archive behind every file of nearkin: a zip without compression whose last bytes are the digest of all others.

Everything about a file is checked before any of it is used: that it is a regular file, its digest, the names, order and
sizes of its members, and the header of every array, whose size must be that of its member. What was written may
therefore be read in time and memory proportional to the size of the file, and nothing else is read at all.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

__all__ = [
    "FORMAT",
    "MOST_MEMBERS",
    "Newer",
    "check_array",
    "open_regular",
    "parse_header",
    "read_archive",
    "sealing",
    "write_archive",
]

#: Number of the format. Files of format 1 have no digest and are read too.
FORMAT = 2

HEADER = "model.json"
_MARK = b"sha256:"
_DIGEST = 64

#: Most members, and most lists and objects in the header: a header takes far more memory than its bytes once read.
MOST_MEMBERS = 10_000
MOST_ENTRIES = 1_000_000

_CHUNK = 1 << 20
_END = struct.Struct("<4s4H2LH")  # end of a zip's directory

#: Flags of members that mean nothing here: sizes that follow the content, and names in UTF-8.
_HARMLESS = 0x0808


class Newer(Exception):
    """The file's format is newer than this package."""


# ---------------------------------------------------------------------- writing


class _Sealed(io.RawIOBase):
    """Passes bytes on to a file, all but the last ones so far, and ends with their digest in place of these."""

    def __init__(self, file: BinaryIO):
        self._file, self._tail, self._digest = file, b"", hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        given = memoryview(data).cast("B")
        self._pass(self._tail[: max(0, len(self._tail) + len(given) - _DIGEST)])
        self._pass(given[: max(0, len(given) - _DIGEST)])
        self._tail = (self._tail + bytes(given[-_DIGEST:]))[-_DIGEST:]
        return len(given)

    def _pass(self, data: Any) -> None:
        self._digest.update(data)
        self._file.write(data)

    def seal(self) -> None:
        """Write the digest over the place that was left for it."""
        self._file.write(self._digest.hexdigest().encode())


@contextmanager
def sealing(file: BinaryIO, compression: int = zipfile.ZIP_STORED) -> Iterator[zipfile.ZipFile]:
    """Open an archive to write members to; when the block ends, its digest follows."""
    sealed = _Sealed(file)
    with zipfile.ZipFile(sealed, "w", compression) as archive:
        archive.comment = _MARK + b"0" * _DIGEST
        yield archive
    sealed.seal()


def write_archive(file: BinaryIO, header: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write a header, and arrays that it refers to by number."""
    text = json.dumps(header, allow_nan=False).encode()
    if len(arrays) >= MOST_MEMBERS or _count_entries(text) > MOST_ENTRIES:
        raise ValueError(
            f"a file holds at most {MOST_MEMBERS - 1:,} arrays and {MOST_ENTRIES:,} lists or objects; here are "
            f"{len(arrays):,} and {_count_entries(text):,}."
        )
    with sealing(file) as archive:
        # Without the time of writing, equal models are equal files.
        archive.writestr(zipfile.ZipInfo(HEADER), text)
        for i, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


# ---------------------------------------------------------------------- reading


@contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to read it; anything but a regular file is refused at once, where reading might never end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        yield file


def read_archive(file: BinaryIO, kind: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the header of an archive and its arrays; a file that was not written so raises.

    Raises
    ------
    Newer
        If the format is newer.
    Exception
        Of any kind, if the file is damaged or foreign.
    """
    is_sealed = _check_frame(file)
    with zipfile.ZipFile(file) as archive:
        members = _check_members(archive, file.seek(0, os.SEEK_END))
        header = parse_header(archive.read(members[0]), kind)
        if header["format"] > 1 and not is_sealed:
            raise ValueError("its digest is missing")
        return header, [_read_array(archive, one) for one in members[1:]]


def parse_header(text: bytes | str, kind: str) -> dict[str, Any]:
    """Return the header of a file of some kind, if its format can be read."""
    data = text.encode() if isinstance(text, str) else text
    if (n := _count_entries(data)) > MOST_ENTRIES:
        raise ValueError(f"its header holds {n:,} lists and objects")
    header = json.loads(data)
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise KeyError(f"{kind} expected, {header.get('kind') if isinstance(header, dict) else 'nothing'} found")
    number = header.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"its format is {number!r}")
    if number > FORMAT:
        raise Newer(str(header.get("nearkin", "unknown")))
    return header


def check_array(array: np.ndarray) -> np.ndarray:
    """Return an array that was read, if its bytes are values of its type."""
    kind = array.dtype.kind
    if kind == "b" and array.size and array.view(np.uint8).max() > 1:
        raise ValueError("an array of flags holds other numbers than 0 and 1")
    if kind == "U" and array.nbytes and array.reshape(-1).view(np.uint32).max() > 0x10FFFF:
        raise ValueError("an array of text holds numbers that are not characters")
    return array


def _count_entries(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _check_frame(file: BinaryIO) -> bool:
    """Whether the file ends with the digest of all its other bytes; raises if it ends with another one."""
    size = file.seek(0, os.SEEK_END)
    comment = len(_MARK) + _DIGEST
    for length in (comment, 0):
        if size < _END.size + length:
            raise ValueError("it is too short")
        file.seek(size - _END.size - length)
        end = file.read(_END.size + length)
        signature, _, _, _, n_members, directory, _, said = _END.unpack(end[: _END.size])
        if signature == b"PK\5\6" and said == length and end[_END.size :].startswith(_MARK[:length]):
            break
    else:
        raise ValueError("it is not an archive of nearkin, or it was cut short")
    if n_members > MOST_MEMBERS or (directory > 256 * MOST_MEMBERS and directory < size):
        raise ValueError(f"it holds {n_members:,} members")
    if length and _digest_of(file, size - _DIGEST) != end[-_DIGEST:]:
        raise ValueError("its digest is not that of its content")
    return bool(length)


def _digest_of(file: BinaryIO, size: int) -> bytes:
    digest = hashlib.sha256()
    file.seek(0)
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest().encode()


def _check_members(archive: zipfile.ZipFile, size: int) -> list[zipfile.ZipInfo]:
    """Members of an archive, if they are the header and numbered arrays, as they are, one after the other."""
    members = archive.infolist()
    if [one.filename for one in members] != [HEADER, *(f"{i}.npy" for i in range(len(members) - 1))]:
        raise ValueError("its members are not a header and numbered arrays")
    at = 0
    for one in members:
        if one.compress_type != zipfile.ZIP_STORED or one.file_size != one.compress_size:
            raise ValueError(f"its member {one.filename} is compressed")
        if one.flag_bits & ~_HARMLESS:
            raise ValueError(f"its member {one.filename} is encrypted, or of an unknown kind")
        if one.header_offset < at:
            raise ValueError(f"its member {one.filename} overlaps another")
        at = one.header_offset + one.file_size
    if at > size:
        raise ValueError("its members are larger than the file")
    return members


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """Read a member as an array, whose type and shape must fit its size before memory is taken."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(member)
        n_bytes = dtype.itemsize
        for one in shape:
            n_bytes *= one
        if dtype.kind not in "biufUSmM" or not dtype.isnative or is_fortran or min(shape, default=0) < 0:
            raise ValueError(f"array {info.filename} holds {dtype}, or is not in C order")
        if n_bytes != info.file_size - member.tell():
            raise ValueError(f"array {info.filename} is not as large as it says")
        array = np.empty(shape, dtype)
        flat, at = array.reshape(-1).view(np.uint8) if n_bytes else np.empty(0, np.uint8), 0
        while chunk := member.read(_CHUNK):  # its checksum is compared at the end
            flat[at : at + len(chunk)] = np.frombuffer(chunk, np.uint8)
            at += len(chunk)
    return check_array(array)
