"""Many independent protocols on one node: one per topic, each a protocol or a stack.

What a topic is called. A topic is a number (1 to 2**32 - 1) that all nodes agree on. It is the
outermost tag of the topic's messages. A publication says its topic in `Publication.topic`; its
acknowledgement and its refusal carry the publication and so say it too. A delivery leaves the node
as `TopicDelivery(topic, batch)`: the stream of a batch cannot tell the topic, since a topic may
carry one stream per publisher and one batch may be posted to several topics.

What topics share. Connections and multicast groups: the driver sees the first `connect` and the
last `disconnect`, every topic gets the ups and downs that `epicast.core.protocol` promises, and one
that connects to a peer that is up already hears of it at the end of the same step. Since a
connection stays while any topic wants it, a topic that disconnects is not noticed at the other end:
protocols say goodbye with a message. A stream is appended to by one topic only.

What they do not share. Timers, saved values, read tokens, room for publications. When many timers
are due, topics get their turn by deadline, `topics_per_step` at a time, and the driver comes back
for the rest. When a link has room again, the topics that are connected take turns in being the
first to use it; those after the one that used it up wait for the next time.

Topics come and go at any time, from outside or from inside a handler: `add` and `remove` take
effect at the end of the step at hand or, outside a step, in the next one, which they make due at
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from epicast.core.batch import EventBatch
from epicast.core.effects import BeginEpoch, Effects, Publication, Send
from epicast.core.errors import ConfigError, InvariantViolation
from epicast.core.ids import Group, NodeId, Peer
from epicast.core.message import AnyMessage, Layered
from epicast.core.protocol import Config, Protocol, Recovered
from epicast.core.tagged import MAX_TAG, saved_by_tag, untag_token
from epicast.core.timers import TimerHeap, TimerTable
from epicast.core.topics import Shared, TopicEffects

_CHANGES = "changes"
_MAX_ROUNDS = 1000
"""How often in one step topics may come, go and connect in answer to the same of others."""


class HostConfig(Config, frozen=True, kw_only=True):
    max_topics: int = 4096
    """Topics one node may run; `add` refuses more."""
    topics_per_step: int = 256
    """Topics whose timers are handled before the driver may turn to something else."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_topics <= MAX_TAG:
            raise ConfigError(f"max_topics: {self.max_topics} is not between 1 and {MAX_TAG}")
        if self.topics_per_step < 1:
            raise ConfigError(f"topics_per_step: {self.topics_per_step} is not at least 1")


class _Topic:
    __slots__ = ("contacts", "effects", "heard", "number", "protocol", "start")

    def __init__(
        self, number: int, protocol: Protocol[Any], contacts: Sequence[Peer] | None
    ) -> None:
        self.number = number
        self.protocol = protocol
        self.contacts = contacts
        self.heard = False
        """Whether any other node has said something about it."""
        self.start = 0
        """How many topics this host had started before."""
        self.effects: TopicEffects


