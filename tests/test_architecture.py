"""The layers, what an import costs, and what may not stand in the sources."""

import ast
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import nearkin

ROOT = Path(nearkin.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FORMULAS = {"losses", "measures", "mercer", "steps"}
BASE = {"arrays", "errors", "settings", "transactions", "rows", "labels", "checks", "files", "progress", "_version"}
LAYERS = (
    FORMULAS | BASE | {"datasets", "hedge", "sketch"},
    {"kernels", "accelerator"},
    {"triplets", "parameters"},
    {"learners", "noise"},
    {"neighbors", "jury", "search"},
    {"audit"},
    {"saving"},
    {"deep", "distributed", "streams", "paper", "demo"},
    {"cli"},
    {"__main__"},
)
LAYER_OF = {part: level for level, parts in enumerate(LAYERS) for part in parts}
LAYER_OF[""] = LAYER_OF["saving"]  # the package itself, which names everything up to there


def name_of(path):
    parts = ("nearkin", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module):
    """First name below ``nearkin``; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


def imported(path):
    """Modules that a file imports anywhere, at the top or when used; names taken from packages are resolved."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                yield (f"{base}.{alias.name}" if base == "nearkin" else base), node.lineno


IDS = [str(path.relative_to(ROOT)) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_point_downwards_only(path):
    module = name_of(path)
    here = part_of(module)
    assert here in LAYER_OF, f"{module} has no place in the layers"
    for target, line in imported(path):
        if target.split(".")[0] != "nearkin" or part_of(target) == here:
            continue
        there = part_of(target)
        if there == "__version__":
            there = "_version"
        assert there in LAYER_OF, f"{module}:{line} imports {target}"
        assert here not in FORMULAS or there == "arrays", f"{module}:{line}: formulas import nothing of ours: {target}"
        assert LAYER_OF[there] <= LAYER_OF[here], f"{module}:{line} imports {target}, which lies above"
        if there in ("learners", "noise") and here in ("learners", "noise"):
            assert (here, there) == ("learners", "noise"), f"{module}:{line}: noise must not know the learners"


@pytest.mark.parametrize("part", sorted(FORMULAS))
def test_formulas_import_numpy_and_the_standard_library_only(part):
    for target, line in imported(ROOT / f"{part}.py"):
        root = target.split(".")[0]
        assert root in sys.stdlib_module_names | {"numpy"} or target == "nearkin.arrays", (
            f"{part}:{line} imports {target}"
        )


def test_the_package_itself_imports_only_its_version_at_once():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    now = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    ours = [
        node.module for node in now if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nearkin")
    ]
    assert ours == ["nearkin._version"]


def modules_after(statement):
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_loads_nothing_heavy():
    loaded = modules_after("import nearkin; nearkin.__version__; dir(nearkin)")
    assert "nearkin" in loaded
    assert not loaded & {"sklearn", "numba", "scipy", "numpy", "pandas", "torch", "matplotlib"}


@pytest.mark.parametrize("module", ["nearkin.learners", "nearkin.neighbors", "nearkin.noise", "nearkin.saving"])
def test_importing_the_estimators_does_not_load_the_compiler(module):
    loaded = modules_after(f"import {module}")
    assert not loaded & {"numba", "torch", "matplotlib", "dask"}  # scikit-learn loads pandas where it is installed


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_sources_do_not_print_pickle_or_evaluate(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"print", "eval", "exec"}, f"{path}:{node.lineno}"
    for target, line in imported(path):
        assert target.split(".")[0] not in {"pickle", "cloudpickle", "joblib", "dill", "marshal", "shelve"}, (
            f"{path}:{line}"
        )


def public_modules():
    """Every module of ours that can be imported with the optional parts that are here."""
    for found in pkgutil.walk_packages([str(ROOT)], "nearkin."):
        if found.name.startswith("nearkin.accelerator.kernels.") and not importlib.util.find_spec("triton"):
            continue
        needs = {"nearkin.deep": "torch", "nearkin.deep.metric_learning": "pytorch_metric_learning"}.get(found.name)
        if needs and not importlib.util.find_spec(needs):
            # Said aloud, so that these tests run again once it is there.
            yield pytest.param(found.name, marks=pytest.mark.skip(reason=f"{needs} is not installed"))
        elif not found.name.endswith("__main__"):
            yield found.name


@pytest.mark.parametrize("module", ["nearkin", *public_modules()])
def test_every_name_that_is_promised_exists_once(module):
    loaded = importlib.import_module(module)
    promised = getattr(loaded, "__all__", [])
    assert len(promised) == len(set(promised))
    for name in promised:
        assert getattr(loaded, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'RobustOAXIS'"):
        nearkin.RobustOAXIS  # noqa: B018
