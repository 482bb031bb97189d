"""Settings of estimators, each declared once: its default, its rule and its description side by side.

A group of settings is a class under `declare`; an estimator inherits the groups it needs and adds its own. `declare`
writes the constructor, which only stores its arguments, so scikit-learn's ``clone``, ``get_params`` and signatures
work as for a constructor written by hand. `check_settings` applies the rules. In a docstring ``{settings}`` becomes the
entries of the Parameters section, ``{fitted}`` those of Attributes, as the class and those it inherits from say in
``fitted``, and ``{sections}`` becomes both sections.

Seeds are settings too, and `all_or_nothing` lets a method change its estimator wholly or not at all.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import numbers
import os
import re
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from nearkin.errors import InputError

__all__ = [
    "BOOLEAN", "DEVICE", "SEED", "Function", "Instance", "Integer", "Numbers", "OneOf", "Real", "Rule", "Spelled",
    "again", "all_or_nothing", "at_one_moment", "check_argument", "check_settings", "declare", "exclusive", "generator",
    "setting", "snapshot", "unchanged_on_error",
]  # fmt: skip

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


class Rule(Protocol):
    """Says whether a value is allowed, and how to put the rule in words."""

    def allows(self, value: Any) -> bool:
        """Whether the value is allowed."""


@dataclass(frozen=True)
class Real:
    """A number in an interval; both ends belong to it unless said otherwise."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def allows(self, value: Any) -> bool:
        """NaN and booleans are never allowed."""
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
            return False
        try:
            value = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        return f"a number in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"


@dataclass(frozen=True)
class Integer:
    """A whole number, at least ``low`` and, if there is one, at most ``high``.

    A setting that costs time or memory has an upper end, so that a slip of the finger or a forged file is refused.
    """

    low: int = 1
    high: int | None = None

    def allows(self, value: Any) -> bool:
        """Booleans are not numbers here."""
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            return False
        return int(value) >= self.low and (self.high is None or int(value) <= self.high)

    def __str__(self) -> str:
        return f"a whole number >= {self.low}" if self.high is None else f"a whole number in [{self.low}, {self.high}]"


@dataclass(frozen=True)
class OneOf:
    """One of a few values, compared with their type (so that 0 is not False)."""

    values: tuple[Any, ...]

    def allows(self, value: Any) -> bool:
        """Membership by type and value."""
        return any(_same_kind(value, one) and bool(value == one) for one in self.values)

    def __str__(self) -> str:
        return ("one of " if len(self.values) > 1 else "") + ", ".join(repr(one) for one in self.values)


def _same_kind(value: Any, one: Any) -> bool:
    return isinstance(value, str) if isinstance(one, str) else type(value) is type(one)


@dataclass(frozen=True)
class Instance:
    """An object of some kind."""

    kind: type | tuple[type, ...]
    words: str

    def allows(self, value: Any) -> bool:
        """Whether it is one."""
        return isinstance(value, self.kind) and not isinstance(value, type)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Function:
    """Anything that can be called, classes too."""

    words: str

    def allows(self, value: Any) -> bool:
        """Whether it can be called."""
        return callable(value)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Numbers:
    """A tuple or list of whole numbers from 1 to ``high``, of one of some lengths."""

    lengths: range
    words: str
    high: int = 100_000

    def allows(self, value: Any) -> bool:
        """Whether it is one."""
        is_row = isinstance(value, (tuple, list)) and len(value) in self.lengths
        return is_row and all(Integer(1, self.high).allows(one) for one in value)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Spelled:
    """A text of some spelling, given as a regular expression."""

    pattern: str
    words: str

    def allows(self, value: Any) -> bool:
        """Whether all of the text follows it."""
        return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return self.words


#: True or False.
BOOLEAN = Instance((bool, np.bool_), "True or False")

#: Where to learn; learning finds out whether that device exists.
DEVICE = Spelled(r"cpu|cuda(:\d+)?", "'cpu', 'cuda' or 'cuda:N'")


class _Seed:
    """What `generator` takes."""

    def allows(self, value: Any) -> bool:
        """Nothing is drawn from it."""
        kinds = (np.random.Generator, np.random.RandomState)
        return value is None or isinstance(value, kinds) or Integer(0).allows(value)

    def __str__(self) -> str:
        return "None, a whole number >= 0, numpy.random.Generator or RandomState"


#: Seed of everything that is drawn.
SEED = _Seed()


