"""Compiled code reads no array that does not fit: whatever a model file held, a call ends with a Python error."""

import numpy as np
import pytest

import nearkin
from each import each
from nearkin.errors import InputError
from nearkin.kernels import check_shapes
from nearkin.kernels.impostors import scan, scan_batch, search
from nearkin.kernels.nearest import gather
from nearkin.losses import RescaledHinge
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.mercer import MercerKernel
from nearkin.parameters import (
    FullMatrix,
    LearningRule,
    LocalMetrics,
    LogDet,
    LowRank,
    ModalFull,
    Modalities,
    ModalLowRank,
    Sketched,
    Supports,
)
from nearkin.rows import Rows
from nearkin.triplets import Triplets

D = 6
RULE = LearningRule(0.1, RescaledHinge(1.0), 2)


def triplets(d=D, n=8, dtype="float64"):
    rng = np.random.default_rng(0)
    rows, index = Rows(rng.normal(size=(5, d)).astype(dtype)), rng.integers(0, 5, (3, n))
    return Triplets(rows, rows, *index, np.arange(5), np.arange(5), index[0] % 2)


def modalities():
    return Modalities(["a", "b"], [np.arange(2), np.arange(2, D)])


FLOAT = np.dtype(float)
KINDS = {
    "full": lambda: FullMatrix(D, FLOAT, SIMILARITY),
    "project": lambda: FullMatrix(D, FLOAT, DISTANCE, "project"),
    "exact": lambda: FullMatrix(D, FLOAT, DISTANCE, "exact"),
    "low rank": lambda: LowRank(np.eye(3, D), DISTANCE),
    "logdet": lambda: LogDet(D, FLOAT),
    "local": lambda: LocalMetrics(D, FLOAT, 1.0),
    "modal full": lambda: ModalFull(modalities(), FLOAT, 0.9, 1.0),
    "modal low rank": lambda: ModalLowRank(modalities(), [np.eye(2), np.eye(2, D - 2)], FLOAT, 0.9, 1.0),
    "sketch": lambda: Sketched(modalities(), FLOAT, 2, [1, 1], 4, 1.0, True, np.random.default_rng(0)),
    "supports": lambda: Supports([MercerKernel("linear")], D, FLOAT, 4),
}


def places(kind):
    """Where a parameter keeps arrays that its sweep takes: owner and attribute, or list and position."""
    one = KINDS[kind]()
    one.learn(triplets(), RULE)
    found = []
    for owner in (one, getattr(one, "shared", None), *getattr(one, "blocks", ())):
        if owner is not None and type(owner).__name__ != "Recovered":
            names = [name for name, value in vars(owner).items() if isinstance(value, np.ndarray)]
            found += [(vars(owner), name) for name in names if name not in ("_root", "codes")]
    if kind == "sketch":
        found += [(one.hats, at) for at in range(len(one.hats))]
    return one, found


def cut(array):
    return array[..., :-1].copy()


def widen(array):
    return np.concatenate([array, array[..., -1:]], axis=-1)


DAMAGES = {
    "cut": cut,
    "wide": widen,
    "fewer": lambda array: array[:-1].copy(),
    "empty": lambda array: np.empty([0] * array.ndim, array.dtype),
    "flat": lambda array: array.ravel() if array.ndim > 1 else array[None],
    "gaps": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
}


@each(kind=tuple(KINDS), damage=tuple(DAMAGES))
def test_arrays_of_another_shape_are_refused(kind, damage):
    for at in range(len(places(kind)[1])):
        one, found = places(kind)
        owner, name = found[at]
        changed = DAMAGES[damage](owner[name])
        if changed.shape == owner[name].shape and changed.flags.c_contiguous:
            continue
        owner[name] = changed
        try:
            one.learn(triplets(), RULE)
        except (ValueError, IndexError, ArithmeticError):  # InputError, or another where the array is used before
            continue
        is_free = name == "L" and damage == "fewer"  # a factor of fewer components is one
        is_used = kind != "full" or name == "M"
        assert is_free or not is_used, f"{name} of shape {changed.shape} was accepted"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_another_width_are_refused(kind):
    one, _ = places(kind)
    for d in (D - 1, D + 3):
        with pytest.raises((ValueError, IndexError)):
            one.learn(triplets(d), RULE)


