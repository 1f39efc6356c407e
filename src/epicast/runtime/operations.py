"""Carrying out the less frequent effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from epicast.core import EventBatch, Publication, TraceKind
from epicast.core import effects as fx
from epicast.runtime.addresses import AddressBook
from epicast.runtime.commits import Commits
from epicast.runtime.datagrams import DatagramPort
from epicast.runtime.links import LinkTable
from epicast.runtime.outbound import Outbound
from epicast.runtime.recorder import Recorder

OnAcknowledge = Callable[[Publication, str, int], None]
OnRefuse = Callable[[Publication, str], None]
OnNotice = Callable[[int, Any], None]


class OperationRunner:
    """One entry per kind of operation."""

    def __init__(
        self,
        book: AddressBook,
        links: LinkTable,
        datagrams: DatagramPort,
        outbound: Outbound,
        commits: Commits,
        recorder: Recorder,
        deliver: Callable[[EventBatch, int], None],
        on_acknowledge: OnAcknowledge | None,
        on_refuse: OnRefuse | None,
        on_notice: OnNotice | None,
    ) -> None:
        self._book = book
        self._links = links
        self._outbound = outbound
        self._commits = commits
        self._recorder = recorder
        self._deliver = deliver
        self._on_acknowledge = on_acknowledge
        self._on_refuse = on_refuse
        self._on_notice = on_notice
        self._runners: dict[type[fx.Operation], Callable[[Any], object]] = {
            fx.Connect: self._connect,
            fx.Disconnect: self._disconnect,
            fx.Know: lambda op: book.learn(op.peer),
            fx.Join: lambda op: datagrams.join(op.group),
            fx.Leave: lambda op: datagrams.leave(op.group),
            fx.Append: lambda op: commits.append(op.batch),
            fx.BeginEpoch: commits.append,
            fx.Release: lambda op: commits.release(op.stream, op.seq),
            fx.Save: lambda op: commits.save(op.name, op.value),
            fx.SendAfterAppend: self._send_after_append,
            fx.DeliverAfterAppend: self._deliver_after_append,
            fx.TopicDelivery: lambda op: deliver(op.batch, op.topic),
            fx.Notice: self._notice,
            fx.Read: lambda op: commits.read(op.stream, op.first, op.max_bytes, op.token),
            fx.Acknowledge: self._acknowledge,
            fx.Refuse: self._refuse,
            fx.Drop: self._drop,
            fx.ViewChange: self._view_change,
        }

    def learn_addresses(self, operations: Sequence[fx.Operation]) -> None:
        """Before sends are carried out: a peer may be sent to in the step that makes it known."""
        for operation in operations:
            if isinstance(operation, (fx.Connect, fx.Know)):
                self._book.learn(operation.peer)

    def run(self, operations: Sequence[fx.Operation]) -> None:
        for operation in operations:
            self._runners[type(operation)](operation)

    def _connect(self, operation: fx.Connect) -> None:
        self._recorder.row(TraceKind.CONNECT, peer=operation.peer.id)
        self._links.connect(operation.peer)

    def _disconnect(self, operation: fx.Disconnect) -> None:
        self._recorder.row(TraceKind.DISCONNECT, peer=operation.peer)
        self._links.disconnect(operation.peer)

    def _send_after_append(self, operation: fx.SendAfterAppend) -> None:
        send = partial(self._outbound.send, operation.to, operation.message, operation.channel)
        self._commits.afterwards(send)

    def _deliver_after_append(self, operation: fx.DeliverAfterAppend) -> None:
        self._commits.afterwards(partial(self._deliver, operation.batch, operation.topic))

    def _acknowledge(self, operation: fx.Acknowledge) -> None:
        publication = operation.publication
        self._recorder.batch(TraceKind.ACKNOWLEDGE, publication.batch, operation.level)
        if self._on_acknowledge is not None:
            self._on_acknowledge(publication, operation.level, operation.seq)

    def _refuse(self, operation: fx.Refuse) -> None:
        self._recorder.batch(TraceKind.REFUSE, operation.publication.batch, operation.error)
        if self._on_refuse is not None:
            self._on_refuse(operation.publication, operation.error)

    def _notice(self, operation: fx.Notice) -> None:
        if self._on_notice is not None:
            self._on_notice(operation.topic, operation.value)

    def _drop(self, operation: fx.Drop) -> None:
        self._recorder.drop(
            operation.reason, operation.peer, stream=operation.stream, first=operation.first,
            last=operation.last,
        )  # fmt: skip

    def _view_change(self, operation: fx.ViewChange) -> None:
        kind = TraceKind.VIEW_ADD if operation.up else TraceKind.VIEW_REMOVE
        self._recorder.row(kind, peer=operation.peer)
