"""Errors that know who refuses what and which option helps, as data.

A caller further out may change the owner (`owned_by`) or put options in its own words (`InputError.told`); no text is
ever rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, SupportsInt
from unicodedata import category

__all__ = [
    "DeviceError", "InputError", "Option", "Refusal", "Row", "explain", "name_of", "owned_by", "placed_at", "printable",
    "quote_names",
]  # fmt: skip

#: Kinds of characters that act on a terminal or a page instead of being seen, and two that only join letters.
_UNSEEN, _JOINERS = ("Cc", "Cf", "Cs", "Zl", "Zp"), "\u200c\u200d"


@dataclass(frozen=True)
class Option:
    """A setting that an error recommends; ``value`` None leaves the choice to the reader.

    Examples
    --------
    >>> str(Option("missing", "drop")), str(Option("label"))
    ("missing='drop'", 'label=...')
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        return f"{self.name}={'...' if self.value is None else repr(self.value)}"


class Row(Option):
    """A row of the data, counted from 0; the command line renders it counted from 1.

    Examples
    --------
    >>> str(InputError("{row} holds nan.", owner="queries", row=Row(3)))
    'queries: row 3 holds nan.'
    """

    def __init__(self, number: SupportsInt):
        super().__init__("row", int(number))

    def __str__(self) -> str:
        return f"row {self.value}"


class Refusal(Exception):
    """Something that is refused.

    ``problem`` says what was expected, what came, and what to try; ``{name}`` in it stands for the option of that name.
    ``owner`` is who refuses, a name or an object that stands for its class; None leaves it to `owned_by`. ``place``
    says where in the data it is wrong and comes first in the message; `placed_at` sets it further out. What is raised
    is an `InputError` or a `DeviceError`.

    Examples
    --------
    >>> str(InputError("3 labels are missing; use {fix}.", owner="audit_labels", fix=Option("missing", "drop")))
    "audit_labels: 3 labels are missing; use missing='drop'."
    """

    def __init__(self, problem: str, *, owner: object | None = None, place: str = "", **options: Option):
        super().__init__(problem)
        self.problem = problem
        self.owner = name_of(owner)
        self.place = place
        self.options = options

    def told(self, render: Callable[[Option], str] = str) -> str:
        """Return place and problem without the owner, each option put into words by ``render``."""
        return ": ".join(filter(None, (self.place, self._problem_in(render))))

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, self.owner, self._problem_in(str))))

    def _problem_in(self, render: Callable[[Option], str]) -> str:
        text = self.problem  # not str.format: names in the data may hold braces
        for name, one in self.options.items():
            text = text.replace(f"{{{name}}}", render(one))
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors travel between processes."""
        return _restore, (type(self), self.problem, self.owner, self.place, self.options)


def _restore(kind: type[Refusal], problem: str, owner: str, place: str, options: dict[str, Option]) -> Refusal:
    return kind(problem, owner=owner, place=place, **options)


class InputError(Refusal, ValueError):
    """An input that is refused."""


class DeviceError(Refusal, RuntimeError):
    """A GPU that is not there; no data could change that."""


def name_of(owner: object | None) -> str:
    """Return the name under which an owner speaks: itself if it is a string, else that of its class."""
    if owner is None or isinstance(owner, str):
        return owner or ""
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__


@contextmanager
def owned_by(owner: object, instead_of: object | None = None) -> Iterator[None]:
    """Make ``owner`` the one who speaks in every `InputError` of the block, or in those of another owner only.

    Examples
    --------
    >>> with owned_by("audit_labels"):
    ...     raise InputError("two classes are needed; got one.", owner="RobustKNeighborsClassifier")
    Traceback (most recent call last):
    nearkin.errors.InputError: audit_labels: two classes are needed; got one.
    """
    try:
        yield
    except InputError as error:
        if instead_of is None or error.owner == name_of(instead_of):
            error.owner = name_of(owner)
        raise


@contextmanager
def placed_at(place: object) -> Iterator[None]:
    """Make every `ValueError` of the block an `InputError` that says where in the data it is wrong.

    Examples
    --------
    >>> with placed_at("big.csv, data row 7"):
    ...     raise InputError("two classes are needed; got one.", owner="RobustLODML")
    Traceback (most recent call last):
    nearkin.errors.InputError: big.csv, data row 7: RobustLODML: two classes are needed; got one.
    """
    try:
        yield
    except InputError as error:
        error.place = f"{place}: {error.place}" if error.place else str(place)
        raise
    except ValueError as error:
        raise InputError(str(error), place=str(place)) from error


def quote_names(names: Iterable[Any], most: int = 8) -> str:
    """Return quoted names for a message, cut when there are many.

    Examples
    --------
    >>> quote_names(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    quoted = [repr(str(one)) for one in names]
    rest = len(quoted) - most
    return ", ".join(quoted[:most]) + (f" and {rest} more" if rest > 0 else "")


def explain(error: Exception) -> str:
    """Return what an error says; its kind only if it says less than a sentence.

    Examples
    --------
    >>> explain(ValueError("a digest is wrong")), explain(KeyError("epoch"))
    ('a digest is wrong', "KeyError: 'epoch'")
    """
    text = str(error.args[0]) if error.args else ""
    return text if " " in text else f"{type(error).__name__}: {error}"


def printable(value: Any, most: int | None = None) -> str:
    r"""Return a label, a name or a text on one line, cut if it is long, with control characters as escapes.

    Examples
    --------
    >>> print(printable("a\x1b[31m\u202e"))
    a\x1b[31m\u202e
    """
    text = str(value)
    text = text if most is None or len(text) <= most else text[: most - 1] + "…"
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if category(char) in _UNSEEN and char not in _JOINERS else char
        for char in text
    )