@pytest.mark.parametrize("number", [-1.0, 1e6, np.nan, np.inf])
def test_a_state_of_projection_that_is_not_one_is_refused(number):
    for kind in ("project", "modal full", "local"):
        one, _ = places(kind)
        state = one if kind == "project" else one.shared if kind == "local" else one.blocks[0]
        state.numbers[1] = number
        with pytest.raises(InputError, match="the state of its projection is not one"):
            one.learn(triplets(), RULE)


@pytest.mark.parametrize("number", [-1, 5, 2**62])
def test_triplets_of_rows_that_do_not_exist_are_refused(number):
    for kind in KINDS:
        given = triplets()
        given.negative[3] = number
        with pytest.raises((ValueError, IndexError)):
            KINDS[kind]().learn(given, RULE)


def test_single_precision_where_addresses_are_of_doubles():
    one, _ = places("modal full")
    one.blocks[0].M = one.blocks[0].M.astype(np.float32)
    with pytest.raises(InputError, match="float32 where float64 is needed"):
        one.learn(triplets(), RULE)
    one, _ = places("modal low rank")
    with pytest.raises(InputError, match="float64 where float32 is needed"):
        one.learn(triplets(dtype="float32"), RULE)


def test_the_search_of_triplets_checks_rows_centres_and_codes():
    rows, codes, centres, classes = np.zeros((4, 3)), np.zeros(4, np.int64), np.zeros((2, 3)), np.arange(2)
    form = DISTANCE.linear(centres)
    search(rows, form, 1.0, codes, classes, 2)
    wrong = [
        (rows[:, :2].copy(), form, codes, classes),
        (rows, form._replace(offsets=form.offsets[:1]), codes, classes),
        (rows, form._replace(origin=np.zeros(9)), codes, classes),
        (rows, form, codes[:3], classes),
        (rows, form, codes - 1, classes),
        (rows, form, codes, classes[:1]),
        (rows.astype(np.float32), form, codes, classes),
    ]
    for rows, form, codes, classes in wrong:
        with pytest.raises(InputError):
            search(rows, form, 1.0, codes, classes, 2)
    with pytest.raises(InputError):
        scan(np.zeros((4, 3)), 1.0, np.zeros(4, np.int64), np.arange(2), 2)
    with pytest.raises(InputError):
        scan_batch(np.zeros((4, 4)), 1, np.zeros(4, np.int64), 1, 1.0, 1)
    with pytest.raises(InputError):
        scan_batch(np.zeros((4, 4)), 0, np.zeros(3, np.int64), 1, 1.0, 1)


def test_neighbours_are_gathered_from_arrays_that_fit():
    def arrays(n=3, m=4):
        number = np.arange(max(n, m), dtype=np.int32)
        return [np.zeros((n, m)), 1, np.arange(n), np.zeros(n), number[:n], np.zeros(m), np.ones(m), number[:m],
                np.zeros((n, 40)), np.zeros((n, 40), np.int32), np.zeros(n, np.int64), np.full(n, np.inf)]  # fmt: skip

    gather(*arrays())
    for at in (0, *range(2, 12)):
        given = arrays()
        given[at] = given[at][:-1].copy()
        with pytest.raises(InputError):
            gather(*given)


def test_the_message_says_what_disagrees():
    with pytest.raises(InputError, match=r"an array of shape \(2, 3\) where \(r, d\) is needed, with d = 4, r = 2\."):
        check_shapes("n d, r d", np.zeros((5, 4)), np.zeros((2, 3)))


def test_a_model_whose_arrays_were_exchanged_raises_wherever_it_is_used():
    X, y = np.random.default_rng(0).normal(size=(20, D)), np.arange(20) % 2
    model = nearkin.RobustLODML(random_state=0).fit(X, y)
    model.state_.parameter.L = np.eye(2, D + 3)
    with pytest.raises(ValueError, match="does not fit"):
        model.partial_fit(X, y)
