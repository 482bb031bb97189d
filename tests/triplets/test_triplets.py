"""Triplet sources against their literal rules."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.base import clone

import nearkin
from each import each
from nearkin.measures import DISTANCE, SIMILARITY
from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets, RandomTriplets, TripletSource, as_source
from printed import printed
from reference import full, lowrank
from reference import triplets as literal


def by_position(triplets):
    return list(zip(triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist(), strict=True))


def by_origin(triplets):
    """Triplets as numbers of rows of the stream."""
    return list(
        zip(
            triplets.row_origin[triplets.anchor].tolist(),
            triplets.pool_origin[triplets.positive].tolist(),
            triplets.pool_origin[triplets.negative].tolist(),
            strict=True,
        )
    )


def class_means(X, y):
    """One centre per class, classes in order of first appearance."""
    labels = list(dict.fromkeys(y.tolist()))
    return np.array([X[y == label].mean(axis=0) for label in labels]), labels


# ---------------------------------------------------------------- OCTG


def test_octg_is_the_rule_of_the_paper_with_class_means_as_centres(blobs):
    X, y = blobs(n=80, d=4, n_classes=4, distance=0.4)
    source = OCTG()
    triplets = source.build(X, y)
    centers, labels = class_means(X, y)
    np.testing.assert_allclose(source.centers_, centers, atol=1e-13)
    np.testing.assert_array_equal(source.center_counts_, [np.sum(y == label) for label in labels])
    expected = literal.octg(X, y.tolist(), centers, labels)
    assert len(expected) > 20
    assert by_position(triplets) == expected


@each(margin=[0.0, 0.4, 3.0], max_impostors=[None, 1, 2])
def test_octg_takes_given_centres_a_margin_and_the_nearest_impostors(margin, max_impostors, blobs, rng):
    X, y = blobs(n=60, d=3, n_classes=4)
    centers, labels = rng.normal(size=(9, 3)), [0, 1, 2, 3, 0, 1, 2, 3, 0]
    source = OCTG(margin=margin, max_impostors=max_impostors, centers=centers, center_labels=labels)
    triplets = source.build(X, y)
    expected, taken = [], Counter()
    for triplet in literal.octg(X, y.tolist(), centers, labels, margin):
        taken[triplet[0]] += 1
        if max_impostors is None or taken[triplet[0]] <= max_impostors:
            expected.append(triplet)
    assert by_position(triplets) == expected
    assert max(taken.values()) > 2


@each(n_centers=[1, 3], measure={"distance": DISTANCE, "similarity": SIMILARITY})
def test_octg_gives_at_most_one_triplet_per_foreign_centre_and_only_those_with_a_loss(n_centers, measure, blobs):
    X, y = blobs(n=90, d=4, n_classes=4)
    source = OCTG(n_centers)
    triplets = source.build(X, y, measure=measure.name, random_state=0)
    counts = Counter(triplets.anchor.tolist())
    assert max(counts.values()) <= n_centers * 3
    assert len(source.centers_) == n_centers * 4
    z = triplets.margins(measure)
    assert np.all(z <= 1.0 + 1e-12)
    # And nothing with a loss is left out: the pairs that are not there have a margin above 1.
    present = set(by_position(triplets))
    codes = source.center_codes_[[source.center_codes_.tolist().index(code) for code in range(4)]]
    assert codes.tolist() == [0, 1, 2, 3]
    scores = measure.scores(X, source.centers_)
    first_seen = {label: code for code, label in enumerate(dict.fromkeys(y.tolist()))}
    for row, label in enumerate(y.tolist()):
        own = np.flatnonzero(source.center_codes_ == first_seen[label])
        positive = own[scores[row, own].argmax()]
        for negative in np.flatnonzero(source.center_codes_ != first_seen[label]):
            gap = scores[row, positive] - scores[row, negative]
            assert ((row, positive, negative) in present) == (gap <= 1.0)


def test_octg_for_similarities_compares_inner_products(blobs, rng):
    X, y = blobs(n=50, d=3)
    centers, labels = rng.normal(size=(6, 3)), [0, 1, 2, 0, 1, 2]
    triplets = OCTG(centers=centers, center_labels=labels).build(X, y, measure="similarity")
    expected = []
    for row, (x, label) in enumerate(zip(X, y.tolist(), strict=True)):
        S = centers @ x
        own = [j for j in range(6) if labels[j] == label]
        positive = max(own, key=lambda j: S[j])
        impostors = [j for j in range(6) if labels[j] != label and not S[positive] - 1.0 > S[j]]
        expected += [(row, positive, negative) for negative in sorted(impostors, key=lambda j: -S[j])]
    assert by_position(triplets) == expected
    assert OCTG(metric="dot", centers=centers, center_labels=labels).build(X, y).anchor.tolist() == [
        t[0] for t in expected
    ]


def test_octg_with_several_centres_runs_k_means_within_each_class(rng):
    """Well separated clouds: the centres are their means and the counts their sizes."""
    spots = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    cloud = np.repeat(np.arange(4), 15)
    X = spots[cloud] + 0.1 * rng.normal(size=(60, 2))
    y = cloud % 2  # class 0 has clouds 0 and 2, class 1 has clouds 1 and 3
    source = OCTG(n_centers=2)
    source.build(X, y, random_state=0)
    assert Counter(source.center_codes_.tolist()) == {0: 2, 1: 2}
    np.testing.assert_array_equal(source.center_counts_, [15] * 4)
    for code in (0, 1):
        found = source.centers_[source.center_codes_ == code]
        means = np.array([X[cloud == c].mean(axis=0) for c in (code, code + 2)])
        np.testing.assert_allclose(found[found[:, 1].argsort()], means, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_auto_takes_more_centres_only_where_classes_fall_into_parts(rng, noise):
    corners = np.array([[0.0, 0.0], [4.0, 4.0], [0.0, 4.0], [4.0, 0.0]])
    parts = rng.integers(0, 4, 800)
    rows = corners[parts] + 0.3 * rng.normal(size=(800, 2))
    for y, expected in ((parts // 2, 2), ((parts > 0) * 1, None), (parts, 1)):  # XOR; three corners; one corner each
        given = nearkin.flip_labels(y, noise, random_state=0)[0]
        source = OCTG("auto")
        source.build(rows, given, random_state=0)
        found = np.bincount(source.center_codes_)
        assert len(set(found.tolist())) == 1
        if expected is not None:
            assert found.tolist() == [expected] * len(found)


def test_auto_takes_one_centre_where_rows_are_few(rng):
    rows, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    source = OCTG("auto")
    source.build(rows, y, random_state=0)
    assert len(source.centers_) == 2
    source.build(rows[:2], [0, 1], random_state=0)
    assert len(source.centers_) == 2


def test_octg_with_more_centres_than_rows_takes_the_distinct_rows(rng):
    X = rng.normal(size=(9, 2))
    X[2] = X[1]
    y = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    source = OCTG(n_centers=5)
    source.build(X, y, random_state=0)
    own = source.centers_[source.center_codes_ == 0]
    np.testing.assert_array_equal(own[own[:, 0].argsort()], X[:2][X[:2, 0].argsort()])
    assert sorted(source.center_counts_[source.center_codes_ == 0].tolist()) == [1, 2]
    assert np.count_nonzero(source.center_codes_ == 1) == 5
    assert source.center_counts_.sum() == 9


def test_balanced_octg_repeats_the_triplets_of_rare_classes_and_nothing_else(rng):
    X = rng.normal(size=(66, 3))
    y = np.repeat(["common", "rare", "rarest"], [40, 20, 6])
    plain, balanced = (by_position(OCTG(balance=one).build(X, y)) for one in (False, True))
    times = {"common": 1, "rare": 2, "rarest": 7}
    assert balanced == [one for one in plain for _ in range(times[y[one[0]]])]
    assert len(balanced) > 1.5 * len(plain)


def test_balanced_octg_leaves_given_centres_and_late_classes_alone(blobs):
    X, y = blobs(n=60, d=3, n_classes=3)
    centers, labels = class_means(X, y)
    given = OCTG(centers=centers, center_labels=labels, balance=True).build(X, y)
    assert by_position(given) == by_position(OCTG(centers=centers, center_labels=labels).build(X, y))
    learner = nearkin.RobustLODML(init="pca", triplets=OCTG(balance=True), random_state=0)
    early = y != y[-1]
    learner.partial_fit(X[early], y[early]).partial_fit(X[~early], y[~early])
    same = nearkin.RobustLODML(init="pca", triplets=OCTG(), random_state=0)
    same.partial_fit(X[early], y[early]).partial_fit(X[~early], y[~early])
    np.testing.assert_array_equal(learner.components_, same.components_)


def test_octg_finds_its_centres_in_the_first_rows_if_told_so(blobs):
    X, y = blobs(n=60, d=3, n_classes=2)
    source = OCTG(n_init=20)
    source.build(X, y)
    centers, labels = class_means(X[:20], y[:20])
    np.testing.assert_allclose(source.centers_, centers, atol=1e-13)
    assert len(labels) == 2


def test_a_class_first_met_in_mid_stream_takes_its_first_row_as_centre_and_gives_no_triplet_there(blobs):
    X, y = blobs(n=40, d=3, n_classes=2, distance=0.2)
    y[25] = y[30] = y[33] = 7
    y[27] = 9
    X[[25, 30, 33]] = X[:20].mean(axis=0) + np.array(
        [[0.0], [0.05], [0.1]]
    )  # between the two others, so these are impostors
    centers, labels = class_means(X[:20], y[:20])
    source = OCTG(centers=centers, center_labels=labels)
    triplets = source.build(X, y)
    expected, known, known_labels = [], list(centers), list(labels)
    for row in range(40):
        if y[row] not in known_labels:
            known.append(X[row])
            known_labels.append(y[row])
            continue
        found = literal.octg(X[row : row + 1], [y[row]], np.array(known), known_labels)
        expected += [(row, X[row], known[p], known[n]) for _, p, n in found]
    assert not {25, 27} & set(triplets.row_origin[triplets.anchor].tolist())
    assert {30, 33} <= set(triplets.row_origin[triplets.anchor].tolist())
    assert triplets.row_origin[triplets.anchor].tolist() == [one[0] for one in expected]
    np.testing.assert_array_equal(triplets.rows.dense[triplets.anchor], [one[1] for one in expected])
    np.testing.assert_allclose(triplets.pool.dense[triplets.positive], [one[2] for one in expected], atol=1e-14)
    np.testing.assert_allclose(triplets.pool.dense[triplets.negative], [one[3] for one in expected], atol=1e-14)
    np.testing.assert_array_equal(source.centers_[-2:], X[[25, 27]])


def literal_octg_pass(kind, X, y, centers, labels, C, eta, *, learned, update):
    """One row at a time: select with the metric (or the plain measure) of that moment, learn, then move the centre."""
    centers, counts = np.array(centers, dtype=float), np.ones(len(centers))
    d = X.shape[1]
    parameter, weights = np.eye(d), np.ones(len(X))
    for row, (x, label) in enumerate(zip(X, y, strict=True)):
        M = np.eye(d)
        if learned:
            M = parameter @ parameter.T if kind.startswith("L") else parameter
        if kind.endswith("DML"):
            score = [-float((x - V) @ M @ (x - V)) for V in centers]
        else:
            score = [float(x @ M @ V) for V in centers]
        own = [j for j in range(len(centers)) if labels[j] == label]
        positive = max(own, key=lambda j: score[j])
        impostors = [j for j in range(len(centers)) if labels[j] != label and not score[positive] - 1.0 > score[j]]
        impostors.sort(key=lambda j: -score[j])
        chosen = [(x, centers[positive].copy(), centers[j].copy()) for j in impostors]
        if chosen:
            if kind in ("OASIS", "ODML"):
                run = {"OASIS": full.oasis, "ODML": full.odml}[kind](chosen, C, eta, M0=parameter)
            else:
                run = {"LOSL": lowrank.losl, "LODML": lowrank.lodml}[kind](chosen, C, parameter, eta)
            parameter, weights[row] = run.parameter, run.plausibility.min()
        if update:
            centers[positive], counts[positive] = literal.weighted_centre_update(
                centers[positive], counts[positive], x, weights[row]
            )
    return parameter, weights, centers, counts


@each(update=[False, True], learned=[False, True], kind=["OASIS", "ODML", "LOSL", "LODML"])
def test_octg_that_looks_at_every_row_is_the_literal_loop(kind, learned, update, blobs, rng):
    """metric="learned" selects with the learner's metric of that moment; update_centers moves the centre after it."""
    X, y = blobs(n=50, d=4, spread=0.8, distance=0.6)
    centers, labels = 0.5 * rng.normal(size=(6, 4)), [0, 1, 2, 2, 1, 0]
    source = OCTG(
        metric="learned" if learned else "auto",
        update_centers=update,
        refresh=1,
        centers=centers,
        center_labels=labels,
    )
    how = {"C": 0.1, "eta": 1.0, "scale": None, "shuffle": False, "rescore": False}
    model = printed(getattr(nearkin, f"Robust{kind}"), triplets=source, **how).fit(X, y)
    parameter, weights, moved, counts = literal_octg_pass(
        kind, X, y.tolist(), centers, labels, 0.1, 1.0, learned=learned, update=update
    )
    found = model.components_.T if kind.startswith("L") else model.metric_
    np.testing.assert_allclose(found, parameter, atol=1e-9)
    np.testing.assert_allclose(model.plausibility_, weights, atol=1e-9)
    np.testing.assert_allclose(model.triplet_source_.centers_, moved, atol=1e-9)
    np.testing.assert_allclose(model.triplet_source_.center_counts_, counts, atol=1e-9)
    assert (np.abs(moved - centers).max() > 1e-2) == update
    assert weights.min() < 0.9


