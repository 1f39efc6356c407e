"""The history of a stream on a proxy: segments, garbage collection, recovery.

    history = History(DiskDirectory(Path("data/prices")), stream=7,
                      policy=GcPolicy(latest_per_key=True))
    history.append_many(batches)
    history.sync()                                # group commit: one sync for many appends
    history.read(first=1, max_bytes=1 << 20)      # live events; the rest as tombstones

The compiled parts need numba (`pip install 'epicast[server]'`), which is imported at first use.
"""

from epicast.log.config import LogConfig, in_memory
from epicast.log.directory import Directory, DiskDirectory, File, MemoryDirectory
from epicast.log.errors import (
    CorruptBatch,
    DirectoryBusy,
    DiskFull,
    HistoryGone,
    KeyTooLong,
    LogError,
    LogFailed,
    OutOfOrder,
    PredicateError,
    TooNew,
    WrongEpoch,
    WrongStream,
)
from epicast.log.history import History
from epicast.log.policy import GcPolicy, policy_of
from epicast.log.predicate import Predicate, describe, gc_payload, parse, split_gc_payload
from epicast.log.publishers import UNKNOWN_PUBLISHER
from epicast.log.recovery import RecoveryReport, Truncation
from epicast.log.segments import SyncTicket
from epicast.log.statistics import Statistics
from epicast.log.warming import warm_up

__all__ = [
    "UNKNOWN_PUBLISHER", "CorruptBatch", "Directory", "DirectoryBusy", "DiskDirectory", "DiskFull",
    "File", "GcPolicy", "History", "HistoryGone", "KeyTooLong", "LogConfig", "LogError",
    "LogFailed", "MemoryDirectory", "OutOfOrder", "Predicate", "PredicateError", "RecoveryReport",
    "Statistics", "SyncTicket", "TooNew", "Truncation", "WrongEpoch", "WrongStream", "describe",
    "gc_payload", "in_memory", "parse", "policy_of", "split_gc_payload", "warm_up",
]  # fmt: skip
