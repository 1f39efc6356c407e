"""A proxy with real history in the test's own loop, and what can happen to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

from epicast.core import Peer
from epicast.deployment import node_id_of, stream_id
from epicast.log import GcPolicy
from epicast.protocols.sprinkler import Proxy, ProxyConfig, ProxyPlan, StreamInfo
from epicast.protocols.sprinkler.publications import Admission
from epicast.runtime import NodeDriver
from epicast.runtime.history_storage import HistoryStorage, StreamStore

REGION = "us"
QUICK = ProxyConfig(heartbeat_every_ns=50_000_000)


def stream(name: str, **options: object) -> StreamInfo:
    return StreamInfo(stream_id(name), name, node_id_of(REGION), REGION, **options)  # type: ignore[arg-type]


STREAMS = (stream("prices"), stream("invalidations", latest_per_key=True))


class EmbeddedProxy:
    """Can be stopped and started again, with or without what it has stored."""

    def __init__(
        self,
        port: int = 0,
        config: ProxyConfig = QUICK,
        streams: Sequence[StreamInfo] = STREAMS,
        admit: Admission | None = None,
    ) -> None:
        self.port = port
        self._config = config
        self._streams = tuple(streams)
        self._admit = admit
        self._storage = self._new_storage()
        self._driver: NodeDriver | None = None

    def _new_storage(self) -> HistoryStorage:
        return HistoryStorage(
            {
                info.id: StreamStore(
                    policy=GcPolicy(latest_per_key=info.latest_per_key), owned=True
                )
                for info in self._streams
            }
        )

    @property
    def address(self) -> str:
        return f"epicast://127.0.0.1:{self.port}"

    async def start(self, *, empty: bool = False) -> None:
        if empty:
            self._storage = self._new_storage()
        self._driver = NodeDriver(node_id_of(REGION), "127.0.0.1", self.port, storage=self._storage)
        peer: Peer = await self._driver.listen()
        self.port = peer.port
        plan = ProxyPlan(REGION, self._streams, ())
        proxy = Proxy(peer, self._config, Random(1), plan=plan, admit=self._admit)
        await self._driver.start(proxy)

    async def stop(self) -> None:
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.stop()


@asynccontextmanager
async def embedded_proxy(
    streams: Sequence[StreamInfo] = STREAMS, admit: Admission | None = None
) -> AsyncIterator[EmbeddedProxy]:
    proxy = EmbeddedProxy(streams=streams, admit=admit)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


async def eventually(condition: Callable[[], object], what: str = "") -> None:
    """Wait for something that must happen; how long it takes does not matter."""
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"still not so after 20 seconds: {what or condition}")
