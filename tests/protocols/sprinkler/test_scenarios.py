"""What the guarantees mean, one situation at a time. The auditor of `World` judges all of them."""

import pytest

from epicast.protocols.sprinkler import AgentConfig, ClientConfig, ProxyConfig
from epicast.sim.bandwidth import Bandwidth
from tests.protocols.harness import MS, SECOND
from tests.protocols.sprinkler.world import World

TEXT = """
name = "three"
[regions.us]
proxy = "us:1"
data = "us"
[regions.eu]
proxy = "eu:1"
data = "eu"
[regions.ap]
proxy = "ap:1"
data = "ap"
[streams.all]
owner = "us"
[streams.latest]
owner = "eu"
latest_per_key = true
"""


def three(**settings: object) -> World:
    return World(TEXT, 1, **settings)


def publish_for(world, node, stream, seconds, *, events=5, level="", keys=3, size=0):
    """Some events every 20 ms."""
    for at in range(seconds * 50):
        names = [b"k%d" % ((at + i) % keys) for i in range(events)]
        world.publish(node, stream, names, level=level, size=size)
        world.run(20 * MS)


def cut(world, *pairs):
    id_of = {name: node.id for name, node in world.geo.proxies.items()}
    ways = {frozenset((id_of[one], id_of[other])) for one, other in pairs}

    def is_cut(source, target):
        return frozenset((source, target)) in ways

    world.simulation.network.cut(is_cut)
    return is_cut


def session(world, application, number=1):
    return world.auditor.sessions[application.node.id, number]


def test_a_slow_subscriber_slows_nobody_and_gets_what_was_not_collected_meanwhile():
    world = three(agent=AgentConfig(buffer_bytes=4000), proxy=ProxyConfig(recent_bytes=4000))
    slow, quick = world.agent("ap", "slow"), world.agent("ap", "quick")
    for application in (slow, quick):
        application.subscribe(1, "latest", 4000)
    publisher = world.client("eu", "p")
    slow.stall(True)
    publish_for(world, publisher.node, "latest", 6, events=20, size=50)
    world.run(SECOND)
    assert session(world, quick).next == 6001
    assert session(world, slow).next < 1000
    delivered = len(session(world, slow).rows)
    slow.stall(False)
    world.drain()
    assert len(session(world, slow).rows) - delivered < 1000  # the rest came as tombstones


def test_a_slow_subscription_next_to_a_quick_one_of_the_same_client_keeps_to_its_window():
    """What is pushed to a client at the tail is meant for all of its subscriptions: one that is
    full must be spared."""
    world = three()
    client = world.client("us", "c")
    client.subscribe(1, "all", 1 << 20)
    client.subscribe(2, "all", 2000)
    publisher = world.client("us", "p")
    consume = client._consume
    client._consume = lambda number, last, size: number == 1 and consume(number, last, size)
    publish_for(world, publisher.node, "all", 4, size=100)
    assert session(world, client, 1).next > 900
    assert client.unconsumed[2] < 6000
    client._consume = consume
    client._consume(2, session(world, client, 2).next - 1, client.unconsumed[2])
    world.drain()


def test_reconnections_do_not_add_to_what_a_stalled_application_holds():
    world = three()
    proxy = world.geo.proxies["us"]
    publisher = world.client("us", "us/publisher").node
    reader = world.client("us", "us/reader")
    reader.subscribe(1, "all", 2000)
    world.run(SECOND)
    reader.stall(True)
    for _ in range(300):
        world.publish(publisher, "all", [b""], size=100)
    for _ in range(5):
        world.run(2 * SECOND)
        assert 0 < reader.unconsumed[1] < 2500
        world.simulation.network.connections.break_link(reader.node.links[proxy.id])
    reader.stall(False)
    world.drain()
    assert session(world, reader).next == 301


def test_a_late_agent_gets_everything_from_the_beginning():
    world = three()
    publisher = world.client("us", "p")
    publish_for(world, publisher.node, "all", 2)
    world.agent("ap", "late").subscribe(1, "all", 1 << 20)
    world.drain()
    assert world.auditor.delivered == 500


def test_an_agent_that_crashes_resumes_behind_its_watermark():
    world = three()
    agent = world.agent("ap", "a")
    agent.subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    for silently in (False, True):
        publish_for(world, publisher.node, "all", 1)
        world.crash(agent.node, silently=silently)
        publish_for(world, publisher.node, "all", 1)
        world.restart(agent.node)
    world.drain()
    assert world.auditor.delivered == 1000  # each exactly once


def test_events_and_publications_find_the_only_way_there_is():
    world = three()
    for region in ("us", "eu", "ap"):
        world.agent(region, f"{region}/a").subscribe(1, "all", 1 << 20)
    cut(world, ("us", "ap"))
    publisher = world.client("ap", "p")  # its events go to us by way of eu, and back the same way
    publish_for(world, publisher.node, "all", 3)
    world.drain()
    assert world.auditor.acknowledged == 750
    assert world.geo.proxy("ap").progress()["all"][1] == world.geo.proxies["eu"].id


