"""Three regions of real processes, and a link between two of them that fails at our word: what
`bench cut` measures, and claim S4 on processes.

All are on loopback, where a round trip takes next to nothing. Proxies dial each other, so there is
a relay for each way of dialing between the two regions. The third one is reached directly.
"""

from __future__ import annotations

import time
from itertools import pairwise
from math import sqrt
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

import epicast
from epicast.core import EpicastError, EventBatch
from epicast.deployment import parse_geoplex
from epicast.geo.local import LocalGeoplex
from epicast.geo.status import ProxyStatus, ask_status
from epicast.protocols.sprinkler import ProxyConfig
from epicast.runtime import run as run_loop
from epicast.runtime.relay import LinkRelay
from epicast.runtime.waiting import BackgroundLoop, Bell, end_task, spawn

FAR, NEAR, BETWEEN = "far", "near", "between"
"""Events of the first are watched at the second; the third has links to both that never fail."""

Failure = Literal["swallows", "breaks", "deaf", "mute"]
"""Nothing passes and nobody is told; connections end, too; nothing passes from far to near; nothing
passes from near to far."""

_MILLISECOND = 1_000_000
_PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.02
_DIRECT_S = 1.0
"""How long events come directly before the link fails."""


class CutFailed(EpicastError):
    """What was published did not come, or not the way it should."""


