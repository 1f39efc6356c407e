"""A peer: a node of an application that takes part in topics, on one port of its own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Any

from epicast.client.addresses import address_towards, parse_contacts
from epicast.client.errors import AccessDenied, Closed
from epicast.client.topics.contacts import ContactSeeker
from epicast.client.topics.guard import GuardedTopic
from epicast.client.topics.items import Gap
from epicast.client.topics.options import PeerOptions, check_contacts
from epicast.client.topics.topic import JOIN_WITHIN_S, Topic
from epicast.core import (
    MAX_NODE_ID,
    Config,
    ConfigError,
    EpicastError,
    EventBatch,
    NodeId,
    Peer,
    Protocol,
)
from epicast.core.effects import Publication
from epicast.core.host import Host, HostConfig
from epicast.deployment import AccessControl, Action, topic_id
from epicast.deployment.addresses import Address
from epicast.deployment.naming import NAME_RULE, is_name
from epicast.protocols.epto import EarlyStep, Missing, OwnEvents, Pending
from epicast.protocols.epto.topic import OrderedTopic
from epicast.protocols.topic_modes import (
    DEFAULT_MODE,
    checked_config,
    declared_config,
    topic_mode,
)
from epicast.runtime import NodeDriver
from epicast.runtime.gate import NeighbourGate, PeerGate, Rights, Security
from epicast.runtime.identify import own_names
from epicast.runtime.waiting import Outcome, end_task, in_thread, spawn

LOOPBACK = "127.0.0.1"


class PeerNode:
    """Made by `join`. `topic` may be called before it listens: topics wait for that."""

    def __init__(self, options: PeerOptions) -> None:
        self.id: NodeId = random_id()
        """Who its events come from; another one each time."""
        self._options = options
        self._access = None if options.geoplex is None else options.geoplex.access()
        self._identity = "" if self._access is None else own_identity(self._access, options)
        self._driver: NodeDriver | None = None
        self._host: Host | None = None
        self._listening: Outcome[None] = Outcome()
        self._over: EpicastError | None = None
        self._topics: dict[int, Topic] = {}
        self._next_sequences: dict[int, int] = {}
        """By topic: a topic that is left and joined again goes on where it was."""
        self._own_events: dict[int, OwnEvents] = {}
        """By ordered topic: the events of this node, as its peers know them."""
        self._rng = Random(random_id())
        self._life: Any = spawn(self._live())

    # -- life ------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Until it listens; raises why it cannot."""
        await self._listening.wait()

    @property
    def address(self) -> str:
        """Where others reach it, as they write it in `join`."""
        return str(Address(self.peer.host, self.peer.port))

    @property
    def peer(self) -> Peer:
        return self._running[0].node

    @property
    def _running(self) -> tuple[NodeDriver, Host]:
        if self._driver is None or self._host is None:
            raise Closed("the node does not listen yet: await its `ready` first")
        return self._driver, self._host

    async def _live(self) -> None:
        options = self._options
        try:
            driver = self._driver = NodeDriver(
                self.id,
                options.host or await _own_host(options.towards),
                options.port,
                limits=options.limits,
                cluster=options.cluster,
                seed=random_id(),
                on_topic_delivery=self._on_topic_delivery,
                on_refuse=self._on_refuse,
                on_notice=self._on_notice,
                security=self._security(),
            )
            host = Host(await driver.listen(), HostConfig(), Random(random_id()))
            await driver.start(host)
            self._host = host
        except Exception as error:
            self._listening.fail(error)
            self._end(error if isinstance(error, EpicastError) else Closed(repr(error)))
            return
        self._listening.resolve(None)
        try:
            await driver.wait()
            self._end(Closed("the node was stopped"))
        except Exception as error:
            self._end(Closed(f"the node failed: {error!r}"))

    def _security(self) -> Security | None:
        """Without the file, all agents of the geoplex are let in."""
        proof, access = self._options.credentials, self._access
        if proof is None:
            return None
        gate = NeighbourGate(self._options.cluster, {}) if access is None else PeerGate(access)
        return Security(proof.for_agent(), gate)

    async def close(self) -> None:
        """Leave all topics politely and stop listening."""
        await self._finish(politely=True)

    async def abort(self) -> None:
        """End at once without a word to anybody, as a crash would."""
        await self._finish(politely=False)

    async def _finish(self, *, politely: bool) -> None:
        self._end(Closed("the node was closed"))
        for topic in list(self._topics.values()):
            await topic.give_up()
        with suppress(Exception):  # whose business it is has heard of it
            await self._listening.wait()
        if self._driver is not None:
            await (self._driver.stop() if politely else self._driver.abort())
        await end_task(self._life)

    def _end(self, error: EpicastError) -> None:
        if self._over is None:
            self._over = error
            for topic in self._topics.values():
                topic.end(error)

    async def __aenter__(self) -> PeerNode:
        await self.ready()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # -- topics ----------------------------------------------------------------------------------

    def topic(
        self,
        name: str,
        mode: str | None = None,
        *,
        config: Config | None = None,
        contacts: Sequence[str] | None = None,
        join_within: float | None = JOIN_WITHIN_S,
    ) -> Topic:
        """Join a topic, in the background. What is not given comes from the node's geoplex.toml, if
        the topic is declared there, and from `join`. If nobody in the topic was heard of within
        `join_within` seconds (None: no limit), the topic ends with `JoinFailed`."""
        if self._over is not None:
            raise self._over
        if not is_name(name):
            raise ConfigError(f"topic {name!r}: {NAME_RULE}")
        geoplex = self._options.geoplex
        declared = None if geoplex is None else geoplex.topics.get(name)
        through = self._options.contacts or (() if declared is None else declared.contacts)
        if contacts is not None:
            through = self._parsed(contacts)
        if mode is None:
            mode = DEFAULT_MODE if declared is None else declared.mode
        same_mode = declared is not None and declared.mode == mode
        if config is None and geoplex is not None and same_mode:
            config = declared_config(geoplex, name)
        config = checked_config(mode, config)
        self._check_right(Action.SUBSCRIBE, name)
        number = topic_id(name, mode)
        found = self._topics.get(number)
        if found is None:
            own = self._own_events.get(number)
            first = self._next_sequences.get(number, 1) if own is None else own.published + 1
            found = Topic(self, name, mode, number, config, through, first, join_within)
            self._topics[number] = found
        elif found.name != name:
            raise ConfigError(
                f"topics {name!r} and {found.name!r} have the same number by chance: rename one"
            )
        elif found.config != config:
            raise ConfigError(f"topic {name!r} runs here with other settings: leave it first")
        return found

    def _parsed(self, contacts: Sequence[str]) -> tuple[Address, ...]:
        addresses, encrypted = parse_contacts(contacts)
        if encrypted and self._options.credentials is None:
            raise ConfigError(
                "contacts: epicasts:// is for a node that joined or connected with a certificate"
            )
        check_contacts(addresses)
        return addresses

    def _check_right(self, action: Action, topic: str) -> None:
        if self._access is None:
            return
        refusal = self._access.permit(self._identity, action, topic, "topic")
        if refusal:
            raise AccessDenied(f"topic {topic!r}: {refusal}")

    def statistics(self) -> Mapping[str, int | float]:
        """Counters of the port; what was dropped and why is under `drop.…` and `wire_error.…`."""
        counters = {} if self._driver is None else self._driver.statistics()
        return {**counters, "topics": len(self._topics)}

    # -- for topics ------------------------------------------------------------------------------

    def seeker(self, topic: Topic, contacts: Sequence[Address]) -> ContactSeeker:
        proof = self._options.credentials
        return ContactSeeker(
            f"topic {topic.name}",
            contacts,
            self.id,
            self._options.cluster,
            None if proof is None else proof.for_finding(),
            self._rng,
            topic.report,
        )

    def start_topic(self, topic: Topic, contacts: Sequence[Peer]) -> None:
        driver, host = self._running
        rng = Random(self._rng.getrandbits(64))
        protocol = topic_mode(topic.mode).make(driver.node, topic.config, rng)
        if isinstance(protocol, OrderedTopic):
            topic.early.follow(protocol.order)
            protocol.order.own = self._own_events.setdefault(topic.number, protocol.order.own)
        if self._access is not None:
            rights = Rights(self._access, driver.identity_of)
            protocol = GuardedTopic(protocol, topic.name, rights)
        host.add(topic.number, protocol, contacts)
        driver.wake()

    def stop_topic(self, topic: Topic) -> None:
        driver, host = self._running
        host.remove(topic.number)
        driver.wake()

    def forget_topic(self, topic: Topic) -> None:
        if self._topics.get(topic.number) is topic:
            self._next_sequences[topic.number] = topic.next_sequence
            del self._topics[topic.number]

    def has_heard(self, topic: Topic) -> bool:
        return self._running[1].has_heard(topic.number)

    def submit(self, batch: EventBatch, topic: int) -> Any:
        """Queue a publication: None if there is room, or what to wait for."""
        self._check_right(Action.PUBLISH, self._topics[topic].name)
        return self._running[0].submit(batch, topic=topic)

    def topic_statistics(self, topic: Topic) -> Mapping[str, int | float]:
        protocol = self._protocol(topic)
        return {} if protocol is None else protocol.statistics()

    def topic_pending(self, topic: Topic) -> list[Pending]:
        protocol = self._protocol(topic)
        return protocol.order.pending() if isinstance(protocol, OrderedTopic) else []

    def _protocol(self, topic: Topic) -> Protocol[Any] | None:
        found = None if self._host is None else self._host.protocol(topic.number)
        return found.inner if isinstance(found, GuardedTopic) else found

    # -- what the driver calls -------------------------------------------------------------------

    def _on_topic_delivery(self, number: int, batch: EventBatch) -> None:
        topic = self._topics.get(number)
        if topic is not None:
            topic.receive(batch)

    def _on_notice(self, number: int, value: object) -> None:
        topic = self._topics.get(number)
        if topic is None:
            return
        if isinstance(value, Missing):
            count = value.last - value.first + 1
            topic.receive(Gap(count, value.source, value.first, value.last))
        elif isinstance(value, EarlyStep):
            topic.early.receive(value)

    def _on_refuse(self, publication: Publication, error: str) -> None:
        topic = self._topics.get(publication.topic)
        if topic is not None:
            topic.on_refuse(publication.batch, error)


async def _own_host(towards: Address | None) -> str:
    """Return where this machine listens by default. Names are looked up in a thread."""
    return LOOPBACK if towards is None else await in_thread(lambda: address_towards(towards))


def own_identity(access: AccessControl, options: PeerOptions) -> str:
    """Who this node is to others that have the same file; `AccessDenied` if nobody."""
    assert options.credentials is not None, "see PeerOptions"
    file, names = options.credentials.files.certificate, own_names(options.credentials.files)
    role = names.role_in(options.cluster)
    if role is not None and role[0] == "client":
        raise AccessDenied(
            f"{file}: nobody connects to who has a client's certificate: topics take one made "
            "with `epicast certificate agent`"
        )
    verdict = access.examine_peer(0, names)
    if verdict.refusal:
        raise AccessDenied(f"{file}: {verdict.refusal}")
    return verdict.identity


def random_id() -> NodeId:
    return 1 + secrets.randbelow(MAX_NODE_ID - 1)
