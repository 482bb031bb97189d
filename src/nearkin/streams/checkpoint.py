"""Checkpoints: the newest one and the one before it, each complete or absent."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from nearkin.errors import InputError, explain
from nearkin.files import sync_folder
from nearkin.saving import Newer, read_tree, write_tree
from nearkin.streams.lock import Lock

__all__ = ["Checkpoint"]

KIND = "nearkin-checkpoint"

#: Bytes written at once: a file torn by a kill holds at least the beginning, which says whose it is.
_BUFFER = 1 << 20


class Checkpoint:
    """A file that is replaced as a whole, with its predecessor beside it, and a lock for the process that writes it."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path).resolve() if Path(path).is_symlink() else Path(path)  # a link stays a link
        self.previous = self.path.with_name(self.path.name + ".previous")
        self.lock = Lock(self.path.with_name(self.path.name + ".lock"), str(self.path))
        self._whole = False  # whether the newest is known to be readable

    def exists(self) -> bool:
        """Return whether there is anything to go on from."""
        return self.path.exists() or self.previous.exists()

    def write(self, value: Any) -> None:
        """Put a value on disk; until that is done, the older ones stay."""
        following = self.path.with_name(self.path.name + ".next")  # one name, so kills do not leave many files
        try:
            with following.open("wb", buffering=_BUFFER) as file:
                write_tree(value, file, KIND)
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            following.unlink(missing_ok=True)
            if isinstance(error, OSError):
                problem = f"the checkpoint cannot be written: {error.strerror}"
                raise type(error)(error.errno, problem, str(self.path)) from None
            raise
        if self._whole:  # a damaged one must not replace a good one
            self.path.replace(self.previous)
        following.replace(self.path)
        sync_folder(self.path.resolve().parent)
        self._whole = True

    def read(self) -> Any:
        """Return the newest value that is undamaged."""
        problems = []
        for path in (self.path, self.previous):
            try:
                value = read_tree(path, KIND)
            except FileNotFoundError:
                problems.append(f"{path} does not exist")
            except Newer as error:
                problem = f"{path} was written by a newer nearkin ({error}); upgrade to go on from it."
                raise InputError(problem) from None
            except Exception as error:  # whatever a torn file raises
                problems.append(f"{path} is damaged or not a checkpoint ({explain(error)})")
            else:
                self._whole = path == self.path
                if path == self.previous and self.path.exists():
                    warnings.warn(f"{problems[0]}; going on from the one before it, {path}.", stacklevel=2)
                return value
        raise InputError(f"there is no checkpoint to go on from: {'; '.join(problems)}.")
