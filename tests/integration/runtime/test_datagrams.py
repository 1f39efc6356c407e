"""UDP: coalesced, bounded, never harmful."""

import socket

import pytest

from epicast.core import DATA, DATAGRAM, EventBatch, Group, Layered, Peer
from epicast.protocols.sprinkler.messages import Tail
from epicast.runtime import Limits
from epicast.wire import encode_datagram
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, node, turns
from tests.unit.wire.samples import Fields, Ping


def number(value: int, size: int = 0) -> Fields:
    return Fields(value, "", bytes(size))


def test_roundtrip_without_a_connection(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2) as two:
            two.do(lambda fx: fx.know(one.peer), lambda fx: fx.send(1, number(1), DATAGRAM))
            await eventually(lambda: one.log == [("message", 2, number(1))])
            one.do(lambda fx: fx.send([2], number(2), DATAGRAM))
            await eventually(lambda: two.log == [("message", 1, number(2))])
            assert one.count("connections_made") == two.count("connections_made") == 0

    run(main())


def test_messages_of_a_step_share_datagrams(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2) as two:
            two.do(
                lambda fx: fx.know(one.peer),
                *(lambda fx, v=v: fx.send(1, number(v, 100), DATAGRAM) for v in range(20)),
            )
            await eventually(lambda: len(one.messages()) == 20)
            assert one.messages() == [number(value, 100) for value in range(20)]
            assert two.count("datagrams_sent") == 2

    run(main())


def test_oversized_message_is_dropped_and_counted(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2) as two:
            two.do(
                lambda fx: fx.know(one.peer),
                lambda fx: fx.send(1, number(1), DATAGRAM),
                lambda fx: fx.send(1, number(2, 1400), DATAGRAM),
                lambda fx: fx.send(1, number(3), DATAGRAM),
            )
            await eventually(lambda: one.messages() == [number(1), number(3)])
            assert two.count("drop.datagram too large") == 1

    run(main())


def test_unknown_peer_is_counted(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            one.do(lambda fx: fx.send([7, 8], Ping(), DATAGRAM))
            await eventually(lambda: one.count("drop.address unknown") == 2)

    run(main())


def test_address_that_cannot_be_one_is_counted(run: Run) -> None:
    async def main() -> None:
        bad = [("127.0.0.1", 70000), ("127.0.0.1", 0), ("no such\0host", 1), ("999.1.1.1", 1)]
        async with node(1) as one, node(2) as two:
            for peer in [Peer(7 + n, *address) for n, address in enumerate(bad)]:
                one.do(
                    lambda fx, peer=peer: fx.know(peer),
                    lambda fx, to=peer.id: fx.send(to, Ping(), DATAGRAM),
                )
            await eventually(lambda: one.count("drop.no address for datagrams") == 4)
            one.do(lambda fx: fx.know(two.peer), lambda fx: fx.send(2, Ping(), DATAGRAM))
            await eventually(lambda: two.messages() == [Ping()])

    run(main())


def test_name_is_resolved_without_blocking(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2) as two:
            named = Peer(2, "localhost", two.peer.port)
            one.do(lambda fx: fx.know(named))
            while not two.messages():
                one.do(lambda fx: fx.send(2, Ping(), DATAGRAM))
                await turns(5)
            assert one.count("drop.no address for datagrams") >= 1, "at first"

    run(main())


def test_bad_datagrams_are_dropped_and_counted(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one:
            good = encode_datagram(2, 1, [Ping()])
            corrupt = bytearray(good)
            corrupt[-1] ^= 1
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for data in (b"", b"garbage", bytes(corrupt), good[:30], good):
                    sender.sendto(data, (one.peer.host, one.peer.port))
                await eventually(lambda: one.messages() == [Ping()])
            assert one.count("drop.bad datagram") == 4
            assert one.count("wire_error.malformed") == 2
            assert one.count("wire_error.corrupt") == 2

    run(main())


def test_too_many_datagrams_in_a_turn(run: Run) -> None:
    async def main() -> None:
        async with node(1, limits=Limits(inbound_datagrams=1)) as one:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for _ in range(50):
                    data = encode_datagram(2, 1, [Ping()])
                    sender.sendto(data, (one.peer.host, one.peer.port))
            await eventually(
                lambda: len(one.messages()) + one.count("drop.too many datagrams") == 50
            )
            assert one.messages()

    run(main())


def test_claimed_address_does_not_replace_a_proven_one(run: Run) -> None:
    async def main() -> None:
        async with node(1) as one, node(2, [one.peer]) as two:
            await eventually(lambda: two.reports(1) == ["up"])
            one.do(lambda fx: fx.connect(two.peer))
            await eventually(lambda: one.reports(2) == ["up"])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
                claim = encode_datagram(2, 2**63, [number(66)])
                liar.sendto(claim, (one.peer.host, one.peer.port))
                await eventually(lambda: one.messages() == [number(66)])
            one.do(lambda fx: fx.send(2, number(1), DATAGRAM))
            await eventually(lambda: two.messages() == [number(1)])

    run(main())


def test_what_only_the_owner_may_say_takes_a_connection(run: Run) -> None:
    """The sender of a datagram can claim to be any node."""

    async def main() -> None:
        async with node(1) as one:
            forged = Tail((EventBatch.build(7, 1, [b"forged"]),))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
                for message in (forged, Layered(3, forged), number(1)):
                    data = encode_datagram(2, 1, [message])
                    liar.sendto(data, (one.peer.host, one.peer.port))
                await eventually(lambda: one.messages() == [number(1)])
            assert one.count("drop.not accepted from a datagram") == 2

    run(main())


def group_is_possible(group: Group) -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((group.host, group.port))
            membership = socket.inet_aton(group.host) + socket.inet_aton("127.0.0.1")
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, membership[4:])
            probe.sendto(b"", (group.host, group.port))
        return True
    except OSError:
        return False


def test_group_reaches_its_members_only(run: Run) -> None:
    group = Group(5, "239.255.77.5", 47805)
    if not group_is_possible(group):
        pytest.skip("this system has no multicast on the loopback interface")

    async def main() -> None:
        async with node(1) as one, node(2) as two, node(3) as three:
            for member in (one, two):
                member.do(lambda fx: fx.join(group))
            await turns()
            one.do(lambda fx: fx.send(group, number(1), DATA))
            await eventually(lambda: two.log == [("message", 1, number(1))])
            three.do(lambda fx: fx.send(group, number(2)))
            await eventually(lambda: three.count("drop.group not joined") == 1)
            two.do(lambda fx: fx.leave(group))
            await turns()
            one.do(lambda fx: fx.send(group, number(3)), lambda fx: fx.know(three.peer))
            one.do(lambda fx: fx.send(3, number(4), DATAGRAM))
            await eventually(lambda: three.messages() == [number(4)])
            await turns()
            assert two.messages() == [number(1)]
            assert one.log == [], "nobody hears itself"

    run(main())


def test_group_that_cannot_be_joined(run: Run) -> None:
    async def main() -> None:
        async with node(1, limits=Limits(max_groups=1)) as one:
            one.do(lambda fx: fx.join(Group(1)), lambda fx: fx.join(Group(2, "127.0.0.1", 70000)))
            await eventually(lambda: one.count("drop.cannot join group") == 2)

    run(main())
