"""Files that people keep: what may be written where, and files that appear only when complete."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nearkin import progress
from nearkin.errors import InputError

__all__ = ["KINDS", "StrPath", "check_name", "claim", "discard_parts", "naming", "replacing", "sync_folder"]

StrPath = str | os.PathLike[str]

# ---------------------------------------------------------------------- what may be written where


def _table(kind: bytes, columns: bytes) -> dict[str, bytes]:
    """Return the patterns of a table by suffix: the last names of a CSV header, or the kind in Parquet's metadata."""
    header = rb"\A([^\r\n]*[,\t])?(" + columns.replace(b",", rb"[,\t]") + rb")\r?(\n|\Z)"
    parquet = rb"nearkin\.table.{0,8}" + kind
    return {".csv": header, ".tsv": header, ".parquet": parquet, ".pq": parquet}


_ROWS = rb"row,given_label,suggested_label,is_suspect,tier,plausibility,confidence,score"
_AUDIT, _SUSPECTS = _table(b"audit", _ROWS), _table(b"suspects", _ROWS + rb",near_rows,near_labels")
_PAGE = rb'<meta\ name="generator"\ content="nearkin\ [^"]*audit"'
_WATCH = rb'<meta\ name="generator"\ content="nearkin\ [^"]*watch"'
_CLICKS = rb'<meta\ name="generator"\ content="nearkin\ [^"]*clicks"'
_RESULTS = rb'<meta\ name="generator"\ content="nearkin">'
_REPORT = rb'\A\{\s*"nearkin":\ "[^"]*",\s*'
_ZIP = rb"\APK\x03\x04.{26}model\.json.*?"
_MODEL = _ZIP + rb'"kind":\ "nearkin-model",\ "format":\ \d+,\ "nearkin":\ "[^"]*",\ "model":\ '
_OF = rb'\{"\$class":\ "'
_NETWORK = rb'\A.{8}\{\s*"__metadata__":\s*\{\s*"nearkin'
_TORN = rb"\A(PK\x03\x04|\x00{4})"

#: What nearkin writes: its name, and by suffix ("" for any) the pattern by which a file of that kind is known, in the
#: first and last part of the file. Only a file of the same kind is ever replaced.
KINDS: dict[str, tuple[str, dict[str, bytes]]] = {
    "model": ("model", {"": _MODEL + rb'(?!\{"\$class":\ "(search|audit)\.) |' + _NETWORK}),
    "adapter": ("adapter", {"": _MODEL + _OF + rb"search\.SimilarityAdapter"}),
    "index": ("index", {"": _MODEL + _OF + rb"search\.Index"}),
    "auditor": ("auditor", {"": _MODEL + _OF + rb"audit\.(LabelAuditor|StreamAudit)"}),
    "saved_audit": ("audit", {"": _MODEL + _OF + rb'audit\.LabelAudit"'}),
    "checkpoint": ("checkpoint", {"": _ZIP + rb'"kind":\ "nearkin-checkpoint'}),
    "lock": ("lock of a checkpoint", {"": rb'\A\{[^{}]*"pid":\ \d+'}),
    "page": ("page", {".html": _PAGE, ".htm": _PAGE}),
    "watch": ("page of a log", {".html": _WATCH, ".htm": _WATCH}),
    "clicks": ("page of clicks", {".html": _CLICKS, ".htm": _CLICKS}),
    "csv": ("table of an audit", {"": _AUDIT[".csv"]}),
    "suspects": ("table of suspects", {".csv": _SUSPECTS[".csv"]}),
    "suspects_csv": ("table of suspects", {"": _SUSPECTS[".csv"]}),
    "suspects_part": (
        "table of suspects",
        _table(b"suspects_part", rb"row,file,file_row,given_label,suggested_label,tier,plausibility,confidence,score"),
    ),
    "audit": ("table of an audit", _AUDIT),
    "cleaned": ("table of cleaned labels", _table(b"cleaned", rb"row,label,given_label,confidence")),
    "reviewed": ("table of reviewed labels", _table(b"reviewed", rb"row,given_label,decision")),
    "consensus": (
        "table of consensus labels",
        _table(b"consensus", rb"row,label,confidence,n_answers,agreement,ask_again"),
    ),
    "annotators": (
        "table of annotators",
        _table(b"annotators", rb"annotator,n_answers,quality,low,high,agreement,mistake"),
    ),
    "doubts": ("table of plausibility", _table(b"doubts", rb"row,label,plausibility,score,doubtful")),
    "predictions": ("table of predictions", _table(b"predictions", rb"prediction,share")),
    "scores": ("table of plausibility", {".pq": rb"nearkin\.model"}),
    "matrix": (
        "table of mapped rows",
        {
            **_table(b"matrix", rb"c0,c1(,c\d+)*|\Ac0"),
            ".npy": rb"\A\x93NUMPY.{4}[^\n]*[ ]{128}\n",
            ".npz": rb"nearkin\ matrix\Z",
        },
    ),
    "map": ("map", {".npz": rb"nearkin\ map\Z"}),
    "onnx": ("map", {".onnx": rb"\A\x08.\x12\x07nearkin"}),
    "audit_json": ("report of an audit", {"": _REPORT + rb'"n_rows"'}),
    "json": ("report of an adaptation", {"": _REPORT + rb'"before"'}),
    "report": ("report of an adaptation", {".json": _REPORT + rb'"before"'}),
    "log": ("log", {"": rb'\A\{"batch":\ \d+,\ "rows":\ '}),
    "cells": ("log of cells", {"": rb'\A\{"cell":\ \{"dataset":\ '}),
    "records": (
        "table",
        {".json": rb'\A\[(\s*\{\s*"(dataset|figure)":\ |\])', ".md": rb"^-\ nearkin\ [\w.+]+\.$", ".html": _RESULTS},
    ),
    "figure": ("figure", {".svg": rb"<dc:title>nearkin", ".png": rb"Software\x00nearkin"}),
}  # fmt: skip

