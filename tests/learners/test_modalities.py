"""Several modalities: OMDML and LOMDML against their twins, and every form in which modalities may come."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import nearkin
from each import each
from nearkin.learners import join_modalities
from nearkin.measures import DISTANCE
from nearkin.parameters import EqualShares, Modalities
from nearkin.triplets import OCTG
from printed import printed
from reference import multimodal
from reference.losses import rescaled_hinge

SIZES = (5, 3, 7)
LEARNERS = ("OMDML", "LOMDML", "LSMDML")
ETAS = (0.0, 0.7, 3.0)


@pytest.fixture
def modal_triplets(rng):
    """Maker of explicit triplets, one list of matrices per role."""

    def make(n, sizes=SIZES, scale=0.5):
        return tuple([scale * rng.normal(size=(n, d)) for d in sizes] for _ in range(3))

    return make


@pytest.fixture
def modal_rows(blobs, rng):
    """Labelled rows with a modality that tells the classes and one of noise."""
    X, y = blobs(n=90, d=4, spread=0.4)
    return {"signal": X, "noise": rng.normal(size=(90, 3))}, y


def blocks_of(model):
    return model.state_.parameter.blocks


# ---------------------------------------------------------------- the twins


@each(eta=ETAS, margin=[0.0, 0.6, 1.0], C=[0.02, 0.3])
def test_omdml_is_its_twin(C, margin, eta, modal_triplets):
    sets = modal_triplets(250)
    model = nearkin.RobustOMDML(C, eta=eta, beta=0.8, margin=margin, scale=None).fit_triplets(*sets)
    run = multimodal.omdml(*sets, C=C, beta=0.8, margin=margin, eta=eta)
    assert run.n_updates > 20
    for block, expected in zip(blocks_of(model), run.parameters, strict=True):
        np.testing.assert_allclose(block.M, expected, atol=1e-12)
    np.testing.assert_allclose(model.weights_, run.theta, rtol=1e-12)
    np.testing.assert_allclose(model.plausibility_, run.plausibility, atol=1e-12)
    assert model.n_updates_ == run.n_updates


@each(eta=ETAS, r=[1, 2, 3])
def test_lomdml_is_its_twin(r, eta, modal_triplets):
    sets = modal_triplets(200)
    how = {"C": 0.01, "beta": 0.8, "margin": 0.7, "eta": eta}
    model = nearkin.RobustLOMDML(r, init="identity", scale=None, **how).fit_triplets(*sets)
    run = multimodal.lomdml(*sets, r, **how)
    assert run.n_updates > 50
    for block, expected in zip(blocks_of(model), run.parameters, strict=True):
        np.testing.assert_allclose(block.L.T, expected, atol=1e-10)
    np.testing.assert_allclose(model.weights_, run.theta, rtol=1e-12)
    np.testing.assert_allclose(model.plausibility_, run.plausibility, atol=1e-10)
    assert model.n_updates_ == run.n_updates


@pytest.mark.slow
def test_many_features_are_learned_as_in_the_twin(modal_triplets):
    """Long vectors, more components than a register holds, and steps that leave the cone."""
    sets = modal_triplets(120, (40, 70), 0.12)
    model = nearkin.OMDML(1.0, scale=None).fit_triplets(*sets)
    run = multimodal.omdml(*sets, C=1.0)
    for block, expected in zip(blocks_of(model), run.parameters, strict=True):
        np.testing.assert_allclose(block.M, expected, atol=1e-12)
    assert min(np.linalg.eigvalsh(block.M)[0] for block in blocks_of(model)) < 1e-9  # on the boundary
    model = nearkin.LOMDML(33, C=0.01, init="identity", scale=None).fit_triplets(*sets)
    run = multimodal.lomdml(*sets, 33, C=0.01)
    for block, expected in zip(blocks_of(model), run.parameters, strict=True):
        np.testing.assert_allclose(block.L.T, expected, atol=1e-10)


# ---------------------------------------------------------------- laws


@each(eta=ETAS, C=[0.05, 1.0])
def test_omdml_with_one_modality_is_odml(C, eta, random_triplets):
    sets = random_triplets(80, 6, 0.6)
    model = nearkin.RobustOMDML(C, eta=eta, scale=None).fit_triplets(*sets)
    expected = nearkin.RobustODML(C, eta=eta, scale=None).fit_triplets(*sets)
    np.testing.assert_allclose(model.metric_, expected.metric_, atol=1e-12)
    np.testing.assert_allclose(model.plausibility_, expected.plausibility_, atol=1e-12)
    assert model.n_updates_ == expected.n_updates_
    assert model.weights_.tolist() == [1.0]


@each(eta=ETAS, r=[2, 5])
def test_lomdml_with_one_modality_is_lodml_by_gradient_steps(r, eta, blobs):
    X, y = blobs(n=60, d=5)
    model = nearkin.RobustLOMDML(r, C=0.02, eta=eta, random_state=0).fit(X, y)
    expected = printed(nearkin.RobustLODML, r, C=0.02, eta=eta, solver="subgradient", random_state=0).fit(X, y)
    assert expected.n_updates_ > 10
    np.testing.assert_allclose(model.metric_, expected.metric_, atol=1e-12)
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-12)
    np.testing.assert_allclose(model.plausibility_, expected.plausibility_, atol=1e-12)


@pytest.mark.parametrize("eta", [0.5, 2.0])
def test_half_quadratic_iterations_lower_the_objective_of_every_modality(eta, modal_triplets):
    for t in range(15):
        one = [[part[t : t + 1] for part in role] for role in modal_triplets(15)]
        A = multimodal.directions(*one)[0]
        if any(np.linalg.eigvalsh(np.eye(len(a)) + 0.3 * a)[0] < 0.0 for a in A):
            continue  # beyond the cone the step is not the minimiser
        runs = [
            nearkin.RobustOMDML(0.1, eta=eta, max_hq_iter=n, margin=99.0, scale=None).fit_triplets(*one)
            for n in range(1, 6)
        ]
        for k, a in enumerate(A):
            matrices = [blocks_of(run)[k].M for run in runs]
            values = [
                0.5 * np.sum((M - np.eye(len(M))) ** 2) + 0.1 * float(rescaled_hinge(np.sum(a * M), eta))
                for M in matrices
            ]
            assert np.all(np.diff(values) <= 1e-12)
            assert np.all(np.diff([np.linalg.norm(M - np.eye(len(M))) for M in matrices]) >= -1e-12)


@pytest.mark.parametrize("name", LEARNERS)
def test_one_wrong_triplet_has_a_bounded_say_in_the_robust_form(name, modal_triplets):
    """A planted triplet whose negative is the anchor and whose positive is far away."""
    clean = modal_triplets(40, (4, 3), 0.4)
    bad = [[np.ones((1, d)) * shift for d in (4, 3)] for shift in (0.0, 3.0, 0.0)]
    planted = [[np.concatenate(pair) for pair in zip(*pairs, strict=True)] for pairs in zip(clean, bad, strict=True)]
    moved = {}
    for eta in (0.0, 1.0, 2.0):
        how = {"C": 0.005, "eta": eta, "scale": None}
        without, with_it = (getattr(nearkin, f"Robust{name}")(**how).fit_triplets(*sets) for sets in (clean, planted))
        moved[eta] = np.abs(with_it.metric_ - without.metric_).max()
        if eta:
            assert with_it.plausibility_[-1] < 1e-6
    assert moved[2.0] <= moved[1.0] < 1e-3 * moved[0.0]


def test_a_triplet_with_enough_margin_in_all_stops_every_modality(modal_triplets):
    sets = modal_triplets(1, (3, 2))
    far = [sets[0], sets[0], [10.0 + part for part in sets[0]]]
    model = nearkin.OMDML(0.1, margin=1.0, scale=None).fit_triplets(*far)
    np.testing.assert_array_equal(model.metric_, 0.5 * np.eye(5))
    assert model.n_updates_ == 0
    np.testing.assert_array_equal(model.weights_, [0.5, 0.5])


@each(name=[f"{kind}{name}" for name in LEARNERS for kind in ("", "Robust")])
def test_a_modality_of_noise_loses_its_weight(name, modal_rows):
    X, y = modal_rows
    model = getattr(nearkin, name)(n_epochs=2, random_state=0).fit(X, y)
    assert model.weights_[0] > 0.55
    np.testing.assert_allclose(model.weights_.sum(), 1.0, rtol=1e-12)


# ---------------------------------------------------------------- forms in which modalities come


@pytest.mark.parametrize("name", LEARNERS)
def test_the_form_in_which_modalities_come_does_not_matter(name, modal_rows):
    X, y = modal_rows
    whole = np.concatenate(list(X.values()), axis=1)
    frame = pd.DataFrame(whole, columns=list("abcdefg"))
    make = getattr(nearkin, name)
    expected = make(random_state=0).fit(X, y)
    assert list(expected.modalities_) == ["signal", "noise"]
    assert [one.tolist() for one in expected.modalities_.values()] == [[0, 1, 2, 3], [4, 5, 6]]
    for modalities, rows in (
        (None, list(X.values())),
        (None, {name: sparse.csr_array(part) for name, part in X.items()}),
        (None, {"signal": pd.DataFrame(X["signal"]), "noise": X["noise"].tolist()}),
        ([4, 3], whole),
        ([slice(0, 4), slice(4, None)], whole),
        ({"signal": [0, 1, 2, 3], "noise": np.array([4, 5, -1])}, whole),
        ({"signal": list("abcd"), "noise": list("efg")}, frame),
        ([4, 3], sparse.csr_array(whole)),
    ):
        model = make(modalities=modalities, random_state=0).fit(rows, y)
        np.testing.assert_allclose(model.metric_, expected.metric_, atol=1e-9)
        np.testing.assert_allclose(model.weights_, expected.weights_, atol=1e-9)
        np.testing.assert_allclose(model.transform(rows), expected.transform(X), atol=1e-7)


@pytest.mark.parametrize("name", LEARNERS)
def test_columns_of_a_modality_need_not_lie_together(name, modal_rows, rng):
    X, y = modal_rows
    order = rng.permutation(7)
    whole = np.concatenate(list(X.values()), axis=1)[:, order]
    parts = [np.flatnonzero(order < 4), np.flatnonzero(order >= 4)]
    model = getattr(nearkin, name)(modalities=parts, random_state=0).fit(whole, y)
    expected = getattr(nearkin, name)(modalities=[4, 3], random_state=0)
    expected.fit(np.concatenate([whole[:, part] for part in parts], axis=1), y)
    joined_order = np.concatenate(parts)
    np.testing.assert_allclose(model.metric_[np.ix_(joined_order, joined_order)], expected.metric_, atol=1e-10)
    np.testing.assert_allclose(model.transform(whole), model.scaling_.apply(whole) @ model.components_.T, atol=1e-10)
    np.testing.assert_allclose(model.components_.T @ model.components_, model.metric_, atol=1e-10)
    assert np.all(model.metric_[np.ix_(*parts)] == 0.0)


@pytest.mark.parametrize("name", LEARNERS)
def test_pieces_of_a_stream_of_modalities_give_the_same_model(name, modal_rows):
    X, y = modal_rows
    model = getattr(nearkin, f"Robust{name}")(random_state=0)
    for part in (slice(0, 30), slice(30, 31), slice(31, 90)):
        model.partial_fit({name: rows[part] for name, rows in X.items()}, y[part])
    other = getattr(nearkin, f"Robust{name}")(random_state=0)
    for part in (slice(0, 30), slice(30, 90)):
        backwards = {name: X[name][part] for name in reversed(X)} if part.start else {n: X[n][part] for n in X}
        other.partial_fit(backwards, y[part])
    np.testing.assert_allclose(model.metric_, other.metric_, atol=1e-10)
    assert model.plausibility(X, y).shape == (90,)


@pytest.mark.parametrize("name", LEARNERS)
def test_models_of_modalities_are_saved_and_learn_on_alike(name, modal_rows, tmp_path):
    X, y = modal_rows
    model = getattr(nearkin, f"Robust{name}")(random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "model")
    other = nearkin.load(tmp_path / "model")
    for _ in range(2):
        np.testing.assert_array_equal(model.metric_, other.metric_)
        np.testing.assert_array_equal(model.transform(X), other.transform(X))
        np.testing.assert_array_equal(model.weights_, other.weights_)
        assert list(other.modalities_) == ["signal", "noise"]
        model.partial_fit(X, y)
        other.partial_fit(X, y)


@pytest.mark.parametrize("name", LEARNERS)
def test_the_classifier_takes_modalities(name, modal_rows):
    X, y = modal_rows
    for k in (3, "auto"):
        model = nearkin.RobustKNeighborsClassifier(getattr(nearkin, name)(random_state=0), n_neighbors=k).fit(X, y)
        assert model.score(X, y) > 0.9
        assert model.n_features_in_ == 7
        assert model.kneighbors(X, None if k == 3 else 3)[1].shape == (90, 3)


def test_single_precision_stays_single(modal_rows):
    X, y = modal_rows
    X = {name: rows.astype(np.float32) for name, rows in X.items()}
    for name in LEARNERS:
        model = getattr(nearkin, name)(random_state=0).fit(X, y)
        assert model.metric_.dtype == model.components_.dtype == model.transform(X).dtype == np.float32
    mixed = {**X, "noise": X["noise"].astype(np.float64)}
    assert nearkin.OMDML().fit(mixed, y).metric_.dtype == np.float64


# ---------------------------------------------------------------- scale and triplets


def test_every_modality_is_scaled_to_mean_squared_distance_one(modal_rows):
    X, y = modal_rows
    X = {**X, "constant": np.ones((90, 2))}
    model = nearkin.OMDML(random_state=0).fit(X, y)
    scaled = model.scaling_.apply(join_modalities(X))
    for columns in list(model.modalities_.values())[:2]:
        part = scaled[:, columns]
        np.testing.assert_allclose(2.0 * part.var(axis=0).sum(), 1.0, rtol=1e-12)
    assert np.isfinite(model.metric_).all()


def test_triplet_sources_see_the_mean_of_the_modalities(modal_rows):
    """The learner's own distance before learning, so that the margin of a source means the same with several."""
    X, y = modal_rows
    whole = np.concatenate([X["signal"], X["signal"]], axis=1)
    twice = nearkin.OMDML(C=0.0, modalities=[4, 4], random_state=0).fit(whole, y)
    once = nearkin.OMDML(C=0.0, random_state=0).fit(X["signal"], y)
    assert twice.n_triplets_seen_ == once.n_triplets_seen_ > 0
    learned = nearkin.OMDML(C=0.0, modalities=[4, 4], triplets=OCTG(metric="learned"), random_state=0).fit(whole, y)
    assert learned.n_triplets_seen_ == once.n_triplets_seen_
    np.testing.assert_allclose(twice.plausibility_, once.plausibility_)