def test_a_region_alone_catches_up_when_the_others_are_back():
    world = three()
    agent = world.agent("ap", "a")
    agent.subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    lonely = cut(world, ("ap", "us"), ("ap", "eu"))
    publish_for(world, publisher.node, "all", 8)
    assert session(world, agent).next == 1
    world.simulation.network.mend(lonely)
    world.drain()
    assert session(world, agent).next == 2001


def test_a_source_that_is_cut_off_is_left_even_for_a_single_event():
    """ap follows eu, eu loses everybody but ap; the owner is a few events ahead, no more."""
    world = three()
    agent = world.agent("ap", "a")
    agent.subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    direct = cut(world, ("us", "ap"))
    publish_for(world, publisher.node, "all", 8)
    assert world.geo.proxy("ap").progress()["all"][1] == world.geo.proxies["eu"].id
    world.simulation.network.mend(direct)
    cut(world, ("us", "eu"))
    world.run(SECOND)
    world.publish(publisher.node, "all", [b""])
    world.run(10 * SECOND)
    world.drain()
    assert session(world, agent).next == 2002


def test_a_proxy_that_crashes_keeps_what_it_acknowledged_and_uses_no_number_again():
    world = three(sync_ns=20 * MS)
    world.agent("ap", "a").subscribe(1, "all", 1 << 20)
    publisher = world.client("ap", "p")
    for _ in range(3):
        publish_for(world, publisher.node, "all", 1)
        world.crash(world.geo.proxies["us"])
        world.run(500 * MS)
        world.restart(world.geo.proxies["us"])
    publish_for(world, publisher.node, "all", 1)
    world.drain()
    assert world.auditor.acknowledged == 1000
    assert set(world.auditor.truth[world.geo.streams["all"].id]) == {1}  # one epoch


@pytest.mark.parametrize("sync_ms", [0, 20])
def test_an_owner_that_loses_its_disk_starts_over_and_everybody_is_told_once(sync_ms):
    world = three(sync_ns=sync_ms * MS)
    applications = [world.agent("us", "a1"), world.agent("ap", "a2"), world.client("eu", "c")]
    for application in applications:
        application.subscribe(1, "all", 1 << 20)
    publisher = world.client("eu", "p")
    publish_for(world, publisher.node, "all", 2)
    world.crash(world.geo.proxies["us"], lose_disk=True)
    publish_for(world, publisher.node, "all", 1)
    world.restart(world.geo.proxies["us"])
    publish_for(world, publisher.node, "all", 1)
    world.drain()
    for application in applications:
        assert session(world, application).restarts == [2]
        assert session(world, application).epoch == 2


def test_a_region_that_loses_its_disk_gets_everything_again():
    world = three()
    agent = world.agent("ap", "a")
    agent.subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    publish_for(world, publisher.node, "all", 2)
    world.crash(world.geo.proxies["ap"], lose_disk=True)
    publish_for(world, publisher.node, "all", 1)
    world.restart(world.geo.proxies["ap"])
    publish_for(world, publisher.node, "all", 1)
    world.drain()
    assert session(world, agent).restarts == []  # the owner has lost nothing
    assert world.geo.heads("ap")["all"] == 1000


def test_a_full_disk_refuses_and_later_publications_succeed():
    world = three()
    world.agent("ap", "a").subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    publish_for(world, publisher.node, "all", 1)
    disk = world.geo.proxies["us"].disk
    disk.fill()
    publish_for(world, publisher.node, "all", 1)
    disk.free()
    publish_for(world, publisher.node, "all", 1)
    world.drain()
    auditor = world.auditor
    assert auditor.refused == 250
    assert auditor.acknowledged == 500
    fates = set(auditor.published[world.geo.streams["all"].id].values())
    assert fates == {"acknowledged", "refused: STORAGE: disk full"}


def test_what_a_later_copy_brings_to_the_disk_is_not_refused():
    """The owner's answers do not arrive, so the publisher repeats itself; meanwhile the disk has
    room again. That the first copy was refused is no answer any more when it arrives."""
    world = three(client=ClientConfig(acknowledge_within_ns=300 * MS))
    publisher = world.client("ap", "p")
    world.run(SECOND)
    disk = world.geo.proxies["us"].disk
    disk.fill()
    us, ap = world.geo.proxies["us"].id, world.geo.proxies["ap"].id

    def answers_are_lost(source, target):
        return (source, target) == (us, ap)

    world.simulation.network.cut(answers_are_lost)
    world.publish(publisher.node, "all", [b"k"])
    world.run(800 * MS)
    disk.free()
    world.run(800 * MS)
    world.simulation.network.mend(answers_are_lost)
    world.publish(publisher.node, "all", [b"k"])
    world.drain()
    assert (world.auditor.acknowledged, world.auditor.refused) == (2, 0)


