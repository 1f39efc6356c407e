"""Evidence: what owners, publishers and subscribers write down as they work, for an audit.

A log is a folder of Arrow files that one process wrote, see `schema`. The rest of Epicast imports
this package only where evidence was asked for: it needs pyarrow and numba.
"""

from epicast.evidence.earlier import ends_of_earlier_logs
from epicast.evidence.files import LogBounds, LogFiles
from epicast.evidence.hashing import (
    content_hashes,
    even_hashes,
    event_hashes,
    key_hashes,
    ranges_of,
    warm_up,
)
from epicast.evidence.owner import OwnerLog
from epicast.evidence.publisher import PublisherLog
from epicast.evidence.schema import BLOCK_BITS, EvidenceError, Facts, Kind, Role
from epicast.evidence.subscriber import SubscriberLog

__all__ = [
    "BLOCK_BITS", "EvidenceError", "Facts", "Kind", "LogBounds", "LogFiles", "OwnerLog",
    "PublisherLog", "Role", "SubscriberLog", "content_hashes", "ends_of_earlier_logs",
    "even_hashes", "event_hashes", "key_hashes", "ranges_of", "warm_up",
]  # fmt: skip
