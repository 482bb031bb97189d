"""Parameters: presets, the rules beside the classes, and losses of one's own."""

import dataclasses
import inspect
import math
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import nearkin
from each import each
from nearkin.losses import Loss, as_loss
from nearkin.settings import Instance, Integer, OneOf, Real, check_settings, declare, generator

PAIRS = (
    (nearkin.OASIS, nearkin.RobustOASIS),
    (nearkin.ODML, nearkin.RobustODML),
    (nearkin.LOSL, nearkin.RobustLOSL),
    (nearkin.LODML, nearkin.RobustLODML),
    (nearkin.OPML, nearkin.RobustOPML),
    (nearkin.SLMOML, nearkin.RobustSLMOML),
    (nearkin.ITML, nearkin.RobustITML),
    (nearkin.LPAODML, nearkin.RobustLPAODML),
    (nearkin.OMDML, nearkin.RobustOMDML),
    (nearkin.LOMDML, nearkin.RobustLOMDML),
    (nearkin.LSMDML, nearkin.RobustLSMDML),
)
LEARNERS = (*(cls for pair in PAIRS for cls in pair), nearkin.Euclidean)
SOURCES = (nearkin.OCTG, nearkin.BatchTriplets, nearkin.OnePassTriplets, nearkin.RandomTriplets)
RULED = (*LEARNERS, nearkin.RobustKNeighborsClassifier, *SOURCES)


def _data(seed=0, n=30, d=4):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += 2.0
    return X, y


def _parameters(cls):
    return dict(inspect.signature(cls).parameters)


# ---------------------------------------------------------------------------------- presets


@each(pair=PAIRS)
def test_robust_form_differs_from_the_plain_one_in_defaults_only(pair):
    plain, robust = pair
    before, after = _parameters(plain), _parameters(robust)
    assert list(before) == list(after)
    assert [one.kind for one in before.values()] == [one.kind for one in after.values()]
    assert [one.annotation for one in before.values()] == [one.annotation for one in after.values()]
    assert after["loss"].default == "rescaled_hinge"
    assert before["loss"].default == "hinge"
    assert issubclass(robust, plain)
    methods = {name for name, value in vars(robust).items() if inspect.isfunction(value) or isinstance(value, property)}
    assert methods - {"__replace__"} == {"__init__"}  # both of the dataclass, the former from Python 3.13 on


@each(pair=PAIRS)
def test_robust_form_with_the_parameters_of_the_plain_one_learns_the_same_bits(pair):
    plain, robust = pair
    X, y = _data()
    one = plain(random_state=0).fit(X, y)
    other = robust(**plain(random_state=0).get_params(deep=False)).fit(X, y)
    assert one.metric_.tobytes() == other.metric_.tobytes()
    assert one.plausibility_.tobytes() == other.plausibility_.tobytes()


@each(pair=PAIRS)
def test_robust_form_is_the_plain_one_with_its_defaults_written_out(pair):
    plain, robust = pair
    X, y = _data()
    one = robust(random_state=0).fit(X, y)
    other = plain(**robust(random_state=0).get_params(deep=False)).fit(X, y)
    assert one.metric_.tobytes() == other.metric_.tobytes()
    assert (one.plausibility_ < 1).any()


@each(cls=RULED)
def test_every_parameter_is_kept_as_it_was_given(cls):
    mark = object()
    for name in _parameters(cls):
        model = cls(**{name: mark})
        assert getattr(model, name) is mark
        assert model.get_params(deep=False)[name] is mark
        for other, parameter in _parameters(cls).items():
            assert other == name or getattr(model, other) is parameter.default


@each(cls=RULED)
def test_clone_keeps_every_value(cls):
    values = {name: f"value of {name}" for name in _parameters(cls)}
    model = clone(cls(**values))
    assert model.get_params(deep=False) == values
    assert vars(model) == values


@each(cls=RULED)
def test_get_params_lists_what_the_constructor_takes(cls):
    assert list(cls().get_params(deep=False)) == sorted(_parameters(cls))


@each(cls=RULED)
def test_unknown_argument_is_refused(cls):
    with pytest.raises(TypeError, match=r"nonsense|takes no arguments"):
        cls(nonsense=1)


