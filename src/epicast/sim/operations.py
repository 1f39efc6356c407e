"""Carrying out the less frequent effects in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from epicast.core import TraceKind
from epicast.core import effects as fx
from epicast.sim.disk import Commit
from epicast.sim.node import SimNode

if TYPE_CHECKING:
    from epicast.sim.simulation import Simulation


class OperationRunner:
    """One method per kind of operation; the writes of one step form one commit."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._runners: dict[type[fx.Operation], Callable[[SimNode, Any], None]] = {
            fx.Connect: self._connect,
            fx.Disconnect: self._disconnect,
            fx.Know: lambda node, op: None,  # taken in before the sends of its step
            fx.Join: lambda node, op: simulation.network.join(node, op.group),
            fx.Leave: lambda node, op: simulation.network.leave(node, op.group),
            fx.Append: lambda node, op: self._commit.batches.append(op.batch),
            fx.Save: lambda node, op: self._commit.saves.__setitem__(op.name, op.value),
            fx.SendAfterAppend: self._send_after_append,
            fx.DeliverAfterAppend: self._deliver_after_append,
            fx.Read: self._read,
            fx.Acknowledge: self._acknowledge,
            fx.Refuse: self._refuse,
            fx.Drop: self._drop,
            fx.ViewChange: self._view_change,
        }
        self._commit = Commit()

    def run(self, node: SimNode, operations: Sequence[fx.Operation]) -> None:
        for operation in operations:
            self._runners[type(operation)](node, operation)
        if self._commit.batches or self._commit.saves or self._commit.afterwards:
            commit, self._commit = self._commit, Commit()
            self._write(node, commit)

    def _connect(self, node: SimNode, operation: fx.Connect) -> None:
        self._sim.record(node, TraceKind.CONNECT, peer=operation.peer.id)
        self._sim.network.connections.connect(node, operation.peer.id)

    def _disconnect(self, node: SimNode, operation: fx.Disconnect) -> None:
        self._sim.record(node, TraceKind.DISCONNECT, peer=operation.peer)
        self._sim.network.connections.disconnect(node, operation.peer)

    def _drop(self, node: SimNode, operation: fx.Drop) -> None:
        self._sim.drops[operation.reason] = self._sim.drops.get(operation.reason, 0) + 1
        self._sim.record(
            node, TraceKind.DROP, peer=operation.peer, stream=operation.stream,
            first=operation.first, last=operation.last, detail=operation.reason,
        )  # fmt: skip

    def _view_change(self, node: SimNode, operation: fx.ViewChange) -> None:
        kind = TraceKind.VIEW_ADD if operation.up else TraceKind.VIEW_REMOVE
        self._sim.record(node, kind, peer=operation.peer)

    def _acknowledge(self, node: SimNode, operation: fx.Acknowledge) -> None:
        batch = operation.publication.batch
        self._sim.record(
            node, TraceKind.ACKNOWLEDGE, stream=batch.stream, first=batch.first, last=batch.last,
            detail=operation.level,
        )  # fmt: skip

    def _refuse(self, node: SimNode, operation: fx.Refuse) -> None:
        batch = operation.publication.batch
        self._sim.record(
            node, TraceKind.REFUSE, stream=batch.stream, first=batch.first, last=batch.last,
            detail=operation.error,
        )  # fmt: skip

    # -- storage ---------------------------------------------------------------------------------

    def _send_after_append(self, node: SimNode, operation: fx.SendAfterAppend) -> None:
        send = (operation.to, operation.message, operation.channel)
        self._commit.afterwards.append(partial(self._sim.network.transmit, node, (send,)))

    def _deliver_after_append(self, node: SimNode, operation: fx.DeliverAfterAppend) -> None:
        self._commit.afterwards.append(partial(self._sim.hand_over, node, operation.batch))

    def _read(self, node: SimNode, operation: fx.Read) -> None:
        batches = (
            node.disk.read(operation.stream, operation.first, operation.max_bytes)
            if node.disk is not None
            else []
        )
        delay = node.disk.sync_ns if node.disk is not None else 0
        at = self._sim.now + delay
        self._sim.scheduler.at(
            at, self._answer_read, (node, node.incarnation), (operation, batches)
        )

    def _answer_read(self, asker: tuple[SimNode, int], answer: tuple[fx.Read, list[Any]]) -> None:
        node, incarnation = asker
        if node.incarnation == incarnation:
            self._sim.stimulate(node, "on_read", answer[0].token, answer[1])

    def _write(self, node: SimNode, commit: Commit) -> None:
        disk = node.disk
        if disk is None or not disk.has_room(commit.batches):
            reason = "no disk" if disk is None else "disk full"
            for batch in commit.batches:
                failed = (batch.stream, batch.first, reason)
                self._sim.scheduler.at(self._sim.now, self._append_failed, node, failed)
            if not commit.batches:
                for action in commit.afterwards:
                    action()
            return
        if not (commit.batches or commit.saves) and not disk.pending:
            for action in commit.afterwards:
                action()
            return
        disk.pending.append(commit)
        at = self._sim.now + disk.sync_ns
        self._sim.scheduler.at(at, self._synced, (node, node.incarnation), commit)

    def _append_failed(self, node: SimNode, failed: tuple[int, int, str]) -> None:
        self._sim.stimulate(node, "on_append_failed", *failed)

    def _synced(self, writer: tuple[SimNode, int], commit: Commit) -> None:
        node, incarnation = writer
        if node.incarnation != incarnation or not node.alive:
            return
        assert node.disk is not None
        for stream, end in node.disk.sync(commit).items():
            self._sim.record(node, TraceKind.APPEND, stream=stream, last=end)
            self._sim.stimulate(node, "on_appended", stream, end)
        for action in commit.afterwards:
            action()
