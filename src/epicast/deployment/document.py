"""A whole `geoplex.toml` as it is written, and whether its tables fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta, field

from epicast.deployment.addresses import Address, parse_address
from epicast.deployment.naming import (
    NAME_RULE,
    collisions,
    is_name,
    node_id_of,
    not_among,
    stream_id,
    topic_id,
)
from epicast.deployment.problems import Problem, raise_if_any
from epicast.deployment.sections import (
    BudgetSection,
    CoordinationSection,
    EvidenceSection,
    LinkSection,
    RegionSection,
    Section,
    StreamSection,
    TopicSection,
)
from epicast.deployment.security_section import SecuritySection

MAX_REGIONS = 256
MAX_STREAMS = 4096
MAX_TOPICS = 4096


class GeoplexDocument(Section, frozen=True, kw_only=True):
    name: str
    description: str = ""
    regions: Annotated[dict[str, RegionSection], Meta(min_length=1, max_length=MAX_REGIONS)]
    links: Annotated[list[LinkSection], Meta(max_length=MAX_REGIONS * MAX_REGIONS)] = field(
        default_factory=list
    )
    streams: Annotated[dict[str, StreamSection], Meta(max_length=MAX_STREAMS)] = field(
        default_factory=dict
    )
    topics: Annotated[dict[str, TopicSection], Meta(max_length=MAX_TOPICS)] = field(
        default_factory=dict
    )
    budget: BudgetSection = field(default_factory=BudgetSection)
    coordination: CoordinationSection = field(default_factory=CoordinationSection)
    evidence: EvidenceSection | None = None
    security: SecuritySection | None = None
    proxies: dict[str, Any] = field(default_factory=dict)
    """Settings of the protocol between regions; who runs it knows their type."""
    agents: dict[str, Any] = field(default_factory=dict)
    """Settings of the protocol inside a region, likewise."""
    simulate: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        checks = (_names, _addresses, _data_folders, _links, _streams, _topics, _rights, _etcd)
        for check in checks:
            problems += check(self)
        raise_if_any(problems)


def _names(document: GeoplexDocument) -> Iterator[Problem]:
    if not is_name(document.name):
        yield Problem(("name",), NAME_RULE)
    for table, names, id_of in (
        ("regions", document.regions, node_id_of),
        ("streams", document.streams, stream_id),
    ):
        for name in names:
            if not is_name(name):
                yield Problem((table, name), NAME_RULE)
        for first, second in collisions(names, id_of):
            message = f"{first!r} and {second!r} have the same id by chance; rename one of them"
            yield Problem((table, second), message)


def _addresses(document: GeoplexDocument) -> Iterator[Problem]:
    owners: dict[Address, str] = {}
    for name, region in document.regions.items():
        for address in region.addresses:
            owner = owners.setdefault(address, name)
            if owner != name:
                message = f"{address} is the address of region {owner!r} already"
                yield Problem(("regions", name), message)
    for index, link in enumerate(document.links):
        for address in map(parse_address, link.ways):
            owner = owners.setdefault(address, link.target)
            if owner != link.target:
                message = f"{address} leads to region {owner!r} already; it cannot lead to two"
                yield Problem(("links", index, "via"), message)


def _data_folders(document: GeoplexDocument) -> Iterator[Problem]:
    """Regions on different machines may well call their folders the same."""
    owners: dict[tuple[str, str], str] = {}
    for name, region in document.regions.items():
        if region.data is not None:
            hosts = {address.host for address in region.addresses}
            folders = [(host, region.data.rstrip("/")) for host in sorted(hosts)]
            others = {owners.setdefault(folder, name) for folder in folders} - {name}
            for owner in sorted(others):
                message = f"region {owner!r} on the same host keeps its data there already"
                yield Problem(("regions", name, "data"), message)


def _links(document: GeoplexDocument) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, link in enumerate(document.links):
        for key, end in (("from", link.source), ("to", link.target)):
            if end not in document.regions:
                yield Problem(("links", index, key), not_among("region", end, document.regions))
        replicas = (
            len(document.regions[link.target].addresses) if link.target in document.regions else 0
        )
        if replicas and link.ways and len(link.ways) != replicas:
            message = f"{link.target!r} has {replicas} replicas: give an address for each"
            yield Problem(("links", index, "via"), message)
        if (link.source, link.target) in seen:
            message = f"a second link from {link.source!r} to {link.target!r}; merge the two"
            yield Problem(("links", index), message)
        seen.add((link.source, link.target))


def _streams(document: GeoplexDocument) -> Iterator[Problem]:
    for name, stream in document.streams.items():
        owner = document.regions.get(stream.owner)
        if owner is None:
            message = not_among("region", stream.owner, document.regions)
            yield Problem(("streams", name, "owner"), message)
        elif owner.data is None and stream.ack not in (None, "memory"):
            message = (
                f"{stream.ack!r} needs a disk, but region {stream.owner!r} has no data folder; "
                "give it one or say 'memory'"
            )
            yield Problem(("streams", name, "ack"), message)


def _topics(document: GeoplexDocument) -> Iterator[Problem]:
    for name in document.topics:
        if not is_name(name):
            yield Problem(("topics", name), NAME_RULE)
    modes = {name: section.mode for name, section in document.topics.items()}
    for first, second in collisions(modes, lambda name: topic_id(name, modes[name])):
        message = f"{first!r} and {second!r} have the same id by chance; rename one of them"
        yield Problem(("topics", second), message)


def _rights(document: GeoplexDocument) -> Iterator[Problem]:
    if document.security is not None:
        for index, position, name in document.security.names_in_use("streams"):
            if name not in document.streams:
                path = ("security", "rights", index, "streams", position)
                yield Problem(path, not_among("stream", name, document.streams))


def _etcd(document: GeoplexDocument) -> Iterator[Problem]:
    """Whoever can write there decides who is in a chain."""
    scheme, _, members = document.coordination.service.partition("://")
    if document.security is None or scheme != "etcd":
        return
    hosts = (member.rpartition(":")[0] for member in members.split(","))
    if not all(host in ("localhost", "[::1]") or host.startswith("127.") for host in hosts):
        message = "with [security] etcd on other machines is reached by etcds://"
        yield Problem(("coordination", "service"), message)
