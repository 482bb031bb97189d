"""One test over many cases, which runs them all and names every case that fails.

``@each(cls=LEARNERS, kind=KINDS)`` calls the test with every combination. Fixtures start afresh for every case: the
generator of `rng` returns to its start, ``monkeypatch`` is undone, and ``tmp_path`` is a folder of the case's own.
``@each(cls=LEARNERS, fast={"cls": FEW})`` makes two tests, one over a few learners and a slow one over the others.
``pytest --case RobustODML`` runs only the cases with that text in their name.
"""

import inspect
import itertools

import pytest


def each(fast=None, **axes):
    """Let one test run over every combination of these values; an axis given as a dict names its values."""
    axes = {name: dict(values) if isinstance(values, dict) else _named(values) for name, values in axes.items()}
    cases = {
        "-".join(name for name, _ in one): dict(zip(axes, (value for _, value in one), strict=True))
        for one in itertools.product(*(axis.items() for axis in axes.values()))
    }

    def decorate(test):
        if hasattr(test, "each"):  # two decorators, one above the other
            inner, more_axes, more_fast = test.each
            inner.pytestmark = [mark for mark in test.pytestmark if mark.args[:1] != ("cases",)]
            return each(fast={**(fast or {}), **more_fast}, **axes, **more_axes)(inner)
        taken = {name: one for name, one in inspect.signature(test).parameters.items() if name not in axes}

        def over_all(request, cases=cases, **fixtures):
            _run_all(test, cases, request, fixtures)

        request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY)
        parameters = {"request": request, **taken}
        over_all.__name__, over_all.__doc__, over_all.__module__ = test.__name__, test.__doc__, test.__module__
        over_all.pytestmark = list(getattr(test, "pytestmark", []))
        if fast:
            is_fast = {
                name: all(any(case[axis] is value for value in values) for axis, values in fast.items())
                for name, case in cases.items()
            }
            chosen = [{name: case for name, case in cases.items() if is_fast[name] is now} for now in (True, False)]
            assert all(chosen), "some cases must be fast and some slow"
            parameters["cases"] = request.replace(name="cases")
            pytest.mark.parametrize(
                "cases", [pytest.param(chosen[0], id="few"), pytest.param(chosen[1], id="rest", marks=pytest.mark.slow)]
            )(over_all)
        over_all.__signature__ = inspect.Signature(
            [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters.values()]
        )
        over_all.each = test, axes, fast or {}
        return over_all

    return decorate


def _named(values):
    values = list(values)
    names = [value if isinstance(value, str) else getattr(value, "__name__", None) or repr(value) for value in values]
    assert len(set(names)) == len(names), f"two cases share a name: {names}"
    return dict(zip(names, values, strict=True))


def _run_all(test, cases, request, fixtures):
    rng = request.getfixturevalue("rng")
    start = rng.bit_generator.state
    wanted = request.config.getoption("--case")
    failures, skips = {}, {}
    for name, case in cases.items():
        if wanted not in name:
            continue
        rng.bit_generator.state = start
        own = dict(fixtures)
        if "tmp_path" in own:
            own["tmp_path"] = fixtures["tmp_path"] / f"case{len(list(fixtures['tmp_path'].iterdir()))}"
            own["tmp_path"].mkdir()
        try:
            test(**own, **case)
        except pytest.skip.Exception as skip:
            skips[name] = skip
        except (Exception, pytest.fail.Exception) as failure:
            failure.add_note(f"case: {name}")
            failures[name] = failure
        finally:
            if "monkeypatch" in own:
                own["monkeypatch"].undo()
    if failures:
        message = f"{len(failures)} of {len(cases)} cases fail: {', '.join(failures)}"
        raise BaseExceptionGroup(message, list(failures.values())[:5])
    if skips:
        pytest.skip(f"{', '.join(skips)}: {next(iter(skips.values()))}")