class Host(Protocol[HostConfig]):
    __slots__ = ("_by_start", "_by_timers", "_changes", "_contacts", "_heap", "_incarnation",
                 "_outer", "_shared", "_starts", "_topics", "_wanted")  # fmt: skip

    def __init__(self, node: Peer, config: HostConfig, rng: Random) -> None:
        super().__init__(node, config, rng)
        self.timers = self._heap = TimerHeap()
        self._topics: dict[int, _Topic] = {}
        self._by_start: dict[int, _Topic] = {}
        self._by_timers: dict[TimerTable, _Topic] = {}
        self._wanted: set[int] = set()
        """The topics there will be once all changes are made."""
        self._changes: list[_Topic | int] = []
        """Topics to start and numbers of topics to stop, in order."""
        self._shared = Shared()
        self._outer: Effects | None = None
        self._contacts: Sequence[Peer] = ()
        self._incarnation = 0
        self._starts = 0

    # -- topics come and go ----------------------------------------------------------------------

    def add(
        self, topic: int, protocol: Protocol[Any], contacts: Sequence[Peer] | None = None
    ) -> None:
        """Run `protocol` for `topic`, joining through `contacts` (the node's own if not given)."""
        if not 1 <= topic <= MAX_TAG:
            raise ConfigError(f"topic {topic} is not between 1 and {MAX_TAG}")
        if topic in self._wanted:
            raise ConfigError(f"topic {topic} runs here already; remove it first")
        if len(self._wanted) >= self.config.max_topics:
            raise ConfigError(
                f"topic {topic} is one too many; remove another or raise max_topics "
                f"({self.config.max_topics})"
            )
        self._wanted.add(topic)
        self._changes.append(_Topic(topic, protocol, contacts))
        self.timers.set(_CHANGES, 0)

    def remove(self, topic: int) -> None:
        """Let the topic's protocol say goodbye, then end its interests and forget it."""
        if topic not in self._wanted:
            raise ConfigError(f"topic {topic} does not run here; there is nothing to remove")
        self._wanted.discard(topic)
        self._changes.append(topic)
        self.timers.set(_CHANGES, 0)

    def protocol(self, topic: int) -> Protocol[Any] | None:
        """The protocol of a topic that was started."""
        found = self._topics.get(topic)
        return found.protocol if found is not None else None

    def has_heard(self, topic: int) -> bool:
        """Whether another node has said anything about the topic since it was started."""
        found = self._topics.get(topic)
        return found is not None and found.heard

    @property
    def topics(self) -> list[int]:
        """The topics running, in the order they were started."""
        return list(self._topics)

    def _start_topic(self, now: int, topic: _Topic, fx: Effects) -> None:
        topic.start = self._starts
        self._starts += 1
        topic.effects = TopicEffects(topic.number, topic.start, self._shared, fx)
        self._topics[topic.number] = topic
        self._by_start[topic.start] = topic
        self._by_timers[topic.protocol.timers] = topic
        self._heap.adopt(topic.protocol.timers)
        recovered = Recovered(
            incarnation=self._topic_incarnation(topic),
            log_ends=dict(self._shared.log_ends),
            saved=dict(self._shared.saved.get(topic.number, {})),
        )
        contacts = self._contacts if topic.contacts is None else topic.contacts
        topic.protocol.on_start(now, contacts, recovered, topic.effects)

    def _topic_incarnation(self, topic: _Topic) -> int:
        """A topic can start several times while the node starts once, and each start is later. It
        stays within what the wire has room for: where the node's own is wall-clock nanoseconds,
        topics do not start often enough to catch up with its next one."""
        if self._incarnation > MAX_TAG:
            return self._incarnation + topic.start
        return self._incarnation * (MAX_TAG + 1) + topic.start

    def _stop_topic(self, now: int, topic: _Topic, fx: Effects) -> None:
        topic.protocol.on_stop(now, topic.effects)
        del self._topics[topic.number]
        del self._by_start[topic.start]
        del self._by_timers[topic.protocol.timers]
        self._heap.release(topic.protocol.timers)
        self._shared.forget(topic.number, fx)

    # -- stimuli ---------------------------------------------------------------------------------

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self._contacts = contacts
        self._incarnation = recovered.incarnation
        self._shared.log_ends = dict(recovered.log_ends)
        self._shared.saved = saved_by_tag(recovered.saved)
        self._enter(now, fx)

    def on_stop(self, now: int, fx: Effects) -> None:
        self._enter(now, fx)
        for topic in self._topics.values():
            topic.protocol.on_stop(now, topic.effects)
        self._settle(now, fx)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        self._enter(now, fx)
        by_topic: dict[int, list[Publication]] = {}
        for publication in publications:
            if publication.topic in self._topics:
                by_topic.setdefault(publication.topic, []).append(publication)
            else:
                fx.refuse(publication, f"topic {publication.topic} does not run here; add it first")
        for number, for_topic in by_topic.items():
            topic = self._topics[number]
            topic.protocol.on_publish(now, for_topic, topic.effects)
        self._settle(now, fx)

    def publish_room(self) -> int:
        """What every topic has room for: a driver that knows the topic asks `topic_room` instead,
        and does not let one topic hold up the others."""
        return min(map(self.topic_room, self._topics), default=super().publish_room())

    def topic_room(self, topic: int) -> int:
        """How many events may be published to a topic now. One that does not run here refuses at
        once, so there is room for the attempt."""
        found = self._topics.get(topic)
        return super().publish_room() if found is None else found.protocol.publish_room()

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        self._enter(now, fx)
        topics = self._topics
        for message in messages:
            if type(message) is not Layered or message.layer not in topics:
                fx.drop("no such topic", source)
                continue
            topic = topics[message.layer]
            topic.heard = True
            topic.protocol.on_messages(now, source, (message.message,), topic.effects)
        self._settle(now, fx)

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        self._enter(now, fx)
        self._shared.log_ends[stream] = seq
        topic = self._topics.get(self._shared.appenders.get(stream, 0))
        if topic is not None:
            topic.protocol.on_appended(now, stream, seq, topic.effects)
        self._settle(now, fx)

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        self._enter(now, fx)
        topic = self._topics.get(self._shared.appenders.get(stream, 0))
        if topic is not None:
            topic.protocol.on_append_failed(now, stream, first, reason, topic.effects)
        self._settle(now, fx)

    def on_epoch_failed(self, now: int, order: BeginEpoch, reason: str, fx: Effects) -> None:
        self._enter(now, fx)
        topic = self._topics.get(self._shared.appenders.get(order.stream, 0))
        if topic is not None:
            topic.protocol.on_epoch_failed(now, order, reason, topic.effects)
        self._settle(now, fx)

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        self._enter(now, fx)
        topic_token, start = untag_token(token)
        topic = self._by_start.get(start)
        if topic is not None:
            topic.protocol.on_read(now, topic_token, batches, topic.effects)
        self._settle(now, fx)

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        self._enter(now, fx)
        for number in self._shared.links.turns(peer):
            already = len(fx.sends)
            topic = self._topics[number]
            topic.protocol.on_ready(now, peer, room, topic.effects)
            room -= _bytes_to(peer, fx.sends[already:])
            if room <= 0:
                break
        self._settle(now, fx)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._enter(now, fx)
        for number in self._shared.links.went_up(peer):
            topic = self._topics[number]
            topic.protocol.on_peer_up(now, peer, topic.effects)
        self._settle(now, fx)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._enter(now, fx)
        for number in self._shared.links.went_down(peer):
            topic = self._topics[number]
            topic.protocol.on_peer_down(now, peer, topic.effects)
        self._settle(now, fx)

    def on_timer(self, now: int, fx: Effects) -> None:
        self._enter(now, fx)
        due = self._heap.take_due(now, self.config.topics_per_step)
        try:
            for timers in due:
                topic = self._by_timers[timers]
                topic.protocol.on_timer(now, topic.effects)
        finally:
            self._heap.put_back(due)
        self._settle(now, fx)

    # -- asking ----------------------------------------------------------------------------------

    def neighbors(self) -> list[NodeId]:
        """The neighbours in any topic: what the node's physical degree is."""
        found: dict[NodeId, None] = {}
        for topic in self._topics.values():
            found.update(dict.fromkeys(topic.protocol.neighbors()))
        return list(found)

    def check_invariants(self) -> None:
        for topic in self._topics.values():
            topic.protocol.check_invariants()
        for peer, topics in self._shared.links.interests().items():
            if not topics or not self._topics.keys() >= set(topics):
                raise InvariantViolation(
                    f"the connection to {peer} is wanted by {topics}; topics {self.topics} run"
                )

    def statistics(self) -> Mapping[str, int | float]:
        figures: dict[str, int | float] = {
            "topics": len(self._topics),
            "links": len(self._shared.links),
        }
        for topic in self._topics.values():
            for name, value in topic.protocol.statistics().items():
                figures[f"{topic.number}.{name}"] = value
        return figures

    # -- a step ----------------------------------------------------------------------------------

    def _enter(self, now: int, fx: Effects) -> None:
        if fx is not self._outer:
            self._outer = fx
            for topic in self._topics.values():
                topic.effects = TopicEffects(topic.number, topic.start, self._shared, fx)
        if self._changes:
            self._settle(now, fx)

    def _settle(self, now: int, fx: Effects) -> None:
        """Make the changes asked for and tell topics of peers that were up already."""
        links = self._shared.links
        for _ in range(_MAX_ROUNDS):
            if not (self._changes or links.unanswered):
                return
            changes, self._changes = self._changes, []
            self.timers.cancel(_CHANGES)
            for change in changes:
                if isinstance(change, _Topic):
                    self._start_topic(now, change, fx)
                else:
                    self._stop_topic(now, self._topics[change], fx)
            unanswered, links.unanswered = links.unanswered, []
            for number, peer in unanswered:
                if links.answer(number, peer):
                    topic = self._topics[number]
                    topic.protocol.on_peer_up(now, peer, topic.effects)
        raise InvariantViolation(
            f"topics keep changing in one step: {len(self._changes)} come or go, "
            f"(topic, peer) connecting {links.unanswered[:5]}"
        )


def publish_room(protocol: Protocol[Any], topic: int) -> int:
    """How many events a protocol takes now: one topic's room where there are topics."""
    return protocol.topic_room(topic) if isinstance(protocol, Host) else protocol.publish_room()


def _bytes_to(peer: NodeId, sends: Sequence[Send]) -> int:
    return sum(
        message.wire_size()
        for to, message, _ in sends
        if to == peer or (not isinstance(to, (int, Group)) and peer in to)
    )
