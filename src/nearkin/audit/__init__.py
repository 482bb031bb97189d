"""Label audit: which labels are wrong, what they should be, how many there are, and the evidence."""

from nearkin.audit._audit import LabelAudit
from nearkin.audit._audit_labels import audit_labels
from nearkin.audit._auditor import LabelAuditor
from nearkin.audit._evidence import Evidence, Neighbour, Prototype, TripletCost
from nearkin.audit._interval import rate_interval
from nearkin.audit._stream import StreamAudit

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
