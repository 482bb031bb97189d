"""Networks in place of the linear map: the rescaled hinge for torch, and learners whose embedding is a network.

Needs torch, which the extra ``deep`` installs. Nothing else of the package loads this part by itself.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("nearkin.deep needs torch, which is not installed: pip install 'nearkin[deep]'") from None

from nearkin.deep._bounds import AdaptiveBounds
from nearkin.deep._files import load, save
from nearkin.deep._loss import RescaledHingeTripletLoss
from nearkin.deep._metric import DeepMetric
from nearkin.deep._oahu import OAHU, RobustOAHU

__all__ = ["OAHU", "AdaptiveBounds", "DeepMetric", "RescaledHingeTripletLoss", "RobustOAHU", "load", "save"]
