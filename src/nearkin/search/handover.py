"""Learned maps in forms that other programs run: a plain numpy file, ONNX, a faiss transform."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from nearkin._version import __version__
from nearkin.arrays import Array
from nearkin.errors import InputError
from nearkin.files import replacing
from nearkin.search.adapter import SimilarityAdapter
from nearkin.search.engines import require_faiss
from nearkin.search.inputs import as_vectors
from nearkin.settings import OneOf, check_argument
from nearkin.tables import write_arrays

__all__ = ["SideMap", "faiss_transform", "require_onnx", "side_map", "write_numpy", "write_onnx"]

#: Version of the operators in ONNX files, and of the format that belongs to it; old, so that old runtimes read them.
_OPSET, _FORMAT = 13, 8


@dataclass(frozen=True)
class SideMap:
    """One side of a learned measure as arrays: ``unit(((x - shift) * factor) @ start.T) @ matrix.T + offset``.

    Parameters
    ----------
    shift, factor : ndarray of shape (n_features,)
        Applied to the raw vector first.
    unit : bool
        Whether it is divided by its length before the matrix (a zero vector stays zero).
    matrix : ndarray of shape (n_components, n_features), with a start of shape (n_components, n_start)
        The map.
    offset : ndarray of shape (n_components,)
        Added at the end.
    start : ndarray of shape (n_start, n_features) or None, default=None
        Applied before the division, by similarities that begin with a discriminant start.

    Examples
    --------
    >>> half = SideMap(np.zeros(2), np.ones(2), False, np.array([[0.5, 0.5]]), np.zeros(1))
    >>> half.apply([[1.0, 3.0]]).tolist()
    [[2.0]]
    """

    shift: Array
    factor: Array
    unit: bool
    matrix: Array
    offset: Array
    start: Array | None = None

    def apply(self, X: ArrayLike) -> Array:
        """Map vectors."""
        x = (as_vectors(X, "vectors", len(self.shift), self.matrix.dtype) - self.shift) * self.factor
        if self.start is not None:
            x = x @ self.start.T
        if self.unit:
            length = np.sqrt(np.square(x).sum(axis=1, keepdims=True))
            x = x / np.where(length > 0, length, 1)
        return x @ self.matrix.T + self.offset

    def affine(self) -> tuple[Array, Array]:
        """Return matrix A and offset b of ``A x + b``; only for maps that do not divide by a length."""
        if self.unit:
            raise InputError(
                "this learner divides every row by its length, which no linear map can do. Learn with scale=None on "
                "unit vectors, or map queries before they are sent."
            )
        A = (self.matrix if self.start is None else self.matrix @ self.start) * self.factor
        return A, self.offset - A @ self.shift


def side_map(model: Any, side: str = "query") -> SideMap:
    """Return the map of the queries or the items of a fitted model.

    Parameters
    ----------
    model : SimilarityAdapter or fitted learner
        With `query_map_` and `item_map_`.
    side : {"query", "item"}, default="query"
        Which of the two. Learners of distances map both alike.

    Returns
    -------
    SideMap
        So that ``side_map(model).apply(Q)`` equals ``model.map_queries(Q)``.

    Examples
    --------
    >>> from nearkin import RobustLODML
    >>> X = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 1.0], [1.1, 1.0]])
    >>> model = RobustLODML(random_state=0).fit(X, [0, 0, 1, 1])
    >>> bool(np.allclose(side_map(model).apply(X), model.transform(X)))
    True
    """
    check_argument("side_map", "side", side, OneOf(("query", "item")))
    check_is_fitted(model)
    if not hasattr(model, "query_map_"):
        raise InputError(f"{type(model).__name__} has no map of queries and items.", owner="side_map")
    d = model.n_features_in_
    if isinstance(model, SimilarityAdapter):
        zero, one = np.zeros(d, model.query_mean_.dtype), np.ones(d, model.query_mean_.dtype)
        if side == "item":
            return SideMap(zero, one, False, np.eye(d, dtype=zero.dtype), zero)
        return SideMap(zero, one, False, model.query_map_, model.query_offset_)
    matrix = model.query_map_ if side == "query" else model.item_map_
    scaling, dtype = model.scaling_, matrix.dtype
    shift = np.zeros(d, dtype) if scaling.shift is None else scaling.shift
    factor = np.ones(d, dtype) if scaling.factor is None else scaling.factor
    offset, start = np.zeros(len(matrix), dtype), model.state_.start
    if start is None or start.length == 0.0:  # which `matrix` contains
        return SideMap(shift, factor, scaling.unit_rows, matrix, offset)
    return SideMap(shift, factor, True, matrix * dtype.type(start.length), offset, start.map)


def write_numpy(model: Any, path: str | os.PathLike[str], side: str = "query") -> None:
    """Write a map as a plain npz file, which numpy alone can apply.

    Without nearkin it is applied so::

        f = np.load("map.npz")
        x = (q - f["shift"]) * f["factor"]
        if "start" in f:
            x = x @ f["start"].T
        if f["unit"]:
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        mapped = x @ f["matrix"].T + f["offset"]

    Parameters
    ----------
    model : SimilarityAdapter or fitted learner
        What to write.
    path : path-like
        File; replaced only when the new one is complete.
    side : {"query", "item"}, default="query"
        Which of the two sides.

    Examples
    --------
    >>> import tempfile, pathlib, nearkin
    >>> model = nearkin.LODML().fit([[0.0], [0.1], [1.0]], [0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_numpy(model, pathlib.Path(folder) / "map.npz")
    ...     sorted(np.load(pathlib.Path(folder) / "map.npz").files)
    ['factor', 'matrix', 'offset', 'shift', 'unit']
    """
    write_arrays(path, _arrays(side_map(model, side)), "map")


def _arrays(found: SideMap) -> dict[str, Any]:
    """The parts of a map by name, those that it has."""
    return {name: value for name, value in vars(found).items() if value is not None}


def require_onnx() -> Any:
    """Return the module onnx, or raise an error that says how to get it."""
    try:
        import onnx
    except ImportError:
        raise ImportError("onnx is not installed; use pip install 'nearkin[onnx]'.") from None
    return onnx


def write_onnx(model: Any, path: str | os.PathLike[str], side: str = "query") -> None:
    """Write a map as an ONNX model, which onnxruntime and many servers run.

    Input ``x`` of shape (n, n_features), output ``mapped`` of shape (n, n_components), both float32, as encoders and
    indexes have them; a model of float64 computes in float64 in between.

    Parameters
    ----------
    model, path, side
        As in `write_numpy`.

    Examples
    --------
    >>> import tempfile
    >>> import nearkin
    >>> model = nearkin.LODML().fit([[0.0], [0.1], [1.0]], [0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_onnx(model, f"{folder}/map.onnx")
    """
    onnx = require_onnx()
    from onnx import helper, numpy_helper

    found = side_map(model, side)
    single, kind = (helper.np_dtype_to_tensor_dtype(np.dtype(one)) for one in (np.float32, found.matrix.dtype))
    arrays = _arrays(found)
    del arrays["unit"]
    steps: list[tuple[str, list[str], str, dict[str, Any]]]
    steps = [
        ("Cast", ["x"], "wide", {"to": kind}),
        ("Sub", ["wide", "shift"], "moved", {}),
        ("Mul", ["moved", "factor"], "scaled", {}),
    ]
    if found.start is not None:
        steps.append(("Gemm", ["scaled", "start"], "begun", {"transB": 1}))
    if found.unit:
        last = steps[-1][2]
        arrays["tiny"] = np.array(np.finfo(found.matrix.dtype).tiny, found.matrix.dtype)
        steps += [
            ("ReduceL2", [last], "length", {"axes": [1], "keepdims": 1}),
            ("Max", ["length", "tiny"], "divisor", {}),
            ("Div", [last, "divisor"], "unit", {}),
        ]
    steps += [
        ("Gemm", [steps[-1][2], "matrix", "offset"], "found", {"transB": 1}),
        ("Cast", ["found"], "mapped", {"to": single}),
    ]
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, [output], **options) for operator, inputs, output, options in steps],
        f"nearkin_{side}_map",
        [helper.make_tensor_value_info("x", single, ["n", len(found.shift)])],
        [helper.make_tensor_value_info("mapped", single, ["n", len(found.matrix)])],
        [numpy_helper.from_array(np.ascontiguousarray(values), name) for name, values in arrays.items()],
    )
    made = helper.make_model(
        graph, producer_name="nearkin", producer_version=__version__, opset_imports=[helper.make_opsetid("", _OPSET)]
    )
    made.ir_version = min(made.ir_version, _FORMAT)
    onnx.checker.check_model(made)
    with replacing(path, "onnx") as file:
        file.write(made.SerializeToString())


def faiss_transform(model: Any, side: str = "query") -> Any:
    """Return a map as a `faiss.LinearTransform`, for `faiss.IndexPreTransform`.

    Parameters
    ----------
    model : SimilarityAdapter or fitted learner
        Its map must be linear; a learner with ``scale="unit"``, the default of similarities, is refused.
    side : {"query", "item"}, default="query"
        Which of the two sides.

    Returns
    -------
    faiss.LinearTransform
        ``IndexPreTransform(transform, index)`` maps whatever passes through it. In front of an index that holds raw
        items, wrap the filled index and send only queries through it.

    Examples
    --------
    >>> from nearkin import RobustOASIS
    >>> unit = RobustOASIS(random_state=0).fit([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0]], [0, 0, 1])
    >>> try:
    ...     faiss_transform(unit)
    ... except ValueError as error:
    ...     str(error)[:44]
    'this learner divides every row by its length'
    """
    A, b = (np.ascontiguousarray(one, dtype=np.float32) for one in side_map(model, side).affine())
    faiss = require_faiss()
    made = faiss.LinearTransform(A.shape[1], A.shape[0], True)
    faiss.copy_array_to_vector(A.ravel(), made.A)
    faiss.copy_array_to_vector(b, made.b)
    made.is_trained = True
    return made
