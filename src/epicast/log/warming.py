"""Have everything compiled that a history may need, so that nobody waits for it later.

The first time on a machine that takes a while, afterwards a fraction of a second: compiled code is
kept (see `kernels.compiling`). Call it before a service starts to work, in any thread.
"""

from __future__ import annotations

from epicast.core import EventBatch, EventKind
from epicast.log.config import in_memory
from epicast.log.history import History
from epicast.log.policy import GcPolicy
from epicast.log.predicate import gc_payload, parse

_STREAM = 1
_POLICIES = (
    GcPolicy(latest_per_key=True, max_age_ns=1),
    GcPolicy(last_n=2000),
    GcPolicy(),
)
_PREDICATES = ('key == "a"', 'key prefix "a"', 'key in ("a", "b") and seq < 9', "seq < 3",
               "size < 2 and not published_before 1")  # fmt: skip


def warm_up() -> None:
    for policy in _POLICIES:
        config = in_memory(segment_bytes=4096, window_bytes=4096, compact_lag_segments=0)
        history = History.in_memory(_STREAM, policy=policy, config=config)
        _append(history, 300)
        for text in _PREDICATES:
            payload = gc_payload(parse(text))
            history.append(
                EventBatch.build(
                    _STREAM, history.end + 1, [payload], keys=[b"a"], kinds=[EventKind.GC]
                )
            )
        _append(history, 3000)  # enough for tables to grow
        sparse = [history.end + 2, history.end + 4]
        history.append(
            EventBatch.build(
                _STREAM, history.end + 1, [b"x"] * 2, keys=[b"k" * 20] * 2, seqs=sparse
            )
        )
        while history.compact():
            pass
        history.read(1, 1000)
        history.read(history.end - 1, 1 << 20)
        history.expiry(1 << 60)
        history.statistics()


def _append(history: History, count: int) -> None:
    keys = [b"key %d" % (number % 40) for number in range(count)]
    for _ in range(3):
        history.append_many([EventBatch.build(_STREAM, history.end + 1, [b"x"] * count, keys=keys)])