def test_a_full_disk_elsewhere_stops_nobody_else():
    world = three()
    world.agent("ap", "a").subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    world.geo.proxies["eu"].disk.fill()
    publish_for(world, publisher.node, "all", 2)
    world.run(SECOND)
    assert world.geo.heads("ap")["all"] == 500
    assert world.geo.heads("eu")["all"] == 0
    world.geo.proxies["eu"].disk.free()
    world.drain()
    assert world.geo.heads("eu")["all"] == 500


def test_a_publication_for_other_regions_waits_for_them():
    world = three()
    publisher = world.client("us", "p")
    world.run(SECOND)
    alone = cut(world, ("us", "eu"), ("us", "ap"))
    world.publish(publisher.node, "all", [b""] * 3, level="regions=1")
    world.run(3 * SECOND)
    assert world.geo.heads("us")["all"] == 3
    assert world.auditor.acknowledged == 0
    world.simulation.network.mend(alone)
    world.drain()
    assert world.auditor.acknowledged == 3


def test_a_publication_that_asks_for_less_does_not_answer_for_one_that_asks_for_more():
    """An acknowledgement speaks for everything of the publisher before it."""
    world = three()
    publisher = world.client("us", "p")
    world.run(SECOND)
    alone = cut(world, ("us", "eu"), ("us", "ap"))
    world.publish(publisher.node, "all", [b""], level="regions=2")
    world.publish(publisher.node, "all", [b""])
    world.run(3 * SECOND)
    assert world.auditor.acknowledged == 0
    world.simulation.network.mend(alone)
    world.drain()
    assert world.auditor.acknowledged == 2


def test_clients_of_a_sidecar_get_and_publish_like_any_other():
    world = three()
    sidecar = world.sidecar("ap", "side")
    client = world.client("ap", "c", at=sidecar.node)
    client.subscribe(1, "all", 3000)
    publish_for(world, client.node, "all", 2)
    world.crash(sidecar.node)
    world.run(SECOND)
    world.restart(sidecar.node)
    publish_for(world, client.node, "all", 1)
    world.drain()
    assert world.auditor.delivered == world.auditor.acknowledged == 750


def test_a_proxy_that_stands_still_is_waited_for():
    world = three()
    agent = world.agent("us", "a")
    agent.subscribe(1, "all", 1 << 20)
    publisher = world.client("us", "p")
    world.run(SECOND)
    world.simulation.pause(world.geo.proxies["us"])
    publish_for(world, publisher.node, "all", 4)
    assert agent.node.protocol.statistics()["attached"] == 0  # it knows that it is deaf
    world.simulation.resume(world.geo.proxies["us"])
    world.drain()
    assert world.auditor.acknowledged == 1000


def test_an_owner_without_room_is_not_stormed():
    """A publisher whose events are refused for lack of room tries one, then two, then four."""
    world = three(proxy=ProxyConfig(max_unstable_bytes=1000), sync_ns=50 * MS)
    publisher = world.client("us", "p")
    world.run(SECOND)
    for _ in range(200):
        world.publish(publisher.node, "all", [b""] * 5, size=100)
    world.drain()
    statistics = publisher.node.protocol.statistics()
    assert statistics["resent"] < 2000  # all of them each time would be tens of thousands


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_batches_of_any_size_come_out_the_same(batch):
    world = three(
        agent=AgentConfig(buffer_bytes=3000, early_bytes=3000),
        proxy=ProxyConfig(recent_bytes=3000, chunk_bytes=2000),
    )
    for region in ("us", "ap"):
        world.agent(region, f"{region}/a").subscribe(1, "all", 5000)
    publisher = world.client("us", "p")
    world.run(SECOND)
    for _ in range(2000 // batch):
        world.publish(publisher.node, "all", [b""] * batch)
        world.run(2 * MS)
    world.drain()
    assert world.auditor.delivered == 2 * (2000 // batch) * batch


def test_wide_windows_on_narrow_links_break_no_connection_for_ever():
    """A queue that overflows ends the connection. Were those who come late sent what their windows
    allow, that would happen again and again, and they would never get there."""
    world = three(
        bandwidth=Bandwidth(1_000_000, 1_000_000, 60_000),
        proxy=ProxyConfig(chunk_bytes=20_000, answer_bytes=20_000),
        agent=AgentConfig(answer_bytes=20_000),
    )
    publisher = world.client("us", "p")
    publish_for(world, publisher.node, "all", 4, events=20, size=100)
    sidecar = world.sidecar("us", "side")
    late = [world.client("us", f"c{at}", at=sidecar.node) for at in range(2)]
    late.append(world.agent("us", "a"))
    for application in late:
        for number in (1, 2, 3):
            application.subscribe(number, "all", 1 << 20)
    publish_for(world, publisher.node, "all", 2, events=20, size=100)
    world.drain()
    assert world.auditor.delivered == 9 * 6000