def generator(random_state: Any) -> np.random.Generator:
    """Random generator from a seed, a generator, a legacy `RandomState` or None; never the global one.

    Examples
    --------
    >>> int(generator(0).integers(100)) == int(generator(0).integers(100))
    True
    """
    check_argument(None, "random_state", random_state, SEED)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    return np.random.default_rng(None if random_state is None else int(random_state))


def setting(default: Any, *rules: Rule, doc: str, kind: str = "", kw_only: bool = True) -> Any:
    """Declare a setting and what it means. Its value must follow one of the rules, if there are any.

    ``kind`` says what the value is, as numpydoc writes it, where the rules do not: ``"Training or None"``.
    """
    kind = kind or " or ".join(map(_kind_of, rules))
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"rules": rules, "kind": kind, "doc": doc})


def _kind_of(rule: Rule) -> str:
    """What a value is that follows a rule, as numpydoc writes it."""
    if isinstance(rule, OneOf):
        values = ", ".join(map(_shown, rule.values))
        return f"{{{values}}}" if len(rule.values) > 1 else values
    if rule is BOOLEAN:
        return "bool"
    if rule is SEED:
        return "int, Generator, RandomState or None"
    return {Integer: "int", Real: "float", Spelled: "str"}[type(rule)]


def again(group: Any, name: str, default: Any) -> Any:
    """Declare a setting of a group that the class does not inherit, with another default."""
    was = group.__dataclass_fields__[name]
    return dataclasses.field(default=default, kw_only=was.kw_only, metadata=was.metadata)


_SECTIONS = """Parameters
----------
{settings}

Attributes
----------
{fitted}"""


def declare(cls: type[T]) -> type[T]:
    """Give a class a constructor for its settings and those it inherits, and fill ``{settings}`` in its docstring.

    A plain value (``C: float = 1.0``) gives an inherited setting another default and keeps its rules and description.

    Examples
    --------
    >>> @declare
    ... class Steps:
    ...     '''How far a step goes: {settings}'''
    ...
    ...     C: float = setting(0.1, Real(0.0), kind="float", doc="Aggressiveness.")
    >>> print(Steps.__doc__)
    How far a step goes: C : float, default=0.1
        Aggressiveness.
    >>> check_settings(Steps(C=-1.0))
    Traceback (most recent call last):
    nearkin.errors.InputError: Steps: parameter `C` must be a number in [0, inf]; got -1.0.
    >>> @declare
    ... class LargeSteps(Steps):
    ...     C: float = 10.0
    >>> LargeSteps().C
    10.0
    """
    _inherit_rules(cls)
    made = dataclasses.dataclass(eq=False, repr=False, kw_only=True)(cls)
    text = inspect.cleandoc(vars(made).get("__doc__") or "")  # as Python 3.13 does by itself
    text = text.replace("{sections}", _SECTIONS)
    if "{settings}" in text:
        text = text.replace("{settings}", "\n".join(_describe(made)))
    fitted = [inspect.cleandoc(vars(one)["fitted"]) for one in made.__mro__ if "fitted" in vars(one)]
    made.__doc__ = text.replace("{fitted}", "\n".join(fitted))
    return made


def _inherit_rules(cls: type) -> None:
    """Turn plain values of inherited settings into settings with the rules and the description they inherit."""
    known = {one.name: one for base in cls.__mro__[:0:-1] for one in getattr(base, "__dataclass_fields__", {}).values()}
    for name in inspect.get_annotations(cls).keys() & known.keys() & vars(cls).keys():
        value = vars(cls)[name]
        if not isinstance(value, dataclasses.Field):
            was = known[name]
            setattr(cls, name, dataclasses.field(default=value, kw_only=was.kw_only, metadata=was.metadata))


def check_settings(owner: Any) -> None:
    """Raise an `InputError` that names the owner, the setting, its rules and its value if no rule allows it."""
    for name, default, rules in _rules(type(owner)):
        value = getattr(owner, name)
        if value is not default:  # which is allowed
            check_argument(owner, name, value, *rules)


def check_argument(owner: object, name: str, value: Any, *rules: Rule) -> None:
    """Apply rules to an argument of a function or method, as `check_settings` does to settings.

    Examples
    --------
    >>> check_argument("adapt", "k", 0, Integer(1))
    Traceback (most recent call last):
    nearkin.errors.InputError: adapt: parameter `k` must be a whole number >= 1; got 0.
    """
    if rules and not any(rule.allows(value) for rule in rules):
        words = " or ".join(str(rule) for rule in rules)
        raise InputError(f"parameter `{name}` must be {words}; got {value!r}.", owner=owner)


