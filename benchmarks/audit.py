"""The label audit beside cleanlab: ``python -m benchmarks.audit [options of nearkin bench-audit]``.

The same as ``nearkin bench-audit --out benchmarks/results``.
"""

from __future__ import annotations

import sys

from nearkin.cli import main

from .settings import HERE

if __name__ == "__main__":
    main(["bench-audit", "--out", str(HERE / "results"), *sys.argv[1:]])
