"""Rooms respect each other's privacy, load each other openly, and stay small enough to read."""

import ast
import importlib
import inspect

import pytest

from sources import SOURCES, walk

#: Offenders that are known and will go. A test fails for any other one, and for one of these that no longer offends.
NOT_YET: dict[str, set[str]] = {
    "private modules": set(),
    "private attributes": set(),
    "late imports": set(),
    "deep classes": set(),
    "many parameters": set(),
    "many settings": set(),
}

#: Own code that may be imported inside functions: what compiles, or needs an optional package.
LATE_ROOMS = ("kernels", "accelerator", "deep", "distributed")
#: Modules that may import anything late: the lazy package itself and the commands, of which one run needs one.
LATE_PLACES = ("nearkin", "nearkin.cli", "nearkin.__main__")


def assert_known(rule, offenders):
    """Every offender is listed in `NOT_YET`, and everything listed there still offends."""
    new, gone = sorted(set(offenders) - NOT_YET[rule]), sorted(NOT_YET[rule] - set(offenders))
    assert not new, f"{rule}: " + "; ".join(new)
    assert not gone, f"no longer an offender, delete from NOT_YET[{rule!r}]: " + "; ".join(gone)


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_room_imports_a_private_module_or_name_of_another():
    assert_known(
        "private modules",
        {
            f"{source} imports {one}"
            for source in SOURCES
            for one in source.imports_from_other_rooms()
            if one.room != "_version" and any(is_private(part) for part in str(one).split(".")[2:])
        },
    )


def names_defined_in(sources):
    """Every private name that these sources define: functions, classes, variables, attributes of objects."""
    defined = set()
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                defined.add(node.value)  # __slots__
    return defined


#: Documented methods of named tuples, and the only way to end a process at once.
PUBLIC_ALL_THE_SAME = {"_replace", "_asdict", "_fields", "_exit"}


def test_no_room_uses_a_private_attribute_of_another():
    offenders = set()
    for room in {source.room for source in SOURCES}:
        inside = [source for source in SOURCES if source.room == room]
        own = names_defined_in(inside) | PUBLIC_ALL_THE_SAME
        for source in inside:
            for node in ast.walk(source.tree):
                if not isinstance(node, ast.Attribute) or not is_private(node.attr) or node.attr in own:
                    continue
                owner = ast.unparse(node.value)
                if owner not in ("self", "cls", "super()", "type(self)"):
                    offenders.add(f"{source} uses {owner}.{node.attr}")
    assert_known("private attributes", offenders)


def test_own_code_is_imported_late_only_where_it_is_heavy():
    assert_known(
        "late imports",
        {
            f"{source} imports {one.module}"
            for source in SOURCES
            if source.name not in LATE_PLACES and source.package not in LATE_PLACES[1:]
            for one in source.imports
            if one.is_ours and one.in_function and one.room not in LATE_ROOMS
        },
    )


def test_classes_inherit_at_most_three_deep():
    bases = {
        node.name: [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
        for source in SOURCES
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }

    def depth(name, below=()):
        if name not in bases or name in below:
            return 0
        return 1 + max((depth(base, (*below, name)) for base in bases[name]), default=0)

    assert_known("deep classes", {f"{name} stands on {depth(name)} classes" for name in bases if depth(name) > 3})


def test_no_function_takes_more_than_sixteen_parameters():
    offenders = set()
    for source in SOURCES:
        for node, _ in walk(source.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                taken = len([name for name in names if name not in ("self", "cls")])
                if taken > 16:
                    offenders.add(f"{source}.{node.name} takes {taken}")
    assert_known("many parameters", offenders)


def public_classes(package):
    module = importlib.import_module(package)
    return [value for name in module.__all__ if inspect.isclass(value := getattr(module, name))]


def test_no_public_class_takes_more_than_sixteen_settings():
    taken = {cls.__name__: len(inspect.signature(cls).parameters) for cls in public_classes("nearkin")}
    assert {name: number for name, number in taken.items() if number > 16} == {}


def test_no_public_network_takes_more_than_sixteen_settings():
    pytest.importorskip("torch")
    taken = {cls.__name__: len(inspect.signature(cls).parameters) for cls in public_classes("nearkin.deep")}
    assert_known("many settings", {f"{name} takes {number}" for name, number in taken.items() if number > 16})