def test_centres_move_towards_their_rows_by_the_running_mean_when_all_weigh_the_same(blobs):
    X, y = blobs(n=40, d=3, n_classes=2)
    start = np.zeros((2, 3))
    source = OCTG(centers=start, center_labels=[0, 1], update_centers=True, refresh=5)
    source.build(X, y)
    for code, label in enumerate((0, 1)):
        members = X[y == label]
        np.testing.assert_allclose(source.centers_[code], members.sum(axis=0) / (len(members) + 1), atol=1e-12)
        assert source.center_counts_[code] == len(members) + 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"centers": [[0.0, 1.0]]}, "center_labels"),
        ({"centers": [[0.0]], "center_labels": [0]}, r"shape \(n_given, 2\)"),
        ({"centers": [[0.0, np.nan]], "center_labels": [0]}, "finite"),
        ({"n_centers": 0}, "n_centers"),
        ({"margin": -1.0}, "margin"),
        ({"metric": "manhattan"}, "metric"),
        ({"max_impostors": 0}, "max_impostors"),
        ({"refresh": 0}, "refresh"),
    ],
)
def test_octg_refuses_parameters_that_make_no_sense(parameters, message):
    with pytest.raises(ValueError, match=message):
        OCTG(**parameters).build([[0.0, 1.0], [1.0, 0.0]], [0, 1])


