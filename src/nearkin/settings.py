"""Settings of estimators, each declared once: its default, its rule and its description side by side.

A group of settings is a class under `declare`; an estimator inherits the groups it needs and adds its own. `declare`
writes the constructor, which only stores its arguments, so scikit-learn's ``clone``, ``get_params`` and signatures
work as for a constructor written by hand. `check_settings` applies the rules. In a docstring ``{settings}`` becomes the
Parameters section, and ``{fitted}`` what the class and those it inherits from say in ``fitted``.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, TypeVar

from nearkin.checks import Rule
from nearkin.errors import InputError

__all__ = ["again", "check_argument", "check_settings", "declare", "setting"]

T = TypeVar("T")


def setting(default: Any, *rules: Rule, kind: str, doc: str, kw_only: bool = True) -> Any:
    """Declare a setting of an estimator.

    Parameters
    ----------
    default : object
        Value when the caller gives none.
    *rules : Rule
        The value must follow at least one of them; without rules anything is taken.
    kind : str
        What the value is, as numpydoc writes it: ``"float"`` or ``'{"hinge", "rescaled_hinge"} or Loss'``.
    doc : str
        What the value means.
    kw_only : bool, default=True
        Whether the constructor takes it by name only.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"rules": rules, "kind": kind, "doc": doc})


def again(group: Any, name: str, default: Any) -> Any:
    """Declare a setting of a group that the class does not inherit, with another default."""
    was = group.__dataclass_fields__[name]
    return dataclasses.field(default=default, kw_only=was.kw_only, metadata=was.metadata)


def declare(cls: type[T]) -> type[T]:
    """Give a class a constructor for its settings and those it inherits, and fill ``{settings}`` in its docstring.

    A plain value (``C: float = 1.0``) gives an inherited setting another default and keeps its rules and description.

    Examples
    --------
    >>> from nearkin.checks import Real
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
    text = vars(made).get("__doc__") or ""
    if "{settings}" in text:
        text = text.replace("{settings}", "\n".join(_describe(made)).lstrip())
    fitted = [vars(one)["fitted"].strip() for one in made.__mro__ if "fitted" in vars(one)]
    made.__doc__ = text.replace("{fitted}", "\n    ".join(fitted))
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
    for one in _fields(type(owner)):
        check_argument(owner, one.name, getattr(owner, one.name), *one.metadata.get("rules", ()))


def check_argument(owner: object, name: str, value: Any, *rules: Rule) -> None:
    """Apply rules to an argument of a function or method, as `check_settings` does to settings.

    Examples
    --------
    >>> from nearkin.checks import Integer
    >>> check_argument("adapt", "k", 0, Integer(1))
    Traceback (most recent call last):
    nearkin.errors.InputError: adapt: parameter `k` must be a whole number >= 1; got 0.
    """
    if rules and not any(rule.allows(value) for rule in rules):
        words = " or ".join(str(rule) for rule in rules)
        raise InputError(f"parameter `{name}` must be {words}; got {value!r}.", owner=owner)


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    """Settings in the order of the constructor, positional ones first; none of a class that declares nothing."""
    found = list(dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else []
    return [one for one in found if not one.kw_only] + [one for one in found if one.kw_only]


def _describe(cls: type) -> Iterator[str]:
    for one in _fields(cls):
        yield f"    {one.name} : {one.metadata['kind']}, default={_shown(one.default)}"
        yield textwrap.indent(textwrap.fill(" ".join(one.metadata["doc"].split()), 108), " " * 8)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
