"""Learning from streams on a Dask cluster; needs the extra ``dask``."""

from nearkin.distributed._connect import connect
from nearkin.distributed._fit import fit
from nearkin.distributed._score import score

__all__ = ["connect", "fit", "score"]