@pytest.mark.parametrize(("plain", "robust"), PAIRS)
def test_first_parameter_may_be_given_by_position_and_no_other(plain, robust):
    first = next(iter(_parameters(plain)))
    assert first == ("n_components" if plain.__name__ in ("LOSL", "LODML", "LOMDML") else "C")
    for cls in (plain, robust):
        model = cls(7, eta=0.5)
        assert getattr(model, first) == 7
        assert model.eta == 0.5
        assert model.loss == _parameters(cls)["loss"].default
        with pytest.raises(TypeError):
            cls(7, 8)
        with pytest.raises(TypeError, match=first):
            cls(7, **{first: 8})


@each(robust=[pair[1] for pair in PAIRS])
def test_default_of_the_preset_can_be_overridden(robust):
    assert robust(loss="hinge").loss == "hinge"
    assert robust().set_params(loss="hinge").loss == "hinge"
    assert repr(robust()) == f"{robust.__name__}()"
    assert repr(robust(loss="hinge")) == f"{robust.__name__}(loss='hinge')"
    assert repr(robust(loss="rescaled_hinge")) == f"{robust.__name__}()"


def test_a_default_is_changed_in_one_line_by_position_and_by_name():
    @declare
    class Strong(nearkin.RobustOASIS):
        C: float = 0.5
        eta: float = 2.0

    assert (Strong().C, Strong().eta, Strong(0.1).C, Strong(C=0.2).C) == (0.5, 2.0, 0.1, 0.2)
    assert Strong().loss == "rescaled_hinge"
    assert clone(Strong(0.1)).get_params() == Strong(0.1).get_params()
    assert _parameters(Strong)["C"].default == 0.5
    assert _parameters(nearkin.RobustOASIS)["C"].default == "auto"


# ---------------------------------------------------------------------------------- rules


def rules_of(cls):
    return {one.name: one.metadata["rules"] for one in dataclasses.fields(cls)}


RULED_NUMBERS = {
    f"{cls.__name__}.{name}": (cls, name)
    for cls in RULED
    for name, rules in rules_of(cls).items()
    if any(isinstance(rule, (Real, Integer)) for rule in rules)
}


@each(number=RULED_NUMBERS)
def test_no_number_may_be_a_truth_value(number):
    cls, name = number
    for value in (True, False, np.True_, np.False_):
        assert not any(rule.allows(value) for rule in rules_of(cls)[name])
        model = cls()
        vars(model)[name] = value
        with pytest.raises(ValueError, match=rf"{cls.__name__}: parameter `{name}` must be a .*; got .*{bool(value)}"):
            check_settings(model)


@each(number=RULED_NUMBERS)
def test_every_number_may_be_a_numpy_number(number):
    cls, name = number
    rules = rules_of(cls)[name]
    kinds = (
        (np.int64, np.uint8, np.int32) if any(isinstance(one, Integer) for one in rules) else (np.float64, np.float32)
    )
    for kind in kinds:
        value = kind(0.25) if name in ("noise_rate", "beta") else kind(3)
        assert any(rule.allows(value) for rule in rules)


@each(cls=RULED)
def test_defaults_keep_the_rules(cls):
    check_settings(cls())


@each(cls=RULED)
def test_every_rule_belongs_to_an_attribute_and_can_be_put_in_words(cls):
    model = cls()
    for name, rules in rules_of(cls).items():
        assert hasattr(model, name)
        for rule in rules:
            assert str(rule)
            assert "Rule" not in str(rule)
            assert "object at" not in str(rule)


def test_interval_knows_its_ends():
    assert Real(0, 1).allows(0) and Real(0, 1).allows(1.0)
    assert not Real(0, 1, open_low=True).allows(0)
    assert not Real(0, 1, open_high=True).allows(1)
    assert not Real().allows(math.nan)
    assert Real().allows(math.inf)
    assert not Real(0, math.inf, open_high=True).allows(math.inf)
    assert not Real().allows("1") and not Real().allows(None) and not Real().allows(1j)
    assert str(Real(0, 1, open_high=True)) == "a number in [0, 1)"
    assert str(Real(0, 1, open_low=True)) == "a number in (0, 1]"


def test_whole_number_knows_its_lower_end():
    assert Integer(2).allows(2) and Integer(2).allows(np.int8(5))
    assert not Integer(2).allows(1)
    assert not Integer(2).allows(2.0)
    assert not Integer(0).allows(False)
    assert not Integer(0).allows(np.False_)
    assert str(Integer(2)) == "a whole number >= 2"


