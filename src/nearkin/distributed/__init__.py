"""Learning from streams on a Dask cluster; needs the extra ``dask``."""

from nearkin.distributed.cluster import connect
from nearkin.distributed.driver import fit, score

__all__ = ["connect", "fit", "score"]
