"""The comparison of the audit with rivals: fixed halves, the same draws for all, resumable, goals judged rightly."""

import numpy as np
import pytest
from benchmarks import audit_cells, audit_methods, audit_noise, audit_rivals, audit_sets, audit_table
from benchmarks.audit_methods import CLASSIFIERS, DETECTORS, DOUBLED, OURS, Job, Line
from benchmarks.audit_noise import draw_rows, list_kinds
from benchmarks.audit_sets import HALVES, AuditSet


def make_set(name="wine", k=3, n=150, given=()):
    rng = np.random.default_rng(k)
    y = np.arange(n) % k
    X = rng.normal(size=(n, 4)) + 3.0 * np.eye(4)[y % 4]
    return AuditSet(name, X, y, {one: np.where(rng.random(n) < 0.2, (y + 1) % k, y) for one in given})


def make_rare(n=400):
    rng = np.random.default_rng(0)
    y = (np.arange(n) < n // 20).astype(np.int64)
    return AuditSet("abalone19", rng.normal(size=(n, 3)) + 3.0 * y[:, None], y)


def test_every_set_is_in_one_half_and_variants_of_a_source_share_it():
    choose, report = (set(HALVES[half]) for half in ("choose", "report"))
    assert not choose & report
    assert choose | report == {*audit_sets.PEOPLE, *audit_sets.PLAIN, *audit_sets.RARE}
    assert {"australian", "cifar10n", "ecoli4"} <= choose and {"banana", "music-genres", "abalone19"} <= report
    for files in audit_sets.RARE_FILES.values():
        assert set(files) <= choose or set(files) <= report


def test_a_packed_file_gives_the_same_sets(tmp_path):
    sets = [audit_sets._cap(one) for one in (make_set(given=("crowd",)), make_rare())]
    audit_sets.pack(sets, tmp_path / "sets.npz")
    for one, other in zip(sets, audit_sets.unpack(tmp_path / "sets.npz").values(), strict=True):
        assert (one.name, one.X.dtype) == (other.name, other.X.dtype)
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)
        assert one.given.keys() == other.given.keys()


@pytest.mark.parametrize(
    ("kind", "k", "low", "high"),
    [
        ("none", 3, 0.0, 0.0),
        ("uniform 40", 2, 0.3, 0.3),
        ("uniform 40", 3, 0.4, 0.4),
        ("next class", 3, 0.2, 0.2),
        ("by class", 2, 0.1, 0.3),
        ("by class", 4, 0.1, 0.3),
        ("boundary", 3, 0.2, 0.2),
        ("weak rule", 3, 0.0, 0.4),
        ("human crowd", 3, 0.1, 0.3),
    ],
)
def test_labels_are_wrong_at_the_rate_of_their_kind(kind, k, low, high):
    data = make_set(k=k, n=600, given=("crowd",))
    assert kind in list_kinds(data)
    rows, clean = draw_rows(data, kind, 1), draw_rows(data, "none", 1)
    assert low - 0.003 <= np.mean(rows.given != rows.right) <= high + 0.003
    np.testing.assert_array_equal(rows.X, clean.X)  # kinds share the split
    np.testing.assert_array_equal(rows.y_test, clean.y_test)


def test_a_rare_class_keeps_its_ratio_and_is_never_lost():
    assert list_kinds(make_rare()) == list(audit_noise.RARE_KINDS)
    rows = draw_rows(make_rare(), "rare lost", 0)
    assert np.mean(rows.right) == pytest.approx(0.05) and np.all(rows.right[rows.given != rows.right] == 1)
    assert np.sum(rows.given == 1) == np.sum(rows.right) - 4  # 30 % of 12
    only = audit_noise._keep_classes(np.zeros(20, int), np.repeat([0, 1], 10))
    assert only.sum() == audit_noise.FEWEST_GIVEN


def test_flips_are_found_from_three_labels():
    rng = np.random.default_rng(0)
    right, true = rng.integers(0, 2, 4000), np.array([[0.9, 0.1], [0.3, 0.7]])
    labels = (rng.random((4000, 3)) < true[right, 1][:, None]).astype(int)
    share, flips = audit_methods.fit_flips(labels, 2)
    np.testing.assert_allclose(flips, true, atol=0.06)
    np.testing.assert_allclose(share, 0.5, atol=0.06)


