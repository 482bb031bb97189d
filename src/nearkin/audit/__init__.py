"""Label audit: which labels are wrong, what they should be, how many there are, and the evidence."""

from nearkin.audit._auditor import LabelAuditor
from nearkin.audit._interval import rate_interval
from nearkin.audit.audit_labels import audit_labels
from nearkin.audit.evidence import Evidence, Neighbour, Prototype, TripletCost
from nearkin.audit.label_audit import LabelAudit
from nearkin.audit.stream_audit import StreamAudit

__all__ = [
    "Evidence",
    "LabelAudit",
    "LabelAuditor",
    "Neighbour",
    "Prototype",
    "StreamAudit",
    "TripletCost",
    "audit_labels",
    "rate_interval",
]
