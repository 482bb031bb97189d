"""Networks in place of the linear map: the rescaled hinge for torch, and learners whose embedding is a network.

Needs torch, which the extra ``deep`` installs. Nothing else of the package loads this part by itself.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("nearkin.deep needs torch, which is not installed: pip install 'nearkin[deep]'") from None

from nearkin.deep.bounds import AdaptiveBounds
from nearkin.deep.deep_metric import DeepMetric
from nearkin.deep.oahu import OAHU, RobustOAHU
from nearkin.deep.rescaled_hinge import RescaledHingeTripletLoss
from nearkin.deep.storage import load, save

__all__ = ["OAHU", "AdaptiveBounds", "DeepMetric", "RescaledHingeTripletLoss", "RobustOAHU", "load", "save"]
