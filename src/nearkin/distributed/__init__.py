"""Learning from streams on a Dask cluster; needs the extra ``dask``."""

from nearkin.distributed.connection import connect
from nearkin.distributed.driver import fit
from nearkin.distributed.scoring import score

__all__ = ["connect", "fit", "score"]
