"""The bare relay moves everything to everybody, whatever is slow."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

import pytest

from bench import bare_relay
from bench.bare_relay import Output, Relay, frames


@pytest.mark.parametrize("regions", [1, 3])
def test_it_runs(regions: int) -> None:
    assert bare_relay.run(regions, 0.2) > 0


def test_frames_are_batches_of_small_keyed_events() -> None:
    from epicast.core import EventBatch

    batches = [EventBatch.decode(frame) for frame in frames()]
    assert len({len(frame) for frame in frames()}) == 1
    assert {batch.rows for batch in batches} == {1000}
    assert {len(key) for key in chain.from_iterable(batch.keys() for batch in batches)} == {10}


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Our ends and the relay's ends: driver, agent, one other proxy."""
    made = [socket.socketpair() for _ in range(3)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


def test_bytes_go_where_they_belong(pairs) -> None:
    (driver, our_driver), (agent, our_agent), (peer, our_peer) = pairs
    relay = Relay(our_driver, our_agent, [our_peer])
    driver.sendall(b"ours")
    assert relay.step(0)
    assert (agent.recv(99), peer.recv(99)) == (b"ours", b"ours")
    assert int.from_bytes(driver.recv(8), "little") == 4
    peer.sendall(b"theirs")
    assert relay.step(0)
    assert agent.recv(99) == b"theirs"
    driver.close()
    assert not relay.step(0)


def test_a_full_output_stops_the_driver_but_not_the_other_proxy(pairs) -> None:
    """The other proxy reads nothing, which must not keep us from reading it."""
    (driver, our_driver), (agent, our_agent), (peer, our_peer) = pairs
    relay = Relay(our_driver, our_agent, [our_peer])
    for end in (driver, agent, peer):
        end.setblocking(False)
    to_agent = 0
    while not relay.peers[0].full:
        put(driver, 1 << 16)
        assert relay.step(0)
        to_agent += take(agent)
    put(driver, 1 << 24)
    received = relay.received
    peer.sendall(bytes(1000))
    while to_agent < received + 1000:
        assert relay.step(0)
        to_agent += take(agent)
    assert relay.received == received
    to_peer = 0
    while to_peer < received or relay.received == received:
        assert relay.step(0)
        to_peer += take(peer)
        to_agent += take(agent)


def put(end: socket.socket, count: int) -> None:
    """As much of it as fits."""
    with suppress(BlockingIOError):
        end.send(bytes(count))


def take(end: socket.socket) -> int:
    try:
        return len(end.recv(1 << 24))
    except BlockingIOError:
        return 0


def test_what_does_not_fit_waits_in_order(pairs) -> None:
    far, near = pairs[0]
    near.setblocking(False)
    output = Output(near)
    data = bytes(range(256)) * 40_000
    output.send(memoryview(data))
    output.send(memoryview(b"the end"))
    assert output.full
    received = b""
    while len(received) < len(data) + 7:
        received += far.recv(1 << 20)
        output.flush()
    assert received == data + b"the end"