#: Bytes at either end in which a pattern is looked for; a header of 20,000 columns fits.
_ENDS = 1 << 18
_MOST = 1 << 26


def claim(outputs: Iterable[tuple[StrPath, str]], inputs: Iterable[StrPath | None] = ()) -> None:
    """Refuse, before any work is done, files that cannot be written or that must not be replaced.

    ``outputs`` are paths and their kinds, of `KINDS`. A file may be replaced only if nearkin wrote it as the same kind.
    It must not be an input, under whatever name, nor another output. Inputs may be files, folders and patterns.

    >>> claim([("no such folder/page.html", "page")])
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] there is no folder no such folder: 'no such folder/page.html'
    """
    read: set[tuple[int, int]] | None = None
    taken: set[object] = set()
    for given, kind in (name for one in outputs for name in _names(*one)):
        path = _resolve(given)
        _check_place(given, path)
        names: set[object] = {path}
        if path.exists():
            if read is None:  # a folder may hold very many
                read = {_identify(one) for source in inputs if source is not None for one in _files_behind(source)}
            if _identify(path) in read:
                raise InputError(f"{given} is an input of this command and would be overwritten; choose another name.")
            names.add(_identify(path))
        _check_kind(given, path, kind)
        if names & taken:
            raise InputError(f"{given} is named twice among the files to write.")
        taken |= names


def _names(given: StrPath, kind: str) -> list[tuple[StrPath, str]]:
    """Return all files that come with one: a checkpoint has a predecessor, a successor and a lock beside it."""
    if kind != "checkpoint":
        return [(given, kind)]
    newest = os.fspath(_resolve(given) if Path(given).is_symlink() else given)
    return [*((newest + ending, kind) for ending in ("", ".previous", ".next")), (newest + ".lock", "lock")]


def _resolve(given: StrPath) -> Path:
    try:
        return Path(given).resolve()
    except (OSError, RuntimeError) as error:
        raise InputError(f"cannot write {given}: {error}.") from None


def _files_behind(given: StrPath) -> Iterator[Path]:
    path = Path(given)
    if path.is_dir():
        yield from (one for one in path.iterdir() if one.is_file())
    elif path.exists():
        yield path
    elif glob.has_magic(os.fspath(given)):
        yield from (one for one in map(Path, glob.iglob(os.fspath(given), recursive=True)) if one.is_file())  # noqa: PTH207


def _identify(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def check_name(given: StrPath) -> None:
    """Refuse a name that is one of a folder: it ends in a slash, which `pathlib` would drop.

    >>> check_name("wine.html/")
    Traceback (most recent call last):
    IsADirectoryError: [Errno 21] this names a folder; name a file in it: 'wine.html/'
    """
    name = os.fspath(given)
    if os.path.split(name)[1] in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, "this names a folder; name a file in it", name)


def _check_place(given: StrPath, path: Path) -> None:
    name = os.fspath(given)
    check_name(given)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file in it", name)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "this is not a regular file but a device or a pipe; name a file", name)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {Path(given).parent}", name)
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise type(error)(error.errno, f"cannot write in {path.parent}: {error.strerror}", name) from None


