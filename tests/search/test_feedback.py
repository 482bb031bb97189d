"""Three forms of feedback, the triplets they give, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.search import Feedback

IDS = {"query_ids": ["q0", "q1", "q2"], "item_ids": [10, 20, 30, 40, 50]}


def pairs(feedback, **options):
    options = {"n_random": 0, "max_pairs": 10_000} | options
    found = feedback.triplets(np.random.default_rng(0), **options)
    return list(zip(*(one.tolist() for one in found), strict=True))


def test_triplets_come_out_as_they_went_in():
    feedback = Feedback.from_triplets(["q1", "q0", "q1"], [10, 30, 10], [20, 50, 20], **IDS)
    assert pairs(feedback) == [(1, 0, 1), (0, 2, 4), (1, 0, 1)]


def test_judgements_pair_every_relevant_item_with_every_other_of_its_query():
    feedback = Feedback.from_judgements(
        ["q1", "q0", "q1", "q1", "q0"], [10, 20, 30, 50, 40], [True, False, False, True, True], **IDS
    )
    assert sorted(pairs(feedback)) == [(0, 3, 1), (1, 0, 2), (1, 4, 2)]
    assert pairs(feedback)[0][0] == 1  # the query that came first


def skip_above_and_next(clicked):
    """Joachims' rules, one click at a time."""
    for i, click in enumerate(clicked):
        if click:
            yield from ((i, j) for j in range(i) if not clicked[j])
            after = [j for j in range(i + 1, len(clicked)) if not clicked[j]]
            yield from ((i, j) for j in after[:1])


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=7).filter(any), min_size=1, max_size=5), st.randoms())
def test_impressions_prefer_a_click_to_what_was_skipped_above_and_to_the_next(lists, random):
    rows = [(f"s{n}", n % 3, place, place, clicked) for n, one in enumerate(lists) for place, clicked in enumerate(one)]
    random.shuffle(rows)  # ranks tell the order
    first = list(dict.fromkeys(row[0] for row in rows))
    columns = [np.array(one) for one in zip(*rows, strict=True)]
    feedback = Feedback.from_impressions(
        columns[0], columns[1], columns[2], columns[4], columns[3], query_ids=3, item_ids=9
    )
    expected = [(int(one[1:]) % 3, i, j) for one in first for i, j in skip_above_and_next(lists[int(one[1:])])]
    assert sorted(pairs(feedback)) == sorted(expected)
    assert [one[0] for one in pairs(feedback)] == [one[0] for one in expected]


def test_of_many_pairs_of_a_list_a_few_are_drawn_none_twice():
    feedback = Feedback.from_judgements([0] * 20, range(20), [i < 10 for i in range(20)], query_ids=1, item_ids=20)
    few = pairs(feedback, max_pairs=15)
    assert len(set(few)) == len(few) == 15
    assert all(p < 10 <= n for _, p, n in few)


def test_long_lists_give_sound_pairs_too(rng):
    n = 300
    clicked = rng.random(n) < 0.1
    clicked[150] = True
    feedback = Feedback.from_impressions([7] * n, [0] * n, range(n), clicked, query_ids=1, item_ids=n)
    found = pairs(feedback, max_pairs=50)
    assert found and all(clicked[p] and not clicked[q] and q < p for _, p, q in found)


def test_random_negatives_are_never_known_to_be_right():
    feedback = Feedback.from_judgements([0] * 4, range(4), [True] * 3 + [False], query_ids=1, item_ids=6)
    drawn = pairs(feedback, n_random=200)
    assert {n for _, _, n in drawn} == {3, 4, 5}
    assert {p for _, p, _ in drawn} == {0, 1, 2}


def test_an_item_is_relevant_if_it_was_clicked_at_least_as_often_as_skipped():
    feedback = Feedback.from_triplets([0, 0, 0, 0], [1, 1, 2, 3], [2, 2, 1, 1], query_ids=1, item_ids=4)
    query, item, relevant = feedback.judgements()
    assert item.tolist() == [1, 2, 3] and query.tolist() == [0, 0, 0]
    assert relevant.tolist() == [True, False, True]


def test_a_split_takes_whole_queries_and_loses_nothing(rng):
    query = rng.integers(0, 40, 500)
    feedback = Feedback.from_triplets(query, [1] * 500, [0] * 500, query_ids=40, item_ids=2)
    learn, held = feedback.split(0.25, rng)
    assert not set(learn.query) & set(held.query)
    assert len(learn) + len(held) == 500 and len(np.unique(held.query)) == 10
    assert pairs(learn) == [(q, 1, 0) for q in query if q in set(learn.query)]