# ---------------------------------------------------------------- one-pass and batch


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_one_pass_triplets_follow_the_rule_of_opml(n_classes, blobs, rng):
    X, _ = blobs(n=80, d=3)
    y = np.repeat(rng.integers(0, n_classes, 40), 2)  # so that equal labels often follow each other
    y[rng.random(80) < 0.3] = 0
    triplets = OnePassTriplets().build(X, y)
    expected = literal.one_pass(X, y.tolist())
    assert len(expected) > 40
    assert by_origin(triplets) == expected
    np.testing.assert_array_equal(triplets.rows.dense[triplets.anchor], X[[a for a, _, _ in expected]])
    np.testing.assert_array_equal(triplets.pool.dense[triplets.positive], X[[p for _, p, _ in expected]])
    np.testing.assert_array_equal(triplets.pool.dense[triplets.negative], X[[n for _, _, n in expected]])


def test_one_pass_triplets_begin_when_two_classes_exist_and_remember_one_row_per_class():
    X = np.arange(6.0)[:, None]
    source = OnePassTriplets()
    triplets = source.build(X, ["a", "a", "b", "a", "b", "b"])
    assert by_origin(triplets) == [(3, 1, 2), (4, 2, 3), (5, 4, 3)]
    assert source.newest_.ravel().tolist() == [3.0, 5.0]


