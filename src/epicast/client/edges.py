"""What the client needs of a driver and of the protocol it runs, be it an agent or a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol as Interface

from epicast.core import EventBatch, NodeId, Peer


class Edge(Interface):
    """The application's side of `protocols.sprinkler`. `Driver.wake` after every call."""

    def subscribe(
        self, number: int, stream: int, epoch: int, after: int, window_bytes: int
    ) -> None: ...

    def consumed(self, number: int, seq: int) -> None: ...

    def unsubscribe(self, number: int) -> None: ...

    def replace_proxy(self, former: NodeId, found: Peer) -> None: ...

    def ask(self) -> None: ...

    def statistics(self) -> Mapping[str, int | float]: ...


class Driver(Interface):
    """`runtime.NodeDriver`, as far as the client uses it."""

    def wake(self) -> None: ...

    def publish_nowait(
        self,
        batch: EventBatch,
        publisher: int | None = None,
        first: int | None = None,
        topic: int = 0,
        level: str = "",
    ) -> None: ...

    def statistics(self) -> Mapping[str, int]: ...

    async def stop(self) -> None: ...

    async def wait(self) -> None: ...
