"""Every way of consuming that is measured gives everything; what decides is worked out right."""

import asyncio

import pytest

import epicast
from bench import bench_latency, bench_peers
from bench.harness import Rates
from bench.peer_ways import SYNC_WAYS, WAYS, BatchCheck, EventCheck, Wrong, check_for
from bench.rivals.events import events
from epicast import sync
from tests.client.proxies import embedded_proxy

COUNT = 12_500
"""More than is compared at a time, and no multiple of what is pulled at a time."""


@pytest.mark.parametrize("way", [*WAYS, *SYNC_WAYS])
def test_each_way_gives_everything(way: str) -> None:
    async def main() -> None:
        async with (
            embedded_proxy() as proxy,
            epicast.connect(proxy.address, agent=False) as node,
        ):
            stream = node.stream("prices")
            reading = asyncio.create_task(read(proxy.address, way))
            for payload in events(COUNT):
                stream.publish_nowait(payload)
                if payload.endswith(b"400"):
                    await asyncio.sleep(0.002)
            await asyncio.wait_for(reading, 60)

    epicast.run(main())


async def read(address: str, way: str) -> None:
    check = check_for(way, COUNT)

    def blocking() -> None:
        with (
            sync.connect(address, agent=False) as node,
            node.stream("prices").subscribe(after=0) as subscription,
        ):
            SYNC_WAYS[way](subscription, check)

    if way in SYNC_WAYS:
        await asyncio.to_thread(blocking)
    else:
        async with epicast.connect(address, agent=False) as node:
            await WAYS[way](node.stream("prices").subscribe(after=0), check)


def batch(first: int, payloads: list[bytes], **options: object) -> epicast.EventBatch:
    return epicast.EventBatch.build(1, first, payloads, **options)  # type: ignore[arg-type]


def test_a_batch_as_published_passes() -> None:
    check = BatchCheck(4000)
    expected = events(4000)
    for first, last in ((1, 7), (8, 999), (1000, 3456), (3457, 4000)):
        assert check.take(batch(first, expected[first - 1 : last])) == (last == 4000)


@pytest.mark.parametrize(
    "wrong",
    [
        batch(8, events(8)[7:]),
        batch(1, [*events(6), b"0000000007"]),
        batch(1, events(7)[1:]),
        batch(1, events(7), keys=[b"k"] * 7),
        batch(1, [b"0", b"0000000000000000001", *events(7)[2:]]),
        batch(1, events(7), seqs=[1, 2, 3, 4, 5, 6, 8]),
        None,
    ],
    ids=["gap", "payload", "shifted", "keys", "lengths", "tombstone", "reset"],
)
def test_anything_else_does_not(wrong: object) -> None:
    with pytest.raises(Wrong):
        BatchCheck(7).take(wrong)


@pytest.mark.parametrize("last", [1, 999, EventCheck.SIZE, EventCheck.SIZE + 1, 25_500])
def test_events_as_published_pass(last: int) -> None:
    check = EventCheck(last)
    stop = check.stop
    for number, payload in enumerate(events(last), 1):
        check.received.append(payload)
        if number == stop:
            stop = check.settle()
    assert stop == 0


@pytest.mark.parametrize("received", [events(9), events(11), [*events(9), b"x"], events(11)[1:]])
@pytest.mark.parametrize("before", [0, EventCheck.SIZE])
def test_what_is_missing_doubled_or_changed_is_noticed(received: list[bytes], before: int) -> None:
    check = EventCheck(before + 10)
    if before:
        check.received += events(before)
        check.settle()
    check.received += received
    with pytest.raises(Wrong):
        check.settle()


def test_bars() -> None:
    rates = {
        "zeromq": Rates((1.0, 2.0, 10.0)),
        "nats": Rates((0.5, 1.0, 1.0)),
        "async_for": Rates((2.0, 2.0, 5.0)),
        "sync_get": Rates((1.0, 1.0, 1.0)),
        "batches": Rates((9.0, 9.0, 9.0)),
        "by_batch": Rates((10.0, 10.0, 10.0)),
    }
    measured = {bar.name: bar.measured for bar in bench_peers.bars(rates)}
    assert measured == {
        "vs_zeromq": 1.0,
        "vs_nats": 4.0,
        "batches_vs_zeromq": 5.0,
        "slowest_way_vs_fastest": 2.0,  # of those event by event
    }


def test_who_is_not_installed_is_not_judged() -> None:
    rates = {"async_for": Rates((1.0,)), "by_batch": Rates((1.0,))}
    assert [bar.name for bar in bench_peers.bars(rates)] == ["slowest_way_vs_fastest"]
    assert bench_latency.bars([(1.0, 2.0)], []) == []


def test_everything_that_is_measured_is_found() -> None:
    names = bench_peers.candidates(["zeromq", "nats"], 0.01, None)
    assert set(names) == {"zeromq", "nats", *WAYS, *SYNC_WAYS, "by_batch", "latest_per_key"}
    assert list(bench_peers.candidates([], 0.01, ["zeromq", "by_batch"])) == ["by_batch"]


def test_processes_event_by_event_and_by_batch() -> None:
    assert bench_peers.measure("sync_for", 5000) > 0
    assert bench_peers.measure_batches(25_000) > 0


def test_events_replaced_by_newer_ones_of_their_key() -> None:
    assert bench_peers.measure("async_for", 5000, keyed=True) > 0


def test_latency_of_every_event_at_every_subscriber() -> None:
    delays, rate = bench_latency.latency(500, 0.5)
    assert len(delays) == 3 * 250
    assert min(delays) > 0
    assert rate > 0


def test_latencies_are_compared_round_by_round() -> None:
    ours, theirs = [(1.0, 8.0), (2.0, 2.0), (9.0, 1.0)], [(2.0, 2.0), (2.0, 2.0), (2.0, 2.0)]
    p50, p99 = bench_latency.bars(ours, theirs)
    assert (p50.name, p50.measured, p50.holds) == ("p50_vs_nats", 1.0, True)
    assert (p99.name, p99.measured, p99.holds) == ("p99_vs_nats", 1.0, True)
    assert bench_latency.microseconds("at_7_", ours) == {"at_7_p50_us": 0.0, "at_7_p99_us": 0.0}
