"""The index: exact and by faiss, plain and learned, with rows that come and go."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin
from nearkin.search import Index, SimilarityAdapter
from search_worlds import clicks, turned


def literal(items, query, measure):
    """All items, best first, one score at a time."""
    if measure == "distance":
        scores = [-float(np.linalg.norm(query - one)) for one in items]
    elif measure == "cosine":
        scores = [float(query @ one / np.linalg.norm(query) / np.linalg.norm(one)) for one in items]
    else:
        scores = [float(query @ one) for one in items]
    order = sorted(range(len(items)), key=lambda i: -scores[i])
    values = [abs(scores[i]) if measure == "distance" else scores[i] for i in order]
    return order, values


@pytest.mark.parametrize("measure", ["similarity", "distance", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_search_is_the_sorted_list(rng, measure, dtype):
    items = rng.normal(size=(80, 6)).astype(dtype) + dtype(3)
    queries = rng.normal(size=(9, 6)).astype(dtype) + dtype(3)
    values, ids = Index(measure=measure).fit(items).query(queries, k=12)
    assert values.dtype == dtype
    for row, query in enumerate(queries):
        order, expected = literal(items.astype(float), query.astype(float), measure)
        assert ids[row].tolist() == order[:12]
        np.testing.assert_allclose(values[row], expected[:12], rtol=1e-4 if dtype == np.float32 else 1e-10)


def test_blocks_do_not_change_what_is_found(rng, monkeypatch):
    items, queries = rng.normal(size=(70, 4)), rng.normal(size=(5, 4))
    index = Index(measure="distance").fit(items)
    at_once = index.query(queries, 7)
    monkeypatch.setattr("nearkin.neighbors.search._ITEMS", 9)
    monkeypatch.setattr("nearkin.neighbors.search._TABLE", 20)
    in_pieces = index.query(queries, 7)
    np.testing.assert_array_equal(at_once[1], in_pieces[1])


LEARNERS = {
    "asymmetric": lambda X, y: nearkin.RobustOASIS(random_state=0).fit(X, y),
    "symmetric": lambda X, y: nearkin.RobustLOSL(n_components=3, random_state=0).fit(X, y),
    "distance": lambda X, y: nearkin.RobustLODML(n_components=3, random_state=0).fit(X, y),
    "metric": lambda X, y: nearkin.RobustODML(random_state=0).fit(X, y),
}


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_index_of_a_learner_ranks_by_its_score(blobs, kind):
    X, y = blobs(n=90, d=6)
    learner = LEARNERS[kind](X, y)
    values, ids = Index(learner).fit(X[20:], ids=np.arange(20, 90)).query(X[:5], k=6)
    for row in range(5):
        scores = learner.pair_score(np.repeat(X[row : row + 1], 70, axis=0), X[20:])
        best = np.sort(scores)[::-1][:6]
        np.testing.assert_allclose(scores[ids[row] - 20], best, rtol=1e-6)
        np.testing.assert_allclose(values[row], -best if learner.measure.is_distance else best, rtol=1e-6)


def test_an_index_of_an_adapter_holds_the_items_as_they_are(rng):
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 4000, 0.0)
    adapter = SimilarityAdapter().fit(queries[query], items[clicked], items[skipped])
    _, ids = Index(adapter).fit(items).query(queries, 5)
    _, same = Index().fit(items).query(adapter.map_queries(queries), 5)
    np.testing.assert_array_equal(ids, same)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "doubt"]), st.integers(0, 10**6)), max_size=12))
def test_rows_that_come_and_go_leave_what_a_new_index_would_hold(steps):
    rng = np.random.default_rng(0)
    index, held, count = Index(measure="distance").fit(rng.normal(size=(4, 3))), {}, 4
    held = dict(zip(range(4), index._rows[:, :-1] + index._centre, strict=True))
    doubted = set()
    for what, number in steps:
        at = sorted(held)[number % len(held)]
        if what == "add":
            row = rng.normal(size=(1, 3))
            index.add(row, ids=[count])
            held[count] = row[0]
            count += 1
        elif what == "remove" and len(held) > 1:
            index.remove([at])
            del held[at]
        elif what == "doubt":
            index.set_plausibility([at], [0.1])
            doubted.add(at)
    query = rng.normal(size=(1, 3))
    keys = sorted(held)
    assert len(index) == len(keys)
    fresh = Index(measure="distance").fit(np.array([held[i] for i in keys]), ids=keys)
    np.testing.assert_array_equal(index.query(query, len(keys))[1], fresh.query(query, len(keys))[1])
    trusted = [i for i in keys if i not in doubted]
    if trusted:
        assert set(index.query(query, len(trusted), min_plausibility=0.5)[1][0].tolist()) == set(trusted)


def test_ids_are_numbers_or_text_and_go_on(rng):
    index = Index().fit(rng.normal(size=(3, 2)))
    assert index.add(rng.normal(size=(2, 2))).ids_.tolist() == [0, 1, 2, 3, 4]
    named = Index().fit([[1.0], [2.0]], ids=["a", "b"])
    assert named.query([[1.0]], 2)[1].tolist() == [["b", "a"]]
    assert named.add([[3.0]], ids=["a much longer name"]).query([[1.0]], 1)[1].tolist() == [["a much longer name"]]


def test_removed_space_is_given_back(rng):
    index = Index().fit(rng.normal(size=(100, 4)))
    index.remove(np.arange(20))
    assert len(index._rows) == 100
    index.remove(np.arange(20, 30))
    assert len(index._rows) == len(index) == 70
    assert index.query(np.ones((1, 4)), 70)[1].min() == 30


@pytest.mark.parametrize("engine", ["exact", "faiss"])
@pytest.mark.parametrize("measure", ["similarity", "distance"])
def test_a_loaded_index_answers_the_same(rng, tmp_path, engine, measure):
    if engine == "faiss":
        pytest.importorskip("faiss", reason="needs faiss; pip install 'nearkin[faiss]'")
    items = structured(rng, 2000)
    index = Index(measure=measure, engine=engine).fit(items, ids=[f"i{n}" for n in range(2000)])
    assert index.engine_ == engine
    index.remove(["i3"]).set_plausibility(["i5"], [0.2])
    nearkin.save(index, tmp_path / "index.nearkin")
    loaded = nearkin.load(tmp_path / "index.nearkin")
    for one, other in zip(index.query(items[:20], 5), loaded.query(items[:20], 5), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "i5" not in loaded.query(items[5:6], 5, min_plausibility=0.5)[1]
    assert "i3" not in loaded.query(items[3:4], 5)[1]
    loaded.add(items[3:4], ids=["i3"])
    assert len(loaded) == 2000


def structured(rng, n, d=8):
    """Clusters, as embeddings have them."""
    centers = 4 * rng.normal(size=(25, d))
    return (centers[rng.integers(0, 25, n)] + rng.normal(size=(n, d))).astype(np.float32)


class TestFaiss:
    @pytest.fixture(autouse=True)
    def faiss(self):
        pytest.importorskip("faiss", reason="needs faiss; pip install 'nearkin[faiss]'")

    @pytest.mark.parametrize("measure", ["similarity", "distance", "cosine"])
    def test_recall_is_what_was_measured(self, rng, measure):
        items, queries = structured(rng, 4000), structured(rng, 200)
        index = Index(measure=measure, engine="faiss", min_recall=0.9).fit(items, queries=queries)
        assert index.engine_ == "faiss" and index.recall_ >= 0.9
        exact = Index(measure=measure, engine="exact").fit(items)
        (values, found), (truth, true) = index.query(queries, 11), exact.query(queries, 11)
        recall = np.mean([len(set(a) & set(b)) / 11 for a, b in zip(found, true, strict=True)])
        assert recall == pytest.approx(index.recall_, abs=0.02)
        same = found == true
        np.testing.assert_allclose(values[same], truth[same], rtol=1e-3, atol=1e-3)

    def test_it_falls_back_to_exact_search_where_cells_do_not_help(self, rng):
        items = rng.normal(size=(1500, 64)).astype(np.float32)
        with pytest.warns(UserWarning, match="search is exact instead"):
            index = Index(measure="distance", engine="faiss", min_recall=0.999).fit(items)
        assert index.engine_ == "exact" and index.recall_ == 1.0
        assert index.query(items[:3], 1)[1].ravel().tolist() == [0, 1, 2]

    @pytest.mark.parametrize("threshold", [0.3, 0.99])
    def test_filtered_rows_are_passed_over(self, rng, threshold):
        items = structured(rng, 4000)
        plausibility = rng.random(4000)
        index = Index(measure="distance", engine="faiss").fit(items, plausibility=plausibility)
        _, found = index.query(items[:50], 5, min_plausibility=threshold)
        assert plausibility[found].min() >= threshold
        exact = Index(measure="distance", engine="exact").fit(items, plausibility=plausibility)
        _, true = exact.query(items[:50], 5, min_plausibility=threshold)
        assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found, true, strict=True)]) > 0.9

    def test_rows_come_and_go(self, rng):
        items = structured(rng, 3000)
        index = Index(measure="distance", engine="faiss").fit(items)
        index.remove(np.arange(0, 3000, 2)).add(items[:10], ids=np.arange(5000, 5010))
        _, found = index.query(items[:10], 1)
        assert set(found.ravel().tolist()) <= {*range(5000, 5010), *range(1, 3000, 2)}
        assert found[0, 0] == 5000 and len(index) == 1510


@pytest.mark.parametrize("call, message", [
    (lambda i: i.query([[1.0, 2.0]]), "queries: vectors have 2 features, but 3 are expected"),
    (lambda i: i.query([[1.0, 2.0, 3.0]], 6), "6 results are wanted, but 5 of 5 items"),
    (lambda i: i.query([[1.0, 2.0, 3.0]], 0), "`k` must be a whole number in"),
    (lambda i: i.query([[1.0, np.nan, 3.0]]), "queries: row 0 holds nan in column 1"),
    (lambda i: i.add([[1.0, 2.0]]), "items: vectors have 2 features"),
    (lambda i: i.add([[1.0, 2.0, 3.0]], ids=[4]), "row 0 has the id 4, which is taken"),
    (lambda i: i.add([[1.0, 2.0, 3.0]], ids=["x"]), "ids must be of one kind"),
    (lambda i: i.add([[1.0, 2.0, 3.0]] * 2, ids=[7, 7]), "row 1 repeats the id 7"),
    (lambda i: i.add([[1.0, 2.0, 3.0]], plausibility=[2.0]), r"plausibility must be in \[0, 1\]; row 0 holds 2"),
    (lambda i: i.remove([2, 99]), r"no item has the id 99 \(row 1"),
    (lambda i: i.remove([0, 1, 2, 3, 4]), "all items would be gone"),
    (lambda i: i.set_plausibility([99], [0.5]), "no item has the id 99"),
])  # fmt: skip
def test_what_cannot_be_done_is_said_and_changes_nothing(rng, call, message):
    index = Index().fit(rng.normal(size=(5, 3)))
    before = index.query(np.ones((1, 3)), 5)
    with pytest.raises(ValueError, match=message):
        call(index)
    after = index.query(np.ones((1, 3)), 5)
    np.testing.assert_array_equal(before[1], after[1])
    assert len(index) == 5


@pytest.mark.parametrize("make, message", [
    (lambda: Index(measure="l1").fit([[1.0]]), "parameter `measure` must be"),
    (lambda: Index().fit(np.empty((0, 3))), "at least one item is needed"),
    (lambda: Index(measure="cosine").fit([[1.0], [0.0]]), "row 1 of items is a zero vector"),
    (lambda: Index(nearkin.RobustOKS()).fit([[1.0]]), "RobustOKS has no map"),
    (lambda: Index(SimilarityAdapter(), measure="cosine").fit([[1.0]]), "not fitted|its own measure"),
    (lambda: Index().fit([[1.0], [2.0]], ids=[1]), "got 1 ids for 2 items"),
])  # fmt: skip
def test_what_cannot_be_built_is_said(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_without_faiss_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'nearkin\[faiss\]', or engine='exact'"):
        Index(engine="faiss").fit([[1.0]])
    assert Index(engine="auto").fit([[1.0]]).engine_ == "exact"
