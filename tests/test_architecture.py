"""The floor plan holds, an import costs little, and the sources do nothing forbidden."""

import ast
import importlib.util
import json
import subprocess
import sys

import pytest

import nearkin
from sources import FLOOR_OF, FORMULAS, SOURCES


def test_every_module_stands_on_a_floor():
    assert [str(source) for source in SOURCES if source.room not in FLOOR_OF] == []


def test_imports_point_downwards_only():
    upwards = [
        f"{source}:{one.line} imports {one}"
        for source in SOURCES
        for one in source.imports_from_other_rooms()
        if FLOOR_OF.get(one.room, 99) > FLOOR_OF[source.room]
    ]
    assert upwards == []


def test_rooms_on_one_floor_do_not_import_each_other_in_a_circle():
    below = {room: set() for room in FLOOR_OF}
    for source in SOURCES:
        below[source.room] |= {one.room for one in source.imports_from_other_rooms()}
    del below[""]
    while free := [room for room, needs in below.items() if not needs & below.keys()]:
        for room in free:
            del below[room]
    assert below == {}, "these rooms need each other, or something that does"


def test_formulas_import_numpy_and_the_standard_library_only():
    others = [
        f"{source}:{one.line} imports {one}"
        for source in SOURCES
        if source.room in FORMULAS
        for one in source.imports
        if one.module not in ("nearkin.arrays", "nearkin.stored")
        and one.module.split(".")[0] not in sys.stdlib_module_names | {"numpy"}
    ]
    assert others == []


def test_the_package_itself_imports_only_its_version_at_once():
    package = next(source for source in SOURCES if source.name == "nearkin")
    at_once = {node.module for node in package.tree.body if isinstance(node, ast.ImportFrom)}
    assert {module for module in at_once if module.startswith("nearkin")} == {"nearkin._version"}


def test_importing_loads_the_heavy_packages_as_late_as_possible():
    """The package itself loads nothing heavy, and the estimators leave the compiler alone until something is fitted."""
    code = """
import json, sys
roots = lambda: {name.split(".")[0] for name in sys.modules}
import nearkin; nearkin.__version__; dir(nearkin)
package = roots()
import nearkin.learners, nearkin.neighbors, nearkin.noise, nearkin.saving
print(json.dumps([sorted(package), sorted(roots())]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package, estimators = map(set, json.loads(done.stdout))
    assert "nearkin" in package
    assert not package & {"sklearn", "numba", "scipy", "numpy", "pandas", "torch", "matplotlib"}
    assert not estimators & {"numba", "torch", "matplotlib", "dask"}  # scikit-learn loads pandas where it is installed


def test_sources_do_not_print_unpickle_or_evaluate():
    calls = [
        f"{source}:{node.lineno} calls {node.func.id}"
        for source in SOURCES
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "eval", "exec")
    ]
    unsafe = {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"}
    imports = [
        f"{source}:{one.line} imports {one}"
        for source in SOURCES
        for one in source.imports
        if one.module.split(".")[0] in unsafe
    ]
    assert calls + imports == []


#: Modules that need an optional package at once.
NEEDS = {
    "nearkin.deep.metric_learning": "pytorch_metric_learning",
    "nearkin.deep": "torch",
    "nearkin.accelerator.device_votes": "torch",
    "nearkin.accelerator.triton_code": "triton",
    "nearkin.river": "river",
}


def missing_part(module):
    """Optional package that a module needs and that is not installed."""
    needed = next((part for start, part in NEEDS.items() if module.startswith(start)), None)
    return needed if needed and not importlib.util.find_spec(needed) else None


def check_promises(modules):
    broken = []
    for name in modules:
        module = importlib.import_module(name)
        promised = getattr(module, "__all__", [])
        broken += [f"{name} promises {one} twice" for one in set(promised) if promised.count(one) > 1]
        broken += [f"{name} lacks {one}" for one in promised if getattr(module, one, None) is None]
    assert broken == []


def test_every_name_that_is_promised_exists_once():
    check_promises(source.name for source in SOURCES if not source.name.startswith(("nearkin.__main__", *NEEDS)))


@pytest.mark.parametrize("package", NEEDS)
def test_every_name_that_an_optional_package_promises_exists_once(package):
    if part := missing_part(package):
        pytest.skip(f"{part} is not installed")
    names = (source.name for source in SOURCES if source.name.startswith(package))
    check_promises(name for name in names if not missing_part(name))


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'RobustOAXIS'"):
        nearkin.RobustOAXIS  # noqa: B018
