"""Options: declared as fields of a dataclass, handed to a command as one object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import click

from nearkin.errors import InputError

__all__ = [
    "DATA", "MODEL", "PATH", "OutputFile", "Passed", "Share", "Source", "UpdatedFile", "WordOr", "device_option",
    "folder_option", "given_options", "listed", "names_option", "option", "options", "output_option", "quiet_option",
    "seed_option", "takes", "timeout_option",
]  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., Any])


class OutputFile(click.Path):
    """A file that a command writes: one of the kinds that `nearkin.files.claim` knows."""

    def __init__(self, kind: str):
        super().__init__(path_type=Path)
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse the name of a folder while it can be told."""
        from nearkin.files import check_name

        check_name(value)
        return super().convert(value, param, ctx)


class UpdatedFile(click.Path):
    """A file that a command reads and may replace."""


#: A file that a command reads.
PATH = click.Path(path_type=Path)
DATA = click.argument("data", type=PATH, metavar="DATA")
MODEL = click.argument("model", type=PATH, metavar="MODEL")


@dataclass_transform(frozen_default=True)
def options(cls: type[Any]) -> type[Any]:
    """Make a class whose fields are options; see `option` and `takes`."""
    return dataclass(frozen=True)(cls)


#: What the annotation of a field says about its option.
_IMPLIED: dict[str, dict[str, Any]] = {
    "Path": {"type": PATH, "metavar": "FILE"},
    "bool": {"is_flag": True},
    "float": {"type": float, "metavar": "NUMBER"},
    "int": {"type": click.IntRange(1), "metavar": "N"},
}


def option(*flags: str, **how: Any) -> Any:
    """Declare a field whose value an option gives; without ``flags`` the option has the name of the field."""
    return field(metadata={"flags": flags, "how": {"show_default": "default" in how, **how}})


