"""Label audit: which labels are wrong, what they should be, how many there are, and the evidence."""

from nearkin.audit.answers import Answers
from nearkin.audit.auditor import LabelAuditor, audit_labels, audit_rows
from nearkin.audit.change import AuditChange, compare
from nearkin.audit.consensus import ANNOTATORS, CONSENSUS, Annotator, Consensus, find_consensus
from nearkin.audit.evidence import Evidence, Neighbour, Opinion, Prototype
from nearkin.audit.exports import CLEANED, COLUMNS
from nearkin.audit.findings import Finding
from nearkin.audit.label_audit import LabelAudit, Unlabelled
from nearkin.audit.notebook import ShownPage
from nearkin.audit.sample import CheckedLabels, Precision, ReviewSample, sample_arrays
from nearkin.audit.stream_audit import NextJury, StreamAudit
from nearkin.noise import rate_interval
from nearkin.reservoir import Reservoir

__all__ = [
    "ANNOTATORS", "CLEANED", "COLUMNS", "CONSENSUS", "Annotator", "Answers", "AuditChange", "CheckedLabels",
    "Consensus", "Evidence", "Finding", "LabelAudit", "LabelAuditor", "Neighbour", "NextJury", "Opinion",
    "Precision", "Prototype", "Reservoir", "ReviewSample", "ShownPage", "StreamAudit", "Unlabelled", "audit_labels",
    "audit_rows", "compare", "find_consensus", "rate_interval", "sample_arrays",
]  # fmt: skip