@each(n_targets=[1, 3, 100], margin=[0.0, 1.0])
def test_batch_triplets_join_target_neighbours_with_impostors(n_targets, margin, blobs):
    X, y = blobs(n=45, d=3, distance=0.5)
    triplets = BatchTriplets(n_targets, margin=margin).build(X, y)
    expected = literal.batch(X, y.tolist(), n_targets, margin)
    assert len(expected) > 10
    assert by_position(triplets) == by_origin(triplets) == expected


def test_batch_triplets_keep_the_nearest_impostors_of_each_pair(blobs):
    X, y = blobs(n=45, d=3, distance=0.5)
    taken, expected = Counter(), []
    for triplet in literal.batch(X, y.tolist(), 2):
        taken[triplet[:2]] += 1
        if taken[triplet[:2]] <= 2:
            expected.append(triplet)
    assert by_position(BatchTriplets(2, max_impostors=2).build(X, y)) == expected
    assert max(taken.values()) > 2


# ---------------------------------------------------------------- random


def test_random_triplets_have_a_positive_of_the_class_a_negative_of_another_and_never_the_anchor_itself(
    blobs, global_seed
):
    X, y = blobs(n=50, d=2, n_classes=4)
    triplets = RandomTriplets(n_per_row=7).build(X, y, random_state=global_seed)
    np.testing.assert_array_equal(triplets.anchor, np.repeat(np.arange(50), 7))
    np.testing.assert_array_equal(y[triplets.positive], y[triplets.anchor])
    assert np.all(y[triplets.negative] != y[triplets.anchor])
    assert np.all(triplets.positive != triplets.anchor)


