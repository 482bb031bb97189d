"""Networks in place of the linear map: the rescaled hinge for torch, and learners whose embedding is a network.

Needs torch, which the extra ``deep`` installs. No other part of the package loads this one by itself.
"""

from __future__ import annotations

try:
    import torch  # noqa: F401
except ImportError:
    raise ImportError("nearkin.deep needs torch, which is not installed: pip install 'nearkin[deep]'") from None

from nearkin.deep.deep_metric import DeepMetric
from nearkin.deep.network import ConvPlan, LayeredPlan, MlpPlan, Network
from nearkin.deep.oahu import OAHU, AdaptiveBounds, RobustOAHU
from nearkin.deep.rescaled_hinge import RescaledHingeTripletLoss
from nearkin.deep.storage import load, save
from nearkin.deep.training import Training

__all__ = [
    "OAHU",
    "AdaptiveBounds",
    "ConvPlan",
    "DeepMetric",
    "LayeredPlan",
    "MlpPlan",
    "Network",
    "RescaledHingeTripletLoss",
    "RobustOAHU",
    "Training",
    "load",
    "save",
]