def test_choice_tells_values_of_several_types_apart():
    rule = OneOf(("auto", None, 0))
    assert rule.allows("auto") and rule.allows(None) and rule.allows(0)
    assert not rule.allows(False) and not rule.allows(0.0) and not rule.allows("None")
    assert not rule.allows(np.zeros(2))
    assert str(rule) == "one of 'auto', None, 0"


def test_kind_is_put_in_words():
    rule = Instance((bool, np.bool_), "True or False")
    assert rule.allows(True) and rule.allows(np.True_)
    assert not rule.allows(1)
    assert str(rule) == "True or False"


def test_message_names_owner_parameter_rule_and_value():
    with pytest.raises(ValueError) as caught:
        check_settings(nearkin.RobustLODML(C=-2.5))
    assert str(caught.value) == "RobustLODML: parameter `C` must be a number in [0, inf] or 'auto'; got -2.5."


def test_seed_may_be_a_number_a_generator_or_a_legacy_state_and_never_touches_the_global_one():
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    for make in (lambda: 3, lambda: np.int64(3), lambda: np.random.default_rng(3), lambda: np.random.RandomState(3)):
        assert generator(make()).integers(2**40) == generator(make()).integers(2**40)
    assert generator(None).integers(2**60) != generator(None).integers(2**60)
    mine = np.random.default_rng(0)
    assert generator(mine) is mine
    X, y = _data()
    for cls in LEARNERS:
        cls(triplets="random").fit(X, y)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    np.testing.assert_array_equal(before["state"]["key"], after["state"]["key"])
    assert before["state"]["pos"] == after["state"]["pos"]


@each(seed=(-1, 1.0, "1", True, np.True_, [1], (1, 2)))
def test_seed_of_another_kind_is_refused(seed):
    with pytest.raises(ValueError, match="random_state"):
        generator(seed)


# ---------------------------------------------------------------------------------- a loss of one's own


def welsch_like(hinge, height, fall):
    """Weight ``height / (1 + fall * hinge)^2``."""
    return height / ((1.0 + fall * hinge) * (1.0 + fall * hinge))


@dataclass(frozen=True)
class WelschLike:
    """Bounded loss with the slope ``1 / (1 + a h)^2``: ``h / (1 + a h)``."""

    a: float = 0.7
    height: float = 1.0

    @property
    def params(self):
        return self.height, self.a

    @property
    def weight_of_hinge(self):
        return welsch_like

    def value(self, z):
        h = np.maximum(0.0, 1.0 - np.asarray(z))
        return self.height * h / (1.0 + self.a * h)

    def weight(self, z):
        return welsch_like(np.maximum(0.0, 1.0 - np.asarray(z)), self.height, self.a)

    def plausibility(self, z):
        return self.weight(z) / self.height


def _literal_full(triplets, C, loss, max_hq_iter, is_distance):
    """Algorithms 1 and 2 without a cone, for any loss."""
    M = np.eye(triplets[0].shape[1])
    plausibility = []
    for x, p, n in zip(*triplets, strict=True):
        A = np.outer(x - n, x - n) - np.outer(x - p, x - p) if is_distance else np.outer(x, p - n)
        z, norm = float(np.sum(A * M)), float(np.sum(A * A))
        at, tau = z, 0.0
        if z < 1.0:
            for _ in range(max_hq_iter):
                w = float(loss.weight(at))
                tau = min(C * w, (1.0 - z) / norm)
                at = z + tau * norm
            M = M + tau * A
            plausibility.append(float(loss.weight(z)) / float(loss.weight(1.0)))
        else:
            plausibility.append(1.0)
    return M, np.array(plausibility)


def _literal_lowrank(triplets, C, loss, max_hq_iter, is_distance):
    """Algorithms 3 and 4 with one sub-gradient step of size 1, for any loss; returns ``L L'``."""
    d = triplets[0].shape[1]
    L = np.eye(d)
    plausibility = []
    for x, p, n in zip(*triplets, strict=True):
        A = np.outer(x - n, x - n) - np.outer(x - p, x - p) if is_distance else np.outer(x, p - n)
        z = float(np.sum(A * (L @ L.T)))
        if z < 1.0:
            moved = L
            for _ in range(max_hq_iter):
                w = float(loss.weight(np.sum(A * (moved @ moved.T))))
                moved = L + C * w * (A + A.T) @ L
            L = moved
        plausibility.append(float(loss.weight(z)) / float(loss.weight(1.0)) if z < 1.0 else 1.0)
    return L @ L.T, np.array(plausibility)


