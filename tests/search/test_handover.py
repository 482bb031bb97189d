"""Maps in other programs' forms give what the model gives."""

import numpy as np
import pytest
from click.testing import CliRunner

import nearkin
from nearkin.cli import main
from nearkin.search import Interval, SimilarityAdapter, faiss_transform, side_map, write_numpy, write_onnx
from search_worlds import clicks, turned


def adapter_of(rng, dtype=np.float32):
    queries, items, relevant = turned(rng, common=1.0)
    query, clicked, skipped, _ = clicks(rng, relevant, 3000, 0.1)
    queries, items = queries.astype(dtype), items.astype(dtype)
    adapter = SimilarityAdapter().fit(queries[query], items[clicked], items[skipped])
    return adapter.set_strength(0.5, Interval(0.1, 0.1, 0.1)), queries


def learners_of(rng, dtype=np.float32):
    X = rng.normal(size=(120, 9)).astype(dtype)
    y = (X[:, 0] > 0).astype(int)
    for make in (
        nearkin.RobustOASIS,
        nearkin.RobustLOSL,
        lambda **k: nearkin.RobustOASIS(init="identity", **k),
        lambda **k: nearkin.RobustOASIS(scale=None, **k),
        lambda **k: nearkin.RobustLODML(4, **k),
    ):
        yield make(random_state=0).fit(X, y), X


def test_the_command_passes_on_ids_of_queries_by_itself(tmp_path):
    X = np.eye(3)
    nearkin.save(SimilarityAdapter().fit(X, X, X[::-1] + 1), tmp_path / "a.nearkin")
    (tmp_path / "q.csv").write_text("id,x,y,z\nred hat,1,0,0\nshoes,0,1,0\n")
    for name in ("m.csv", "m.npy"):
        done = CliRunner().invoke(
            main, ["transform", str(tmp_path / "a.nearkin"), str(tmp_path / "q.csv"), "-o", str(tmp_path / name)]
        )
        assert done.exit_code == 0, done.output
    assert (tmp_path / "m.csv").read_text().startswith("id,c0,c1,c2\nred hat,")
    assert np.load(tmp_path / "m.npy").shape == (2, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_sides_are_the_models(rng, dtype):
    cases = [adapter_of(rng, dtype), *learners_of(rng, dtype)]
    for model, X in cases:
        tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-12}
        np.testing.assert_allclose(side_map(model).apply(X), model.map_queries(X), **tolerance)
        np.testing.assert_allclose(side_map(model, "item").apply(X), model.map_items(X), **tolerance)


def test_a_numpy_file_needs_numpy_only(rng, tmp_path):
    for model, X in [adapter_of(rng), *learners_of(rng)]:
        write_numpy(model, tmp_path / "map.npz")
        with np.load(tmp_path / "map.npz", allow_pickle=False) as f:
            x = (X - f["shift"]) * f["factor"]
            if "start" in f:
                x = x @ f["start"].T
            if f["unit"]:
                x /= np.linalg.norm(x, axis=1, keepdims=True)
            mapped = x @ f["matrix"].T + f["offset"]
        np.testing.assert_allclose(mapped, model.map_queries(X), rtol=1e-4, atol=1e-5)
        assert [one.name for one in tmp_path.iterdir()] == ["map.npz"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of onnx itself
def test_onnxruntime_gives_the_same_to_a_millionth(rng, tmp_path, dtype):
    pytest.importorskip("onnx", reason="needs onnx; pip install 'nearkin[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime; pip install 'nearkin[onnx]'")
    for model, X in [adapter_of(rng, dtype), *learners_of(rng, dtype)]:
        for side, expected in (("query", model.map_queries(X)), ("item", model.map_items(X))):
            write_onnx(model, tmp_path / "map.onnx", side)
            session = runtime.InferenceSession(tmp_path / "map.onnx", providers=["CPUExecutionProvider"])
            for rows in (X, X[:1]):
                (mapped,) = session.run(["mapped"], {"x": rows.astype(np.float32)})
                largest = np.abs(expected).max()
                assert np.abs(mapped - expected[: len(rows)]).max() <= 1e-6 * max(1.0, largest)
                assert mapped.dtype == np.float32


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_zero_vector_stays_finite_in_onnx(rng, tmp_path):
    pytest.importorskip("onnx", reason="needs onnx; pip install 'nearkin[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime; pip install 'nearkin[onnx]'")
    model = nearkin.RobustOASIS(random_state=0).fit([[0.0, 0.0], [2.0, 1.0], [-2.0, -1.0]], [0, 1, 0])
    write_onnx(model, tmp_path / "map.onnx")
    session = runtime.InferenceSession(tmp_path / "map.onnx", providers=["CPUExecutionProvider"])
    centre = model.scaling_.shift[None, :].astype(np.float32)
    np.testing.assert_array_equal(session.run(["mapped"], {"x": centre})[0], model.map_queries(centre))


def test_faiss_applies_the_map_before_it_searches(rng):
    faiss = pytest.importorskip("faiss", reason="needs faiss; pip install 'nearkin[faiss]'")
    adapter, queries = adapter_of(rng)
    items = rng.normal(size=(200, queries.shape[1])).astype(np.float32)
    inner = faiss.IndexFlatIP(queries.shape[1])
    inner.add(items)
    asked = faiss.IndexPreTransform(faiss_transform(adapter), inner)
    scores, found = asked.search(queries, 5)
    expected, ids = nearkin.search.Index(adapter).fit(items).query(queries, 5)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    assert (found == ids).mean() > 0.99


def test_what_has_no_linear_map_is_refused():
    X, y = [[0.0, 1.0], [1.0, 0.0], [0.5, 2.0]], [0, 1, 1]
    with pytest.raises(ValueError, match="divides every row by its length"):
        side_map(nearkin.RobustOASIS(random_state=0).fit(X, y)).affine()
    with pytest.raises(ValueError, match="RobustOKS has no map"):
        side_map(nearkin.RobustOKS(random_state=0).fit(X, y))
    with pytest.raises(ValueError, match="must be one of 'query', 'item'"):
        side_map(nearkin.RobustLODML(random_state=0).fit(X, y), "document")


def test_a_file_that_cannot_be_written_leaves_the_old_one(rng, tmp_path):
    adapter, _ = adapter_of(rng)
    write_numpy(adapter, tmp_path / "map.npz")
    before = (tmp_path / "map.npz").read_bytes()
    with pytest.raises(ValueError, match="must be one of 'query', 'item'"):
        write_numpy(adapter, tmp_path / "map.npz", "both")
    assert (tmp_path / "map.npz").read_bytes() == before
    with pytest.raises(OSError):
        write_numpy(adapter, tmp_path / "nowhere" / "map.npz")


def test_without_onnx_one_line_says_how_to_get_it(rng, tmp_path, monkeypatch):
    adapter, _ = adapter_of(rng)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'nearkin\[onnx\]'"):
        write_onnx(adapter, tmp_path / "map.onnx")
