"""Versions of a map: going back, threads that see whole versions, and files that hold them to the bit."""

import math
import subprocess
import sys
import threading

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.cli import main
from nearkin.search import Feedback, Interval, SimilarityAdapter, adapt
from search_worlds import as_feedback, clicks, turned


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    queries, items, relevant = turned(rng)
    query, clicked, skipped, _ = clicks(rng, relevant, 4000, 0.1)
    return queries, items, as_feedback(relevant, query, clicked, skipped), (query, clicked, skipped)


def batches(world, size=500):
    queries, items, _, (query, clicked, skipped) = world
    for begin in range(0, len(query), size):
        part = slice(begin, begin + size)
        yield queries[query[part]], items[clicked[part]], items[skipped[part]]


def kept(world, n=3):
    """Make an adapter with some versions that differ."""
    adapter, maps = SimilarityAdapter(strength=0.3), []
    for number, batch in enumerate(batches(world)):
        adapter.partial_fit(*batch)
        if number and len(maps) < n:
            maps.append(adapter.set_strength(0.3).keep_version().query_map_)
    return adapter, maps


def test_a_check_makes_a_version_and_one_call_goes_back(world):
    queries, items, feedback, _ = world
    adapter = adapt(queries, items, feedback, random_state=0).adapter
    first = adapter.map_queries(queries)
    later = feedback.select(np.arange(len(feedback)) >= len(feedback) // 2)
    adapt(queries, items, later, adapter=adapter, random_state=1)
    second = adapter.map_queries(queries)
    assert [one.number for one in adapter.versions_] == [0, 1, 2] and adapter.version_ == 2
    assert [one.n_looks for one in adapter.versions_] == [0, 1, 2]
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(adapter.rollback().map_queries(queries), first)
    assert adapter.gain_ == adapter.versions_[1].gain and adapter.strength_ == adapter.versions_[1].strength
    np.testing.assert_array_equal(adapter.rollback().map_queries(queries), queries)
    np.testing.assert_array_equal(adapter.rollback(2).map_queries(queries), second)


def test_learning_goes_on_but_serves_the_version_until_resumed(world):
    queries = world[0]
    adapter, maps = kept(world)
    adapter.rollback(1).partial_fit(*next(batches(world)))
    np.testing.assert_array_equal(adapter.query_map_, maps[0])
    assert adapter.version_ == 1
    assert adapter.resume().version_ is None and not np.array_equal(adapter.query_map_, maps[0])
    adapter.rollback(0).partial_fit(*next(batches(world)))
    np.testing.assert_array_equal(adapter.map_queries(queries), queries)


def test_five_versions_and_the_identity_are_kept(world):
    adapter, _ = kept(world, 7)
    assert [one.number for one in adapter.versions_] == [0, 3, 4, 5, 6, 7]
    for wrong in (2, 8, True, "1"):
        with pytest.raises(ValueError, match="kept are 0, 3, 4, 5, 6, 7"):
            adapter.rollback(wrong)
    fresh = SimilarityAdapter().fit(*next(batches(world)))
    assert fresh.rollback().version_ == 0
    with pytest.raises(ValueError, match="only the identity"):
        fresh.rollback(1)


def test_an_adaptation_that_fails_leaves_the_adapter_as_it_was(world, monkeypatch):
    queries, items, feedback, _ = world
    adapter = adapt(queries, items, feedback, random_state=0).adapter
    before = dict(vars(adapter))
    monkeypatch.setattr("nearkin.search.adapting.anytime_interval", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        adapt(queries, items, feedback, adapter=adapter, random_state=1)
    assert all(vars(adapter)[name] is value for name, value in before.items())


def test_threads_see_whole_versions_while_another_learns_and_goes_back(world):
    """Matrix and constant of one answer belong together, and every answer is that of some version."""
    queries = world[0]
    adapter, maps = kept(world)
    allowed = {adapter.rollback(number).map_queries(queries[:3]).tobytes() for number in range(4)}
    single = {adapter.rollback(number).map_queries(queries[:1]).tobytes() for number in range(4)}
    seen, is_over = [], threading.Event()

    def ask():
        while not is_over.is_set():
            version = nearkin.snapshot(adapter)
            whole = np.array_equal(
                version.query_map_, np.eye(24) if version.version_ == 0 else maps[version.version_ - 1]
            )
            seen.append((adapter.map_queries(queries[:3]).tobytes(), adapter.map_queries(queries[:1]).tobytes(), whole))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for one in threads:
            one.start()
        batch = next(batches(world, 50))
        for step in range(60):
            adapter.rollback(step % 4)
            if step % 5 == 0:
                adapter.partial_fit(*batch)
    finally:
        is_over.set()
        for one in threads:
            one.join()
        sys.setswitchinterval(interval)
    assert len(seen) > 20
    assert all(many in allowed and one in single and whole for many, one, whole in seen)


def test_one_query_is_mapped_as_many_are_and_checked_as_they_are(world):
    queries = world[0]
    adapter, _ = kept(world)
    for number in (0, 2):
        many = adapter.rollback(number).map_queries(queries)
        for at in (0, 7):
            one = adapter.map_queries(queries[at : at + 1])
            np.testing.assert_allclose(one, many[at : at + 1], atol=1e-6)
            assert one.dtype == np.float32 and not np.shares_memory(one, queries)
        for bad in (np.nan, np.inf):
            spoiled = queries[:1].copy()
            spoiled[0, 3] = bad
            with pytest.raises(ValueError, match="queries: row 0 holds"):
                adapter.map_queries(spoiled)
        long = np.full((1, 24), 1e30, np.float32)
        assert np.isfinite(adapter.map_queries(long)).all()  # only its square overflows
    assert math.isclose(
        adapter.map_queries(queries[:1].astype(float))[0, 0], adapter.map_queries(queries)[0, 0], abs_tol=1e-6
    )


def test_another_process_has_the_same_bits_and_writes_the_same_file(world, tmp_path):
    queries = world[0]
    adapter, _ = kept(world)
    nearkin.save(adapter.rollback(2), tmp_path / "a.nearkin")
    np.save(tmp_path / "q.npy", queries)
    program = """import nearkin, numpy as np
adapter = nearkin.load("a.nearkin")
nearkin.save(adapter, "again.nearkin")
queries = np.load("q.npy")
mapped = [adapter.rollback(one.number).map_queries(queries) for one in adapter.versions_]
np.save("m.npy", [*mapped, adapter.rollback(2).map_queries(queries)])"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    mapped = [adapter.rollback(one.number).map_queries(queries) for one in adapter.versions_]
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), [*mapped, adapter.rollback(2).map_queries(queries)])
    assert (tmp_path / "again.nearkin").read_bytes() == (tmp_path / "a.nearkin").read_bytes()


def test_the_command_goes_back_and_info_lists_the_versions(world, tmp_path):
    path = str(tmp_path / "a.nearkin")
    nearkin.save(kept(world)[0], path)
    run = lambda *line: CliRunner().invoke(main, line)  # noqa: E731
    told = run("info", path).output
    assert "follows the stream" in told and "version 3: strength 0.3, gain" in told
    done = run("rollback", path, "--to", "2")
    assert done.exit_code == 0 and "version 2: strength 0.3" in done.output
    assert run("rollback", path, "-q").output == "" and nearkin.load(path).version_ == 1
    assert "until" in run("rollback", path).output and "version 0: identity, served" in run("info", path).output
    again = run("rollback", path)
    assert again.exit_code == 2 and "nothing to go back to" in again.output and "--to 3" in again.output
    assert "nearkin adapt" in run("rollback", str(tmp_path / "nothere.nearkin")).output
    before = (tmp_path / "a.nearkin").read_bytes()
    wrong = run("rollback", path, "--to", "9")
    assert wrong.exit_code == 2 and "kept are 0, 1, 2, 3" in wrong.output
    assert (tmp_path / "a.nearkin").read_bytes() == before


@pytest.mark.parametrize("is_good", [True, False])
def test_a_map_that_was_shown_stays_until_it_no_longer_gains(world, monkeypatch, is_good):
    """That a new map shows nothing is no reason to give the old one up."""
    queries, items, feedback, (query, clicked, skipped) = world
    adapter = adapt(queries, items, feedback, random_state=0).adapter
    good = adapter.map_queries(queries)
    if not is_good:
        query, clicked, skipped = np.tile([query, skipped, clicked], 3)
    later = Feedback.from_triplets(query, clicked, skipped, query_ids=len(queries), item_ids=len(items))
    monkeypatch.setattr("nearkin.search.adapting.anytime_interval", lambda *_: Interval(0.0, -0.1, 0.1))
    done = adapt(queries, items, later, adapter=adapter, metric="lift", random_state=1)
    assert done.served_before == 1 and done.n_looks == 2 and done.still_served is is_good is not done.kept_identity
    if is_good:
        assert adapter.version_ == 1 and "version 1, which gained before, is still used" in done.verdict
    else:
        assert "A rollback to 1 brings that version back" in done.verdict
        adapter.rollback(1)
    np.testing.assert_array_equal(adapter.map_queries(queries), good)


def test_a_log_that_was_given_before_is_noticed(world):
    queries, items, feedback, _ = world
    done = adapt(queries, items, feedback, random_state=0)
    assert " in lift@10, check 1, " in str(done.adapter.versions_[1])
    assert [row[0] for row in done.table()][:3] == ["lift@10", "alike@10", "recall@10"]
    assert not done.repeats and adapt(queries, items, feedback, adapter=done.adapter, random_state=0).repeats
