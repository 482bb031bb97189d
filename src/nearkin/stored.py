"""What may stand in a file: classes, their attributes, and what each attribute must be.

A class declares itself here, and its package exports it; `nearkin.saving` writes and reads no other class. The same
declaration is checked before a file is written and after it was read, so a method never meets an array of another
shape, type or range than its class expects, however the file came about::

    @stored(L=ArrayOf("r", "d", dtype="T"), bounds=Maybe(Part(PairBounds)))
    class LogDet: ...

Sizes have names. Within an object equal names are equal sizes, and a `Part` says which sizes it shares with the object
that holds it. What no declaration can say, a method ``check_stored`` of the class can: it raises a ValueError, or
returns further sizes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from nearkin.settings import check_settings

__all__ = [
    "Anything", "ArrayOf", "Count", "Draws", "Either", "Flag", "Items", "Kind", "Maybe", "Number", "Part", "Table",
    "Text", "Type", "check_fields", "check_stored", "declared_fields", "is_stored", "state_of", "stored",
]  # fmt: skip

Class = TypeVar("Class", bound=type)

#: Whole numbers beyond this are not counts of anything.
_MOST = 2**53

#: Attributes that scikit-learn or the command line add to an estimator.
_COMMON: dict[str, Kind]


class Kind(Protocol):
    """Says what a value must be."""

    def check(self, value: Any, scope: Scope, where: str) -> None:
        """Raise a ValueError that names the place unless the value is of this kind."""


@dataclass
class Scope:
    """Sizes of one object by name, and the bounds that can be checked when all of them are known."""

    checker: Checker
    sizes: dict[str, Any] = field(default_factory=dict)
    later: list[Callable[[], None]] = field(default_factory=list)

    def bind(self, name: str, size: Any, where: str) -> None:
        """Note a size, or compare it with what is known."""
        if self.sizes.setdefault(name, size) != size:
            raise ValueError(f"{where} says {name} = {size}, other parts say {self.sizes[name]}")


# ---------------------------------------------------------------------- kinds of values


class Anything:
    """Any value; objects inside it are checked by their own declarations."""

    def check(self, value: Any, scope: Scope, where: str) -> None:
        scope.checker.visit(value, where)


@dataclass(frozen=True)
class Maybe:
    """None, or a value of a kind; the attribute may be missing. Without it two sizes, ``else_equal``, are the same."""

    kind: Kind
    else_equal: tuple[str, str] | None = None

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if value is not None:
            self.kind.check(value, scope, where)
        elif self.else_equal is not None:
            one, other = self.else_equal
            scope.later.append(lambda: _check_equal(scope, one, other, where))


class Either:
    """A value of the first kind if it is an array, of the second if not."""

    def __init__(self, values: ArrayOf, other: Kind):
        self.values, self.other = values, other

    def check(self, value: Any, scope: Scope, where: str) -> None:
        (self.values if isinstance(value, np.ndarray) else self.other).check(value, scope, where)


class Flag:
    """True or False."""

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{where} is {_show(value)}, not True or False")


@dataclass(frozen=True)
class Count:
    """A whole number from ``low`` to ``high``; ``size`` is its name among the sizes, ``most`` that of its bound."""

    low: int = 0
    high: int = _MOST
    size: str | None = None
    most: str | None = None

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not self.low <= value <= self.high:
            raise ValueError(f"{where} is {_show(value)}, not a whole number in [{self.low}, {self.high}]")
        if self.size is not None:
            scope.bind(self.size, int(value), where)
        if self.most is not None:
            name = self.most
            scope.later.append(lambda: _check_most(int(value), scope.sizes.get(name, _MOST), where))


@dataclass(frozen=True)
class Number:
    """A finite number from ``low`` to ``high``."""

    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False  # whether ``low`` itself is too low

    def check(self, value: Any, scope: Scope, where: str) -> None:
        is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not is_number or not -math.inf < value < math.inf or not self.low <= value <= self.high:
            raise ValueError(f"{where} is {_show(value)}, not a number in [{self.low:g}, {self.high:g}]")
        if self.is_open and value == self.low:
            raise ValueError(f"{where} is {value}; it must be larger")


class Text:
    """A text, or one of a few."""

    def __init__(self, *choices: str):
        self.choices = choices

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            raise ValueError(f"{where} is {_show(value)}, not {' or '.join(map(repr, self.choices)) or 'a text'}")


@dataclass(frozen=True)
class Type:
    """Type of numbers, single or double precision, as an object or by name; ``name`` is its name among the sizes."""

    name: str | None = None

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, (np.dtype, str)) or str(value) not in ("float32", "float64"):
            raise ValueError(f"{where} is {_show(value)}, not float32 or float64")
        if self.name is not None:
            scope.bind(self.name, str(value), where)


class Draws:
    """A generator of random numbers; its state is checked when it is read."""

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, np.random.Generator):
            raise ValueError(f"{where} is {_show(value)}, not a random generator")


#: Types that an array may have, by the name of what it holds.
_TYPES = {
    "floats": ("float32", "float64"), "doubles": ("float64",), "codes": ("int64",), "flags": ("bool",),
    "words": ("uint64",), "words32": ("uint32",),
}  # fmt: skip


class ArrayOf:
    """An array of a shape: names of sizes ("d", or "K+1" for one more than K), numbers, or None for any size.

    It holds what ``of`` says, "labels" being texts, numbers or objects; values from ``low`` to ``high`` that stay below
    the size named ``below``, and no NaN. Arrays that give their type one name, ``dtype``, are of one type.
    """

    def __init__(
        self, *shape: str | int | None, of: str = "floats", low: float | None = None, high: float | None = None,
        below: str | None = None, dtype: str | None = None, is_finite: bool = True,
    ):  # fmt: skip
        self.shape, self.of, self.low, self.high = shape, of, low, high
        self.below, self.dtype, self.is_finite = below, dtype, is_finite

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, np.ndarray):
            raise ValueError(f"{where} is {_show(value)}, not an array")
        self._check_type(value, where)
        if value.ndim != len(self.shape):
            raise ValueError(f"{where} has shape {value.shape}, which is not {self._words}")
        for size, name in zip(value.shape, self.shape, strict=True):
            if isinstance(name, int) and size != name:
                raise ValueError(f"{where} has shape {value.shape}, which is not {self._words}")
            if isinstance(name, str):
                base, _, more = name.partition("+")
                scope.bind(base, size - int(more or 0), where)
        if self.dtype is not None:
            scope.bind(self.dtype, value.dtype.name, where)
        if value.size:
            self._check_range(value, scope, where)

    @property
    def _words(self) -> str:
        return f"({', '.join('any' if one is None else str(one) for one in self.shape)})"

    def _check_type(self, value: np.ndarray, where: str) -> None:
        allowed = _TYPES.get(self.of)
        if value.dtype.kind not in "?biufUSOmM" if allowed is None else value.dtype.name not in allowed:
            raise ValueError(f"{where} holds {value.dtype}, not {self.of}")

    def _check_range(self, value: np.ndarray, scope: Scope, where: str) -> None:
        if value.dtype.kind == "f" and not (np.isfinite(value) if self.is_finite else ~np.isnan(value)).all():
            raise ValueError(f"{where} holds NaN or infinity")
        if self.low is not None and value.min() < self.low:
            raise ValueError(f"{where} holds {value.min()}, less than {self.low}")
        if self.high is not None and value.max() > self.high:
            raise ValueError(f"{where} holds {value.max()}, more than {self.high}")
        if self.below is not None:
            name, largest = self.below, int(value.max())
            scope.later.append(lambda: _check_most(largest, scope.sizes.get(name, _MOST) - 1, where))


class Part:
    """An object of one of some classes; ``d="e"`` says that its size e is the size d of the object that holds it.

    Of several names, ``d=("s", "d")``, the first counts that the part has. A class that cannot be imported where it is
    declared is given by its name: only classes of nearkin come from files.
    """

    def __init__(self, *classes: type | str, **shared: str | tuple[str, ...]):
        self.names = [one if isinstance(one, str) else one.__name__ for one in classes]
        self.shared = shared

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not any(one.__name__ in self.names for one in type(value).__mro__):
            raise ValueError(f"{where} is {_show(value)}, not {' or '.join(self.names)}")
        sizes = scope.checker.visit(value, where)
        for own, names in self.shared.items():
            found = [one for one in ((names,) if isinstance(names, str) else names) if one in sizes]
            if found and sizes[found[0]] is not None:
                scope.bind(own, sizes[found[0]], where)


@dataclass(frozen=True)
class Items:
    """A list or tuple of values of one kind; ``size`` is the name of its length, which is at least ``least``."""

    kind: Kind
    size: str | None = None
    least: int = 0

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, (list, tuple)) or len(value) < self.least:
            raise ValueError(f"{where} is {_show(value)}, not a list of at least {self.least}")
        if self.size is not None:
            scope.bind(self.size, len(value), where)
        for i, one in enumerate(value):
            self.kind.check(one, scope, f"{where}[{i}]")


@dataclass(frozen=True)
class Table:
    """A dictionary whose keys and values are each of one kind."""

    key: Kind
    value: Kind

    def check(self, value: Any, scope: Scope, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {_show(value)}, not a dictionary")
        for name, one in value.items():
            self.key.check(name, scope, f"a key of {where}")
            self.value.check(one, scope, f"{where}[{_show(name)}]")


def _check_equal(scope: Scope, one: str, other: str, where: str) -> None:
    for name, size in ((one, other), (other, one)):
        if size in scope.sizes:
            scope.bind(name, scope.sizes[size], where)


def _check_most(value: int, most: int, where: str) -> None:
    if value > most:
        raise ValueError(f"{where} holds {value}, more than {most}")


def _show(value: Any) -> str:
    plain = value is None or isinstance(value, (bool, int, float, str, np.generic))
    return repr(value)[:40] if plain else f"an object of type {type(value).__name__}"


_COMMON = {
    "n_features_in_": Count(1, size="d"),
    "feature_names_in_": ArrayOf("d", of="labels"),
    "label_name_": Maybe(Text()),
    "encoder_": Maybe(Part("TableEncoder", d="e")),
    "history_": Maybe(Part("History")),
    "_sklearn_output_config": Table(Text(), Maybe(Text())),
}


# ---------------------------------------------------------------------- declarations


@dataclass(frozen=True)
class Declaration:
    """Attributes of a class with their kinds, those that are left out, and those that come together."""

    fields: Mapping[str, Kind]
    but: tuple[str, ...]
    together: tuple[str, ...]
    instead: Mapping[str, tuple[Any, str]]


_DECLARED: dict[type, Declaration] = {}


def stored(
    *, but: tuple[str, ...] = (), together: tuple[str, ...] = (), instead: Mapping[str, tuple[Any, str]] | None = None,
    **fields: Kind,
) -> Callable[[Class], Class]:  # fmt: skip
    """Let objects of a class stand in files, with these attributes, each of its kind.

    An estimator may lack them before `fit`, but if it has the first of those that come ``together``, it has all; files
    hold what it has ``but`` what is made again when needed. For a setting that may hold what no file can, they hold a
    value ``instead``, and a warning says so in words. Subclasses of estimators inherit the declaration, others
    declare themselves.

    >>> @stored(weights=ArrayOf("k", low=0.0), n=Count(size="k"))
    ... class Votes:
    ...     def __init__(self):
    ...         self.weights, self.n, self.cache = np.array([0.5, 0.5]), 2, {}
    >>> votes = Votes()
    >>> state_of(votes)
    {'weights': array([0.5, 0.5]), 'n': 2}
    >>> votes.n = 3
    >>> check_stored(votes, "votes")
    Traceback (most recent call last):
    ValueError: votes.n says k = 3, other parts say 2
    """

    def declare(cls: Class) -> Class:
        _DECLARED[cls] = Declaration(fields, but, together, instead or {})
        if not declared_fields(cls):
            raise TypeError(f"{cls.__name__} must say what its attributes are: @stored(name=Kind, ...)")
        return cls

    return declare


def is_stored(cls: type) -> bool:
    """Whether a class has declared itself."""
    return cls in _DECLARED


def declared_fields(cls: type) -> dict[str, Kind]:
    """Return the attributes that a class and those it inherits from declare, with their kinds."""
    return {
        name: kind for one in reversed(cls.__mro__) if one in _DECLARED for name, kind in _DECLARED[one].fields.items()
    }


def _left_out(cls: type) -> set[str]:
    return {name for one in cls.__mro__ if one in _DECLARED for name in _DECLARED[one].but}


def _replaced(cls: type) -> dict[str, tuple[Any, str]]:
    return {name: one for base in cls.__mro__ if base in _DECLARED for name, one in _DECLARED[base].instead.items()}


def state_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that a file holds, by name, in an order that does not depend on its past."""
    if hasattr(value, "get_params"):
        known = sorted(vars(value).items(), key=lambda one: ("_" in (one[0][0], one[0][-1]), one[0]))  # settings first
        found = {name: one for name, one in known if name not in _left_out(type(value))}
        for name, (other, words) in _replaced(type(value)).items():
            if found.get(name):
                warnings.warn(f"{type(value).__name__}: {words}.", UserWarning, stacklevel=2)
                found[name] = other
        return found
    return {name: getattr(value, name) for name in declared_fields(type(value))}


