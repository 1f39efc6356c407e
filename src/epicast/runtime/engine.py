"""The step of a node: everything that waits goes to the protocol, and what it wants is done.

Callbacks of the loop only queue and wake. A step runs at most once per turn of the loop and takes
everything that waits. Its order is fixed:

1. for each round of input (see `inbox`): downs, ups, messages grouped by source;
2. answers of the storage, in the order they came;
3. publications;
4. `on_ready` for links that have room again;
5. answers of a storage that needs no waiting to what the step has appended and read;
6. the timer, if it is due.

Effects are carried out after each handler: sends, deliveries, then operations in their order. At
the end of the step frames and datagrams are written, appends go to the storage, deliveries to the
application, waiting publishers are admitted, and the timer is set anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from epicast.core import Effects, EventBatch, NodeId, Peer, Protocol, Recovered, TraceKind
from epicast.core.host import publish_room
from epicast.runtime.addresses import AddressBook
from epicast.runtime.commits import Afterwards, Appended, AppendFailed, Commits, EpochFailed
from epicast.runtime.datagrams import DatagramPort
from epicast.runtime.inbox import Inbox
from epicast.runtime.links import LinkTable
from epicast.runtime.operations import OnAcknowledge, OnNotice, OnRefuse, OperationRunner
from epicast.runtime.outbound import Outbound
from epicast.runtime.publishers import Publishers
from epicast.runtime.recorder import Recorder

_ANSWER_ROUNDS = 16
"""How often a step goes on because of answers to what it has just asked for."""

OnDelivery = Callable[[list[EventBatch]], None]
OnTopicDelivery = Callable[[int, EventBatch], None]
"""Told the topic too: what a `core.Host` delivers."""


class Engine:
    def __init__(
        self,
        book: AddressBook,
        inbox: Inbox,
        publishers: Publishers,
        recorder: Recorder,
        links: LinkTable,
        datagrams: DatagramPort,
        outbound: Outbound,
        commits: Commits,
        wake: Callable[[], None],
        on_delivery: OnDelivery | None,
        on_topic_delivery: OnTopicDelivery | None,
        on_acknowledge: OnAcknowledge | None,
        on_refuse: OnRefuse | None,
        on_notice: OnNotice | None,
    ) -> None:
        self._inbox = inbox
        self._publishers = publishers
        self._recorder = recorder
        self._links = links
        self._datagrams = datagrams
        self._outbound = outbound
        self._commits = commits
        self._wake = wake
        self._on_delivery = on_delivery
        self._on_topic_delivery = on_topic_delivery
        self._deliveries: list[EventBatch] = []
        self._topic_deliveries: list[tuple[int, EventBatch]] = []
        self._operations = OperationRunner(
            book, links, datagrams, outbound, commits, recorder, self._deliver, on_acknowledge,
            on_refuse, on_notice,
        )  # fmt: skip
        self._fx = Effects()
        self._fx.wall_offset = recorder.wall_offset
        self._fx.room = self._room
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0

    # -- handlers --------------------------------------------------------------------------------

    def start(
        self, protocol: Protocol[Any], contacts: Sequence[Peer], recovered: Recovered
    ) -> None:
        now = self._advance()
        protocol.on_start(now, contacts, recovered, self._fx)
        self._carry_out()
        self._finish(protocol, now)

    def stop(self, protocol: Protocol[Any]) -> None:
        now = self._advance()
        protocol.on_stop(now, self._fx)
        self._carry_out()
        self._finish(protocol, now)

    def step(self, protocol: Protocol[Any]) -> None:
        now = self._advance()
        self._recorder.steps += 1
        self._handle_input(protocol, now)
        if self._commits.answers:
            self._handle_answers(protocol, now)
        if self._publishers.accepted:
            self._handle_publications(protocol, now)
        if self._links.ready:
            self._handle_ready(protocol, now)
        self._settle_appends(protocol, now)
        deadline = protocol.next_deadline()
        if deadline is not None and deadline <= now:
            protocol.on_timer(now, self._fx)
            self._carry_out()
        self._finish(protocol, now)

    def _handle_input(self, protocol: Protocol[Any], now: int) -> None:
        inbox, recorder, effects = self._inbox, self._recorder, self._fx
        for _ in range(len(inbox.rounds)):  # those that come meanwhile are for the next step
            current = inbox.rounds.popleft()
            while current.downs:
                peer = inbox.take_report(current.downs)
                recorder.row(TraceKind.PEER_DOWN, peer=peer)
                protocol.on_peer_down(now, peer, effects)
                self._carry_out()
            while current.ups:
                peer = inbox.take_report(current.ups)
                recorder.row(TraceKind.PEER_UP, peer=peer)
                protocol.on_peer_up(now, peer, effects)
                self._carry_out()
            for source, messages in current.messages.items():
                if recorder.trace is not None:
                    for message in messages:
                        recorder.received(source, message)
                protocol.on_messages(now, source, messages, effects)
                self._carry_out()
        self._links.intake.next_turn()
        self._datagrams.next_turn()

    def _handle_answers(self, protocol: Protocol[Any], now: int) -> None:
        answers = self._commits.answers
        for _ in range(len(answers)):
            answer = answers.popleft()
            if isinstance(answer, Appended):
                self._recorder.row(TraceKind.APPEND, stream=answer.stream, last=answer.seq)
                protocol.on_appended(now, answer.stream, answer.seq, self._fx)
            elif isinstance(answer, AppendFailed):
                protocol.on_append_failed(now, *answer, self._fx)
            elif isinstance(answer, EpochFailed):
                protocol.on_epoch_failed(now, *answer, self._fx)
            elif isinstance(answer, Afterwards):
                answer.action()
            else:
                protocol.on_read(now, answer.token, answer.batches, self._fx)
            self._carry_out()

    def _settle_appends(self, protocol: Protocol[Any], now: int) -> None:
        """What a storage in memory can answer at once is answered in the same step."""
        commits = self._commits
        commits.in_step = True
        commits.submit()
        for _ in range(_ANSWER_ROUNDS):
            if not commits.answers:
                break
            self._handle_answers(protocol, now)
            commits.submit()
        commits.in_step = False
        if commits.answers:
            self._wake()

    def _handle_publications(self, protocol: Protocol[Any], now: int) -> None:
        publications = self._publishers.take()
        for publication in publications:
            self._recorder.published_events += publication.batch.rows
            self._recorder.batch(TraceKind.PUBLISH, publication.batch)
        protocol.on_publish(now, publications, self._fx)
        self._carry_out()

    def _handle_ready(self, protocol: Protocol[Any], now: int) -> None:
        ready, self._links.ready = self._links.ready, {}
        for peer in ready:
            if peer not in self._links.links:
                continue
            protocol.on_ready(now, peer, self._links.room(peer), self._fx)
            self._carry_out()

    def _advance(self) -> int:
        now = self._recorder.now = self._recorder.clock()
        return now

    # -- effects ---------------------------------------------------------------------------------

    def _carry_out(self) -> None:
        effects = self._fx
        sends, deliveries, operations = effects.sends, effects.deliveries, effects.operations
        if sends:
            self._send()
        if deliveries:
            for batch in deliveries:
                self._deliver(batch)
            deliveries.clear()
        if operations:
            self._operations.run(operations)
            operations.clear()

    def _send(self) -> None:
        if self._fx.operations:
            self._operations.learn_addresses(self._fx.operations)
        send = self._outbound.send
        for to, message, channel in self._fx.sends:
            send(to, message, channel)
        self._fx.sends.clear()

    def _room(self, peer: NodeId) -> int:
        """What is left after what the handler has sent so far: several layers may ask."""
        self._send()
        return self._links.room(peer)

    def _deliver(self, batch: EventBatch, topic: int = 0) -> None:
        self._recorder.delivered_events += batch.rows
        self._recorder.batch(TraceKind.DELIVER, batch)
        if topic:
            self._topic_deliveries.append((topic, batch))
        else:
            self._deliveries.append(batch)

    def _finish(self, protocol: Protocol[Any], now: int) -> None:
        """What is done once per step, after all handlers."""
        self.flush()
        if self._publishers.waiting:
            room = partial(publish_room, protocol)
            if self._publishers.admit(room):
                self._wake()
        self._set_timer(protocol.next_deadline(), now)

    def flush(self) -> None:
        self._links.flush()
        self._datagrams.flush()
        self._commits.submit()
        if self._deliveries:
            delivered, self._deliveries = self._deliveries, []
            if self._on_delivery is not None:
                self._on_delivery(delivered)
        if self._topic_deliveries:
            to_topics, self._topic_deliveries = self._topic_deliveries, []
            if self._on_topic_delivery is not None:
                for topic, batch in to_topics:
                    self._on_topic_delivery(topic, batch)

    def finish_appends(self) -> None:
        """After the protocol has stopped: what waited for its last appends, and nothing else."""
        for answer in self._commits.answers:
            if isinstance(answer, Afterwards):
                answer.action()
        self._commits.answers.clear()
        self.flush()

    # -- the timer -------------------------------------------------------------------------------

    def _set_timer(self, deadline: int | None, now: int) -> None:
        """Have a step run at the deadline; one that runs earlier does no harm."""
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        self.cancel_timer()
        self._timer_at = deadline
        # Whole milliseconds, rounded up: what the faster loop counts in.
        delay = max(1, -(-(deadline - now) // 1_000_000)) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay, self._timer_due)

    def _timer_due(self) -> None:
        self._timer = None
        self._wake()

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