def _check_kind(given: StrPath, path: Path, kind: str) -> None:
    noun, patterns = KINDS[kind]
    pattern = patterns.get("", patterns.get(Path(given).suffix.lower()))
    if pattern is None:
        raise InputError(f"cannot tell the format of {given}: its name must end in {', '.join(patterns)}.")
    if not (_holds(path, pattern) or (kind == "checkpoint" and _is_torn(path, pattern))):
        found = _tell_kind(path)
        lies = f" but a nearkin {found}" if found else ""
        raise InputError(f"{given} exists and is not a nearkin {noun}{lies}; choose another name, or remove it.")


def _tell_kind(path: Path) -> str | None:
    """Return what a file of ours is; None for files of others."""
    ends = _read_ends(path)
    kinds = ((noun, patterns.get("", patterns.get(path.suffix.lower()))) for noun, patterns in KINDS.values())
    return next((noun for noun, pattern in kinds if pattern is not None and _shows(ends, pattern)), None)


def _is_torn(path: Path, pattern: bytes) -> bool:
    """Return whether a file may be what a loss of power left of a checkpoint, whose predecessor is beside it."""
    beside = path.with_name(path.name + ".previous")
    return (
        beside.exists() and _holds(beside, pattern) and _holds(path, _TORN) and not _holds(path, KINDS["model"][1][""])
    )


def _holds(path: Path, pattern: bytes) -> bool:
    """Return whether a file is new, empty, or of ours."""
    return not path.exists() or not path.stat().st_size or _shows(_read_ends(path), pattern)


def _shows(ends: list[bytes], pattern: bytes) -> bool:
    return any(re.search(pattern, end, re.DOTALL | re.MULTILINE | re.VERBOSE) for end in ends)


def _read_ends(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        ends = [file.read(_ENDS)]
        size = _ENDS
        if ends[0].startswith(b"PAR1"):  # whose metadata may be long, and end with their length
            file.seek(-min(8, path.stat().st_size), os.SEEK_END)
            size = min(_MOST, 8 + int.from_bytes(file.read(4), "little"))
        file.seek(-min(size, path.stat().st_size), os.SEEK_END)
        return [*ends, file.read()]


# ---------------------------------------------------------------------- files that appear only when complete

#: Files in the making. Their names tell machine, start of the machine and process, so that a later run knows whether
#: the process is gone.
_parts: set[Path] = set()
_PART = re.compile(r"\.nearkin-([0-9a-f]{8})-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.part")
_swept: set[Path] = set()
#: How a file is made that must not exist, on Windows too.
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
#: Errors of writing, which name no file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: StrPath, kind: str | None, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends, and disappears if the block fails.

    `claim` decides whether ``path`` may be written; ``kind`` None is for files that no user names. With ``durable`` it
    survives a loss of power from then on.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "one.jsonl", "log") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "one.jsonl").read_text()
    'whole'
    """
    if kind is not None:
        claim([(path, kind)])
    target = _resolve(path)  # a link stays a link
    _sweep(target.parent)
    host, boot = _here()
    part = target.parent / f".nearkin-{host}-{boot}-{os.getpid()}-{secrets.token_hex(4)}.part"
    _parts.add(part)
    try:
        with naming(path, part), os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        part.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        if kind is not None:
            _check_kind(path, target, kind)  # again, as the block may have taken hours
        with naming(path, part):
            part.replace(target)
        if durable:
            sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        _parts.discard(part)


@contextmanager
def naming(path: StrPath, part: Path | None = None) -> Iterator[None]:
    """Make an `OSError` of the block name the file that the user knows, as a full disk does not."""
    try:
        yield
    except OSError as error:
        is_ours = error.filename is None and error.errno in _FULL
        if not is_ours and (part is None or error.filename not in (part, os.fspath(part))):
            raise
        raise type(error)(error.errno, error.strerror or str(error), os.fspath(path)) from error


def discard_parts() -> None:
    """Remove unfinished files, for a process that ends without leaving its blocks."""
    for part in tuple(_parts):
        part.unlink(missing_ok=True)


progress.at_exit.append(discard_parts)


def _sweep(folder: Path) -> None:
    """Remove, once per folder, the unfinished files of processes that are gone."""
    if folder in _swept:
        return
    _swept.add(folder)
    host, boot = _here()
    with suppress(OSError), os.scandir(folder) as entries:
        found = [(match, entry) for entry in entries if (match := _PART.fullmatch(entry.name))]
        for match, entry in found:
            is_gone = match[1] == host and (match[2] != boot or not _is_alive(int(match[3])))
            if is_gone and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    Path(entry.path).unlink()


def _here() -> tuple[str, str]:
    """Return what tells this machine (with its space of process numbers) and its last start from others."""
    host, boot = socket.gethostname(), ""
    with suppress(OSError):
        host += str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    return tuple(hashlib.sha256(one.encode()).hexdigest()[:8] for one in (host, boot))  # type: ignore[return-value]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it belongs to someone else
    return True


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power, where the platform can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
