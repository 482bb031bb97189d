"""Rooms respect each other's privacy, load each other openly, and stay small enough to read."""

import ast
import importlib
import inspect

import pytest

from sources import SOURCES, walk

#: Offenders that are known and will go. A test fails for any other one, and for one of these that no longer offends.
NOT_YET: dict[str, set[str]] = {
    "private modules": {
        "nearkin.audit._auditor imports nearkin.learners._state.all_or_nothing",
        "nearkin.audit._page imports nearkin.neighbors._ridge.RidgeVotes",
        "nearkin.audit._stream imports nearkin.learners._state.all_or_nothing",
        "nearkin.audit._stream imports nearkin.noise._rate.certain_rate",
        "nearkin.cli._stream imports nearkin.streams._open.is_many",
        "nearkin.cli.audit imports nearkin.audit._exports.CLEANED",
        "nearkin.cli.audit imports nearkin.audit._exports.COLUMNS",
        "nearkin.cli.audit imports nearkin.audit._names.speaking_as",
        "nearkin.cli.audit imports nearkin.audit._thumbnails.require_pillow",
        "nearkin.deep._batch imports nearkin.triplets._source.PlainView",
        "nearkin.deep._learner imports nearkin.learners._state.State",
        "nearkin.deep._learner imports nearkin.learners._state.all_or_nothing",
        "nearkin.deep._learner imports nearkin.streams._checkpoint.Checkpoint",
        "nearkin.deep._oahu imports nearkin.learners._preset.with_defaults",
        "nearkin.deep._state imports nearkin.learners._state.State",
        "nearkin.distributed._fit imports nearkin.learners._learner.OnlineLearner",
        "nearkin.distributed._fit imports nearkin.learners._merge.check_mergeable",
        "nearkin.distributed._fit imports nearkin.learners._merge.merge_states",
        "nearkin.distributed._fit imports nearkin.streams._checkpoint.Checkpoint",
        "nearkin.distributed._fit imports nearkin.streams._plain.to_plain",
        "nearkin.distributed._fit imports nearkin.streams._run.Options",
        "nearkin.distributed._fit imports nearkin.streams._run.Run",
        "nearkin.distributed._fit imports nearkin.streams._units.Piece",
        "nearkin.distributed._fit imports nearkin.streams._watch.Seen",
        "nearkin.distributed._fit imports nearkin.streams._watch.learn_batch",
        "nearkin.distributed._score imports nearkin.learners._learner.OnlineLearner",
        "nearkin.distributed._score imports nearkin.streams._plain.to_plain",
        "nearkin.distributed._score imports nearkin.streams._score.Scores",
        "nearkin.distributed._score imports nearkin.streams._score.write_scores",
        "nearkin.distributed._tasks imports nearkin.learners._learner.OnlineLearner",
        "nearkin.distributed._tasks imports nearkin.streams._plain.from_plain",
        "nearkin.distributed._tasks imports nearkin.streams._score.score_batch",
        "nearkin.distributed._tasks imports nearkin.streams._source.Cursor",
        "nearkin.distributed._tasks imports nearkin.streams._units.Unit",
        "nearkin.distributed._tasks imports nearkin.streams._watch.learn_batch",
        "nearkin.learners._multimodal imports nearkin.triplets._triplets.Vectors",
        "nearkin.learners._parameters imports nearkin.kernels._compile",
        "nearkin.learners._parameters imports nearkin.triplets._triplets.Vectors",
        "nearkin.learners._sketch imports nearkin.triplets._triplets.Vectors",
        "nearkin.neighbors._classifier imports nearkin.learners._modalities.joined",
        "nearkin.neighbors._classifier imports nearkin.learners._state.all_or_nothing",
        "nearkin.neighbors._jury imports nearkin.noise._votes.Ask",
        "nearkin.neighbors._jury imports nearkin.noise._votes.parts",
        "nearkin.neighbors._ridge imports nearkin.noise._votes.Ask",
        "nearkin.search._adapter imports nearkin.learners._state.all_or_nothing",
        "nearkin.search._index imports nearkin.learners._state.all_or_nothing",
        "nearkin.streams._fit imports nearkin.learners._learner.OnlineLearner",
        "nearkin.streams._memory imports nearkin.learners._learner.OnlineLearner",
        "nearkin.streams._run imports nearkin.learners._learner.OnlineLearner",
        "nearkin.streams._score imports nearkin.learners._learner.OnlineLearner",
        "nearkin.streams._watch imports nearkin.learners._learner.OnlineLearner",
    },
    "private attributes": {
        "nearkin.audit._audit uses classifier._flips",
        "nearkin.audit._audit_labels uses learner.measure",
        "nearkin.audit._audit_labels uses model._jury",
        "nearkin.audit._evidence uses learner._fitted",
        "nearkin.audit._page uses model._flips",
        "nearkin.audit._page uses model._jury",
        "nearkin.audit._stream uses learner._check_rows",
        "nearkin.audit._stream uses panel._flips",
        "nearkin.audit._votes uses model._flips",
        "nearkin.audit._votes uses model._jury",
        "nearkin.cli.adapt uses adapter._rules",
        "nearkin.cli.info uses learner.measure",
        "nearkin.cli.info uses learner._n_features_out",
        "nearkin.deep._files uses model._is_begun",
        "nearkin.deep._files uses saving._checked",
        "nearkin.deep._files uses saving._decode",
        "nearkin.deep._files uses saving._encode",
        "nearkin.deep._learner uses self.learner._name",
        "nearkin.distributed._rounds uses self.client._cancel",
        "nearkin.distributed._rounds uses self.client._restart_workers",
        "nearkin.neighbors._classifier uses self.learner_._fitted",
        "nearkin.neighbors._classifier uses self.learner_._is_linear",
        "nearkin.neighbors._classifier uses self.learner_._mapped",
        "nearkin.neighbors._classifier uses self.learner_.measure",
        "nearkin.saving uses nearkin._HOME",
        "nearkin.streams._memory uses learner._by_class",
        "nearkin.streams._run uses self.learner._state",
        "nearkin.streams._score uses learner._fitted",
        "nearkin.streams._watch uses learner._state",
    },
    "late imports": {
        "nearkin.audit._audit imports nearkin.audit._page",
        "nearkin.deep._learner imports nearkin.streams._checkpoint",
        "nearkin.experiments.curves imports nearkin",
        "nearkin.experiments.curves imports nearkin.learners",
        "nearkin.experiments.curves imports nearkin.neighbors",
        "nearkin.experiments.curves imports nearkin.noise",
        "nearkin.experiments.curves imports nearkin.triplets",
        "nearkin.experiments.demo imports nearkin.learners",
        "nearkin.experiments.demo imports nearkin.neighbors",
        "nearkin.experiments.demo imports nearkin.noise",
        "nearkin.experiments.detection imports nearkin.audit",
        "nearkin.experiments.figures imports nearkin",
        "nearkin.experiments.figures imports nearkin.learners",
        "nearkin.experiments.figures imports nearkin.losses",
        "nearkin.experiments.figures imports nearkin.noise",
        "nearkin.experiments.methods imports nearkin",
        "nearkin.experiments.methods imports nearkin.experiments.cleaning",
        "nearkin.experiments.methods imports nearkin.learners",
        "nearkin.experiments.methods imports nearkin.neighbors",
        "nearkin.experiments.methods imports nearkin.triplets",
        "nearkin.experiments.protocol imports nearkin.noise",
        "nearkin.experiments.triplet_statistics imports nearkin.noise",
        "nearkin.experiments.triplet_statistics imports nearkin.triplets",
        "nearkin.search._handover imports nearkin.search._faiss",
    },
    "deep classes": {
        "LODML stands on 4 classes",
        "LOSL stands on 4 classes",
        "RobustLODML stands on 5 classes",
        "RobustLOMDML stands on 4 classes",
        "RobustLOSL stands on 5 classes",
        "RobustLSMDML stands on 4 classes",
        "RobustOAHU stands on 4 classes",
        "RobustOASIS stands on 4 classes",
        "RobustODML stands on 4 classes",
        "RobustOKS stands on 4 classes",
        "RobustOMDML stands on 4 classes",
        "RobustOMKS stands on 4 classes",
    },
    "many parameters": {
        "nearkin.cli.adapt.adapt takes 23",
        "nearkin.cli.audit.audit takes 18",
        "nearkin.deep._metric.__init__ takes 26",
        "nearkin.deep._oahu.__init__ takes 27",
    },
    "many settings": {
        "DeepMetric takes 26",
        "OAHU takes 27",
        "RobustOAHU takes 27",
    },
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