#: Settings of classes, once asked for.
_known_fields: dict[type, list[dataclasses.Field[Any]]] = {}


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    """Settings in the order of the constructor, positional ones first; none of a class that declares nothing."""
    if cls not in _known_fields:
        found = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        _known_fields[cls] = sorted(found, key=lambda one: bool(one.kw_only))
    return _known_fields[cls]


#: Names, defaults and rules of the settings of classes, once asked for: every batch of a stream checks them.
_known_rules: dict[type, list[tuple[str, Any, tuple[Rule, ...]]]] = {}


def _rules(cls: type) -> list[tuple[str, Any, tuple[Rule, ...]]]:
    if cls not in _known_rules:
        _known_rules[cls] = [(one.name, one.default, one.metadata.get("rules", ())) for one in _fields(cls)]
    return _known_rules[cls]


def _describe(cls: type) -> Iterator[str]:
    for one in _fields(cls):
        yield f"{one.name} : {one.metadata['kind']}, default={_shown(one.default)}"
        yield _wrap(one.metadata["doc"])


@functools.cache
def _wrap(text: str) -> str:
    """Return a description as it stands below its setting; most settings are those of many classes."""
    return textwrap.indent(textwrap.fill(" ".join(text.split()), 108), " " * 4)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


#: Locks of estimators that have learned, by their ids; not in the estimators, so that these can be copied and pickled.
_locks: dict[int, tuple[weakref.ref[Any], threading.RLock]] = {}
_any_lock = threading.Lock()


def _forget_locks() -> None:
    """Begin anew in a forked process, where a thread that held a lock does not exist."""
    global _any_lock
    _any_lock = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def exclusive(estimator: Any) -> AbstractContextManager[Any]:
    """Lock of an estimator: methods that learn hold it, and who needs a whole state waits for it.

    Examples
    --------
    >>> from nearkin import Euclidean
    >>> model = Euclidean()
    >>> with exclusive(model), exclusive(model):  # the same thread may enter again
    ...     pass
    """
    key = id(estimator)
    with _any_lock:
        if key not in _locks:
            _locks[key] = weakref.ref(estimator, lambda _: _locks.pop(key, None)), threading.RLock()
        return _locks[key][1]


def snapshot(model: T) -> T:
    """The model as it is now: what another thread makes it learn later does not change this one.

    It costs about a microsecond, since learning never writes to what was learned before, and waits for nobody: while a
    batch is being learned, it is the model before that batch.

    Parameters
    ----------
    model : learner, classifier or StreamAudit
        It goes on learning.

    Returns
    -------
    model of the same class
        Answers as the other did at this moment; it can also be saved.

    Examples
    --------
    >>> import numpy as np
    >>> import nearkin
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    >>> learner = nearkin.RobustLODML(random_state=0).partial_fit(X[:40], y[:40])
    >>> before = nearkin.snapshot(learner)
    >>> learner.partial_fit(X[40:], y[40:]).n_rows_seen_, before.n_rows_seen_
    (60, 40)
    """
    made: T = object.__new__(type(model))
    made.__dict__ = vars(model).copy()  # one step of the interpreter
    return made


def at_one_moment(method: Method) -> Method:
    """Let a method see the estimator as it is when called, whatever other threads make it learn meanwhile."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(snapshot(self), *args, **kwargs)

    return wrapped  # type: ignore[return-value]


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Put every attribute back if the block raises, an interrupt included, and the seed if it is a generator.

    Other threads that call such a method of the same estimator wait, so that no row is lost.
    """
    with exclusive(estimator), _restoring(estimator):
        yield


@contextmanager
def _restoring(estimator: Any) -> Iterator[None]:
    before = dict(vars(estimator))
    seed = before.get("random_state")
    kept = copy.deepcopy(seed) if isinstance(seed, (np.random.Generator, np.random.RandomState)) else None
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # results that are not finite are refused by name
            yield
    except BaseException as error:
        estimator.__dict__ = before  # at once, for threads that read it
        if isinstance(seed, np.random.Generator) and isinstance(kept, np.random.Generator):
            seed.bit_generator.state = kept.bit_generator.state
        elif isinstance(seed, np.random.RandomState) and isinstance(kept, np.random.RandomState):
            seed.set_state(kept.get_state())
        if isinstance(error, SystemError) and isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None  # an interrupt inside compiled code comes out wrapped
        raise


def all_or_nothing(method: Method) -> Method:
    """Make a learning method leave the estimator as it was when it raises."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with unchanged_on_error(self):
            return method(self, *args, **kwargs)

    return wrapped  # type: ignore[return-value]