FORMS = {
    "triplets": (Feedback.from_triplets, {"query": ["q0", "q1"], "clicked": [10, 20], "skipped": [20, 30]}),
    "judgements": (Feedback.from_judgements, {"query": ["q0", "q1"], "item": [10, 20], "relevant": [1, 1]}),
    "impressions": (
        Feedback.from_impressions,
        {"impression": [1, 2], "query": ["q0", "q1"], "item": [10, 20], "clicked": [1, 1]},
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("column, value", [("query", "q9"), ("item", 99)])
def test_an_unknown_id_is_named_with_its_row_or_counted(form, column, value):
    make, columns = FORMS[form]
    column = "clicked" if column == "item" and form == "triplets" else column
    wrong = columns | {column: [columns[column][0], value]}
    with pytest.raises(ValueError, match=rf"row 1: {column} '?{value}'? is not among the . \w+ \(1 of 2 rows\)"):
        make(**wrong, **IDS)
    kept = make(**wrong, **IDS, bad="skip")
    assert len(kept) == 1 and sum(kept.skipped.values()) == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_repeated_row_is_named_skipped_or_kept(form):
    make, columns = FORMS[form]
    twice = {name: [values[0], values[1], values[1]] for name, values in columns.items()}
    with pytest.raises(ValueError, match="row 2 repeats an earlier one"):
        make(**twice, **IDS, duplicates="raise")
    skipped = make(**twice, **IDS, duplicates="skip")
    assert len(skipped.item) == len(make(**columns, **IDS).item) and skipped.skipped == {"duplicate": 1}
    assert len(make(**twice, **IDS, duplicates="keep").item) > len(skipped.item)


def test_of_judgements_that_contradict_each_other_the_largest_holds():
    columns = {"query": ["q0"] * 5, "item": [10, 20, 10, 20, 10], "relevant": [0, 1, 3, 1, 2]}
    found = Feedback.from_judgements(**columns, **IDS, duplicates="skip")
    assert found.item.tolist() == [0, 1] and found.worth.tolist() == [0.875, 0.5]
    contradicting = "duplicate that contradicts (the largest grade counts)"
    assert found.skipped == {contradicting: 2, "duplicate": 1}
    assert found.first_skipped == {contradicting: "row 2", "duplicate": "row 3"}


def test_a_list_without_a_click_stays_as_exposure_and_teaches_nothing():
    columns = {"impression": [1, 1, 2, 2], "query": ["q0"] * 4, "item": [10, 20, 10, 20], "clicked": [0, 1, 0, 0]}
    kept = Feedback.from_impressions(**columns, **IDS)
    assert (len(kept), kept.n_clicks, kept.n_without_click, kept.skipped) == (2, 1, 1, {})
    assert pairs(kept) == [(0, 1, 0)]
    long = Feedback.from_impressions([1] * 99, [0] * 99, range(99), [0] * 99, query_ids=1, item_ids=99)
    assert pairs(long) == []


def test_grades_count_as_a_share_of_a_click_that_rises_with_them():
    made = Feedback.from_judgements(["q0"] * 4, [10, 20, 30, 40], [0, 1, 2, 4], **IDS)
    assert made.relevant.tolist() == [False, True, True, True] and made.worth.tolist() == [0, 0.5, 0.75, 0.9375]
    assert Feedback.from_judgements(["q0"], [10], [1], **IDS).worth is None
    assert made.without_clicks(np.array([0, 0, 1, 0], bool)).worth.tolist() == [0, 0.5, 0, 0.9375]


def test_clicks_alone_are_lists_of_one_and_lists_may_come_whole():
    clicks = Feedback.from_clicks(["q0", "q1", "q1"], [10, 20, 20], **IDS)
    assert len(clicks) == 3 and clicks.relevant.all() and pairs(clicks) == []
    assert {p for _, p, _ in pairs(clicks, n_random=5)} == {0, 1}
    shown = [[10, 20, 30], [30, 10]]
    for how, clicked in (
        ("ids", [[20], []]),
        ("positions", [[2], []]),
        ("positions0", [[1], []]),
        ("flags", [[0, 1, 0], [0, 0]]),
    ):
        made = Feedback.from_lists(["q0", "q1"], shown, clicked, clicks_as=how, **IDS)
        assert made.relevant.tolist() == [False, True, False, False, False], how
    with pytest.raises(ValueError, match=r"row 1: clicks \[3\] do not fit the items as positions"):
        Feedback.from_lists(["q0", "q1"], shown, [[1], [3]], clicks_as="positions", **IDS)


def test_an_impression_has_one_query():
    with pytest.raises(ValueError, match="row 1 has the query 'q1', but its impression 5 began with 'q0'"):
        Feedback.from_impressions([5, 5], ["q0", "q1"], [10, 20], [1, 0], **IDS)


def test_a_click_on_the_skipped_item_says_nothing():
    with pytest.raises(ValueError, match="row 0: the clicked item is the skipped one"):
        Feedback.from_triplets(["q0"], [10], [10], **IDS)


@pytest.mark.parametrize("value", [-1, "maybe", float("nan"), float("inf")])
def test_relevance_is_true_or_false_or_a_grade(value):
    with pytest.raises(ValueError, match=r"row 1 holds .* in 'relevant'; 1 or 0, true or false, or a grade"):
        Feedback.from_judgements(["q0", "q0"], [10, 20], [1, value], **IDS)


def test_words_for_true_and_false_are_understood():
    feedback = Feedback.from_judgements(["q0", "q0"], [10, 20], ["Yes", "false"], **IDS)
    assert feedback.relevant.tolist() == [True, False]


def test_numbers_written_as_text_find_their_ids():
    assert pairs(Feedback.from_triplets(["1"], ["2"], ["0"], query_ids=2, item_ids=3)) == [(1, 2, 0)]


@pytest.mark.parametrize("columns, message", [
    ({"query": [], "clicked": [], "skipped": []}, "there are no rows"),
    ({"query": ["q0"], "clicked": [10, 20], "skipped": [20]}, "equally long"),
    ({"query": ["q0"], "clicked": [10.5], "skipped": [20]}, "whole numbers or text"),
])  # fmt: skip
def test_columns_that_do_not_make_a_table_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        Feedback.from_triplets(**columns, **IDS)


def test_an_id_of_the_vectors_may_stand_once():
    with pytest.raises(ValueError, match="items: row 2 repeats the id 10"):
        Feedback.from_triplets(["q0"], [10], [20], query_ids=["q0"], item_ids=[10, 20, 10])


def test_too_few_queries_cannot_be_divided(rng):
    feedback = Feedback.from_triplets(["q0"], [10], [20], **IDS)
    with pytest.raises(ValueError, match="of 1 queries with feedback"):
        feedback.split(0.2, rng)
