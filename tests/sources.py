"""The sources as syntax trees, for the tests of architecture: every module, what it imports, and the floor plan."""

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nearkin

HOME = Path(nearkin.__file__).parent

#: The floor plan, ground floor first. A room may import from its own floor and from the floors below.
FLOORS = (
    "losses measures mercer steps hedge sketch errors arrays settings stored rows labels reservoir files memory"
    " progress bars gradual datasets pages picture _version",
    "kernels accelerator",
    "discriminant directions",
    "triplets parameters tables",
    "learners",
    "noise neighbors jury",
    "audit",
    "search archives saving model_files streams distributed deep river",
    "paper demo",
    "cli",
    "__main__",
)
#: Rooms of pure formulas: numpy and the standard library only.
FORMULAS = ("losses", "measures", "mercer", "steps")

FLOOR_OF = {room: level for level, rooms in enumerate(FLOORS) for room in rooms.split()}
FLOOR_OF[""] = FLOOR_OF["saving"]  # the package itself, which offers the names of the rooms up to there


@dataclass(frozen=True)
class Import:
    """One name that a module imports: ``from module import name``; ``name`` is empty in ``import module``."""

    module: str
    name: str
    line: int
    in_function: bool

    @property
    def room(self):
        """Room the import leads to; for ``from nearkin import rows`` that is ``rows``."""
        room = room_of(self.module) or (self.name if self.module == "nearkin" else "")
        return "_version" if room == "__version__" else room

    @property
    def is_ours(self):
        return self.module.split(".")[0] == "nearkin"

    def __str__(self):
        return f"{self.module}.{self.name}".rstrip(".")


class Source:
    """One module of ours."""

    def __init__(self, path):
        parts = ("nearkin", *path.relative_to(HOME).with_suffix("").parts)
        self.path = path
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.package = self.name if path.name == "__init__.py" else self.name.rpartition(".")[0]
        self.room = room_of(self.name)

    def __str__(self):
        return self.name

    @cached_property
    def tree(self):
        return ast.parse(self.path.read_text())

    @cached_property
    def imports(self):
        """Everything the module imports, at the top or inside functions."""
        found = []
        for node, in_function in walk(self.tree):
            if isinstance(node, ast.Import):
                found += [Import(alias.name, "", node.lineno, in_function) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
                    base = ".".join([*above, base] if base else above)
                found += [Import(base, alias.name, node.lineno, in_function) for alias in node.names]
        return found

    def imports_from_other_rooms(self):
        return [one for one in self.imports if one.is_ours and one.room != self.room]


def room_of(module):
    """First name below ``nearkin``; empty for the package itself."""
    return module.split(".")[1] if module.startswith("nearkin.") else ""


def walk(node, in_function=False):
    """Every node below one, with whether it stands inside a function."""
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield child, inside
        yield from walk(child, inside)


SOURCES = tuple(Source(path) for path in sorted(HOME.rglob("*.py")))