# ---------------------------------------------------------------------- checks


def check_stored(value: Any, where: str = "model") -> None:
    """Raise a ValueError that names the place if an object, or one inside it, is not what its class declares."""
    Checker().visit(value, where)


def check_fields(values: Any, where: str, **fields: Kind) -> None:
    """Raise a ValueError unless a value is a dictionary with exactly these entries, each of its kind.

    >>> check_fields({"epoch": 1, "done": "no"}, "checkpoint", epoch=Count(), done=Flag())
    Traceback (most recent call last):
    ValueError: checkpoint.done is 'no', not True or False
    """
    if not isinstance(values, dict):
        raise ValueError(f"{where} is {_show(values)}, not a dictionary")
    _check_names(values, fields.keys(), {name for name, kind in fields.items() if not isinstance(kind, Maybe)}, where)
    scope = Scope(Checker())
    for name, kind in fields.items():
        if name in values:
            kind.check(values[name], scope, f"{where}.{name}")
    for check in scope.later:
        check()


def _check_names(found: Iterable[Any], known: Iterable[str], needed: set[str], where: str) -> None:
    names = {str(one) for one in found}
    if unknown := names - set(known):
        raise ValueError(f"{where} has {sorted(unknown)[:5]}, which its class does not declare")
    if missing := needed - names:
        raise ValueError(f"{where} lacks {sorted(missing)[:5]}; an earlier version may have written it")


