"""Carrying out the less frequent effects in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from epicast.core import TraceKind
from epicast.core import effects as fx
from epicast.log.restarts import to_be_told
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
            fx.Append: lambda node, op: self._writes.batches.append(op.batch),
            fx.BeginEpoch: lambda node, op: self._writes.batches.append(op),
            fx.Release: self._release,
            fx.Save: lambda node, op: self._writes.saves.__setitem__(op.name, op.value),
            fx.SendAfterAppend: self._send_after_append,
            fx.DeliverAfterAppend: self._deliver_after_append,
            fx.TopicDelivery: lambda node, op: simulation.hand_over(node, op.batch, op.topic),
            fx.Notice: self._notice,
            fx.Read: self._read,
            fx.Acknowledge: self._acknowledge,
            fx.Refuse: self._refuse,
            fx.Drop: self._drop,
            fx.ViewChange: self._view_change,
        }
        self._commits: list[Commit | None] = []

    def run(self, node: SimNode, operations: Sequence[fx.Operation]) -> None:
        # Runs may nest: an application publishes in answer to a delivery.
        self._commits.append(None)
        for operation in operations:
            self._runners[type(operation)](node, operation)
        commit = self._commits.pop()
        if commit is not None:
            self._write(node, commit)

    @property
    def _writes(self) -> Commit:
        """The commit of the step at hand, which most steps have no use for."""
        commit = self._commits[-1]
        if commit is None:
            commit = self._commits[-1] = Commit()
        return commit

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

    def _notice(self, node: SimNode, operation: fx.Notice) -> None:
        if self._sim.on_notice is not None:
            self._sim.on_notice(self._sim.now, node.id, operation.topic, operation.value)

    def _acknowledge(self, node: SimNode, operation: fx.Acknowledge) -> None:
        batch = operation.publication.batch
        self._sim.record(
            node, TraceKind.ACKNOWLEDGE, stream=batch.stream, first=batch.first, last=batch.last,
            detail=operation.level,
        )  # fmt: skip
        if self._sim.on_acknowledge is not None:
            self._sim.on_acknowledge(node.id, operation.publication, operation.seq)

    def _refuse(self, node: SimNode, operation: fx.Refuse) -> None:
        batch = operation.publication.batch
        self._sim.record(
            node, TraceKind.REFUSE, stream=batch.stream, first=batch.first, last=batch.last,
            detail=operation.error,
        )  # fmt: skip
        if self._sim.on_refuse is not None:
            self._sim.on_refuse(node.id, operation.publication, operation.error)

    # -- storage ---------------------------------------------------------------------------------

    def _send_after_append(self, node: SimNode, operation: fx.SendAfterAppend) -> None:
        send = (operation.to, operation.message, operation.channel)
        self._writes.afterwards.append(partial(self._sim.network.transmit, node, (send,)))

    def _deliver_after_append(self, node: SimNode, operation: fx.DeliverAfterAppend) -> None:
        self._writes.afterwards.append(partial(self._sim.hand_over, node, operation.batch))

    def _release(self, node: SimNode, operation: fx.Release) -> None:
        if node.disk is not None:
            node.disk.release(operation.stream, operation.seq)

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
        writes = bool(commit.batches or commit.saves)
        if disk is not None and disk.pending and not writes:
            disk.pending[-1].afterwards += commit.afterwards
            return
        if disk is not None and writes:
            refusal = disk.accept(commit)
        else:
            refusal = "no disk" if commit.batches else ""
        lived = (node, node.incarnation)
        if refusal:
            self._refuse_commit(node, commit, refusal)
        elif disk is not None and writes:
            self._sim.scheduler.at(self._sim.now + disk.sync_ns, self._synced, lived, commit)
        else:
            self._act(commit)

    def _refuse_commit(self, node: SimNode, commit: Commit, reason: str) -> None:
        """When earlier ones have been answered."""
        lived = (node, node.incarnation)
        at = self._sim.now + (node.disk.sync_ns if node.disk is not None else 0)
        for writes in commit.by_stream().values():
            for write in to_be_told(writes):
                self._sim.scheduler.at(at, self._failed, lived, (write, reason))
        self._give_up(node, commit)

    def _failed(self, writer: tuple[SimNode, int], failed: tuple[fx.Write, str]) -> None:
        node, incarnation = writer
        write, reason = failed
        if node.incarnation != incarnation:
            return
        if isinstance(write, fx.BeginEpoch):
            self._sim.stimulate(node, "on_epoch_failed", write, reason)
        else:
            self._sim.stimulate(node, "on_append_failed", write.stream, write.first, reason)

    def _give_up(self, node: SimNode, commit: Commit) -> None:
        """Drop the sends and deliveries that waited for a commit that has failed."""
        for _ in commit.afterwards:
            self._sim.note_drop(node, 0, "append failed", 0)

    def _synced(self, writer: tuple[SimNode, int], commit: Commit) -> None:
        node, incarnation = writer
        if node.incarnation != incarnation or not node.alive:
            return
        ends = self._sync(node, commit)
        for stream, end in ends.items():
            self._sim.stimulate(node, "on_appended", stream, end)
        assert node.disk is not None
        failures = node.disk.take_failures()
        for failure in failures:
            self._failed(writer, failure)
        if failures:
            self._give_up(node, commit)
        elif node.paused:
            node.backlog.append(partial(self._act, commit))
        else:
            self._act(commit)

    def finish_writes(self, node: SimNode) -> None:
        """The node leaves in good order: what it has written is kept, what waits for it done."""
        while node.disk is not None and node.disk.pending:
            commit = node.disk.pending[0]
            self._sync(node, commit)
            if node.disk.take_failures():
                self._give_up(node, commit)
            else:
                self._act(commit)

    def _sync(self, node: SimNode, commit: Commit) -> dict[int, int]:
        assert node.disk is not None
        ends = node.disk.sync(commit)
        for stream, end in ends.items():
            self._sim.record(node, TraceKind.APPEND, stream=stream, last=end)
        return ends

    def _act(self, commit: Commit) -> None:
        for action in commit.afterwards:
            action()