def test_random_triplets_are_uniform_over_the_others_of_the_class_and_over_the_other_classes():
    """With a fixed seed; each of the 24 tests may fail by chance once in 100,000 seeds."""
    y = np.array([0, 1, 0, 2, 1, 0, 2, 0, 2, 1, 2, 2])
    triplets = RandomTriplets(n_per_row=2000).build(np.arange(12.0)[:, None], y, random_state=0)
    for anchor in range(12):
        mine = triplets.anchor == anchor
        same = [j for j in range(12) if j != anchor and y[j] == y[anchor]]
        other = [j for j in range(12) if y[j] != y[anchor]]
        for drawn, candidates in ((triplets.positive[mine], same), (triplets.negative[mine], other)):
            counts = np.bincount(drawn, minlength=12)
            assert counts.sum() == counts[candidates].sum() == 2000
            assert chisquare(counts[candidates]).pvalue > 1e-5


def test_random_triplets_leave_out_rows_that_are_alone_in_their_class():
    triplets = RandomTriplets(n_per_row=3).build(np.arange(5.0)[:, None], [0, 0, 1, 2, 2], random_state=0)
    assert set(triplets.anchor.tolist()) == {0, 1, 3, 4}
    assert len(RandomTriplets().build(np.arange(3.0)[:, None], [0, 1, 2], random_state=0)) == 0
    assert len(RandomTriplets().build(np.arange(3.0)[:, None], [1, 1, 1], random_state=0)) == 0


# ---------------------------------------------------------------- provenance


def test_provenance_of_octg_knows_rows_and_centres():
    X = np.array([[0.0], [0.2], [1.0], [1.2], [5.0], [0.9]])
    y = ["a", "a", "b", "b", "c", "a"]
    triplets = OCTG(centers=[[0.1], [1.1]], center_labels=["a", "b"]).build(X, y)
    # Row 4 founds class c; row 5 is nearer to b than to its own class, c is not an impostor.
    assert triplets.row_origin.tolist() == [0, 1, 2, 3, 5]
    assert triplets.row_origin[triplets.anchor].tolist() == [1, 2, 5]
    assert set(triplets.pool_origin.tolist()) == {-1}
    roles = triplets.noisy_roles([False, False, False, False, False, True])
    assert roles.anchor.tolist() == [False, False, True]
    assert not roles.positive.any()
    assert not roles.negative.any()
    assert roles.any.tolist() == [False, False, True]


