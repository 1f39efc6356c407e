"""Whether a system kept its promises, from what its publishers and subscribers wrote down.

Nothing here imports Epicast: a mistake in the system cannot be repeated in its judge. Logs are
Arrow files, a few columns each (`docs/checker.md`); `epicast_checker.writing` writes them, as may
anything else. What is found is counted exactly, per stream and subscriber. Work is done on columns,
in memory that does not grow with the logs: what has to be matched is first split over files by key.

    python -m epicast_checker DIR
"""

from epicast_checker.checking import check
from epicast_checker.findings import Report, StreamFindings, SubscriberFindings
from epicast_checker.format import FormatError
from epicast_checker.writing import PublisherLog, SubscriberLog, hash_bytes, hash_rows

__all__ = [
    "FormatError", "PublisherLog", "Report", "StreamFindings", "SubscriberFindings",
    "SubscriberLog", "check", "hash_bytes", "hash_rows",
]  # fmt: skip
