"""nearkin: learn what is near from a stream of examples, even when some of the labels lie.

Names are loaded when they are first used, so that ``import nearkin`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nearkin._version import __version__

if TYPE_CHECKING:
    from nearkin.audit import (  # noqa: I001  one name a line else
        Answers, Consensus, LabelAudit, LabelAuditor, StreamAudit, audit_labels, find_consensus,
    )  # fmt: skip
    from nearkin.hedge import Hedge
    from nearkin.learners import (
        ITML, LODML, LOMDML, LOSL, LPAODML, LSMDML, OASIS, ODML, OKS, OMDML, OMKS, OPML, SLMOML, Euclidean, RobustITML,
        RobustLODML, RobustLOMDML, RobustLOSL, RobustLPAODML, RobustLSMDML, RobustOASIS, RobustODML, RobustOKS,
        RobustOMDML, RobustOMKS, RobustOPML, RobustSLMOML,
    )  # fmt: skip
    from nearkin.losses import Hinge, RescaledHinge
    from nearkin.neighbors import RobustKNeighborsClassifier
    from nearkin.noise import flip_labels
    from nearkin.saving import load, save
    from nearkin.settings import snapshot
    from nearkin.sketch import DualRandomProjection
    from nearkin.tables import TableEncoder
    from nearkin.rows import MovingScale
    from nearkin.triplets import OCTG, BatchTriplets, OnePassTriplets, RandomTriplets, TripletSource

_WHERE = {
    "nearkin.audit": (
        "Answers", "Consensus", "LabelAudit", "LabelAuditor", "StreamAudit", "audit_labels", "find_consensus",
    ),
    "nearkin.hedge": ("Hedge",),
    "nearkin.learners": (
        "OASIS", "ODML", "LOSL", "LODML", "RobustOASIS", "RobustODML", "RobustLOSL", "RobustLODML", "Euclidean",
        "OMDML", "LOMDML", "LSMDML", "RobustOMDML", "RobustLOMDML", "RobustLSMDML",
        "OPML", "SLMOML", "ITML", "RobustOPML", "RobustSLMOML", "RobustITML",
        "LPAODML", "OKS", "OMKS", "RobustLPAODML", "RobustOKS", "RobustOMKS",
    ),
    "nearkin.losses": ("Hinge", "RescaledHinge"),
    "nearkin.neighbors": ("RobustKNeighborsClassifier",),
    "nearkin.noise": ("flip_labels",),
    "nearkin.saving": ("load", "save"),
    "nearkin.settings": ("snapshot",),
    "nearkin.sketch": ("DualRandomProjection",),
    "nearkin.rows": ("MovingScale",),
    "nearkin.tables": ("TableEncoder",),
    "nearkin.triplets": ("OCTG", "BatchTriplets", "OnePassTriplets", "RandomTriplets", "TripletSource"),
}  # fmt: skip
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "ITML", "LODML", "LOMDML", "LOSL", "LPAODML", "LSMDML", "OASIS", "OCTG", "ODML", "OKS", "OMDML", "OMKS", "OPML",
    "SLMOML", "Answers", "BatchTriplets", "Consensus", "DualRandomProjection", "Euclidean", "Hedge", "Hinge",
    "LabelAudit", "LabelAuditor", "MovingScale", "OnePassTriplets", "RandomTriplets", "RescaledHinge", "RobustITML",
    "RobustKNeighborsClassifier", "RobustLODML", "RobustLOMDML", "RobustLOSL", "RobustLPAODML", "RobustLSMDML",
    "RobustOASIS", "RobustODML", "RobustOKS", "RobustOMDML", "RobustOMKS", "RobustOPML", "RobustSLMOML", "StreamAudit",
    "TableEncoder", "TripletSource", "__version__", "audit_labels", "find_consensus", "flip_labels", "load", "save",
    "snapshot",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    homes = [] if name.startswith("_") else _find_homes(name)
    hint = f"; it lives in {' and '.join(f'nearkin.{home}.{name}' for home in homes)}" if homes else ""
    raise AttributeError(f"module 'nearkin' has no attribute {name!r}{hint}")


def _find_homes(name: str) -> list[str]:
    """Return the modules just below this one that offer a name; none is loaded, as it may need what is not there."""
    import re
    from pathlib import Path

    below = Path(__file__).parent
    files = {path.stem: path for path in below.glob("[!_]*.py")}
    files |= {path.parent.name: path for path in below.glob("[!_]*/__init__.py")}
    offers = re.compile(rf'^__all__ = \[[^]]*"{re.escape(name)}"', re.MULTILINE)
    if name in files:  # a module that is about to be imported
        return []
    return [home for home in sorted(files) if offers.search(files[home].read_text("utf-8"))]


def __dir__() -> list[str]:
    return sorted(__all__)