class FailingLink:
    """A context manager."""

    def __init__(self, *, settings: str = "", policy: str = "") -> None:
        """`settings`: lines of `[proxies]`; `policy`: lines of each stream, of which every region
        has one of its own name."""
        self._settings = settings
        self._policy = policy

    def __enter__(self) -> Self:
        self._loop = BackgroundLoop("links")
        self._local: LocalGeoplex | None = None
        self._relays: list[LinkRelay] = []
        try:
            self._relays = [self._loop.run(_opened()) for _ in range(2)]
            geoplex = parse_geoplex(self._document(), "failing link")
            self._local = LocalGeoplex(geoplex, any_ports=True).open()
            for relay, region in zip(self._relays, (NEAR, FAR), strict=True):
                address = self._local.geoplex.region(region).address
                relay.target = (address.host, address.port)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._local is not None:
            self._local.close()
        for relay in self._relays:
            self._loop.run(relay.close())
        self._loop.close()

    def _document(self) -> str:
        lines = ['name = "failing-link"', "[proxies]", self._settings]
        for port, region in enumerate((FAR, NEAR, BETWEEN), 1):
            lines += [f"[regions.{region}]", f'proxy = "127.0.0.1:{port}"']
            lines += [f"[streams.{region}]", f'owner = "{region}"', 'ack = "memory"', self._policy]
        for relay, (source, target) in zip(self._relays, ((FAR, NEAR), (NEAR, FAR)), strict=True):
            lines += ["[[links]]", f'from = "{source}"', f'to = "{target}"']
            lines += [f'via = "127.0.0.1:{relay.port}"']
        return "\n".join(lines)

    # -- the link --------------------------------------------------------------------------------

    def fail(self, how: Failure) -> None:
        self._loop.run(self._fail(how))

    async def _fail(self, how: Failure) -> None:
        dialed_by_far, dialed_by_near = self._relays
        from_far, from_near = how != "mute", how != "deaf"
        dialed_by_far.cut(there=from_far, back=from_near)
        dialed_by_near.cut(there=from_near, back=from_far)
        if how == "breaks":
            for relay in self._relays:
                relay.reset()

    def mend(self) -> None:
        self._loop.run(self._mend())

    async def _mend(self) -> None:
        for relay in self._relays:
            relay.restore()

    # -- looking inside --------------------------------------------------------------------------

    @property
    def local(self) -> LocalGeoplex:
        if self._local is None:
            raise EpicastError("the link is not there: use `with`")
        return self._local

    async def status(self, region: str) -> ProxyStatus:
        return await ask_status(*self.local.geoplex.region(region).address)

    async def source(self) -> str:
        """Where the near region has the stream of the far one from."""
        streams = (await self.status(NEAR)).streams
        return next(stream.source for stream in streams if stream.name == FAR)

    async def wait_source(self, *wanted: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while (found := await self.source()) not in wanted:
            if time.monotonic() > deadline:
                raise CutFailed(f"events come from {found!r} and not from {' or '.join(wanted)}")
            await Bell().wait(_LOOK_EVERY_S)


async def _opened() -> LinkRelay:
    relay = LinkRelay()
    await relay.open()
    return relay


class Outage(Struct, frozen=True):
    stalled_ms: float
    """The longest that no event of the far region came."""
    bound_ms: float
    drained_ms: float
    """From the failure until what came was published less than half a period ago again; 0 if it
    always was."""
    published: int
    lost: int
    switches: int
    """Of the near region."""


def measure(
    how: Failure, *, rate: int = 100_000, batch_ms: int = 5, outage_s: float = 3.0,
    period_ms: int = 100,
) -> Outage:  # fmt: skip
    with FailingLink(settings=f'advertise_every = "{period_ms}ms"') as link:
        return run_loop(_Measurement(link, rate, batch_ms, period_ms).run(how, outage_s))


class _Measurement:
    def __init__(self, link: FailingLink, rate: int, batch_ms: int, period_ms: int) -> None:
        self._link = link
        self._rate, self._batch_ms, self._period_ms = rate, batch_ms, period_ms
        self._rows = rate * batch_ms // 1000
        self._published: list[int] = []
        """When each batch was."""
        self._came: list[tuple[int, int]] = []
        """When, and up to which number."""
        self._problems = 0
        self._goes_on = True

    async def run(self, how: Failure, outage_s: float) -> Outage:
        local = self._link.local
        async with (
            epicast.connect(local.address(FAR), agent=False) as there,
            epicast.connect(local.address(NEAR), agent=False) as here,
        ):
            publishing = spawn(self._publish(there.stream(FAR)))
            watching = spawn(self._watch(here.stream(FAR)))
            try:
                await self._link.wait_source(FAR)
                await Bell().wait(_DIRECT_S)
                failed_at = time.monotonic_ns()
                self._link.fail(how)
                await Bell().wait(outage_s)
                ended_at = time.monotonic_ns()
                self._goes_on = False
                await publishing
                total = len(self._published) * self._rows
                await self._wait_for(total)  # with the link still out
            finally:
                await end_task(publishing)
                await end_task(watching)
        switches = (await self._link.status(NEAR)).protocol["source_switches"]
        return self._found(failed_at, ended_at, int(switches))

    async def _publish(self, stream: epicast.Stream) -> None:
        begin = time.monotonic_ns()
        while self._goes_on:
            due = begin + len(self._published) * self._batch_ms * _MILLISECOND
            wait_s = (due - time.monotonic_ns()) / 1e9
            if wait_s > 0:
                await Bell().wait(wait_s)
            first = len(self._published) * self._rows
            self._published.append(time.monotonic_ns())
            await stream.publish_many([b"%d" % n for n in range(first + 1, first + self._rows + 1)])

    async def _watch(self, stream: epicast.Stream) -> None:
        last = 0
        async for batch in stream.subscribe(after=0).batches():
            if not isinstance(batch, EventBatch):
                self._problems += 1  # it starts anew: something is gone
                continue
            numbers = [int(payload) for payload in batch.payloads()]
            wanted = list(range(last + 1, last + len(numbers) + 1))
            self._problems += sum(a != b for a, b in zip(numbers, wanted, strict=True))
            last = batch.last
            self._came.append((time.monotonic_ns(), last))

    async def _wait_for(self, total: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._came or self._came[-1][1] < total:
            if time.monotonic() > deadline:
                raise CutFailed(f"of {total} events {self._came[-1:]} came")
            await Bell().wait(_LOOK_EVERY_S)

    def _found(self, failed_at: int, ended_at: int, switches: int) -> Outage:
        total = len(self._published) * self._rows
        return Outage(
            stalled_ms=self._stalled_ns(failed_at, ended_at) / _MILLISECOND,
            bound_ms=max(self._period_ms, 1000 * sqrt(ProxyConfig().hysteresis / self._rate)),
            drained_ms=self._drained_ns(failed_at) / _MILLISECOND,
            published=total,
            lost=total - self._came[-1][1] + self._problems,
            switches=switches,
        )

    def _stalled_ns(self, failed_at: int, ended_at: int) -> int:
        times = [at for at, _ in self._came if failed_at <= at < ended_at]
        return max(later - earlier for earlier, later in pairwise([failed_at, *times, ended_at]))

    def _drained_ns(self, failed_at: int) -> int:
        """Who is late to the end has caught up with the last event."""
        late_ns = self._period_ms * _MILLISECOND // 2
        was_late = False
        for at, last in self._came:
            if at < failed_at:
                continue
            is_late = at - self._published[(last - 1) // self._rows] > late_ns
            if was_late and not is_late:
                return at - failed_at
            was_late |= is_late
        return self._came[-1][0] - failed_at if was_late else 0
