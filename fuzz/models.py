"""Model files, damaged and forged: load refuses them with the reason, or every method works or raises.

A damaged file has other bytes; what loads all the same must be the model that was saved. A forged file is written by
the library itself, with its checksum, from a model whose tree or arrays were changed: whatever loads may be nonsense,
but no call on it may end the process, hang or eat the memory.
"""

from __future__ import annotations

import inspect
import io
import resource
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import nearkin
from fuzz import seeds
from fuzz.child import Outcome, call
from fuzz.mutate import mutate_bytes, mutate_tree
from fuzz.report import Report
from nearkin import saving

WEIGHT = 4.0
#: Processor seconds for loading or refusing a file, and bytes beyond twice its size.
LOAD_S, LOAD_BYTES = 2.0, 1 << 26
#: Exit code of a child that saw something wrong, and printed what.
WRONG = 3


def run(seconds: float, seed: int, report: Report) -> None:
    """Damage and forge files of every kind."""
    kinds = seeds.model_names()
    for case in report.cases(seconds, seed):
        names = kinds[list(kinds)[case.rng.integers(len(kinds))]]
        one = warm(names[case.rng.integers(len(names))])
        path = case.folder / "model.nearkin"
        forged = case.rng.random() < 0.6
        if forged:
            _write_forged(one, path, case.rng)
        else:
            path.write_bytes(mutate_bytes(one.content, case.rng, seeds.data_seeds()["npz"]))
        found = call(attack, one, path, forged)
        report.count(case, f"{one.group}, {'forged' if forged else 'damaged'}", problem_of(found))


@cache
def warm(name: str) -> seeds.ModelSeed:
    """Return a good file, after calling every method of its model here, so that children find all loops compiled."""
    one = seeds.model_seed(name)
    with warnings.catch_warnings(action="ignore"):
        use(one.fresh())
    return one


def _write_forged(one: seeds.ModelSeed, path: Path, rng: np.random.Generator) -> None:
    """Write a changed model the way the library writes one, so that checksums are right."""
    forged = mutate_tree(*saving.to_tree(one.value), rng)
    with mock.patch.object(saving, "to_tree", lambda _: forged), warnings.catch_warnings(action="ignore"):
        try:
            one.write(one.value, path)
        except Exception:  # what cannot even be written is tried as damaged bytes
            path.write_bytes(mutate_bytes(one.content, rng))


def attack(one: seeds.ModelSeed, path: Path, forged: bool) -> int:
    """Load in the child, and use what was loaded; the exit code says whether all was right."""
    warnings.simplefilter("ignore")
    model, code = refusal(one.read, path, (ValueError,), loads=True)
    if model is None or code:
        return code
    if not forged and content_of(model) != content_of(one.fresh()):
        print("damage was accepted silently")
        return WRONG
    use(model)
    return 0


def refusal(
    load: Callable[[Path], Any], path: Path, errors: tuple[type[Exception], ...], *, loads: bool = False
) -> tuple[Any, int]:
    """Load a file in the child: return what came, and whether it was refused as it should be, or may load."""
    begun, before = time.process_time(), _peak()
    try:
        model = load(path)
    except errors as error:
        model, said = None, str(error)
    except BaseException as error:
        print(f"load raised {type(error).__name__}: {str(error)[:200]}")
        return None, WRONG
    spent, grown = time.process_time() - begun, _peak() - before
    allowed = 2 * path.stat().st_size + LOAD_BYTES if path.is_file() else LOAD_BYTES
    wrong = None
    if model is not None and not loads:
        wrong = "it was loaded"
    elif model is None and path.name not in said:
        wrong = f"the reason names no file: {said}"
    elif spent > LOAD_S:
        wrong = f"loading or refusing took {spent:.1f} s"
    elif grown > allowed:
        wrong = f"loading or refusing took {grown >> 20} MB for a file of {allowed - LOAD_BYTES >> 1} bytes"
    if wrong:
        print(wrong)
    return model, WRONG if wrong else 0


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def problem_of(found: Outcome) -> str | None:
    """Return what no file may cause."""
    if found.crash:
        return found.crash
    return None if found.code == 0 else f"code {found.code}: {(found.out or found.err).strip()[:300]}"


def content_of(value: Any) -> bytes:
    """Return a model as bytes that do not depend on the file it came from."""
    file = io.BytesIO()
    saving.write_tree(value, file)
    return file.getvalue()


def use(model: Any) -> None:
    """Call every public method with fitting arguments; it may raise any Python error, and must do no worse."""
    X, y = seeds.rows(1, 12)
    with suppress(Exception):
        y = model.classes_[y % len(model.classes_)]
    given = {
        "X": X, "y": y, "queries": X, "clicked": X[::-1], "skipped": X + 1.0, "Y": X[::-1], "A": X, "B": X[::-1],
        "X1": X, "X2": X[::-1], "triplets": np.arange(12).reshape(4, 3), "items": X,
    }  # fmt: skip
    for name in [one for one in dir(type(model)) if not one.startswith("_")]:
        with suppress(Exception):  # a Python error is an answer
            found = getattr(model, name)
            if callable(found) and name not in ("set_params", "set_output", "to_html", "to_csv"):
                found(*_arguments(found, given))
    for action in (repr, content_of, lambda one: one.fit(X, y), lambda one: nearkin.save(one, "/dev/null")):
        with suppress(Exception):
            action(model)


def _arguments(function: Any, given: dict[str, Any]) -> list[Any]:
    needed = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        and (one.default is one.empty or one.name == "y")
    ]
    return [given[one.name] if one.name in given else given["X"] for one in needed]
