"""Rows that a person checked: intervals hold whatever the noise and the model, in Python and in the page's script."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.audit_noise import KINDS as NOISES
from benchmarks.audit_noise import standardize
from benchmarks.sample import KINDS, measure, measure_world
from sklearn.datasets import load_digits

import nearkin
from browsing import IN_BROWSER
from nearkin.audit import page
from nearkin.audit.sample import bound_shares, check_sample, draw_sample, sample_arrays
from nearkin.errors import InputError

SCRIPT = (Path(page.__file__).parent / "sample.js").read_text(encoding="utf-8")


def draw_world(rng, n=300, rate=0.2):
    wrong = rng.random(n) < rate
    guess = np.where(wrong, rng.beta(4, 2, n), rng.beta(1, 9, n))
    return guess, np.argsort(-guess), wrong


def answer(sample, wrong, n=None):
    return {int(row): not wrong[row] for row in sample.to_review[:n]}


# ---------------------------------------------------------------------- coverage


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_holds_whatever_the_noise_and_the_model(kind):
    held = {rate: measure(kind, rate, 300, seed=1).held for rate in (0.0, 0.02, 0.1, 0.4)}
    assert min(held.values()) >= 0.94, held


@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_holds_for_real_audits_under_every_kind_of_noise(noise):
    rng = np.random.default_rng(0)
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    if noise == "rare lost":
        y = np.where(y == 9, 1, 0)
    given = NOISES[noise](standardize(X, X), y, rng)
    guess = 1.0 - nearkin.audit_labels(X, given, random_state=0).plausibility
    found = measure_world(guess, given != y, 1000, rng, 50)
    assert found.held >= 0.94 and (found.rate > 0) == (noise != "none")


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4])
def test_a_good_model_makes_it_narrower_than_the_exact_interval(rate):
    found = measure("uniform", rate, 50)
    assert found.width < 0.95 * found.exact


@pytest.mark.parametrize("kind", ["guessing", "opposite", "trusted"])
def test_a_bad_model_makes_it_hardly_wider_than_none(kind):
    for rate in (0.02, 0.1, 0.4):
        assert measure(kind, rate, 50).width < 1.15 * measure("flat", rate, 50).width


def test_intervals_only_shrink_so_one_may_stop_at_any_time(rng):
    guess, order, wrong = draw_world(rng)
    sample = draw_sample(guess, order, 60, 3)
    ends = [check_sample(sample, answer(sample, wrong, n)).noise_interval for n in range(61)]
    assert ends[0] == (0.0, 1.0)
    low, high = np.array(ends).T
    assert (np.diff(low) >= 0).all() and (np.diff(high) <= 0).all() and low[-1] > 0.05 and high[-1] < 0.4


def test_the_precision_of_the_ranking_holds(rng):
    guess, order, wrong = draw_world(rng, 2000)
    true = np.cumsum(wrong[order])
    held = []
    for seed in range(40):
        sample = draw_sample(guess, order, 50, seed)
        found = check_sample(sample, answer(sample, wrong)).precision
        held.append([one.low - 1e-9 <= true[one.depth - 1] / one.depth <= one.high + 1e-9 for one in found])
    assert np.mean(held) >= 0.95


def literal_capital(wrong, guess, m, most, n_rows, mean, spread, plan):
    """The most that one gambler on a share above m ever has, answer by answer."""
    capital, seen, unexplained = 1.0, [1.0], 3 * spread
    known = 4 * (mean * (1 - mean) - spread)
    for t, (w, p) in enumerate(zip(wrong, guess, strict=True)):
        beyond = [wrong[i] - (sum(wrong[:i]) + 3 * mean) / (i + 3) for i in range(t)]
        above = [p - mean for p in guess[:t]]
        trust = (known + np.dot(beyond, above)) / (known + np.dot(above, above))
        trust = min(max(trust, 0.0), 1.0)
        usual = (n_rows * mean - sum(guess[:t])) / (n_rows - t)
        share = (n_rows * m - sum(wrong[:t])) / (n_rows - t)
        stake = min(
            np.sqrt(2 * np.log(40) / (max(plan, t + 1) * unexplained / (3 + t))), 0.9 / (share + trust * (most - usual))
        )
        capital *= 1 + stake * (w - share - trust * (p - usual))
        unexplained += (w - (sum(wrong[:t]) + 3 * mean) / (t + 3) - trust * (p - usual)) ** 2
        seen.append(capital)
    return max(seen)


def test_answers_decide_and_not_how_many_rows_were_drawn(rng):
    guess, order, wrong = draw_world(rng)
    few, many = (draw_sample(guess, order, n, 3) for n in (30, 200))
    assert check_sample(few, answer(few, wrong)) == check_sample(many, answer(many, wrong, 30))


def test_a_sample_may_grow_after_a_look_at_its_interval():
    held = {rate: measure("flat", rate, 300, seed=2, n=400).held for rate in (0.1, 0.4)}
    assert min(held.values()) >= 0.94, held  # intervals shrink, so this one has failed if any before it has


@pytest.mark.parametrize("n", [40, 90])
@pytest.mark.parametrize("is_good", [True, False])
def test_the_interval_is_that_of_single_bets(rng, is_good, n):
    guess, order, wrong = draw_world(rng)
    guess = guess if is_good else 1.0 - guess
    sample = draw_sample(guess, order, n, 0)
    low, high = check_sample(sample, answer(sample, wrong)).noise_interval
    w, spread = wrong[sample.rows].astype(float), (guess * (1 - guess)).mean()
    for end, answers, p, all_p in ((low, w, sample.guess, guess), (1 - high, 1 - w, 1 - sample.guess, 1 - guess)):
        facts = all_p.max(), 300, all_p.mean(), spread, 50
        if end > answers.sum() / 300 + 1e-9:  # else all that is certain is the count
            assert literal_capital(answers, p, end - 1e-6, *facts) >= 40
        assert literal_capital(answers, p, end + 1e-6, *facts) < 40


# ---------------------------------------------------------------------- answers


def test_all_rows_checked_leave_no_doubt(rng):
    guess, order, wrong = draw_world(rng, 30)
    sample = draw_sample(guess, order, 50, 0)
    found = check_sample(sample, answer(sample, wrong))
    assert sorted(sample.to_review.tolist()) == list(range(30))
    assert found.noise_interval == pytest.approx((wrong.mean(), wrong.mean()))
    assert found.noise_rate == pytest.approx(wrong.mean())


def test_one_row():
    sample = draw_sample(np.array([0.3]), np.array([0]), 50, 0)
    assert check_sample(sample, {}).noise_interval == (0.0, 1.0)
    assert check_sample(sample, {0: "wrong"}).noise_interval == (1.0, 1.0)
    assert check_sample(sample, {0: "unsure"}).noise_interval == (0.0, 1.0)


def test_unsure_is_right_for_the_low_end_and_wrong_for_the_high_end(rng):
    guess, order, wrong = draw_world(rng)
    sample = draw_sample(guess, order, 50, 0)
    sure = answer(sample, wrong)
    some = sample.rows[::5].tolist()
    found, right, false = (
        check_sample(sample, sure | dict.fromkeys(some, one)) for one in ("unsure", "right", "wrong")
    )
    assert found.noise_interval == (right.noise_interval[0], false.noise_interval[1])
    assert right.noise_rate < found.noise_rate < false.noise_rate
    assert (found.n_wrong, found.n_unsure) == (right.n_wrong, 10) and "10 unsure" in str(found)


def test_answers_that_nobody_can_give_tell_nothing(rng):
    guess, order, _ = draw_world(rng)
    sample = draw_sample(guess, order, 50, 0)
    found = check_sample(sample, dict.fromkeys(sample.rows.tolist(), "unsure"))
    assert found.noise_interval == (0.0, 1.0) and found.noise_rate == pytest.approx(sample.mean_guess)
    assert not found.is_enough and "too few to tell" in str(found)


@pytest.mark.parametrize(
    ("n", "n_unsure", "expected"), [(3, 1, True), (3, 2, False), (100, 20, True), (100, 21, False)]
)
def test_advice_needs_rows_that_were_judged(rng, n, n_unsure, expected):
    guess, order, wrong = draw_world(rng, n)
    sample = draw_sample(guess, order, 50, 0)
    said = answer(sample, wrong) | dict.fromkeys(sample.rows.tolist()[:n_unsure], "unsure")
    assert check_sample(sample, said).is_enough == expected


def test_answers_out_of_turn_are_ignored_and_counted(rng):
    guess, order, wrong = draw_world(rng)
    sample = draw_sample(guess, order, 20, 0)
    rows = sample.rows.tolist()
    outside = next(row for row in range(300) if row not in rows)
    given = answer(sample, wrong)
    del given[rows[8]]
    found = check_sample(sample, given | {outside: "wrong"})
    assert (found.n_answered, found.n_ignored) == (8, 12)
    assert found.noise_interval == check_sample(sample, answer(sample, wrong, 8)).noise_interval
    assert "12 ignored" in str(found) and str(found).startswith("checked")


@pytest.mark.parametrize(
    "answers", [{-1: "right"}, {300: "right"}, {"0": "right"}, {True: "right"}, {0: "</script>"}, {0: None}, {0: 1}]
)
def test_other_answers_are_refused(rng, answers):
    guess, order, _ = draw_world(rng)
    with pytest.raises(InputError, match="must be"):
        check_sample(draw_sample(guess, order), answers)


@pytest.mark.parametrize("n", [0, -1, 2.5, "50"])
def test_other_sizes_are_refused(rng, n):
    with pytest.raises(InputError):
        draw_sample(*draw_world(rng)[:2], n)


def test_the_ranking_stops_where_rows_are_no_longer_wrong():
    wrong = np.zeros(1000, dtype=bool)
    wrong[:200] = True
    order = np.arange(1000)
    sample = draw_sample(np.where(wrong, 0.9, 0.05), order, 50, 0)
    assert 150 <= check_sample(sample, answer(sample, wrong)).stop <= 270
    assert check_sample(sample, answer(sample, np.zeros(1000, dtype=bool))).stop == 0


def test_an_audit_draws_among_the_audited_rows(rng):
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 3)) + 3.0 * y[:, None]
    given, _ = nearkin.flip_labels(y, 0.2, random_state=0)
    labels = given.astype(object)
    labels[:20] = None
    audit = nearkin.audit_labels(X, labels, random_state=0)
    sample = audit.review_sample(30, random_state=1)
    assert sample.n_rows == audit.n_rows == 180 and sample.rows.max() < 180
    assert (audit.order[sample.rank] == sample.rows).all()
    is_wrong = (given != y)[audit.row_index]
    found = audit.verified(answer(sample, is_wrong), sample)
    assert found.noise_interval[0] <= is_wrong.mean() <= found.noise_interval[1]
    default = audit.review_sample()
    assert audit.verified(answer(default, is_wrong)).n_answered == 50


def test_many_samples_at_once_are_those_one_by_one(rng):
    guess, order, wrong = draw_world(rng)
    samples = [draw_sample(guess, order, 25, seed) for seed in range(4)]
    rows = np.array([one.rows for one in samples])
    first = samples[0]
    facts = first.depth, first.mean, first.least, first.most, first.spread, [50.0]
    each = [np.full(4, one[-1]) for one in facts]
    ends = bound_shares(np.stack([wrong[rows]] * 2).astype(float), guess[rows], np.ones(rows.shape, bool), *each)
    single = [check_sample(one, answer(one, wrong)).noise_interval for one in samples]
    np.testing.assert_allclose(np.transpose(ends), single, atol=1e-9)


# ---------------------------------------------------------------------- the twin in JavaScript


def list_cases(n_cases):
    rng = np.random.default_rng(5)
    for seed in range(n_cases):
        guess, order, wrong = draw_world(rng, int(rng.integers(1, 500)), rng.random())
        guess = (guess, 1.0 - guess, np.zeros(len(guess)))[seed % 3]
        sample = draw_sample(guess, order, int(rng.integers(1, 61)), seed)
        kept = sample.rows.tolist()[: int(rng.integers(0, 62))]
        said = {row: "unsure" if rng.random() < 0.1 else "wrong" if wrong[row] else "right" for row in kept}
        if len(said) > 9 and seed % 2:
            del said[kept[7]]
        yield sample, said


class TestScript:
    pytestmark = IN_BROWSER

    def test_it_agrees_with_python(self, browser):
        cases = list(list_cases(60))
        tab = browser.new_page()
        tab.add_script_tag(content=SCRIPT)
        body = """(cases) => cases.map(([one, said]) => {
          const precision = checkedPrecision(one, said, one);
          return [checkedRate(one, said, one), precision, checkedStop(precision)];
        })"""
        given = [[{k: v.tolist() for k, v in sample_arrays(one).items()}, {str(k): v for k, v in said.items()}]
                 for one, said in cases]  # fmt: skip
        told = tab.evaluate(body, given)
        tab.close()
        for (sample, said), (rate, precision, stop) in zip(cases, told, strict=True):
            found = check_sample(sample, said)
            assert [rate["rate"], rate["low"], rate["high"]] == pytest.approx(
                [found.noise_rate, *found.noise_interval], abs=1e-9
            )
            counts = [rate[name] for name in ("answered", "wrong", "unsure", "ignored")]
            assert [*counts, stop] == [found.n_answered, found.n_wrong, found.n_unsure, found.n_ignored, found.stop]
            mine = [[one.depth, one.estimate, one.low, one.high] for one in found.precision]
            theirs = [[one[name] for name in ("depth", "estimate", "low", "high")] for one in precision]
            np.testing.assert_allclose(theirs, mine, rtol=0, atol=1e-9)
