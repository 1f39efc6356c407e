"""The tables of a `geoplex.toml`, as they are written. `docs/geoplex.md` lists every key.

Each table checks what it can see by itself; `document.py` has what needs several of them. What the
file means is in `geoplex.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from epicast.core.errors import ConfigError
from epicast.deployment.addresses import Address, parse_address
from epicast.deployment.problems import Problem, raise_if_any
from epicast.deployment.units import (
    MILLISECOND,
    SECOND,
    Bandwidth,
    Duration,
    Fraction,
    Frequency,
    Size,
    without_unit,
)

Ack = Literal["memory", "interval", "disk"]
Positive = Annotated[int, Meta(ge=1)]
SomeTime = Annotated[Duration, Meta(gt=0)]
SomeBytes = Annotated[Size, Meta(ge=1)]
DEFAULT_LINK_LATENCY_NS = 40 * MILLISECOND
DEFAULT_SYNC_INTERVAL_NS = SECOND
MAX_KEY_BYTES = 65_535
MIN_RETAINED_BYTES = 1 << 20
"""Less than a few segments' worth cannot be kept with any precision."""


class Section(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename=without_unit):
    """Keys lose the unit that field names end in: values carry their own."""


MAX_CONTACTS = 16


class TopicSection(Section, frozen=True, kw_only=True):
    """A topic among peers. Who knows its mode reads its settings."""

    mode: str = "gossip"
    """How events spread."""
    description: str = ""
    contacts: Annotated[list[str], Meta(max_length=MAX_CONTACTS)] = []
    """Peers through which others join."""
    settings: dict[str, Any] = {}
    """Of the mode."""

    def __post_init__(self) -> None:
        raise_if_any(self._problems())

    def _problems(self) -> Iterator[Problem]:
        for index, text in enumerate(self.contacts):
            try:
                parse_address(text)
            except ConfigError as error:
                yield Problem(("contacts", index), str(error))


class RegionSection(Section, frozen=True, kw_only=True):
    proxy: str | None = None
    """Where the region's proxy listens."""
    replicas: list[str] = []
    """The same of several that do its work together, as a chain of replicas."""
    advertise: str | None = None
    """Where others reach it, if not at `proxy`."""
    data: str | None = None
    """Folder of the histories, relative to the file; none: in memory only."""

    def __post_init__(self) -> None:
        raise_if_any(self._problems())

    @property
    def listen(self) -> list[Address]:
        return [parse_address(each) for each in self._written]

    @property
    def addresses(self) -> list[Address]:
        return self.listen if self.advertise is None else [parse_address(self.advertise)]

    @property
    def _written(self) -> list[str]:
        return [self.proxy] if self.proxy is not None else self.replicas

    def _problems(self) -> Iterator[Problem]:
        if self.proxy is not None and self.replicas:
            yield Problem(("replicas",), "give either proxy or replicas, not both")
            return
        if self.proxy is None and not self.replicas:
            yield Problem((), "missing key 'proxy': expected the address its proxy listens on")
            return
        if len(self.replicas) > 1 and self.advertise is not None:
            message = "several replicas need an address each; name it in replicas instead"
            yield Problem(("advertise",), message)
            return
        keys: list[tuple[str | int, ...]] = [("proxy",)]
        if self.proxy is None:
            keys = [("replicas", at) for at in range(len(self.replicas))]
        broken = [
            problem
            for key, written in zip(keys, self._written, strict=True)
            for problem in _address_problems(written, *key)
        ]
        broken += _address_problems(self.advertise, "advertise")
        yield from broken
        if not broken:
            yield from self._unreachable(keys if self.advertise is None else [("advertise",)])
        if self.data is not None and (not self.data.strip() or "\0" in self.data):
            yield Problem(("data",), "expected a folder, or leave the key out to keep no files")

    def _unreachable(self, keys: list[tuple[str | int, ...]]) -> Iterator[Problem]:
        hint = "; say with advertise where they can" if len(keys) == 1 else ""
        for at, (key, address) in enumerate(zip(keys, self.addresses, strict=True)):
            if address.is_wildcard:
                yield Problem(key, f"nobody can connect to {address}{hint}")
            elif address in self.addresses[:at]:
                yield Problem(key, f"{address} is the address of two replicas")


