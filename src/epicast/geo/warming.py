"""Compiled code, loaded before the first event needs it.

Loading takes a third of a second, and several when the code has to be compiled first, once per
machine: nothing a proxy should do while publishers wait.
"""

from __future__ import annotations

from epicast.core import EpicastError, EventBatch, EventKind, Run
from epicast.log import GcPolicy, History, gc_payload, in_memory, parse

_ROUNDS = 100
"""Enough for a list of GC events to be tidied."""
_MANY = 3000
"""Enough for a table of keys to grow."""


def warm_up() -> None:
    """Use histories for a moment the way a proxy does."""
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise EpicastError(
            f"a proxy needs numba ({error}); install it with: pip install 'epicast[server]'"
        ) from error
    _use(GcPolicy(latest_per_key=True))
    _use(GcPolicy(last_n=100, max_age_ns=1))


def _use(policy: GcPolicy) -> None:
    config = in_memory(segment_bytes=4096, window_bytes=4096, compact_per_append=0.0)
    history = History.in_memory(1, policy=policy, config=config)
    collect = gc_payload(parse("key == 'a' and seq < 100"))
    for at in range(_ROUNDS):
        first = history.end + 1
        # One event more than there are rows: a tombstone, as received from other regions.
        history.append_many(
            [
                EventBatch.build(
                    1, first, [b"payload"] * 3 + [collect], last=first + 4,
                    keys=[b"a", b"key-%d" % at, b"another key, %d" % at, b""],
                    kinds=[EventKind.DATA] * 3 + [EventKind.GC],
                    seqs=[first, first + 1, first + 2, first + 4],
                    runs=[Run(1, first, 5)],
                )
            ]
        )  # fmt: skip
    many = [b"key-%d" % at for at in range(_MANY)]
    history.append(EventBatch.build(1, history.end + 1, many, keys=many))
    history.expiry(2)
    history.read(1, 1 << 20)
    while history.compact():
        pass
    history.publishers()
    history.statistics()
