"""The audit: from the logs of owners, publishers and subscribers alone, what was promised and kept.

    from epicast.pipeline.audit import audit_logs

    result = audit_logs(Path("evidence"))
    print(result.holds, result.violations)

`docs/audit.md` says what is counted and how.
"""

from epicast.pipeline.audit.case import Rules
from epicast.pipeline.audit.job import audit_logs
from epicast.pipeline.audit.results import AuditResult, Finding, Line, Staleness, TruncatedLog
from epicast.pipeline.audit.tallies import Counts

__all__ = [
    "AuditResult", "Counts", "Finding", "Line", "Rules", "Staleness", "TruncatedLog", "audit_logs",
]  # fmt: skip