class CoordinationSection(Section, frozen=True, kw_only=True):
    """Where replicas agree on who is in the chain, see `docs/coordination.md`."""

    service: str = "sqlite:coordination.db"
    """`sqlite:FILE`, relative to the geoplex file, or `etcd://HOST:PORT,…`, or `etcds://…`."""
    ca: str | None = None
    """With `etcds://`: whose certificates are accepted. Those the system trusts, if none."""
    certificate: str | None = None
    """With `etcds://`: what replicas show etcd."""
    key: str | None = None

    def __post_init__(self) -> None:
        raise_if_any(self._problems())

    @property
    def files(self) -> dict[str, str]:
        given = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return {name: file for name, file in given.items() if file is not None}

    def _problems(self) -> Iterator[Problem]:
        expected = "sqlite:FILE, etcd://HOST:PORT or etcds://HOST:PORT"
        if not self.service.startswith(("sqlite:", "etcd://", "etcds://")) or "\0" in self.service:
            yield Problem(("service",), f"expected {expected}, not {self.service!r}")
        for name, file in self.files.items():
            if not file.strip() or "\0" in file:
                yield Problem((name,), "expected a file")
            elif not self.service.startswith("etcds://"):
                yield Problem((name,), "is for encrypted connections: service = 'etcds://…'")
        if (self.certificate is None) != (self.key is None):
            yield Problem((), "certificate and key go together")


class LinkSection(Section, frozen=True, kw_only=True):
    """The way from one region to another. What the way back does not say itself (latency,
    bandwidth, loss), it takes from here."""

    source: str = field(name="from")
    target: str = field(name="to")
    latency_ns: SomeTime | None = None
    bandwidth_bytes_per_second: Annotated[Bandwidth, Meta(ge=1)] | None = None
    loss: Annotated[Fraction, Meta(lt=1)] | None = None
    via: str | list[str] | None = None
    """Another address under which `from` reaches the proxy of `to`, such as a relay. Only this way:
    a relay leads to one place. If `to` has several replicas, one for each."""

    def __post_init__(self) -> None:
        for via in self.ways:
            raise_if_any(_address_problems(via, "via"))
        if self.source == self.target:
            raise ConfigError(f"a link from {self.source!r} to itself; agents are what is inside")
        if (self.latency_ns, self.bandwidth_bytes_per_second, self.loss, self.via) == (None,) * 4:
            raise ConfigError("says nothing; give latency, bandwidth, loss or via, or remove it")

    @property
    def ways(self) -> list[str]:
        if self.via is None:
            return []
        return [self.via] if isinstance(self.via, str) else self.via


class EvidenceSection(Section, frozen=True, kw_only=True):
    """Logs for audits, see `docs/evidence.md`."""

    folder: str
    """Where proxies write theirs, relative to the file."""
    file_size_bytes: SomeBytes = 64 << 20
    total_size_bytes: SomeBytes = 4 << 30
    """Of one log; the oldest files are deleted when there is more."""

    def __post_init__(self) -> None:
        if not self.folder.strip() or "\0" in self.folder:
            raise_if_any([Problem(("folder",), "expected a folder")])


class StreamSection(Section, frozen=True, kw_only=True):
    owner: str
    description: str = ""
    ack: Ack | None = None
    """When an event counts as stored: in memory, on disk soon, or on disk. None: the safest the
    owner can keep."""
    sync_interval_ns: SomeTime | None = None
    latest_per_key: bool = False
    last_n: Positive | None = None
    max_age_ns: SomeTime | None = None
    retain_size_bytes: Annotated[Size, Meta(ge=MIN_RETAINED_BYTES)] | None = None
    retain_age_ns: SomeTime | None = None
    max_key_bytes: Annotated[Size, Meta(ge=1, le=MAX_KEY_BYTES)] = 1024

    def __post_init__(self) -> None:
        if self.sync_interval_ns is not None and self.ack != "interval":
            message = "has no effect without ack = 'interval'"
            raise_if_any([Problem(("sync_interval",), message)])


class NodeBudget(Section, frozen=True, kw_only=True):
    """What one node may use. None: the default of the driver, see `runtime/limits.py`."""

    bandwidth_bytes_per_second: Annotated[Bandwidth, Meta(ge=1)] | None = None
    """Up and down each; kept by the simulator."""
    control_queue_bytes: SomeBytes | None = None
    data_queue_bytes: SomeBytes | None = None
    append_queue_bytes: SomeBytes | None = None
    max_frame_bytes: Annotated[Size, Meta(ge=1024)] | None = None
    max_connections: Positive | None = None
    max_connections_per_address: Positive | None = None
    max_connections_per_identity: Positive | None = None
    max_knocking: Positive | None = None
    connect_timeout_ns: SomeTime | None = None
    max_messages_per_second: Annotated[Frequency, Meta(ge=1)] | None = None
    max_receive_bytes_per_second: Annotated[Bandwidth, Meta(ge=1)] | None = None
    max_reads: Positive | None = None

    def limits(self) -> dict[str, int]:
        """The limits given, by their names in the driver's `Limits`."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        del given["bandwidth_bytes_per_second"]
        return {name: int(value) for name, value in given.items() if value is not None}


class BudgetSection(Section, frozen=True, kw_only=True):
    proxy: NodeBudget = field(default_factory=NodeBudget)
    agent: NodeBudget = field(default_factory=NodeBudget)


def _address_problems(text: str | None, *path: str | int) -> Iterator[Problem]:
    if text is not None:
        try:
            parse_address(text)
        except ConfigError as error:
            yield Problem(path, str(error))