def test_the_mean_of_equal_shares(rng):
    left, right = rng.normal(size=(2, 5, 4))
    measure = EqualShares("distance", is_distance=True, n_modalities=2)
    np.testing.assert_allclose(measure.scores(left, right), 0.5 * DISTANCE.scores(left, right))
    np.testing.assert_allclose(measure.pair_scores(left, right), 0.5 * DISTANCE.pair_scores(left, right))
    assert measure.linear(right).unit == 0.5 * DISTANCE.linear(right).unit
    assert Modalities.of([2, 2], 4).measure == measure
    assert Modalities.of(None, 4).measure is DISTANCE


# ---------------------------------------------------------------- what is refused


@each(
    wrong=[
        "text",
        3,
        2.5,
        [],
        {},
        [4, 4],
        [3, 3],
        [7, 0],
        [[0, 1], [1, 2, 3, 4, 5, 6]],
        [[0, 1, 2], slice(4, 7)],
        [4, "b"],
        [[0, 1, 2], [3, 4, 5, 99]],
        {"a": ["x"], "b": [1]},
        [[True] * 7],
        [[0.5], [1, 2, 3, 4, 5, 6]],
        [None],
    ]
)
def test_modalities_that_do_not_divide_the_columns_are_refused(wrong, modal_rows):
    X, y = modal_rows
    model = nearkin.OMDML(modalities=wrong)
    with pytest.raises(ValueError, match="OMDML: parameter `modalities` must be") as caught:
        model.fit(join_modalities(X), y)
    assert repr(wrong) in str(caught.value)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("name", LEARNERS)
