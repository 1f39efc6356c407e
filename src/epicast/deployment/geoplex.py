"""A geoplex: all regions and streams together, as one file describes them.

`parse_geoplex` reads the whole file strictly, except for the tables `[proxies]`, `[agents]`,
`[simulate]` and the settings of topics: their types belong to the protocols and to the simulator,
which this package may not know. It only sees that they are tables; `Geoplex.section` reads one as
the type its user names and reports problems with file and line all the same.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, TypeVar
from typing import Protocol as Interface
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from epicast.core.errors import ConfigError
from epicast.core.ids import NodeId, Peer
from epicast.deployment.access import AccessControl
from epicast.deployment.addresses import Address, parse_address
from epicast.deployment.document import GeoplexDocument
from epicast.deployment.loading import load_document, load_section
from epicast.deployment.naming import (
    UnknownRegion,
    UnknownStream,
    UnknownTopic,
    node_id_of,
    not_among,
    stream_id,
)
from epicast.deployment.sections import (
    DEFAULT_LINK_LATENCY_NS,
    DEFAULT_SYNC_INTERVAL_NS,
    Ack,
    BudgetSection,
    CoordinationSection,
    EvidenceSection,
    LinkSection,
    RegionSection,
    StreamSection,
    TopicSection,
)
from epicast.deployment.security_section import SecuritySection
from epicast.deployment.simulate_section import SimulateSection

StructT = TypeVar("StructT", bound=Struct)
SimulateT = TypeVar("SimulateT", bound=SimulateSection)


class Replica(Struct, frozen=True, kw_only=True):
    """A process that does a region's work, alone or in a chain."""

    name: str
    """That of the region, with a number behind it where there are several."""
    id: NodeId
    listen: Address
    address: Address
    """Where others reach it."""
    data: str | None
    """Folder of its histories; none: in memory."""

    @property
    def peer(self) -> Peer:
        return Peer(self.id, *self.address)


class Region(Struct, frozen=True, kw_only=True):
    name: str
    id: NodeId
    """What streams call their owner; also that of its first replica."""
    replicas: tuple[Replica, ...]

    @property
    def listen(self) -> Address:
        return self.replicas[0].listen

    @property
    def address(self) -> Address:
        return self.replicas[0].address

    @property
    def data(self) -> str | None:
        return self.replicas[0].data

    @property
    def peer(self) -> Peer:
        return self.replicas[0].peer

    @property
    def is_chain(self) -> bool:
        return len(self.replicas) > 1


class Stream(Struct, frozen=True, kw_only=True):
    """Fields are called as in the configurations of the log that they end up in."""

    name: str
    id: int
    owner: str
    description: str
    ack: Ack
    sync_interval_ns: int
    latest_per_key: bool
    last_n: int | None
    max_age_ns: int | None
    retain_bytes: int | None
    retain_ns: int | None
    max_key_bytes: int


class Topic(Struct, frozen=True, kw_only=True):
    """Events among peers; `Geoplex.topic_settings` reads what its mode has to know."""

    name: str
    mode: str
    description: str
    contacts: tuple[Address, ...]


class Link(Struct, frozen=True, kw_only=True):
    """The way from one region's proxy to another's."""

    latency_ns: int = DEFAULT_LINK_LATENCY_NS
    bandwidth_bytes_per_second: int | None = None
    loss: float = 0.0
    via: tuple[Address, ...] = ()
    """Other addresses of the replicas there."""


