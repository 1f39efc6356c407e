"""What each process has to send and to receive."""

from __future__ import annotations

from collections import Counter

from epicast.core import Group, NodeId
from epicast.core.effects import Destination
from epicast.core.message import AnyMessage
from epicast.sim.simulation import Simulation


class ProcessLoad:
    """Messages and their bytes on the wire, sent and received, from when it is made. What
    connections need for themselves is not counted."""

    def __init__(self, simulation: Simulation) -> None:
        self._messages: Counter[NodeId] = Counter()
        self._bytes: Counter[NodeId] = Counter()
        simulation.network.on_send = self._note

    def _note(self, sender: NodeId, to: Destination, message: AnyMessage) -> None:
        assert not isinstance(to, Group)
        targets = (to,) if isinstance(to, int) else to
        size = message.wire_size()
        self._messages[sender] += len(targets)
        self._bytes[sender] += len(targets) * size
        for target in targets:
            self._messages[target] += 1
            self._bytes[target] += size

    def metrics(self, rounds: int) -> dict[str, float]:
        """Per round: of the process that has most to do, and of all on average."""
        processes = max(1, len(self._messages))
        return {
            "busiest_messages": max(self._messages.values(), default=0) / rounds,
            "busiest_bytes": max(self._bytes.values(), default=0) / rounds,
            "mean_messages": sum(self._messages.values()) / processes / rounds,
            "mean_bytes": sum(self._bytes.values()) / processes / rounds,
        }
