"""An audit part after part, all in one process: that of memory, whatever the parts; and what is refused."""

import json
from contextlib import nullcontext

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="suspects are written as Parquet")
import nearkin
from nearkin import streams
from nearkin.distributed import audit_tasks, auditing
from nearkin.distributed.auditing import audit
from nearkin.distributed.counts import Cells, Survey, draw_keys
from nearkin.jury import JudgedRows, SuspectRules
from nearkin.noise import NoiseModel
from streams import tables


class OneProcess:
    """Calls tasks in an odd order."""

    def __init__(self, *_):
        self.rng = np.random.default_rng()

    def each(self, tasks, ahead):
        for number in self.rng.permutation(len(tasks)).tolist():
            one = tasks[number]
            yield number, one.function(*one.arguments, **one.options)


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(auditing, "connect", nullcontext)
    monkeypatch.setattr(auditing, "Cluster", OneProcess)
    audit_tasks._judges.clear()


@pytest.fixture
def small(monkeypatch):
    """Batches of 128 rows, and 600 references."""
    monkeypatch.setattr(auditing, "_MOST_ROWS", 128)
    monkeypatch.setattr(auditing, "_FEWEST_ROWS", 128)
    monkeypatch.setattr(auditing, "MOST_MEMBERS", 600)
    count = auditing.count_members
    monkeypatch.setattr(auditing, "count_members", lambda sizes: count(sizes, 600))


def read(folder):
    """All suspects, without the names of the files."""
    from pyarrow import parquet

    parts = [parquet.read_table(one) for one in sorted(folder.glob("suspects-*.parquet"))]
    return {
        name: [one for part in parts for one in part.column(name).to_pylist()]
        for name in parts[0].column_names
        if not name.startswith("file")
    }


def opened(folder, **more):
    return streams.open(folder, label="y", **more)


def test_few_rows_are_judged_as_in_memory(tmp_path):
    X, y = tables.rows()
    tables.write(tmp_path / "data", "parquet", X, y)
    ours = audit(opened(tmp_path / "data"), tmp_path / "out", client=None)
    theirs = nearkin.audit_labels(X, y, random_state=0)
    assert ours.n_references == len(y)
    assert (ours.n_suspects, ours.n_wrong) == (theirs.n_suspects, theirs.n_wrong)
    assert ours.noise_rate == pytest.approx(theirs.noise_rate)
    assert ours.noise_interval == pytest.approx(theirs.noise_interval)
    assert ours.pairs[0][2] == theirs.noise_pairs()[0][2]
    found = read(tmp_path / "out")
    rows = np.array(found["row"])
    assert rows.tolist() == np.flatnonzero(theirs.is_suspect).tolist()
    assert found["tier"] == theirs.tier[rows].tolist()
    assert found["suggested_label"] == theirs.suggested_label[rows].tolist()
    assert found["given_label"] == y[rows].tolist()
    for name in ("plausibility", "confidence", "score"):
        np.testing.assert_allclose(found[name], getattr(theirs, name)[rows], atol=1e-6)
    first = theirs.order[:50].tolist()
    assert ours.top["row"][:50] == first
    told = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert (told["n_suspects"], told["files"]) == (ours.n_suspects, ["suspects-00000.parquet"])
    assert [one.name for one in ours.paths] == told["files"]
    assert "references: 2,400 rows" in str(ours)
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["audit.json", "suspects-00000.parquet"]


def test_the_files_and_the_order_of_parts_change_no_bit(small, tmp_path):
    X, y = tables.rows()
    found = []
    for name, group, parts in (("few", 1000, 1), ("many", 77, 1), ("again", 500, 3)):
        tables.write(tmp_path / name, "parquet", X, y, group=group)
        if parts == 1:  # all in one file
            from pyarrow import parquet

            whole = tables.table(X, y)
            for one in (tmp_path / name).iterdir():
                one.unlink()
            parquet.write_table(whole, tmp_path / name / "0.parquet", row_group_size=group)
        ours = audit(opened(tmp_path / name, batch_rows=50 * parts), tmp_path / f"{name}.out", client=None)
        found.append(((ours.noise_rate, ours.noise_interval, ours.notes), read(tmp_path / f"{name}.out")))
        assert ours.n_references in range(590, 601)
        assert len(ours.paths) == 5
    assert found[0] == found[1] == found[2]
    other = audit(opened(tmp_path / "few"), tmp_path / "other", client=None, random_state=1)
    assert read(tmp_path / "other") != found[0][1]
    assert other.n_rows == len(y)


