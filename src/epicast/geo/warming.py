"""Compiled code, loaded before the first event needs it.

Loading takes a third of a second, and several when the code has to be compiled first, once per
machine: nothing a proxy should do while publishers wait.
"""

from __future__ import annotations

from epicast.core import EpicastError, EventBatch, EventKind
from epicast.log import GcPolicy, History, gc_payload, parse


def warm_up() -> None:
    """Use a history for a moment the way a proxy does."""
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise EpicastError(
            f"a proxy needs numba ({error}); install it with: pip install 'epicast[server]'"
        ) from error
    history = History.in_memory(1, policy=GcPolicy(latest_per_key=True, last_n=4))
    for at in range(3):
        payloads = [b"payload"] * 3 + [gc_payload(parse("key == 'a'"))]
        kinds = [EventKind.DATA] * 3 + [EventKind.GC]
        keys = [b"a", b"b", b"a", b""]
        history.append_many([EventBatch.build(1, 4 * at + 1, payloads, keys=keys, kinds=kinds)])
    history.read(1, 1 << 20)
    history.publishers()
    history.statistics()
    history.compact()
