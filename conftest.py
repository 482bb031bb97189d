"""Modules that need an optional package are collected where it is installed; any other import error is a failure."""

from importlib.util import find_spec

NEEDS = {
    "src/nearkin/deep/*": "torch",
    "tests/networks.py": "torch",
    "src/nearkin/deep/metric_learning.py": "pytorch_metric_learning",
    "src/nearkin/river.py": "river",
    "src/nearkin/accelerator/device_cells.py": "torch",
    "src/nearkin/search/handover.py": "onnx",
    "src/nearkin/distributed/auditing.py": "distributed",
    "src/nearkin/distributed/cluster.py": "distributed",
    "src/nearkin/distributed/cluster_audit.py": "distributed",
    "src/nearkin/distributed/driver.py": "distributed",
    "src/nearkin/accelerator/device_votes.py": "torch",
    "src/nearkin/accelerator/triton_code.py": "triton",
}
collect_ignore_glob = [pattern for pattern, part in NEEDS.items() if find_spec(part) is None]