def test_references_judge_nearly_as_well_as_all_rows(small, tmp_path):
    X, y = tables.rows(n=4000, wrong=0.0)
    noisy, is_wrong = nearkin.flip_labels(y, 0.1, random_state=0)
    tables.write(tmp_path / "data", "parquet", X, noisy)
    audit(opened(tmp_path / "data"), tmp_path / "out", client=None)
    theirs = nearkin.audit_labels(X, noisy, random_state=0)
    found = read(tmp_path / "out")
    called = np.array(found["row"])[np.array(found["tier"]) == "wrong"]
    for ours, whole in (
        (is_wrong[called].mean(), is_wrong[theirs.is_wrong].mean()),
        (np.isin(np.flatnonzero(is_wrong), called).mean(), theirs.is_wrong[is_wrong].mean()),
    ):
        assert ours > whole - 0.08


def test_rows_that_lack_something_are_refused_dropped_or_filled(small, tmp_path):
    X, y = tables.rows()
    X[700, 2] = np.nan
    tables.write(tmp_path / "data", "parquet", X, y)
    with pytest.raises(ValueError, match=r"0.parquet, data row 701: .*missing='drop'"):
        audit(opened(tmp_path / "data"), tmp_path / "out", client=None)
    assert not (tmp_path / "out").exists()
    dropped = audit(opened(tmp_path / "data", missing="drop"), tmp_path / "out", client=None)
    assert (dropped.n_rows, dropped.n_dropped) == (2399, 1)
    assert 700 not in read(tmp_path / "out")["row"]
    filled = audit(opened(tmp_path / "data", missing="fill"), tmp_path / "filled", client=None)
    assert (filled.n_rows, filled.n_dropped) == (2400, 0)


def test_classes_may_be_texts_and_rare(small, tmp_path):
    from pyarrow import parquet

    X, y = tables.rows()
    names = np.array(["ant", "bee", "cat", "dog"])[y]
    names[np.arange(20) * 100] = "emu"
    (tmp_path / "data").mkdir()
    parquet.write_table(tables.table(X, names), tmp_path / "data" / "0.parquet", row_group_size=300)
    ours = audit(opened(tmp_path / "data"), tmp_path / "out", client=None, noise_rate=0.1)
    assert ours.classes.tolist() == ["ant", "bee", "cat", "dog", "emu"]
    assert ours.class_counts[-1] == 20
    assert not ours.rate_is_estimated
    assert ours.n_suspects == pytest.approx(240, abs=3)
    assert int(ours.class_suspects.sum()) == ours.n_suspects == len(read(tmp_path / "out")["row"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.rename_columns([*t.column_names[:-1], "label"]), "y"),
        (lambda t: t.drop_columns(["f3"]), "f3"),
        (lambda t: t.set_column(6, "y", [[None] * t.num_rows]), "y"),
        (lambda t: t.set_column(2, "f2", [["much"] * t.num_rows]), "f2"),
        (lambda t: t.set_column(6, "y", [["a"] * t.num_rows]), "y"),
    ],
)
def test_a_part_with_other_columns_is_named(change, message, small, tmp_path):
    from pyarrow import parquet

    tables.write(tmp_path / "data", "parquet", *tables.rows())
    path = tmp_path / "data" / "1.parquet"
    parquet.write_table(change(parquet.read_table(path)), path)
    with pytest.raises(ValueError, match=r"1\.parquet") as caught:
        audit(opened(tmp_path / "data"), tmp_path / "out", client=None)
    assert repr(message) in str(caught.value)