def takes(kind: type, name: str = "given") -> Callable[[Command], Command]:
    """Add the options that ``kind`` declares, and pass their values on as one ``kind`` under ``name``."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def collect(**values: Any) -> Any:
            own = {one.name: values.pop(one.name) for one in fields(kind)}
            return command(**{name: kind(**own)}, **values)

        made: Any = collect
        for one in reversed(fields(kind)):
            flags = one.metadata["flags"] or (f"--{one.name.replace('_', '-')}",)
            implied = _IMPLIED.get(str(one.type).removesuffix(" | None"), {})
            made = click.option(*flags, one.name, **{**implied, **one.metadata["how"]})(made)
        return made

    return decorate


def given_options(values: Any) -> list[str]:
    """Return the names of those options in a group that the command line has given."""
    ctx, default = click.get_current_context(), click.core.ParameterSource.DEFAULT
    return [one.name for one in fields(values) if ctx.get_parameter_source(one.name) is not default]


def output_option(kind: str, *flags: str, **how: Any) -> Any:
    """Declare a file to write, of a kind that `nearkin.files.claim` knows."""
    return option(*flags, **{"type": OutputFile(kind), "metavar": "FILE", **how})


def listed(values: Sequence[str]) -> list[str]:
    """Return names given by repeating an option, by commas, or both.

    >>> listed(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def names_option(*flags: str, **how: Any) -> Any:
    """Declare an option that takes names, repeated or with commas."""
    return option(*flags, multiple=True, callback=lambda _, __, values: listed(values), **how)


def seed_option(result: str, *flags: str) -> Any:
    """Declare a seed, on which the ``result`` depends."""
    return option(*flags, type=click.IntRange(0), default=0, help=f"Same seed, same {result}.")


def folder_option() -> Any:
    """Declare ``--data``, the folder of data sets."""
    kind = click.Path(exists=True, file_okay=False, path_type=Path)
    return option("--data", type=kind, metavar="FOLDER", help="Folder with data files.  [default: $NEARKIN_DATA]")


def device_option(text: str, default: str | None = "cpu") -> Any:
    """Declare where a command computes."""
    return option("--device", type=Device(), default=default, metavar="cpu|cuda|cuda:N", help=text)


def timeout_option() -> Any:
    """Declare how long a part of the work may take on a cluster."""
    return option(
        type=click.FloatRange(0, min_open=True), metavar="SECONDS", default=300.0,
        help="Dask: time after which another worker gets a part too.",
    )  # fmt: skip


def quiet_option(command: Command) -> Command:
    """Add ``--quiet``."""
    return click.option("-q", "--quiet", is_flag=True, help="Print errors only.")(command)


class WordOr(click.ParamType):
    """One of some words, or a value of another type."""

    def __init__(self, kind: click.ParamType, *words: str):
        self.kind, self.words, self.name = kind, words, kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Let the words through."""
        return value if value in self.words else self.kind.convert(value, param, ctx)


class Device(click.ParamType):
    """The processor, or a GPU that is there."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name of a device that can be used."""
        from nearkin.settings import DEVICE

        if not DEVICE.allows(value):
            self.fail(f"must be cpu, cuda or cuda:N; got {value}.", param, ctx)
        if value != "cpu":
            from nearkin.accelerator import find

            find(value, "nearkin")
        return value


class Share(click.ParamType):
    """A number from 0 to 1; percentages are recognised and explained."""

    name = "share"

    def __init__(self, *words: str, below_one: bool = False):
        self.words, self.below_one = words, below_one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a word as it is, or the number."""
        if value in self.words:
            return value
        also = "".join(f"{word!r} or " for word in self.words)
        try:
            share = float(value)
        except ValueError:
            self.fail(f"{value!r} is neither {also.replace(' or ', ' nor ')}a number.", param, ctx)
        if not 0 <= share <= 1 or (self.below_one and share == 1):
            hint = f" ({share:g} percent is {share / 100:g})" if 1 <= share <= 100 else ""
            self.fail(
                f"must be {also}a number in [0, 1{')' if self.below_one else ']'}; got {value}{hint}.", param, ctx
            )
        return share


@options
class Source:
    """Where labels and features are."""

    label: str | None = option(metavar="COL", help="Column of labels (npz: array).  [npz: y]")
    labels: Path | None = option(help="File of labels: npy, or text with one label a line.")
    features: list[str] = names_option(metavar="COL[,COL]", help="Learn from these columns only (npz: one array).")
    drop: list[str] = names_option(metavar="COL[,COL]", help="Columns not to use at all. Repeatable.")
    text: list[str] = names_option(metavar="COL[,COL]", help="Columns of texts, to learn from as such.")
    image: list[str] = names_option(
        metavar="COL[,COL]", help="Columns of picture files, to learn from; paths start at the folder of DATA."
    )
    embedding: Path | None = option(
        help="npy file of one vector for each row, to learn from instead of texts or pictures."
    )

    def check_in_batches(self) -> None:
        """Refuse what cannot be read in batches."""
        for flag, given in (("--image", self.image), ("--embedding", self.embedding)):
            if given:
                raise InputError(
                    f"{flag} is for a file that is read whole; leave it out, or bring vectors in a column."
                )


@options
class Passed:
    """How new rows are read for a model, and which columns the output repeats."""

    others: tuple[str, ...] = option(
        "--id",
        multiple=True,
        metavar="COL",
        help="Column to copy to the output. Repeatable.  [folder of pictures: file]",
    )
    array: str | None = option(metavar="NAME", help="npz: array with the features.  [default: X]")
    embedding: Path | None = option(help="npy file of one vector for each row, if the model was fitted with one.")
    drop: list[str] = names_option(
        metavar="COL[,COL]", help="Columns to exclude; needed only if the model knows no column names."
    )
    device: str | None = device_option("Where rows are mapped and judged.  [default: where it was fitted]", None)

    def names_of(self, data: Path) -> Sequence[str]:
        """Return the columns to copy; pictures of a folder go by their files."""
        return self.others or (("file",) if data.is_dir() else ())
