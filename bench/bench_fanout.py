"""One region with a thousand agents, a million events: nothing is lost, and who carries the bytes.

A proxy, a publisher, and agents, many per process, each with an address, neighbours and buffers of
its own. Events come in batches at a steady rate that two cores can carry to everybody. Whom no
neighbour tells of them hears of them with a heartbeat of the proxy, and asks it. Every agent checks
every event. Bytes are counted where they are sent, and include everything: events, notices,
requests, membership.
"""

import time

from bench.fanout_parts import BATCH, FIRST, STREAM
from bench.harness import Bar, Figure, Result
from bench.rivals.events import EVENT_BYTES
from bench.rivals.processes import Team
from epicast.deployment import parse_geoplex
from epicast.geo.local import LocalGeoplex

MODULE = "bench.fanout_parts"
REGION = "here"
PATIENCE_S = 120.0
DRAIN_S = 300.0
"""What has not arrived so long after the last publication is lost."""
SETTLE_S = 8.0
"""For the agents to get to know each other."""


def run(quick: bool) -> Result:
    if quick:
        return measure(40, 2, 100_000, rate=200_000, heartbeat_s=1, settle_s=1.0)
    return measure(1000, 4, 1_000_000, rate=8_000, heartbeat_s=10, settle_s=SETTLE_S)


def measure(
    agents: int, processes: int, events: int, *, rate: int, heartbeat_s: int, settle_s: float
) -> Result:
    geoplex = parse_geoplex(document(agents, heartbeat_s), "bench")
    with LocalGeoplex(geoplex, any_ports=True) as local, Team() as team:
        host, port = local.geoplex.region(REGION).address
        share = agents // processes
        followers = [
            team.start(MODULE, "follow", host, port, number * share, share)
            for number in range(processes)
        ]
        publisher = team.start(MODULE, "publish", local.address(REGION), events, rate)
        assert publisher.hear(PATIENCE_S) == "ready"
        attached = sum(follower.hear(PATIENCE_S) for follower in followers)
        if attached != agents:
            raise AssertionError(f"{attached} of {agents} agents have found their proxy")
        time.sleep(settle_s)
        publisher.tell("first")
        for follower in followers:
            follower.tell([FIRST, DRAIN_S])
        for follower in followers:
            assert follower.hear(PATIENCE_S + DRAIN_S) == "first"
        before = local.status()[REGION].driver["bytes_sent"]
        for follower in followers:
            follower.tell([FIRST + events, events / rate + DRAIN_S])
        publisher.tell("go")
        published = publisher.hear(PATIENCE_S + events / rate)
        reports = [follower.hear(PATIENCE_S + events / rate + DRAIN_S) for follower in followers]
        proxy_bytes = local.status()[REGION].driver["bytes_sent"] - before
        for follower in followers:
            follower.tell("stop")
    errors = [error for report in reports for error in report["errors"]]
    if errors:
        raise AssertionError(errors[:3])
    seconds = max(report["finished"] for report in reports) - published["started"]
    lost = sum(report["lost"] for report in reports)
    encoded = published["batch_bytes"] * events / BATCH
    figures = evaluate(reports, agents, events, encoded, proxy_bytes)
    figures["seconds"] = round(seconds, 1)
    figures["deliveries_per_s"] = round(agents * events / seconds)
    return Result("fanout", figures, [Bar("lost", 0, "at most", lost, "events")])


def evaluate(
    reports: list[dict], agents: int, events: int, encoded: float, proxy_bytes: int
) -> dict[str, Figure]:
    def per_agent(name: str) -> float:
        return sum(report["statistics"][name] for report in reports) / agents

    sent = per_agent("bytes_sent")
    received = sent + proxy_bytes / agents
    return {
        "agents": agents,
        "events": events,
        "payload_bytes": events * EVENT_BYTES,
        "encoded_bytes": round(encoded),
        "received_bytes_per_agent": round(received),
        "sent_bytes_per_agent": round(sent),
        "amplification": round(received / encoded, 3),
        "proxy_share_of_bytes": round(proxy_bytes / (received * agents), 4),
        "duplicates_per_agent": round(per_agent("duplicates"), 2),
        "fallbacks_per_agent": round(per_agent("fallbacks"), 3),
        "notices_per_agent": round(per_agent("notified"), 1),
        "connections_made_per_agent": round(per_agent("connections_made"), 2),
    }


def document(agents: int, heartbeat_s: int) -> str:
    """One region, its history in memory, with room for everybody's connection."""
    return f"""
        name = "bench"
        [regions.{REGION}]
        proxy = "127.0.0.1:1"
        [streams.{STREAM}]
        owner = "{REGION}"
        ack = "memory"
        [budget.proxy]
        max_connections = {2 * agents + 100}
        [proxies]
        heartbeat_every = "{heartbeat_s}s"
        shuffle_time = "600s"
    """
