"""What a model knows about its stream adds up over calls, and is saved with it."""

import copy

import numpy as np
import pytest

import nearkin
from nearkin import streams
from nearkin.saving import to_tree


def clouds(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + 2.0 * np.eye(4)[y], y


def parts(n_parts, n=600):
    X, y = clouds(n)
    return [
        streams.open([pair], batch_rows=50) for pair in zip(np.split(X, n_parts), np.split(y, n_parts), strict=True)
    ]


def test_calls_add_up_as_one_call_does(tmp_path):
    whole = streams.fit_stream(nearkin.RobustLODML(random_state=0), parts(1)[0])
    model, reports = nearkin.RobustLODML(random_state=0), []
    for part in parts(4):
        streams.fit_stream(model, part, on_report=reports.append)
        nearkin.save(model, tmp_path / "m.nearkin")
        model = nearkin.load(tmp_path / "m.nearkin")
    assert repr(model.history_) == repr(whole.history_)
    assert model.history_.watch.n_rows == 600
    assert [one.batch for one in reports] == list(range(1, 13))
    assert (reports[4].rows, reports[4].total_rows) == (250, None)


def test_a_log_goes_on_where_the_model_is(tmp_path):
    model = nearkin.RobustLODML(random_state=0)
    for part in parts(3):
        streams.fit_stream(model, part, log=tmp_path / "log", log_every=2)
    assert len((tmp_path / "log").read_text().splitlines()) == 6


@pytest.mark.parametrize("fit", ["fit", "fit_triplets"])
def test_a_fit_forgets_the_history(fit):
    model = streams.fit_stream(nearkin.RobustLODML(random_state=0), parts(1)[0])
    X, y = clouds()
    model.fit(X, y) if fit == "fit" else model.fit_triplets(X[:20], X[:20] + 1.0, X[20:40])
    assert not hasattr(model, "history_")


def test_a_history_that_cannot_be_is_not_written():
    model = streams.fit_stream(nearkin.RobustLODML(random_state=0), parts(1)[0])
    model.history_.watch.total.n_rows = -1
    with pytest.raises(ValueError, match=r"history_\.watch\.total\.n_rows"):
        to_tree(model)


# ---------------------------------------------------------------- classifiers go on


def classifier(learner="auto", **more):
    return nearkin.RobustKNeighborsClassifier(learner, random_state=0, **more)


KINDS = {
    "begun by the stream": lambda X, y: classifier(nearkin.RobustLODML(random_state=0)),
    "a fitted learner": lambda X, y: held(classifier(nearkin.RobustLODML(random_state=0).fit(X, y)), X, y),
    "a learner of its own": lambda X, y: held(classifier(nearkin.RobustLODML(random_state=0)), X, y),
    "Algorithm 5": lambda X, y: held(classifier(n_neighbors=3), X, y),
    "a jury": lambda X, y: held(classifier(), X, y),
}


def held(model, X, y):
    streams.hold_rows(model.fit(X, y), X, y)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_goes_on_and_saving_it_in_between_changes_nothing(kind, tmp_path):
    X, y = clouds(900)
    begin = KINDS[kind](X[:300], y[:300])
    assert len(getattr(begin, "plausibility_", X[:300])) == 300
    ends = []
    for is_saved in (False, True):
        model = copy.deepcopy(begin)
        for part in (slice(300, 500), slice(500, 700)):
            streams.fit_stream(model, streams.open([(X[part], y[part])], batch_rows=64), n_voters=300)
            if is_saved:
                nearkin.save(model, tmp_path / "m.nearkin")
                model = nearkin.load(tmp_path / "m.nearkin")
        ends.append(model)
    one, other = ends
    assert one.predict_proba(X[700:]).tobytes() == other.predict_proba(X[700:]).tobytes()
    assert one.score(X[700:], y[700:]) > 0.7
    size = one.history_.held.n_rows_seen
    assert size == (400 if kind == "begun by the stream" else 700)
    assert len(one.plausibility_) <= 300
    assert np.bincount(one.history_.held.codes).max() == 100


def test_a_classifier_whose_rows_are_not_known_says_how_to_tell_them():
    X, y = clouds(100)
    with pytest.raises(ValueError, match="hold_rows"):
        streams.fit_stream(classifier().fit(X, y), streams.open([(X, y)]))


def test_a_classifier_of_a_killed_run_ends_with_the_same_bits(tmp_path):
    X, y = clouds()

    def stop(report):
        if report.batch == 7:
            raise KeyboardInterrupt

    def fit(**more):
        return streams.fit_stream(
            classifier(nearkin.RobustLODML(random_state=0)), streams.open([(X, y)], batch_rows=50), epochs=2,
            checkpoint=tmp_path / "ck", checkpoint_every=0, resume=True, **more,
        )  # fmt: skip

    with pytest.raises(KeyboardInterrupt):
        fit(on_report=stop)
    resumed = fit()
    (tmp_path / "ck").rename(tmp_path / "old")
    (tmp_path / "ck.previous").unlink()
    whole = fit()
    assert resumed.predict_proba(X).tobytes() == whole.predict_proba(X).tobytes()
    assert resumed.history_.held.n_rows_seen == 600
