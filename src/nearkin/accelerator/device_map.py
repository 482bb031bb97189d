"""Rows scaled and mapped on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearkin.accelerator.device import full_precision, to_device, to_host
from nearkin.arrays import Array
from nearkin.rows import Scaling

__all__ = ["map_rows"]

#: Numbers sent to the device at a time.
_NUMBERS = 1 << 26


def map_rows(X: Array, scaling: Scaling, components: Array, limit: float, device: Any) -> Array | None:
    """``scaling.apply(X) @ components.T``, or None if a scaled number is beyond ``limit``."""
    import torch

    out = np.empty((len(X), len(components)), X.dtype)
    there = to_device(components.astype(X.dtype, copy=False), device)
    shift, factor = (None if one is None else to_device(one, device) for one in (scaling.shift, scaling.factor))
    step = max(1, _NUMBERS // X.shape[1])
    with full_precision():
        for start in range(0, len(X), step):
            rows = to_device(X[start : start + step], device)
            if shift is not None:
                rows = (rows - shift) * factor
            if scaling.unit_rows:
                largest = rows.abs().amax(1, keepdim=True)
                rows = rows / torch.where(largest > 0, largest, 1)
                norm = rows.norm(dim=1, keepdim=True)
                rows = rows / torch.where(norm > 0, norm, 1)
            if not bool((rows.abs() <= limit).all()):
                return None
            out[start : start + step] = to_host(rows @ there.mT)
    return out