def test_provenance_of_one_pass_triplets_counts_a_wrong_row_in_every_role_it_plays():
    X = np.arange(7.0)[:, None]
    y = ["a", "b", "a", "b", "b", "a", "a"]
    triplets = OnePassTriplets().build(X, y)
    # (2, 0, 1) (3, 1, 2) (4, 3, 2) (5, 2, 4) (6, 5, 4)
    assert by_origin(triplets) == [(2, 0, 1), (3, 1, 2), (4, 3, 2), (5, 2, 4), (6, 5, 4)]
    roles = triplets.noisy_roles(np.arange(7) == 2)
    assert roles.anchor.tolist() == [True, False, False, False, False]
    assert roles.positive.tolist() == [False, False, False, True, False]
    assert roles.negative.tolist() == [False, True, True, False, False]
    assert roles.any.sum() == 4


def test_provenance_of_batch_triplets_counts_by_hand():
    # Row 1 is wrongly labelled: it spoils its own triplets and is an impostor of others.
    X = np.array([[0.0], [0.1], [3.0], [3.2]])
    triplets = BatchTriplets(n_targets=1, margin=0.5).build(X, [0, 1, 0, 1])
    # d2 to the only target is 9 for row 0, 9.61 for row 1, 9 for row 2 and 9.61 for row 3.
    assert by_position(triplets) == [(0, 2, 1), (1, 3, 0), (1, 3, 2), (2, 0, 3), (2, 0, 1), (3, 1, 2)]
    roles = triplets.noisy_roles([False, True, False, False])
    assert (roles.anchor.sum(), roles.positive.sum(), roles.negative.sum()) == (2, 1, 2)
    assert roles.any.sum() == 5


def test_stream_numbers_go_on_from_batch_to_batch(blobs):
    X, y = blobs(n=30, d=3)
    for source in ("octg", "one_pass", "batch", "random"):
        model = nearkin.RobustODML(triplets=source, scale=None, random_state=0)
        model.partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
        assert model.n_rows_seen_ == model.triplet_source_.n_rows_seen_ == 30


# ---------------------------------------------------------------- sources in general


def test_margins_of_a_set_are_those_of_its_triplets_one_by_one(blobs):
    X, y = blobs(n=30, d=3)
    triplets = RandomTriplets(2).build(X, y, random_state=0)
    x, positive, negative = X[triplets.anchor], X[triplets.positive], X[triplets.negative]
    distance = ((x - negative) ** 2).sum(1) - ((x - positive) ** 2).sum(1)
    similarity = (x * positive).sum(1) - (x * negative).sum(1)
    np.testing.assert_allclose(triplets.margins(), distance, atol=1e-12)
    np.testing.assert_allclose(triplets.margins(SIMILARITY), similarity, atol=1e-12)


def test_sources_come_by_name_or_as_a_fresh_copy_and_are_cloned_with_their_parameters():
    assert isinstance(as_source("one_pass"), OnePassTriplets)
    mine = OCTG(2, margin=0.5)
    mine.build([[0.0], [1.0]], [0, 1])
    copy = as_source(mine)
    assert copy is not mine
    assert copy.get_params() == mine.get_params() == clone(mine).get_params()
    assert not hasattr(copy, "centers_")
    with pytest.raises(ValueError, match="one_pass"):
        as_source("two_pass")


def test_a_source_of_ones_own_needs_only_generate(blobs):
    """Every row with the next row of its class and the next row of another class."""
    from nearkin.triplets import Triplets

    class NextTriplets(TripletSource):
        def generate(self, rows, codes, view):
            origin = self.number_rows(len(rows))
            found = []
            for i in range(len(codes)):
                same = [j for j in range(i + 1, len(codes)) if codes[j] == codes[i]]
                other = [j for j in range(i + 1, len(codes)) if codes[j] != codes[i]]
                if same and other:
                    found.append((i, same[0], other[0]))
            anchor, positive, negative = np.array(found).T.copy()
            yield Triplets(rows, rows, anchor, positive, negative, origin, origin)

    X, y = blobs(n=30, d=3)
    model = printed(nearkin.OASIS, triplets=NextTriplets(), shuffle=False, scale=None).fit(X, y)
    triplets = NextTriplets().build(X, y)
    chosen = X[triplets.anchor], X[triplets.positive], X[triplets.negative]
    expected = nearkin.OASIS(scale=None).fit_triplets(*chosen)
    np.testing.assert_array_equal(model.metric_, expected.metric_)
    assert model.n_triplets_seen_ == len(triplets) > 20
    with pytest.raises(TypeError, match="must implement generate"):
        TripletSource().build(X, y)