def test_what_cannot_be_audited_is_refused(tmp_path):
    X, y = tables.rows(200)
    for name, labels, message in (
        ("one", np.zeros(200, int), "one class"),
        ("each", np.arange(200), "is it a class at all"),
        ("several", np.array(["a", "b", "a|b", "b|a"])[y], "several labels in one"),
    ):
        tables.write(tmp_path / name, "parquet", X, labels)
        with pytest.raises(ValueError, match=message):
            audit(opened(tmp_path / name), tmp_path / f"{name}.out", client=None)
    tables.write(tmp_path / "equal", "parquet", np.ones_like(X), y)
    with pytest.raises(ValueError, match="all rows are equal"):
        audit(opened(tmp_path / "equal"), tmp_path / "equal.out", client=None)
    stream = opened(tmp_path / "one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(ValueError, match="full is not empty"):
        audit(stream, tmp_path / "full", client=None)
    with pytest.raises(ValueError, match=r"mine\.txt is a file"):
        audit(stream, tmp_path / "full" / "mine.txt", client=None)
    for wrong, message in ((1.0, "noise_rate"), ("much", "noise_rate")):
        with pytest.raises(ValueError, match=message):
            audit(stream, tmp_path / "new", client=None, noise_rate=wrong)
    for more in ({"random_state": -1}, {"random_state": None}, {"timeout": 0}):
        with pytest.raises(ValueError, match=next(iter(more))):
            audit(stream, tmp_path / "new", client=None, **more)
    with pytest.raises(TypeError, match="files that all workers can read"):
        audit(streams.open([(X, y)]), tmp_path / "new", client=None)
    assert not (tmp_path / "new").exists()


def test_a_jury_that_is_not_the_one_that_was_written_is_refused(tmp_path):
    (tmp_path / "jury").write_bytes(b"other")
    with pytest.raises(OSError, match="is not the jury of this audit"):
        audit_tasks.Judge.load(str(tmp_path / "jury"), "0")


def test_moments_of_parts_are_those_of_all(rng):
    X = (1e4 + rng.normal(size=(1000, 3))).astype(np.float32)
    X[:, 1] = 7.0
    whole = Survey()
    for part in np.split(np.arange(1000), [0, 10, 600]):
        whole.add(Survey.look(X[part], np.array(["a"]), np.array([len(part)]), 1))
    assert (whole.n_rows, whole.n_dropped, whole.counts) == (1000, 4, {"a": 1000})
    np.testing.assert_allclose(whole.mean, X.mean(axis=0, dtype=np.float64), rtol=1e-12)
    np.testing.assert_allclose(whole.squares, X.var(axis=0, dtype=np.float64) * 1000, rtol=1e-9, atol=1e-9)
    assert (whole.find_scaling(np.float32).factor > 0).tolist() == [True, False, True]


def test_keys_look_random_and_depend_on_the_seed():
    keys = draw_keys(0, np.arange(100_000))
    assert len(np.unique(keys)) == 100_000
    shares = np.bincount((keys >> np.uint64(60)).astype(int)) / 100_000
    assert abs(shares - 1 / 16).max() < 0.005
    assert (draw_keys(5, np.arange(100)) != draw_keys(0, np.arange(100))).all()


@pytest.mark.parametrize("given", [True, False])
def test_suspects_found_among_counts_are_those_found_among_labels(given, rng):
    n, k = 20_000, 4
    codes = rng.integers(0, k, n)
    is_wrong = rng.random(n) < 0.1
    plausibility = np.where(is_wrong, rng.beta(0.4, 3.0, n), rng.beta(8.0, 0.4, n)).clip(1e-12, 1.0 - 1e-12)
    score = np.where(rng.random(n) < 0.95, plausibility, 1.0 - plausibility)
    noise = NoiseModel(0.1, k, interval=(0.08, 0.12))
    theirs = SuspectRules().apply(plausibility, score, codes, noise, rate_is_given=given)
    cells = Cells(k)
    numbers = cells.number(plausibility, score < 0.5, codes)
    for part in np.array_split(rng.permutation(n), 7):
        cells.add(*np.unique(numbers[part], return_counts=True))
    ours = cells.find(noise, rate_is_given=given)[numbers]
    assert cells.outvoted == np.mean(score < 0.5)
    assert theirs.sum() > 500
    assert (ours != theirs).mean() < 0.001


def test_entries_that_stand_for_several_labels_are_those_labels(rng):
    values = rng.random(300)
    codes = rng.integers(0, 3, 300)
    counts = rng.integers(1, 9, 300)
    for given in (True, False):
        rules, noise = SuspectRules(spared=0), NoiseModel(0.2, 3, interval=(0.1, 0.3))
        few = rules.apply(values, values, codes, noise, rate_is_given=given, counts=counts)
        all_rows = [np.repeat(one, counts) for one in (values, values, codes)]
        many = rules.apply(*all_rows, noise, rate_is_given=given)
        assert abs(many.sum() - counts[few].sum()) <= 3 * counts.max()


def test_cells_of_thousands_of_classes_stay_small():
    assert len(Cells(3000).counts) < 1 << 23
    sure = Cells(2).number(np.array([1e-300, 0.5, 1.0]), np.array([True, False, False]), np.array([0, 0, 1]))
    assert sure.tolist() == [1 << 14, 1 << 13, 3 * (1 << 14) - 1]


def test_a_copy_of_a_reference_is_judged_without_its_label(rng):
    known = rng.normal(size=(40, 3)).astype(np.float32)
    rows = np.concatenate([rng.normal(size=(5, 3)).astype(np.float32), known[[7, 3]]])
    judged = JudgedRows.beside(known, rows)
    inside, members, outside, others = judged._split(slice(None))
    assert (inside.tolist(), members.tolist()) == ([5, 6], [7, 3])
    assert outside.tolist() == others.tolist() == [0, 1, 2, 3, 4]