class Checker:
    """One walk through a value; an object that occurs several times is checked once."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Any]] = {}

    def visit(self, value: Any, where: str) -> dict[str, Any]:
        """Check every object of a declared class inside a value; return the sizes of the value itself."""
        if isinstance(value, (list, tuple)):
            for i, one in enumerate(value):
                self.visit(one, f"{where}[{i}]")
        elif isinstance(value, dict):
            for name, one in value.items():
                self.visit(one, f"{where}[{_show(name)}]")
        elif hasattr(value, "get_params") or declared_fields(type(value)):
            if id(value) not in self._known:
                self._known[id(value)] = self._check_object(value, where)
            return self._known[id(value)]
        return {}

    def _check_object(self, value: Any, where: str) -> dict[str, Any]:
        attributes, fields, scope = vars(value), declared_fields(type(value)), Scope(self)
        if hasattr(value, "get_params"):
            settings, fitted = _settings_of(value, where), _come_together(value)
            fields, is_whole = {**_COMMON, **fields}, bool(fitted)
            known = attributes.keys() - _left_out(type(value))
            _check_names(known, fields.keys() | settings.keys(), fitted | settings.keys(), where)
            for name in settings.keys() - _replaced(type(value)).keys():
                self.visit(settings[name], f"{where}.{name}")
        else:
            is_whole = True
            needed = {name for name, kind in fields.items() if not isinstance(kind, Maybe)}
            _check_names(attributes.keys() & fields.keys(), fields.keys(), needed, where)
        for name, kind in fields.items():
            if name in attributes:
                kind.check(getattr(value, name), scope, f"{where}.{name}")
        for check in scope.later:
            check()
        if is_whole and hasattr(value, "check_stored"):
            for name, size in (value.check_stored() or {}).items():
                scope.bind(name, size, where)
        return scope.sizes


def _settings_of(value: Any, where: str) -> dict[str, Any]:
    try:
        settings: dict[str, Any] = value.get_params(deep=False)
    except AttributeError as error:
        raise ValueError(f"{where} lacks a parameter: {error}") from None
    check_settings(value)
    return settings


def _come_together(value: Any) -> set[str]:
    """Attributes that an estimator must have, given those it has; none before it is fitted."""
    groups = [_DECLARED[one].together for one in type(value).__mro__ if one in _DECLARED]
    return {name for group in groups if group and group[0] in vars(value) for name in group}
