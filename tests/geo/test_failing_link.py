"""Claim S4 on real processes: a link between two regions fails, and events go round it."""

import pytest

import epicast
from epicast.core import EventBatch
from epicast.experiments.geo_cut import BETWEEN, FAR, NEAR, FailingLink, Failure, measure
from epicast.runtime import run
from epicast.runtime.waiting import Bell, end_task, spawn
from tests.geo.support import eventually_true

KEYS = 25
SETTINGS = """
advertise_every = "20ms"
reconnect_every = "50ms"
window = "64KiB"
"""
"""A window that is soon full: a source that is not told of what was stored sends no more."""
POLICY = "latest_per_key = true"


class Reader:
    """What the near region gets: of the stream of the far one, events or tombstones in order."""

    def __init__(self) -> None:
        self.last = 0
        self.wrong: list[str] = []

    async def follow(self, stream: epicast.Stream) -> None:
        async for batch in stream.subscribe(after=0).batches():
            if not isinstance(batch, EventBatch):
                self.wrong.append(f"starts anew: {batch}")
                continue
            if batch.first != self.last + 1:
                self.wrong.append(f"{batch.first} after {self.last}")
            for seq, payload in zip(batch.seqs.tolist(), batch.payloads(), strict=True):
                if payload.rstrip(b".") != b"%d" % seq:
                    self.wrong.append(f"{seq} is {payload!r}")
            self.last = batch.last


class Writer:
    def __init__(self) -> None:
        self.published = 0
        self.goes_on = True

    async def write(self, stream: epicast.Stream) -> None:
        while self.goes_on:
            numbers = range(self.published + 1, self.published + 51)
            payloads = [(b"%d" % number).ljust(40, b".") for number in numbers]
            await stream.publish_many(payloads, [b"%d" % (number % KEYS) for number in numbers])
            self.published += len(numbers)
            await Bell().wait(0.005)


@pytest.mark.parametrize("how", ["swallows", "breaks", "deaf", "mute"])
def test_events_go_round_a_link_that_fails_and_storage_is_freed_everywhere(how: Failure) -> None:
    async def main(link: FailingLink) -> None:
        local = link.local
        reader, writers = Reader(), {FAR: Writer(), NEAR: Writer(), BETWEEN: Writer()}
        async with (
            epicast.connect(local.address(FAR), agent=False) as far,
            epicast.connect(local.address(NEAR), agent=False) as near,
            epicast.connect(local.address(BETWEEN), agent=False) as between,
        ):
            nodes = {FAR: far, NEAR: near, BETWEEN: between}
            tasks = [spawn(writers[name].write(nodes[name].stream(name))) for name in nodes]
            watching = spawn(reader.follow(near.stream(FAR)))

            async def reader_has(number: int) -> bool:
                assert not watching.done() and not any(task.done() for task in tasks)
                return reader.last >= number

            await link.wait_source(FAR)
            await eventually_true(lambda: reader_has(2000))
            link.fail(how)
            await link.wait_source(BETWEEN)
            at_failure = writers[FAR].published
            await eventually_true(lambda: reader_has(at_failure + 5000), "events do not flow again")
            for task, writer in zip(tasks, writers.values(), strict=True):
                writer.goes_on = False
                await task
            await check_everywhere(link, nodes)  # with the link still out
            total = (await far.stream(FAR).head()).seq
            await eventually_true(lambda: reader_at(reader, total), "the backlog is not drained")
            assert await link.source() == BETWEEN
            link.mend()
            writers[FAR].goes_on = True
            writing = spawn(writers[FAR].write(far.stream(FAR)))
            await link.wait_source(FAR)  # the direct way is taken again
            writers[FAR].goes_on = False
            await writing
            total = (await far.stream(FAR).head()).seq
            await eventually_true(lambda: reader_at(reader, total), "something is missing")
            await end_task(watching)
            assert reader.wrong == []

    with FailingLink(settings=SETTINGS, policy=POLICY) as link:
        run(main(link))


async def reader_at(reader: Reader, number: int) -> bool:
    return reader.last >= number


async def check_everywhere(link: FailingLink, nodes: dict[str, epicast.Node]) -> None:
    """Every region has all of every stream, and of that only what is not obsolete."""
    heads = {name: (await node.stream(name).head()).seq for name, node in nodes.items()}

    async def all_there() -> bool:
        for region in nodes:
            streams = (await link.status(region)).streams
            if {stream.name: stream.head for stream in streams} != heads:
                return False
        return True

    await eventually_true(all_there, f"not everywhere: {heads}")
    for region in nodes:
        for stream in (await link.status(region)).streams:
            assert stream.live_events == KEYS, (region, stream.name)
            assert stream.collected_events == heads[stream.name] - KEYS > 1000


def test_an_outage_is_measured() -> None:
    found = measure("swallows", rate=20_000, outage_s=1.0)
    assert found.lost == 0
    assert found.switches >= 1
    assert found.published > 20_000
    assert 0 < found.stalled_ms < 1000  # or it was not over before the time was up
