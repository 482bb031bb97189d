"""What is installed here, for bug reports."""

from __future__ import annotations

import os
import platform
from importlib import metadata

from nearkin._version import __version__
from nearkin.cli import _show

__all__ = ["describe_installation"]

_NEEDED = ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "click", "tqdm", "jinja2")
_OPTIONAL = (
    "pandas", "polars", "pyarrow", "openpyxl", "pillow", "matplotlib", "torch", "triton", "safetensors",
    "distributed", "faiss-cpu", "onnx", "onnxruntime", "hnswlib", "usearch", "qdrant-client", "lancedb", "cleanlab",
    "river",
)  # fmt: skip


def describe_installation() -> str:
    """Return the versions of nearkin, of Python and of what it uses, the machine and its BLAS; no paths or names."""
    import numpy  # noqa: F401  so that its BLAS is loaded
    from threadpoolctl import threadpool_info

    pools = {
        f"{one['internal_api']} {one['version'] or ''} with {one['num_threads']}".strip() for one in threadpool_info()
    }
    optional = [f"{name} {found}" for name in _OPTIONAL if (found := _version(name))]
    facts = [
        ("nearkin", __version__),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("machine", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        *((name, _version(name) or "missing") for name in _NEEDED),
        ("threads", ", ".join(sorted(pools))),
        ("optional", ", ".join(optional) or "none"),
    ]
    return _show.pairs(facts)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
