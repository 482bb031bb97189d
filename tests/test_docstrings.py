"""Every public class and function documents its parameters and shows an example."""

import importlib.util
import inspect
import itertools
import pkgutil
import re
from pathlib import Path

import pytest

import nearkin

#: Compiled loops take arrays as they come, the command line documents itself, and the paper's tables serve it.
NOT_FOR_CALLERS = {"tables", "kernels", "cli", "deep", "paper"}


def public_objects(*packages):
    """Classes and functions that these packages promise, by name, each once."""
    seen = {}
    for package in packages:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                seen.setdefault(value, f"{package}.{name}")
    return {name: value for value, name in seen.items()}


def public_packages():
    found = pkgutil.iter_modules([str(Path(nearkin.__file__).parent)])
    return ["nearkin", *(f"nearkin.{one.name}" for one in found if one.ispkg and one.name not in NOT_FOR_CALLERS)]


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


def entries(lines):
    """Names of ``a, b : type`` entries, and the entries without a description below them."""
    names, bare = [], []
    for line, below in itertools.pairwise([*lines, ""]):
        if line.strip() and not line.startswith(" "):
            names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
            if not below.startswith("    "):
                bare.append(line)
    return names, bare


def signature_names(value):
    """Parameters as a caller sees them; none for protocols, which nobody calls."""
    if getattr(value, "_is_protocol", False):
        return []
    if inspect.isclass(value) and value.__init__ is object.__init__ and not issubclass(value, tuple):
        return []
    parameters = inspect.signature(value).parameters.values()
    return [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def faults(value):
    """What is wrong with the documentation of a public class or function."""
    found = sections(value.__doc__ or "")
    summary = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
    if not re.fullmatch(r"\S.{8,}[.:]", summary, re.DOTALL):
        yield "does not begin with a summary"
    names, bare = entries(found.get("Parameters", []))
    if sorted(names) != sorted(signature_names(value)) or ("Parameters" in found) != bool(names):
        yield f"documents {names}, but takes {signature_names(value)}"
    yield from (f"does not describe {line!r}" for line in bare)
    if ">>> " not in "\n".join(found.get("Examples", [])):
        yield "shows no example"
    if unfilled := re.findall(r"\{(?:settings|steps|stream|lowrank|fitted|C|loss|n_epochs)\}", value.__doc__ or ""):
        yield f"leaves {unfilled} unfilled"
    for name, method in vars(value).items() if inspect.isclass(value) else ():
        is_method = inspect.isfunction(method) or isinstance(method, (property, classmethod))
        if is_method and not name.startswith("_") and not inspect.getdoc(getattr(value, name)):
            yield f"does not document {name}"


def test_what_is_public_is_documented():
    objects = public_objects(*public_packages())
    assert len(objects) > 80
    assert [f"{name} {fault}" for name, value in objects.items() for fault in faults(value)] == []


def test_public_networks_are_documented():
    pytest.importorskip("torch")
    objects = public_objects("nearkin.deep")
    assert [f"{name} {fault}" for name, value in objects.items() for fault in faults(value)] == []
