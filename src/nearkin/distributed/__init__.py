"""Learning from streams, and audits of them, on a Dask cluster; needs the extra ``dask``."""

from nearkin.distributed.auditing import audit
from nearkin.distributed.cluster import connect
from nearkin.distributed.cluster_audit import ClusterAudit
from nearkin.distributed.driver import fit, score

__all__ = ["ClusterAudit", "audit", "connect", "fit", "score"]
