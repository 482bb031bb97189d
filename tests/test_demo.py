"""The demo: sane numbers, the same for the same seed, and an honest account of them."""

import base64
import json
import re
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

from nearkin.cli import main
from nearkin.demo import Demo, run_demo
from nearkin.picture import flatten


@pytest.fixture(scope="module")
def result():
    return run_demo(0)


def test_the_robust_method_beats_plain_neighbours_by_far(result):
    mean = {score.method: score.mean for score in result.scores}
    robust, jury = "Robust-LODML + Robust-kNN", "Robust-LODML + jury (default)"
    assert list(mean) == ["Euclidean, 3-NN", "Euclidean, 25-NN", "ODML, 3-NN", robust, jury]
    assert 0.8 < mean["Euclidean, 3-NN"] < 0.92
    assert min(mean[robust], mean[jury]) > mean["Euclidean, 3-NN"] + 0.05
    assert min(mean[robust], mean[jury]) > 0.93


def test_most_flipped_labels_are_found_again(result):
    for found in result.detections:
        assert found.n_wrong == 36
        assert found.n_found <= min(found.n_wrong, found.n_doubtful)
        assert found.recall > 0.7
        assert found.precision > 0.7
        assert found.estimated_rate == pytest.approx(0.2, abs=0.08)


def test_every_fold_of_every_draw_is_counted(result):
    assert {len(score.folds) for score in result.scores} == {result.demo.n_folds * result.demo.n_draws}
    assert all(0 <= one <= 1 for score in result.scores for one in score.folds)
    assert len(result.detections) == result.demo.n_draws


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    small = Demo(n_folds=3, n_draws=1)
    first, again, other = run_demo(1, small), run_demo(1, small), run_demo(2, small)
    assert first.scores == again.scores
    assert first.detections == again.detections
    assert first.scores != other.scores


def test_without_noise_nothing_is_wrong():
    clean = run_demo(0, Demo(noise_rate=0.0, n_folds=3, n_draws=1))
    assert clean.detections[0].n_wrong == 0
    assert clean.detections[0].recall == 0.0
    assert min(score.mean for score in clean.scores) > 0.9


def test_the_table_fits_a_terminal_and_says_where_the_numbers_come_from(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearkin.demo.run_demo", lambda seed: result)
    shown = CliRunner().invoke(main, ["demo"])
    assert shown.exit_code == 0
    assert shown.stderr == ""
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert shown.stdout.isascii()
    text = " ".join(shown.stdout.split())
    for words in (
        "test labels are clean",
        "10 stratified folds",
        "standard deviation",
        "nearkin fit",
        "estimated",
        "nearkin-demo.html",
        "so the two differ",
    ):
        assert words in text
    accuracies = re.findall(r"^  (?:Eu|OD|Ro).* (\d+\.\d) +\d+\.\d$", shown.stdout, re.MULTILINE)
    assert accuracies == [f"{100 * score.mean:.1f}" for score in result.scores]


def test_json_holds_what_the_table_shows(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearkin.demo.run_demo", lambda seed: result)
    shown = CliRunner().invoke(main, ["demo", "--json"])
    facts = json.loads(shown.stdout)
    assert facts["scores"][-1]["mean"] == result.scores[-1].mean
    assert facts["detections"][0]["precision"] == result.detections[0].precision
    assert facts["seed"] == 0
    assert facts["demo"] == {"noise_rate": 0.2, "n_folds": 10, "n_draws": 5}
    assert not list(tmp_path.iterdir())


def test_it_writes_a_page_and_a_picture_and_replaces_only_its_own(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearkin.demo.run_demo", lambda seed: result)
    for _ in range(2):
        assert CliRunner().invoke(main, ["demo"]).exit_code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["nearkin-demo.html", "nearkin-demo.svg"]
    assert "Wine with flipped labels" in (tmp_path / "nearkin-demo.html").read_text()
    data = json.loads(
        re.search(r'id="data">(.*?)</script>', (tmp_path / "nearkin-demo.html").read_text(), re.DOTALL)[1]
    )
    texts = json.loads(zlib.decompress(base64.b64decode(data["texts"])))
    assert set(texts.values()) == {"flipped by the demo: yes", "flipped by the demo: no"} and "idName" not in data
    circles = ElementTree.parse(tmp_path / "nearkin-demo.svg").findall(".//{http://www.w3.org/2000/svg}circle")
    rows, rings = len(circles) - 4, [one for one in circles if one.get("stroke") == "#111111"]
    assert (rows, len(rings)) == (2 * 178, 2 * 36 + 1)
    (tmp_path / "nearkin-demo.svg").write_text("<svg>drawn by another</svg>")
    refused = CliRunner().invoke(main, ["demo"])
    assert refused.exit_code == 2
    assert "nearkin-demo.svg exists and is not a nearkin figure" in refused.stderr
    assert (tmp_path / "nearkin-demo.svg").read_text() == "<svg>drawn by another</svg>"


def test_the_picture_shows_the_principal_components(rng):
    rows = rng.normal(size=(40, 5)) * [1.0, 9.0, 0.1, 3.0, 0.2]
    flat = flatten(rows)
    centred = rows - rows.mean(axis=0)
    _values, vectors = np.linalg.eigh(centred.T @ centred)
    expected = centred @ vectors[:, [-1, -2]]
    for i in range(2):
        assert abs(np.corrcoef(flat[:, i], expected[:, i])[0, 1]) > 1 - 1e-9
    assert flat.min() >= -1e-12
    assert flat.max() <= 1 + 1e-12
    assert np.ptp(flat, axis=0).max() == pytest.approx(1.0)
    assert flatten(np.ones((3, 1))).tolist() == [[0.5, 0.5]] * 3
