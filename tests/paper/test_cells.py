"""Cells: how parameters are chosen, what is scored, and what a record says."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_wine

from nearkin import datasets
from nearkin.paper import METHODS, PAPER, TABLES, Cell, Outcome, draw_splits, list_cells, measure, narrow, shrink
from nearkin.paper import tables as tables_module
from nearkin.paper.methods import GRID
from nearkin.paper.protocol import split_inside
from nearkin.paper.report import make_records
from nearkin.paper.scores import METRICS, get_printed_score, score_binary
from nearkin.paper.tables import choose_form, choose_params, search
from small_datasets import make_dataset


@pytest.fixture
def data():
    return make_dataset("tiny")


def test_nested_selection_sees_neither_right_labels_nor_test_rows(data, monkeypatch):
    """Every model is fitted on noisy training rows of a fold and judged by them, until parameters are chosen."""
    judged = []
    real = tables_module._score_accuracy

    def watch(found, fold):
        judged.append(fold)
        return real(found, fold)

    monkeypatch.setattr(tables_module, "_score_accuracy", watch)
    folds = list(draw_splits(data, 40))
    method = METHODS["ODML"]
    choose_params(Cell("tiny", 40, "ODML", "nested", budget=3), method, 0.4, folds)
    assert len(judged) == len(folds) * 3 * 3
    for at, inner in enumerate(judged):
        outer = folds[at // 9]
        noisy = {row.tobytes(): label for row, label in zip(outer.train, outer.labels, strict=True)}
        for rows, labels in ((inner.train, inner.labels), (inner.test, inner.test_labels)):
            assert [noisy[row.tobytes()] for row in rows] == labels.tolist()


@pytest.mark.slow
def test_nested_selection_is_the_same_whatever_the_test_labels_are(data):
    cell, method = Cell("tiny", 20, "Robust-ODML", "nested", budget=4), METHODS["Robust-ODML"]
    folds = list(draw_splits(data, 20))[:3]
    spoilt = [
        type(fold)(**{**vars(fold), "test_labels": np.zeros_like(fold.test_labels), "test": 0 * fold.test})
        for fold in folds
    ]
    assert choose_params(cell, method, 0.2, folds) == choose_params(cell, method, 0.2, spoilt)


def test_inner_folds_cover_the_training_part_once(data):
    fold = next(draw_splits(data, 20))
    inner = split_inside(fold)
    assert sum(len(one.test) for one in inner) == len(fold.train)
    assert all(len(one.train) + len(one.test) == len(fold.train) for one in inner)


def test_selection_on_the_folds_is_never_worse_than_the_defaults(data):
    default = measure(Cell("tiny", 20, "OPML"), data)
    chosen = measure(Cell("tiny", 20, "OPML", "folds", budget=4), data)
    assert default.params == {}
    assert np.mean(chosen.accuracies) >= np.mean(default.accuracies)


def tried_by(name, budget, seed, score=lambda params: 0.0):
    tried = []

    def watched(params):
        tried.append(params)
        return score(params)

    return search(METHODS[name], 13, budget, seed, watched), tried


def test_a_search_tries_the_same_settings_for_the_same_seed_and_stays_in_the_ranges_of_the_paper():
    for name in PAPER[:5]:
        _, tried = tried_by(name, 40, seed=1)
        assert len(tried) == 40
        assert tried == tried_by(name, 40, seed=1)[1]
        assert tried[0] == {}
        high = 0.025 if name == "OPML" else 30.0
        assert all(1e-7 < one.get("C", 1e-3) <= high for one in tried)
        assert all(0.01 <= one.get("eta", 1.0) <= 5.0 for one in tried)
        assert all(1 <= one.get("n_components", 1) <= 13 for one in tried)


def test_a_search_spends_its_second_half_near_the_best_and_returns_the_best():
    def score(params):
        return -abs(np.log(params.get("C", 30.0) / 1e-3))

    found, tried = tried_by("Robust-ODML", 100, 3, score)
    first, second = tried[1:51], tried[51:]
    assert np.mean([score(one) for one in second]) > np.mean([score(one) for one in first]) + 1.0
    assert score(found) == max(map(score, tried))


def test_a_setting_that_cannot_be_fitted_is_not_chosen(data, monkeypatch):
    method = METHODS["ODML"]
    real = method.build

    def build(params, rate, seed):
        if params:
            raise ValueError("diverged")
        return real(params, rate, seed)

    monkeypatch.setitem(METHODS, "ODML", type(method)("ODML", build, method.space))
    assert measure(Cell("tiny", 20, "ODML", "folds", budget=3), data).params == {}


def test_a_choice_of_the_inner_folds_that_diverges_on_all_rows_gives_way_to_the_defaults(data, monkeypatch):
    method = METHODS["ODML"]

    class Diverging:
        def __init__(self, params):
            self.params = params

        def fit(self, X, y):
            if self.params and len(X) > 60:  # inner folds have 54 rows, whole training parts 81
                raise ValueError("diverged")
            self.value = y[0]
            return self

        def predict(self, X):
            return np.full(len(X), self.value if self.params else -1)

    monkeypatch.setitem(METHODS, "ODML", type(method)("ODML", lambda params, *_: Diverging(params), method.space))
    outcome = measure(Cell("tiny", 0, "ODML", "nested", budget=2), data)
    assert outcome.params == [{}] * 10
    assert set(outcome.accuracies) == {0.0}


def test_an_outcome_is_the_same_every_time_and_survives_its_line(data):
    cell = Cell("tiny", 20, "Robust-LODML", "nested", budget=2)
    first, again = measure(cell, data), measure(cell, data)
    assert first.accuracies == again.accuracies
    assert first.params == again.params
    assert len(first.params) == len(first.accuracies) == 10
    assert Outcome.from_line(first.to_line()) == first


def test_the_column_nearkin_gets_rows_as_they_are_and_is_not_told_the_rate(data):
    model = METHODS["nearkin"].build({}, 0.2, 5)
    assert METHODS["nearkin"].raw
    assert model.get_params() == type(model)(n_neighbors="auto", random_state=5).get_params()


def test_the_proposed_methods_are_algorithm_5_with_the_rate_of_the_cell():
    model = METHODS["Robust-LODML"].build({"n_centers": 2, "C": 0.5}, 0.15, 0)
    assert (model.noise_rate, model.weights, model.n_neighbors) == (0.15, "plausibility", 3)
    assert (model.learner.triplets.n_centers, model.learner.C, model.learner.scale) == (2, 0.5, None)


def test_every_learner_of_the_tables_is_in_the_form_of_the_paper():
    """Whatever the defaults of the learners are: no start is learned, and steps are as large as printed."""
    for name in (*PAPER[:5], *GRID):
        pipeline = METHODS[name].build({}, 0.1, 0)
        learner = pipeline.learner
        assert (learner.init, learner.C) == ("auto" if "n_components" in learner.get_params() else "identity", 0.1)
        assert learner.triplets not in ("auto", "neighbours")
    fitted = METHODS["Robust-ODML"].build({}, 0.1, 0).fit(*load_wine(return_X_y=True)).learner_
    assert fitted.state_.start is None


def test_a_record_has_everything_a_reader_needs(data):
    (record,) = make_records([measure(Cell("tiny", 20, "Euclidean"), data)])
    wanted = "dataset noise method selection mean std folds paper_mean paper_std params seconds"
    assert set(wanted.split()) <= set(record)
    assert record["folds"] == 10
    assert record["paper_mean"] is None


def test_the_printed_number_stands_beside_ours_only_where_the_experiment_is_the_same():
    def record(**changes):
        cell = Cell(**{"dataset": "wine", "noise": 20.0, "method": "ODML"} | changes)
        return make_records([Outcome(cell, [90.0, 92.0], None, {}, 0.1)])[0]

    assert (record()["paper_mean"], record()["paper_std"]) == (89.14, 3.73)
    assert record()["difference"] == pytest.approx(91.0 - 89.14)
    assert record(kind="boundary")["paper_mean"] is None
    assert record(grouped=True)["paper_mean"] is None
    assert record(noise=30.0)["paper_mean"] is None
    assert record(method="nearkin")["difference"] is None


def test_all_cells_of_tables_3_and_4_that_the_paper_prints_are_known():
    known = [
        get_printed_score(name, noise, method)
        for name in TABLES["table3"].datasets
        for noise in TABLES["table3"].noise
        for method in PAPER[:-1]
    ]
    assert len(known) == 210
    assert all(mean is not None and std is not None for mean, std in known)
    covid = [
        get_printed_score("covid-resnet18", noise, method, metric)[0]
        for noise in TABLES["table4"].noise
        for method in PAPER[:-2]
        for metric in METRICS
    ]
    assert len(covid) == 150
    assert None not in covid
    assert get_printed_score("covid-mobilenetv2", 20, "ODML") == (None, None)


def test_the_score_binary_follow_from_the_confusion_matrix():
    found = score_binary([[8.0, 2.0], [4.0, 86.0]])
    assert found["Accuracy"] == pytest.approx(94.0)
    assert found["Sensitivity"] == pytest.approx(80.0)
    assert found["Precision"] == pytest.approx(100 * 8 / 12)
    assert found["Specificity"] == pytest.approx(100 * 86 / 90)
    assert found["G-mean"] == pytest.approx(np.sqrt(80 * 100 * 86 / 90))
    assert found["F1-Score"] == pytest.approx(100 * 2 * 8 / (2 * 8 + 2 + 4))
    assert set(score_binary([[0.0, 5.0], [0.0, 5.0]]).values()) == {50.0, 0.0, 100.0}


def test_two_classes_give_confusion_matrices_that_agree_with_the_accuracy():
    data = make_dataset("tiny", n_classes=2, groups=True)
    outcome = measure(Cell("tiny", 20, "Euclidean", grouped=True), data)
    for accuracy, table in zip(outcome.accuracies, outcome.confusions, strict=True):
        assert score_binary(table)["Accuracy"] == pytest.approx(accuracy)
    found = make_records([outcome], METRICS, matrix=True)
    assert [one["metric"] for one in found] == list(METRICS)
    assert np.sum(found[0]["confusion"]) == pytest.approx(len(data.y) / 10)


def test_every_table_names_columns_and_data_sets_that_exist():
    from nearkin.datasets import names

    for table in TABLES.values():
        assert set(table.methods) <= set(METHODS)
        assert set(table.datasets) <= set(names())
        assert set(shrink(table).datasets) <= set(table.datasets)
        assert set(shrink(table).noise) <= set(table.noise)
    assert shrink(TABLES["table3"]).noise == (0.0, 20.0)


def test_cells_are_all_different_and_only_of_data_that_is_here(data):
    found = list_cells(narrow(TABLES["table3"], selection="nested", budget=5), {"wine": data})
    assert len({cell.key for cell in found}) == len(found) == 5 * 7
    assert {cell.budget for cell in found} == {5}
    assert {cell.budget for cell in list_cells(narrow(TABLES["table3"], budget=5), {"wine": data})} == {0}


def test_defaults_bring_rows_in_the_form_that_predicts_labels_left_out():
    data = datasets.load("wine")
    (fold, *_) = draw_splits(data, 20.0)
    method = METHODS["Robust-LODML"]
    assert choose_form(method, 0.2, fold) == {}  # one column of Wine outweighs all others unless rows are z-scored
    noise = np.random.default_rng(0).normal(size=fold.train.shape)
    stretched = replace(fold, raw_train=fold.train, train=noise)
    assert choose_form(method, 0.2, stretched) == {"rows": "unit"}
    assert choose_form(METHODS["Euclidean"], 0.2, fold) == {}
    outcome = measure(Cell("wine", 20.0, "Robust-LODML"), data)
    assert outcome.params == [{}] * 10
