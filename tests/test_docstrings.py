"""Every public class and function says what it takes and shows how it is used."""

import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import nearkin

#: Compiled loops take arrays as they come, and the command line documents itself.
NOT_FOR_CALLERS = {"kernels", "cli"}


def public_packages():
    yield "nearkin"
    for found in pkgutil.iter_modules([str(Path(nearkin.__file__).parent)]):
        if found.ispkg and found.name not in NOT_FOR_CALLERS:
            yield f"nearkin.{found.name}"


def public_objects():
    seen = {}
    for package in public_packages():
        if package == "nearkin.deep" and not importlib.util.find_spec("torch"):
            seen[None] = pytest.param(None, id=package, marks=pytest.mark.skip(reason="pip install 'nearkin[deep]'"))
            continue
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                seen.setdefault(id(value), pytest.param(value, id=f"{package}.{name}"))
    return list(seen.values())


def sections(docstring):
    """Numpydoc sections by title; the text before the first one under the empty title."""
    lines = inspect.cleandoc(docstring).splitlines()
    found, title = {"": []}, ""
    at = 0
    while at < len(lines):
        if at + 1 < len(lines) and lines[at].strip() and re.fullmatch(r"-{3,}", lines[at + 1].strip()):
            title = lines[at].strip()
            found[title] = []
            at += 2
            continue
        found[title].append(lines[at])
        at += 1
    return found


def documented_names(lines):
    """Names of ``a, b : type`` entries; the description below each must not be empty."""
    names = []
    for at, line in enumerate(lines):
        if not line.strip() or line.startswith(" "):
            continue
        heads = line.split(" : ")[0]
        names += [name.strip().lstrip("*") for name in heads.split(",")]
        assert at + 1 < len(lines), f"{line!r} is not described"
        assert lines[at + 1].startswith("    "), f"{line!r} is not described"
    return names


def signature_names(value):
    """Parameters as a caller sees them; none for protocols, which nobody calls."""
    if getattr(value, "_is_protocol", False):
        return []
    if inspect.isclass(value) and value.__init__ is object.__init__ and not issubclass(value, tuple):
        return []
    parameters = inspect.signature(value).parameters.values()
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


@pytest.mark.parametrize("value", public_objects())
def test_what_is_public_begins_with_a_summary(value):
    summary = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
    assert re.fullmatch(r"\S.{8,}[.:]", summary, re.DOTALL)


@pytest.mark.parametrize("value", public_objects())
def test_what_is_public_documents_exactly_the_parameters_of_its_signature(value):
    names = signature_names(value)
    found = sections(value.__doc__)
    assert ("Parameters" in found) == bool(names)
    assert sorted(documented_names(found.get("Parameters", []))) == sorted(names)


@pytest.mark.parametrize("value", public_objects())
def test_what_is_public_shows_an_example(value):
    assert ">>> " in "\n".join(sections(value.__doc__).get("Examples", []))


@pytest.mark.parametrize("value", [one for one in public_objects() if inspect.isclass(one.values[0])])
def test_public_methods_say_what_they_do(value):
    for name, method in vars(value).items():
        if name.startswith("_") or not (inspect.isfunction(method) or isinstance(method, (property, classmethod))):
            continue
        assert inspect.getdoc(getattr(value, name)), f"{value.__name__}.{name}"


@pytest.mark.parametrize("value", public_objects())
def test_no_shared_description_was_left_unfilled(value):
    assert not re.search(r"\{(steps|stream|lowrank|fitted|C|loss|n_epochs)\}", value.__doc__)
