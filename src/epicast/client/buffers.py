"""What the agent of an application keeps of a stream for its neighbours.

An agent filters its buffers by the stream's policy, as every history does. The code for that takes
a second to load, which many applications never need: it is loaded, in a thread, when a neighbour
asks for the first time. Where it is not installed, neighbours get everything.
"""

from __future__ import annotations

from typing import Any

from epicast.log import GcPolicy, policy_of, warm_up
from epicast.log.recent import FilteredBuffer
from epicast.protocols.sprinkler import EventBuffer, RecentBatches, StreamInfo
from epicast.runtime.waiting import in_thread, spawn


class AgentBuffers:
    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` of each stream."""
        self._max_bytes = max_bytes
        self._is_loaded = False
        self._loading: Any = None

    def make(self, info: StreamInfo) -> EventBuffer:
        policy = policy_of(info)
        if policy == GcPolicy():
            return RecentBatches(self._max_bytes)
        return FilteredBuffer(info.id, self._max_bytes, policy, self._can_filter)

    def _can_filter(self) -> bool:
        if self._loading is None:
            self._loading = spawn(self._load())
        return self._is_loaded

    async def _load(self) -> None:
        try:
            await in_thread(warm_up)
        except ImportError:
            return
        self._is_loaded = True
