"""What a model knows about its stream adds up over calls, and is saved with it."""

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