class Geoplex(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    source_name: str
    """What errors call the file."""
    text: str
    """The file itself, for those who read further sections of it."""
    regions: Mapping[str, Region]
    streams: Mapping[str, Stream]
    topics: Mapping[str, Topic]
    links: Mapping[tuple[str, str], Link]
    """Those that differ from the default; ask `link`."""
    budget: BudgetSection
    coordination: str = ""
    """The coordination service of chains."""
    evidence: EvidenceSection | None = None
    """Whether and where logs for audits are written; its folder is relative to nothing."""
    security: SecuritySection | None = None
    """Whether connections are encrypted, and who may do what; its files are relative to nothing."""

    def region(self, name: str) -> Region:
        if name not in self.regions:
            raise UnknownRegion(f"{self.source_name}: {not_among('region', name, self.regions)}")
        return self.regions[name]

    def stream(self, name: str) -> Stream:
        if name not in self.streams:
            raise UnknownStream(f"{self.source_name}: {not_among('stream', name, self.streams)}")
        return self.streams[name]

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise UnknownTopic(f"{self.source_name}: {not_among('topic', name, self.topics)}")
        return self.topics[name]

    def topic_settings(self, name: str, struct_type: type[StructT]) -> StructT:
        """The table `[topics.NAME.settings]`, as the type that the topic's mode has for it."""
        path = ("topics", self.topic(name).name, "settings")
        return load_section(self.text, self.source_name, path, struct_type)

    def stream_by_id(self, number: int) -> Stream | None:
        return next((each for each in self.streams.values() if each.id == number), None)

    def replica(self, name: str) -> tuple[Region, Replica]:
        """By its own name, or that of its region: then the first."""
        region_name, _, number = name.partition("/")
        region = self.region(region_name)
        if not number:
            return region, region.replicas[0]
        names = [replica.name for replica in region.replicas]
        if name not in names:
            raise UnknownRegion(f"{self.source_name}: {not_among('replica', name, names)}")
        return region, region.replicas[names.index(name)]

    @property
    def replicas(self) -> list[Replica]:
        """Of all regions."""
        return [replica for region in self.regions.values() for replica in region.replicas]

    def region_by_id(self, number: NodeId) -> Region | None:
        """That of a replica, or what streams call their owner."""
        return next(
            (
                region
                for region in self.regions.values()
                if any(number == replica.id for replica in region.replicas)
            ),
            None,
        )

    def streams_of(self, region: str) -> list[Stream]:
        """Those it owns."""
        return [each for each in self.streams.values() if each.owner == self.region(region).name]

    def link(self, source: str, target: str) -> Link:
        return self.links.get((self.region(source).name, self.region(target).name), Link())

    def peer(self, target: str, source: str) -> Peer:
        """The proxy of `target` under the address by which the proxy of `source` reaches it."""
        return self.peers_of(target, source)[0]

    def peers_of(self, target: str, source: str) -> list[Peer]:
        """All replicas of `target` as those of `source` reach them."""
        replicas, via = self.region(target).replicas, self.link(source, target).via
        if not via:
            return [replica.peer for replica in replicas]
        return [Peer(replica.id, *way) for replica, way in zip(replicas, via, strict=True)]

    def peers(self, source: str) -> list[Peer]:
        """All other proxies, as those of `source` reach them."""
        return [
            peer for name in self.regions if name != source for peer in self.peers_of(name, source)
        ]

    def access(self) -> AccessControl | None:
        """Who is let in and what they may do; None: everybody, everything."""
        if self.security is None:
            return None
        regions = {
            replica.id: name for name, region in self.regions.items() for replica in region.replicas
        }
        return AccessControl(self.name, self.security, regions)

    def section(self, key: str, struct_type: type[StructT]) -> StructT:
        """One of the tables this package does not know the type of, such as `[agents]`."""
        return load_section(self.text, self.source_name, key, struct_type)

    def simulation(self, struct_type: type[SimulateT]) -> SimulateT:
        """The table `[simulate]`, checked against the regions and streams there are."""
        return load_section(
            self.text,
            self.source_name,
            "simulate",
            struct_type,
            lambda section: section.problems(self.regions, self.streams),
        )


class TextFile(Interface):
    """A `pathlib.Path`, or what reads and prints like one: this package opens no files itself."""

    def read_text(self, encoding: str) -> str: ...


def load_geoplex(file: TextFile) -> Geoplex:
    """Read a file; data folders in it are relative to the folder it is in."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: cannot be read: not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{file}: cannot be read: {reason}") from None
    return parse_geoplex(text, str(file), posixpath.dirname(str(file)))


def parse_geoplex(text: str, source_name: str, folder: str = "") -> Geoplex:
    """Read the text of a file; raises one `ConfigError` that lists every problem."""
    document = load_document(text, source_name, GeoplexDocument)
    regions = {
        name: Region(name=name, id=node_id_of(name), replicas=_replicas(name, section, folder))
        for name, section in document.regions.items()
    }
    return Geoplex(
        name=document.name,
        description=document.description,
        source_name=source_name,
        text=text,
        regions=regions,
        streams={
            name: _stream(name, section, durable=regions[section.owner].data is not None)
            for name, section in document.streams.items()
        },
        topics={name: _topic(name, section) for name, section in document.topics.items()},
        links=_links(document.links),
        budget=document.budget,
        coordination=_coordination(document.coordination, folder),
        evidence=_evidence(document.evidence, folder),
        security=_security(document.security, folder),
    )


def _replicas(name: str, section: RegionSection, folder: str) -> tuple[Replica, ...]:
    data = None if section.data is None else posixpath.join(folder, section.data)
    replicas = []
    places = list(zip(section.listen, section.addresses, strict=True))
    for number, (listen, address) in enumerate(places, 1):
        its_name = name if len(places) == 1 else f"{name}/{number}"
        # The first is who a proxy alone would be: a region can get more replicas later.
        is_first = number == 1
        its_data = data if data is None or is_first else posixpath.join(data, f"replica-{number}")
        replicas.append(
            Replica(
                name=its_name,
                id=node_id_of(name if is_first else its_name),
                listen=listen,
                address=address,
                data=its_data,
            )
        )
    return tuple(replicas)


def _coordination(section: CoordinationSection, folder: str) -> str:
    """All there is to know in one line, see `epicast.coordination.open_coordinator`."""
    kind, _, file = section.service.partition("sqlite:")
    if not kind:
        return f"sqlite:{posixpath.join(folder, file)}"
    files = {name: posixpath.join(folder, path) for name, path in section.files.items()}
    return f"{section.service}?{urlencode(files)}" if files else section.service


def _evidence(section: EvidenceSection | None, folder: str) -> EvidenceSection | None:
    if section is None:
        return None
    return replace(section, folder=posixpath.join(folder, section.folder))


def _security(section: SecuritySection | None, folder: str) -> SecuritySection | None:
    if section is None:
        return None
    files = ("ca", "certificate", "key", "agent_certificate", "agent_key")
    paths = {key: posixpath.join(folder, getattr(section, key)) for key in files}
    return replace(section, **paths)


def _stream(name: str, section: StreamSection, *, durable: bool) -> Stream:
    return Stream(
        name=name,
        id=stream_id(name),
        owner=section.owner,
        description=section.description,
        ack=section.ack or ("disk" if durable else "memory"),
        sync_interval_ns=section.sync_interval_ns or DEFAULT_SYNC_INTERVAL_NS,
        latest_per_key=section.latest_per_key,
        last_n=section.last_n,
        max_age_ns=section.max_age_ns,
        retain_bytes=section.retain_size_bytes,
        retain_ns=section.retain_age_ns,
        max_key_bytes=section.max_key_bytes,
    )


def _topic(name: str, section: TopicSection) -> Topic:
    return Topic(
        name=name,
        mode=section.mode,
        description=section.description,
        contacts=tuple(map(parse_address, section.contacts)),
    )


def _links(sections: list[LinkSection]) -> dict[tuple[str, str], Link]:
    written = {(each.source, each.target): each for each in sections}
    both_ways = [*written, *((target, source) for source, target in written)]
    return {
        (source, target): _link(written.get((source, target)), written.get((target, source)))
        for source, target in dict.fromkeys(both_ways)
    }


def _link(there: LinkSection | None, back: LinkSection | None) -> Link:
    """What the way there says, else what the way back says, else the default."""
    values: dict[str, Any] = {}
    for section in (back, there):  # the later one has the last word
        for name in ("latency_ns", "bandwidth_bytes_per_second", "loss"):
            if section is not None and getattr(section, name) is not None:
                values[name] = getattr(section, name)
    if there is not None:
        values["via"] = tuple(map(parse_address, there.ways))
    return Link(**values)
