"""From feedback to a checked adapter, in Python and on the command line."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.cli import main
from nearkin.search import METRICS, Feedback, HeldOut, SimilarityAdapter, adapt, evaluate, hash_rows
from search_worlds import aligned, as_feedback, clicks, mean_average_precision, turned, unit


@pytest.mark.parametrize("wrong", [0.0, 0.4])
def test_a_gain_on_held_out_queries_is_kept_and_is_real(rng, wrong):
    queries, items, relevant = turned(rng, n_queries=800)
    feedback = as_feedback(relevant, *clicks(rng, relevant, 8000, wrong)[:3])
    result = adapt(queries, items, feedback, random_state=0)
    assert not result.kept_identity and result.gain["ndcg"].low > 0
    assert set(result.before) == set(result.after) == set(result.gain) == {*METRICS, "lift", "alike"}
    assert set(result.rivals) == {"identity", "ridge", "plain softmax"} and set(result.needed) == {0.01, 0.02, 0.05}
    assert result.n_learned + result.n_chosen + result.n_held_out <= len(queries)
    before = mean_average_precision(queries, items, relevant)
    assert mean_average_precision(result.adapter.map_queries(queries), items, relevant) > before


@pytest.mark.parametrize("wrong", [0.0, 0.4])
@pytest.mark.parametrize("metric", ["ndcg", "map"])
def test_without_a_gain_the_identity_is_kept(rng, wrong, metric):
    queries, items, relevant = aligned(rng)
    feedback = as_feedback(relevant, *clicks(rng, relevant, 5000, wrong)[:3])
    result = adapt(queries, items, feedback, metric=metric, random_state=0)
    assert result.kept_identity and result.adapter.strength_ == 0
    np.testing.assert_array_equal(result.adapter.map_queries(queries), queries)


@pytest.mark.parametrize("has_gap", [True, False])
def test_clicks_alone_are_judged_by_what_results_are_alike_to(rng, has_gap):
    queries, items, relevant = turned(rng)
    query, clicked, _, _ = clicks(rng, relevant, 2000, 0.1)
    clicked = clicked if has_gap else rng.permutation(clicked)
    told = []
    feedback = Feedback.from_clicks(query, clicked, query_ids=len(queries), item_ids=len(items))
    done = adapt(queries, items, feedback, foretell=told.append, random_state=0)
    assert done.metric == "alike" and told[0].measure == "alike@10"
    assert done.kept_identity is not has_gap


def test_clicks_alone_do_not_blur_an_index_that_is_right(rng):
    """Only the very nearest items are right here, and the index finds them: a map that blurs them looks better."""
    means, basis = rng.normal(size=(400, 8)), rng.normal(size=(8, 24))
    queries, items = (unit(one @ basis + rng.normal(size=(400, 24))) for one in (means, rng.normal(size=(400, 8))))
    nearest = np.argsort(-(queries @ items.T), axis=1)[:, :5]
    query = np.repeat(np.arange(400), 5)
    feedback = Feedback.from_clicks(query, nearest.ravel(), query_ids=400, item_ids=400)
    done = adapt(queries, items, feedback, random_state=0)
    assert done.gain["alike"].low > 0 and done.is_smear and done.kept_identity
    assert "only blurred gain as much" in done.verdict
    assert not adapt(queries, items, feedback, metric="alike", random_state=0).is_smear


def test_the_same_seed_gives_the_same_adapter(rng):
    queries, items, relevant = turned(rng)
    feedback = as_feedback(relevant, *clicks(rng, relevant, 2000, 0.1)[:3])
    one, two = (adapt(queries, items, feedback, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.adapter.query_map_, two.adapter.query_map_)
    assert one.gain == two.gain


def test_figures_are_those_of_the_held_out_queries_among_all_items(rng):
    queries, items, relevant = turned(rng, n_queries=60, n_items=100)
    q, i = np.divmod(rng.permutation(60 * 100), 100)
    feedback = Feedback.from_judgements(q, i, relevant[q, i], query_ids=60, item_ids=100, bad="skip")
    found = evaluate(queries, items, feedback, k=5, random_state=0)
    assert found["map"].mean == pytest.approx(mean_average_precision(queries, items, relevant))


def test_candidates_are_what_was_judged_and_some_others():
    items = np.array([[1.0], [2.0], [3.0], [4.0]])
    feedback = Feedback.from_triplets([0], [0], [1], query_ids=1, item_ids=4)
    assert evaluate([[1.0]], items, feedback, candidates="all")["mrr"].mean == pytest.approx(1 / 4)
    few = {evaluate([[1.0]], items, feedback, candidates=1, random_state=s)["mrr"].mean for s in range(20)}
    assert few == {1 / 2, 1 / 3}


def test_a_handful_of_queries_shows_wide_intervals(rng):
    queries, items, relevant = turned(rng, n_queries=40, n_items=60, n_topics=4, d=8)
    clicked, skipped = ([int(np.flatnonzero(one)[0]) for one in which] for which in (relevant, ~relevant))
    done = adapt(queries, items, as_feedback(relevant, np.arange(40), clicked, skipped), random_state=0)
    assert done.n_held_out < 15 and done.kept_identity
    for part in (done.before, done.after, done.gain, done.rivals):
        assert all(one.high - one.low > 0.2 for one in part.values())


def test_clicks_of_queries_that_test_alone_teach_nothing(rng):
    queries, items, _ = turned(rng, n_queries=60, n_items=60, d=8)
    learns = HeldOut.empty(8, np.float32, 0.2).learns(queries)
    q = np.arange(60)
    feedback = Feedback.from_impressions(q, q, q, ~learns, query_ids=60, item_ids=60)
    with pytest.raises(ValueError, match="queries with clicks are too few: 0 would teach"):
        adapt(queries, items, feedback)


def test_a_split_by_time_keeps_the_split_by_query(rng):
    queries, items, relevant = turned(rng, n_queries=200, n_items=100, d=8)
    n = 2000
    q = rng.integers(0, 200, n)
    shown = np.array([[rng.choice(np.flatnonzero(one)), rng.choice(np.flatnonzero(~one))] for one in relevant[q]])
    feedback = Feedback.from_impressions(
        np.repeat(np.arange(n), 2), np.repeat(q, 2), shown.ravel(), [1, 0] * n, query_ids=200, item_ids=100,
        time=np.repeat(1772366400.0 + np.arange(n), 2),
    )  # fmt: skip
    told = []
    done = adapt(queries, items, feedback, test_from=1772366400 + 1200, foretell=told.append, random_state=0)
    tests = done.adapter.held_out_.part_of(hash_rows(queries))[2]
    is_late = done.feedback.time >= 1772366400 + 1200
    np.testing.assert_array_equal(is_late, tests[done.feedback.query])
    assert sum(done.skipped.values()) == n - len(done.feedback) > 0
    assert told[0].n_held_out == done.n_held_out and told[0].needed == done.needed
    for when, message in (("2020-01-01", "leaves nothing before"), ("2030-01-01", "leaves nothing from then on"),
                          ("soon", "must be a time")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            adapt(queries, items, feedback, test_from=when)


def test_zero_vectors_in_feedback_are_named_or_counted(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 2000, 0.0)
    feedback = as_feedback(relevant, query, clicked, skipped)
    items[clicked[4]] = 0
    with pytest.raises(ValueError, match=f"items: row {clicked[4]} is a zero vector"):
        adapt(queries, items, feedback, random_state=0)
    result = adapt(queries, items, feedback, bad="skip", random_state=0)
    spoiled = (clicked == clicked[4]) | (skipped == clicked[4])
    assert result.skipped == {"zero vector": int(spoiled.sum())}


@pytest.mark.parametrize("change, message", [
    ({"metric": "f1"}, "`metric` must be"),
    ({"k": 0}, "`k` must be"),
    ({"holdout": 1.0}, "`holdout` must be"),
    ({"k": 31}, "is 31, but there are only 30 items"),
])  # fmt: skip
def test_arguments_are_checked(rng, change, message):
    queries, items, relevant = turned(rng, n_queries=20, n_items=30)
    feedback = as_feedback(relevant, [0, 1], [2, 3], [4, 5])
    with pytest.raises(ValueError, match=message):
        adapt(queries, items, feedback, **change)


def test_one_query_is_too_few_whatever_the_share(rng):
    queries, items, relevant = turned(rng, n_queries=20, n_items=30)
    with pytest.raises(ValueError, match=r"1 query with clicks is too few: .* give more queries\.$"):
        adapt(queries, items, as_feedback(relevant, [0, 0], [2, 3], [4, 5]))


def test_feedback_about_other_vectors_is_refused(rng):
    queries, items, relevant = turned(rng)
    feedback = as_feedback(relevant, [0, 1], [2, 3], [4, 5])
    with pytest.raises(ValueError, match="600 items and query 1, but there are 500 items"):
        adapt(queries, items[:500], feedback)


# ------------------------------------------------------------------ the command line


@pytest.fixture
def files(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 5000, 0.1)
    np.save("q.npy", queries)
    np.save("d.npy", items)
    rows = zip(query, clicked, skipped, strict=True)
    (tmp_path / "clicks.csv").write_text("query,clicked,skipped\n" + "\n".join(f"{q},{p},{n}" for q, p, n in rows))
    return tmp_path, queries, relevant


def run(*arguments):
    return CliRunner().invoke(main, ["adapt", "--queries", "q.npy", "--items", "d.npy", *arguments])


def test_the_command_writes_an_adapter_and_says_what_it_gains(files):
    folder, queries, _ = files
    done = run("--feedback", "clicks.csv", "-o", "a.nearkin", "--numpy", "map.npz", "--report", "r.json")
    assert done.exit_code == 0, done.output
    assert "lift@10 gains" in done.output and "plain softmax" in done.output and "recall@10" in done.output
    assert "map.npz (" in done.output and "r.json (" in done.output
    adapter = nearkin.load("a.nearkin")
    assert isinstance(adapter, SimilarityAdapter) and not adapter.kept_identity_
    facts = json.loads((folder / "r.json").read_text())
    assert facts["strength"] == adapter.strength_ and facts["gain"]["ndcg"]["low"] > 0
    with np.load("map.npz") as f:
        np.testing.assert_array_equal(f["matrix"], adapter.query_map_)
    mapped = CliRunner().invoke(main, ["transform", "a.nearkin", "q.npy", "-o", "m.npy"])
    assert mapped.exit_code == 0, mapped.output
    np.testing.assert_array_equal(np.load("m.npy"), adapter.map_queries(queries))
    told = CliRunner().invoke(main, ["info", "a.nearkin"])
    assert told.exit_code == 0 and "kept identity" in told.output, told.output
    again = run("--feedback", "clicks.csv", "--start", "a.nearkin", "-o", "a.nearkin", "-q")
    assert again.exit_code == 0 and again.output == ""
    assert nearkin.load("a.nearkin").n_triplets_seen_ > adapter.n_triplets_seen_


def test_the_command_says_when_the_identity_is_kept(files, rng):
    queries, items, relevant = aligned(rng)
    np.save("q.npy", queries)
    np.save("d.npy", items)
    query, clicked, skipped, _ = clicks(rng, relevant, 3000, 0.2)
    np.savez("clicks.npz", query=query, clicked=clicked, skipped=skipped)
    done = run("--feedback", "clicks.npz", "-o", "a.nearkin")
    assert done.exit_code == 0, done.output
    assert "the identity is kept" in " ".join(done.output.split())
    assert nearkin.load("a.nearkin").kept_identity_


def test_ids_and_columns_may_have_other_names(files, rng):
    folder, _, relevant = files
    (folder / "qids.txt").write_text("\n".join(f"user {i}" for i in range(300)))
    rows = []
    for shown in range(400):
        q, list_ = shown % 300, rng.permutation(600)[:8]
        rows += [f"s{shown},user {q},{i},{int(relevant[q, i])},{r}" for r, i in enumerate(list_)]
    (folder / "log.csv").write_text("session,who,item,clicked,rank\n" + "\n".join(rows))
    options = ("--feedback", "log.csv", "--query-ids", "qids.txt", "-o", "a.nearkin",
               "--column", "impression=session", "--column", "query=who")  # fmt: skip
    done = run(*options)
    assert done.exit_code == 0, done.output
    assert "without a click" in done.output


def test_a_pattern_names_several_logs_and_the_report_tells_what_was_odd(files):
    folder, *_ = files
    lines = (folder / "clicks.csv").read_text().splitlines()
    (folder / "day1.csv").write_text("\n".join(lines[:2500]))
    (folder / "day2.csv").write_text("\n".join([lines[0], *lines[2500:], "0,gone,1", "0,1"]))
    done = run("--feedback", "day*.csv", "-o", "a.nearkin", "--report", "r.json")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "5,000 triplets left out 1 x wrong number of fields (first: day2.csv, data row 2,503)" in said
    assert "1 x unknown item (first: day2.csv, data row 2,502: 'gone')" in said
    assert "needed test queries to show a gain in lift@10 of 1 point" in said
    facts = json.loads((folder / "r.json").read_text())
    assert facts["n_lists"] == 5000 and facts["first_skipped"]["unknown item"].startswith("day2.csv")
    assert "no file has such a name" in run("--feedback", "night*.csv", "-o", "a.nearkin").output


@pytest.mark.parametrize("table, message", [
    ("query,clicked,skipped\n0,1,2\n0,9999,2\n", "data row 2: clicked '9999' is not among the 600 items"),
    ("query,clicked,skipped\n0,1,1\n", "data row 1: the clicked item is the skipped one"),
    ("who,what\n0,1\n", "fit no form of feedback"),
    ("query,item,relevant\n0,1,-2\n", "data row 1 holds '-2' in 'relevant'"),
    ("query,item,relevant\n0,1,1\n0,1,0\n", "data row 2 repeats an earlier one"),
    ("query,clicked,skipped\n0,,1\n", "bad.csv: data row 1: column 'clicked' holds nothing"),
    ("query,clicked,skipped\n0,1,2\n", "1 query with clicks is too few"),
])  # fmt: skip
def test_bad_feedback_ends_with_one_line_and_no_file(files, table, message):
    folder, *_ = files
    (folder / "bad.csv").write_text(table)
    done = run("--feedback", "bad.csv", "-o", "a.nearkin", "--strict", "--duplicates", "raise")
    assert done.exit_code == 2 and message in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not (folder / "a.nearkin").exists()


def test_vectors_of_two_widths_are_refused(files):
    np.save("d.npy", np.ones((600, 5), np.float32))
    done = run("--feedback", "clicks.csv", "-o", "a.nearkin")
    assert done.exit_code == 2 and "vectors of 24 numbers" in done.output


def test_a_file_that_is_not_a_model_is_not_replaced(files):
    folder, *_ = files
    (folder / "notes.txt").write_text("mine")
    assert run("--feedback", "clicks.csv", "-o", "notes.txt").exit_code == 2
    assert run("--feedback", "clicks.csv", "-o", "q.npy").exit_code == 2
    assert (folder / "notes.txt").read_text() == "mine"