def _triplets(n=60, d=3, seed=0):
    return list(np.random.default_rng(seed).normal(size=(3, n, d)))


def test_own_loss_has_the_shape_of_a_loss():
    assert isinstance(WelschLike(), Loss)
    assert as_loss(WelschLike(0.3), 5.0) == WelschLike(0.3)
    z, step = np.linspace(-3, 0.9, 20), 1e-6
    slope = (WelschLike().value(z + step) - WelschLike().value(z - step)) / (2 * step)
    np.testing.assert_allclose(WelschLike().weight(z), -slope, rtol=1e-6)


@pytest.mark.parametrize("height", (1.0, 2.5))
@pytest.mark.parametrize(
    ("make", "is_distance"),
    ((nearkin.OASIS, False), (lambda **more: nearkin.ODML(psd="none", **more), True)),
    ids=("OASIS", "ODML"),
)
def test_own_loss_in_a_full_matrix_equals_a_literal_loop(make, is_distance, height):
    loss, triplets = WelschLike(0.7, height), _triplets()
    model = make(C=0.05, loss=loss, scale=None).fit_triplets(*triplets)
    M, plausibility = _literal_full(triplets, 0.05, loss, 3, is_distance)
    np.testing.assert_allclose(model.metric_, M, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.plausibility_, plausibility, rtol=1e-9)
    assert model.n_updates_ > 20
    assert model.plausibility_.min() < 0.3


@pytest.mark.parametrize(("cls", "is_distance"), ((nearkin.LOSL, False), (nearkin.LODML, True)))
def test_own_loss_in_a_factor_equals_a_literal_loop(cls, is_distance):
    loss, triplets = WelschLike(0.7), _triplets()
    model = cls(C=0.01, loss=loss, scale=None, solver="subgradient").fit_triplets(*triplets)
    M, plausibility = _literal_lowrank(triplets, 0.01, loss, 3, is_distance)
    np.testing.assert_allclose(model.metric_, M, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.plausibility_, plausibility, rtol=1e-8)
    assert model.n_updates_ > 20


def test_own_loss_works_with_every_learner_and_solver():
    X, y = _data()
    loss = WelschLike()
    models = (
        nearkin.OASIS(loss=loss),
        nearkin.ODML(loss=loss),
        nearkin.LODML(loss=loss),
        nearkin.RobustLOSL(loss=loss),
        nearkin.Euclidean(loss=loss),
    )
    for model in models:
        model.set_params(random_state=0).fit(X, y)
        assert np.isfinite(model.metric_).all()
        assert ((model.plausibility_ > 0) & (model.plausibility_ <= 1)).all()
        assert model.plausibility_.min() < 0.9


def test_own_loss_changes_what_is_learned():
    X, y = _data()
    own = nearkin.OASIS(loss=WelschLike(0.7), random_state=0).fit(X, y)
    for other in ("hinge", "rescaled_hinge", WelschLike(5.0)):
        model = nearkin.OASIS(loss=other, random_state=0).fit(X, y)
        assert np.abs(own.metric_ - model.metric_).max() > 1e-3


def test_own_loss_survives_clone_and_sits_in_the_classifier():
    X, y = _data()
    model = nearkin.RobustKNeighborsClassifier(nearkin.OASIS(loss=WelschLike(0.2), random_state=0)).fit(X, y)
    assert clone(model).learner.loss == WelschLike(0.2)
    assert model.score(X, y) > 0.8


@each(cls=LEARNERS)
def test_loss_objects_of_the_package_equal_their_names(cls):
    X, y = _data()
    for name, loss in (("hinge", nearkin.Hinge()), ("rescaled_hinge", nearkin.RescaledHinge(0.5))):
        named = cls(loss=name, eta=0.5, random_state=0).fit(X, y)
        given = cls(loss=loss, random_state=0).fit(X, y)
        assert named.plausibility_.tobytes() == given.plausibility_.tobytes()
        assert named.metric_.tobytes() == given.metric_.tobytes()


def test_loss_that_lacks_a_part_is_refused():
    class Half:
        params = (1.0, 1.0)

        def value(self, z):
            return z

    X, y = _data()
    with pytest.raises(ValueError, match="OASIS: parameter `loss`"):
        nearkin.OASIS(loss=Half()).fit(X, y)
