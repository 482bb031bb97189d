"""The start: its sums and its map against plain twins, chunks, streams, shards and input that tries to break it."""

import copy

import numpy as np
import pytest

import nearkin
from each import each


@each(name=("RobustLODML", "RobustOASIS"))
def test_a_saved_start_learns_on_as_if_it_had_never_been_saved(name, blobs, tmp_path):
    X, y = blobs(400)
    model = getattr(nearkin, name)(random_state=0).partial_fit(X[:100], y[:100])
    nearkin.save(model, tmp_path / "model.nearkin")
    loaded = nearkin.load(tmp_path / "model.nearkin")
    for one in (model, loaded):
        one.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_witnesses_of_classes_never_seen_stand_in_no_file(blobs, tmp_path):
    X, y = blobs(100)
    model = nearkin.RobustLODML(random_state=0).fit(X, y)
    model = copy.deepcopy(model)
    model.state_.start.witnesses.codes[0] = 2**40
    with pytest.raises(ValueError, match="class 1099511627776 of 3"):
        nearkin.save(model, tmp_path / "model.nearkin")  # writing looks at what reading would
