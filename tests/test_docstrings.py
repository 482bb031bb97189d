"""Every public class and function documents its parameters and shows an example."""

import importlib.util
import inspect
import itertools
import pkgutil
import re
from pathlib import Path

import pytest

import nearkin

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"

#: Rooms that import only with an optional part, and what it is.
NEEDS = {"nearkin.deep": "torch", "nearkin.river": "river"}

#: Names of the reference whose documentation is known to be incomplete. The list may only shrink.
NOT_YET: set[str] = set()


def offered(package):
    """Classes and functions that a package offers, by name."""
    module = importlib.import_module(package)
    values = {f"{package}.{name}": getattr(module, name) for name in getattr(module, "__all__", [])}
    return {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)}


def reference(room=None):
    """Classes and functions for callers: what pages of the reference name, of one room of `NEEDS` or of all others."""
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md")))
    found = {}
    for name in re.findall(r"^   (nearkin\.\S+)$", pages, re.MULTILINE):
        package, _, last = name.rpartition(".")
        home = next((one for one in NEEDS if name.startswith(f"{one}.")), None)
        if home == room and package != "nearkin":
            found[name] = getattr(importlib.import_module(package), last, None)
    return found


def packages():
    """Packages that import without optional parts."""
    found = pkgutil.iter_modules([str(Path(nearkin.__file__).parent)])
    return ["nearkin", *(f"nearkin.{one.name}" for one in found if one.ispkg and one.name not in ("cli", "deep"))]


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
    """Parameters as a caller sees them, ``**others`` if they are documented; none for protocols, which nobody calls."""
    if getattr(value, "_is_protocol", False):
        return []
    if inspect.isclass(value) and value.__init__ is object.__init__ and not issubclass(value, tuple):
        return []
    told, parameters = inspect.cleandoc(value.__doc__ or ""), inspect.signature(value).parameters.values()
    others = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.kind not in others or f"\n**{one.name}\n" in told]


def summary_faults(value):
    """What any class or function needs that a package offers to others: a summary, and one for each method."""
    summary = inspect.cleandoc(value.__doc__ or "").split("\n\n")[0]
    if not re.fullmatch(r"\S.{8,}[.:]", summary, re.DOTALL):
        yield "does not begin with a summary"
    if unfilled := re.findall(r"\{[a-z_]+\}", summary):
        yield f"leaves {unfilled} unfilled"
    for name, method in vars(value).items() if inspect.isclass(value) else ():
        is_method = inspect.isfunction(method) or isinstance(method, (property, classmethod))
        if is_method and not name.startswith("_") and not inspect.getdoc(getattr(value, name)):
            yield f"does not document {name}"


def reference_faults(value):
    """What a class or function of the reference needs: its parameters, each described, and an example."""
    if value is None:
        yield "does not exist"
        return
    found = sections(value.__doc__ or "")
    names, bare = entries(found.get("Parameters", []))
    if sorted(names) != sorted(signature_names(value)) or ("Parameters" in found) != bool(names):
        yield "documents other parameters than it takes"
    yield from (f"does not describe {line!r}" for line in bare)
    if ">>> " not in "\n".join(found.get("Examples", [])):
        yield "shows no example"
    if "{settings}" in (value.__doc__ or ""):
        yield "leaves its settings unfilled"


def test_what_a_package_offers_begins_with_a_summary():
    objects = {name: value for package in packages() for name, value in offered(package).items()}
    assert len(objects) > 80
    assert [f"{name} {fault}" for name, value in objects.items() for fault in summary_faults(value)] == []


def test_what_is_public_documents_its_parameters_and_shows_an_example():
    objects = reference() | offered("nearkin")
    known = {id(value) for value in objects.values()}
    assert len(known) > 80
    lacking = {f"{name} {fault}" for name, value in objects.items() for fault in reference_faults(value)}
    assert lacking - NOT_YET == set()
    assert NOT_YET - lacking == set(), "documented by now: delete from NOT_YET"


@pytest.mark.parametrize("room", list(NEEDS))
def test_rooms_with_an_optional_part_are_documented(room):
    pytest.importorskip(NEEDS[room])
    objects = {name: value for name, value in reference(room).items() if "metric_learning" not in name}
    assert offered(room).keys() & objects.keys()
    assert [f"{name} {fault}" for name, value in offered(room).items() for fault in summary_faults(value)] == []
    assert [f"{name} {fault}" for name, value in objects.items() for fault in reference_faults(value)] == []