def test_another_form_than_learned_is_refused_and_changes_nothing(name, modal_rows):
    X, y = modal_rows
    signal, noise = X.values()
    model = getattr(nearkin, name)(random_state=0).fit(X, y)
    before = model.metric_.copy()
    for rows, words in (
        (join_modalities(X), "give the same ones"),
        ({"signal": signal}, r"modalities must be \['signal', 'noise'\]"),
        ({**X, "more": noise}, "modalities must be"),
        ([signal, noise], r"got \[0, 1\]"),
        ({"signal": signal, "noise": signal}, "columns of modalities must be"),
        ({"signal": signal, "noise": noise[:-1]}, "equally many rows"),
        ({"signal": signal, "noise": np.full_like(noise, np.nan)}, "modality 'noise': .*NaN"),
        ({"signal": signal, "noise": noise[:, 0]}, "modality 'noise'"),
        ({}, "modalities must be"),
    ):
        for call in (model.transform, lambda rows: model.partial_fit(rows, y)):
            with pytest.raises(ValueError, match=f"(?=.*{name}).*{words}"):
                call(rows)
    np.testing.assert_array_equal(model.metric_, before)
    alone = getattr(nearkin, name)(random_state=0).fit(join_modalities(X), y)
    with pytest.raises(ValueError, match=f"{name}: it learned from one matrix"):
        alone.transform(X)
    with pytest.raises(ValueError, match="`modalities` must be None where X is a dict"):
        getattr(nearkin, name)(modalities=[4, 3]).fit(X, y)
    with pytest.raises(ValueError, match=f"{name}: X must have at least one modality"):
        getattr(nearkin, name)().fit({}, y)
    assert alone.fit(X, y).fit(join_modalities(X), y).weights_.tolist() == [1.0]  # fit forgets the form


def test_no_map_has_more_components_than_a_modality_has_features(modal_rows):
    X, y = modal_rows
    assert nearkin.LOMDML(4, random_state=0).fit(X, y).components_.shape == (7, 7)
    with pytest.raises(ValueError, match=r"LOMDML: n_components=5 exceeds the 4 features .* at most 4"):
        nearkin.LOMDML(5).fit(X, y)