def test_flags_and_confidence_are_scored_by_definition():
    rows = draw_rows(make_set(), "uniform 20", 0)
    is_wrong, line = rows.given != rows.right, Line("wine", "uniform 20", 0, OURS)
    audit_methods.score_flags(line, rows, is_wrong + 0.0, is_wrong, 0.25)
    assert (line.auroc, line.f1, line.recall, line.flagged) == (1.0, 1.0, 1.0, line.true_rate)
    audit_methods.score_classes(line, np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 1)
    assert line.accuracy == 0.75 and line.sensitivity == pytest.approx(2 / 3)
    assert line.gmean == pytest.approx((2 / 3) ** 0.5)
    line.bins = audit_methods.bin_confidence(np.array([0.95, 1.0, 0.25]), np.array([True, False, False]))
    assert audit_table.calibration_error(audit_table.read_bins([line])) == pytest.approx(100 * (0.95 + 0.25) / 3)


def test_a_run_that_was_stopped_goes_on_and_ours_is_measured_alone(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cleanlab", reason="needs cleanlab: pip install 'nearkin[paper]'")
    for name, value in (("N_TREES", 20), ("N_BAGGED", 20), ("SVM_C", (1.0,)), ("LOGISTIC_C", (1.0,))):
        monkeypatch.setattr(audit_methods, name, value)
    monkeypatch.setattr(audit_methods, "count_rounds", lambda k: 3)
    monkeypatch.setattr(audit_methods, "_is_warm", True)  # times do not matter here
    packed, out = tmp_path / "sets.npz", tmp_path / "cells.csv"
    audit_sets.pack([make_set("wine", n=90)], packed)
    options = ["--half", "choose", "--sets", "wine", "--noise", "uniform 20", "--draws", "1"]
    options += ["--packed", str(packed), "--out", str(out)]
    audit_rivals.main([*options, "--methods", "nearkin"])
    audit_rivals.main(options)
    told = capsys.readouterr().err
    assert "1 of 2 jobs are done already" in told and "processor minutes" in told
    lines = audit_cells.read(out)
    assert len(lines) == len(DETECTORS + CLASSIFIERS) + 2
    assert not [one.error for one in lines if one.error]
    assert all(one.auroc > 0.6 for one in lines if one.method in (OURS, *DETECTORS))
    assert all(one.accuracy > 0.5 for one in lines if one.method in (OURS, *CLASSIFIERS))
    held = out.read_text().splitlines()
    out.write_text("\n".join(held[:-1]) + "\n" + held[-1][:30])  # as a kill would leave it
    jobs = audit_cells.list_jobs({"wine": make_set()}, audit_methods.PARTS, 1, ("uniform 20",))
    assert [job.part for job in audit_cells.list_missing(out, jobs)] == ["rivals"]
    audit_rivals.main([*options, "--methods", "nearkin", "--fresh"])
    assert "0 of 1 jobs are done already" in capsys.readouterr().err
    assert len(audit_cells.read(out)) == len(lines) - 1
    audit_rivals.main([*options, "--report"])
    page = capsys.readouterr().out
    assert "## Goals" in page and "| wine |" in page and "AUROC ahead of cleanlab's best by hindsight" in page


def test_goals_are_met_or_missed_over_sets():
    def line(name, method, **values):
        return Line(name, "uniform 20", 0, method, **values)

    lines = []
    for name, shift in (("wine", 0.0), ("bands", 0.02)):
        lines.append(
            line(name, OURS, accuracy=0.9 + shift, auroc=0.95, f1=0.8, recall=0.8, flagged=0.2, rate=0.19,
                 true_rate=0.2, low=0.1, high=0.3, bins="0/0/0;" * 9 + "10/9.5/9")
        )  # fmt: skip
        lines.append(line(name, DOUBLED, recall=0.75))
        lines += [line(name, one, accuracy=0.89) for one in CLASSIFIERS]
        lines += [line(name, one, auroc=0.94, f1=0.7, rate=0.1, true_rate=0.2) for one in DETECTORS]
    page = audit_table.render(lines)
    assert "| accuracy ahead of the model that noisy CV picks | ≥ 1 | 2.0 ± 1.0 | met |" in page
    assert "| AUROC ahead of cleanlab's best by hindsight | ≥ 2 | 1.0 ± 0.0 | **missed** |" in page
    assert "| recall lost when every row is doubled | ≤ 3 | 5.0 ± 0.0 | **missed** |" in page
    assert "| confidence off by (calibration error, suspects pooled) | ≤ 5 | 5.0 | met |" in page
    assert "| error of the rate, all kinds | ≤ 4 | 1.0 ± 0.0 | met |" in page


def test_jobs_of_rivals_and_ours_are_apart():
    data = {"wine": make_set()}
    ours = audit_cells.list_jobs(data, ("nearkin",), 1)
    rivals = audit_cells.list_jobs(data, ("rivals",), 1)
    assert len(ours) == len(rivals) == 8
    assert Job("wine", "uniform 20", 0, "nearkin").methods == (OURS, DOUBLED)
    assert not set().union(*(job.keys for job in ours)) & set().union(*(job.keys for job in rivals))
