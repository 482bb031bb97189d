"""Compiled loops on disk. A file that is missing, damaged, foreign or cannot be written costs time, never a fit.

Numba loads compiled code by pickle and then runs it, so a file must be this user's own and whole. Files lie in a folder
that nobody else may write to; each ends with a checksum, which is compared before anything of it is read. There is no
index: a file is named after its function and signature, appears only when complete, and says which it is for, so that
processes that compile at the same time do not disturb each other. The folder is named after the sources of all loops,
because numba itself notices a change in the file of a function only, not in those of functions that are inlined.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.misc.appdirs import AppDirs

from nearkin.files import replacing

_DIGEST = hashlib.sha256().digest_size


class LoopCache(FunctionCache):
    """The files of one compiled loop, in place of numba's own cache."""

    def __init__(self, function: Any):  # not the parent's, which fails where nothing can be written
        self._py_func = function
        self._impl = _Code()
        self.enable()

    @property
    def cache_path(self) -> str | None:
        """The folder."""
        folder = own_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature; None, so that it is compiled, if there is none that is whole."""
        target_context.refresh()
        folder = own_folder()
        if folder is None or not self._enabled:
            return None
        key = self._base, *self._index_key(sig, target_context.codegen())
        try:
            code = self._file(folder, key).load(key)
            return None if code is None else self._impl.rebuild(target_context, code)
        except Exception as error:  # whatever it is, compiling helps
            logging.getLogger("nearkin").debug("%s is compiled anew: %s", self._py_func.__qualname__, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature, if it can be written."""
        folder = own_folder()
        if folder is None or not self._enabled or not self._impl.check_cachable(data):
            return
        key = self._base, *self._index_key(sig, data.codegen)
        try:
            self._file(folder, key).save(key, self._impl.reduce(data))
        except OSError as error:
            _say_once(f"compiled loops cannot be kept in {folder}: {error.strerror or error}")

    def flush(self) -> None:
        """Remove the files of this loop."""
        for path in (own_folder() or Path()).glob(f"{self._base}-*.nbc"):
            path.unlink(missing_ok=True)

    @property
    def _base(self) -> str:
        return f"{self._py_func.__module__}.{self._py_func.__qualname__}".replace("<", "").replace(">", "")

    def _file(self, folder: Path, key: Any) -> _CheckedFile:
        name = f"{self._base}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.nbc"
        return _CheckedFile(str(folder), name, None)


class _Code(CompileResultCacheImpl):
    """Compiled code to what is pickled, and back."""

    def __init__(self) -> None:  # not the parent's, which looks for a place of its own
        pass

    def check_cachable(self, cres: Any) -> bool:
        """Whether the code holds in another process."""
        return not cres.lifted and not cres.library.has_dynamic_globals


class _CheckedFile(IndexDataCacheFile):
    """One file: key and code as numba pickles them, then a checksum."""

    def load(self, key: Any) -> Any:
        """Return the code, None if the file is missing, not whole, or for another key."""
        path = Path(self._data_path(self._name))
        if not path.is_file():
            return None
        written = path.read_bytes()
        if hashlib.sha256(written[:-_DIGEST]).digest() != written[-_DIGEST:]:
            raise ValueError(f"{path} is damaged")
        found, code = self._load_data(self._name)
        return code if found == key else None

    def save(self, key: Any, data: Any) -> None:
        """Write a file that is complete or not there."""
        self._save_data(self._name, (key, data))

    @property
    def _name(self) -> str:
        return self._index_name.removesuffix(".nbi")

    def _dump(self, obj: Any) -> bytes:
        data = super()._dump(obj)
        return data + hashlib.sha256(data).digest()

    def _open_for_write(self, filepath: str) -> Any:
        return replacing(filepath, None)


@cache
def own_folder() -> Path | None:
    """Return the folder of this user for the loops of these sources; None, and a warning, if there cannot be one."""
    try:
        given: str = numba.config.CACHE_DIR  # type: ignore[attr-defined]  # NUMBA_CACHE_DIR
        if given:  # several users may share it
            user = f"-{os.getuid()}" if os.name == "posix" else ""
            base = Path(given) / f"nearkin{user}"
        else:
            base = Path(AppDirs("nearkin", False).user_cache_dir) / "loops"
        base.parent.mkdir(parents=True, exist_ok=True)
        folder = base / _hash_of_sources()
        for one in (base, folder):
            one.mkdir(mode=0o700, exist_ok=True)
            _check_own(one)
        return folder
    except (OSError, RuntimeError) as error:
        _say_once(f"compiled loops cannot be kept: {error}")
        return None


def _check_own(folder: Path) -> None:
    """Refuse a folder to which others may write: they could make this process run any code."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{folder} is not a folder")
    if os.name == "posix" and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        raise OSError(f"others may write to {folder}; remove it, or make it yours alone (chmod 700)")


def _hash_of_sources() -> str:
    """Name for the state of all that compiled code is made from: sources, compiler, interpreter."""
    home = Path(__file__).parents[2]
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {sys.version}".encode())
    for path in sorted([*(home / "kernels").rglob("*.py"), *home.glob("*.py")]):
        digest.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:24]


@cache
def _say_once(problem: str) -> None:
    logging.getLogger("nearkin").warning(
        "%s. Every process compiles its loops anew; set NUMBA_CACHE_DIR to a folder that you may write to.", problem
    )
