"""Storms: hostile messages sent to a simulated system, one after the other.

At each message the storm checks:

* No handler raises, and every message that a node sends can be encoded.
* A message takes less than `STEP_S` of processor time. The process may not get more than
  `STEP_BYTES` of memory in addition to what it has, so a larger request raises `MemoryError`.
* Invariants and bounds hold, and the promises to honest nodes that the `System` checks.

A storm has one system, one kind of sender and one seed, and runs the same way each time. A failure
ends with the command that repeats it.
"""

from __future__ import annotations

import gc
import resource
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

from epicast.core import AnyMessage, Effects, Message, NodeId, Protocol
from epicast.core.effects import Destination
from epicast.core.sampling import derive_seed
from epicast.sim.checkers import check_nodes
from epicast.sim.node import SimNode
from epicast.sim.simulation import Simulation
from epicast.wire import FrameEncoder
from tests.hostile.kinds import RELEASED
from tests.hostile.messages import Attacker

STEP_S = 1.0
"""Processor time one message may take; nearly all take less than a thousandth of that."""
PAUSE_S = 5.0
"""Processor time that everything between two messages may take."""
STEP_BYTES = 1 << 30
PER_STORM = 2000
"""Messages to one system, before the next one begins anew."""
LOOK_EVERY = 50
"""Messages after which invariants are looked at."""
SENDERS = ("stranger", "client", "member", "peer")
"""A stranger was never attached. A client is attached. A member is an agent, or a node of a topic.
A peer is the proxy of another region, or a replica of the same chain."""


class Silent(Protocol[None]):
    """The node of a stranger, which ignores all answers."""

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None: ...


def silent(node: Any, rng: Random) -> Silent:
    return Silent(node, None, rng)


class System(ABC):
    """A simulated system that can be attacked."""

    senders: tuple[str, ...] = SENDERS
    """The kinds of senders that make a difference to it."""
    pause_ns = 1_000_000
    """Simulated between two messages."""
    weight = 1
    """How large a share of all messages it gets."""
    simulation: Simulation

    @abstractmethod
    def __init__(self, seed: int, sender: str, messages: int) -> None: ...

    @abstractmethod
    def targets(self) -> Sequence[SimNode]: ...

    @abstractmethod
    def sources(self) -> Sequence[NodeId]:
        """Ids of the hostile nodes."""

    @abstractmethod
    def begin(self) -> None:
        """Simulate until all is well and honest nodes are at work."""

    def handled(self, target: SimNode) -> Sequence[type[Message]]:
        """Return the message types that a node has handlers for."""
        return list(target.protocol._handlers)  # type: ignore[arg-type]

    def wrapped(self, target: SimNode, message: Message, rng: Random) -> AnyMessage | None:
        """Return the message in the layers it is sent in, or None if it must not be sent."""
        return message

    def look(self) -> None:
        """Check what must hold at any time."""
        check_nodes(self.simulation)

    @abstractmethod
    def end(self) -> None:
        """Simulate until the system is quiet again, and check what must hold then."""


class Found(AssertionError):
    """Raised when a storm found a fault; says how to repeat it."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place
        """Where it was raised: faults with one place count as one."""


class Storm:
    def __init__(self, kind: type[System], sender: str, seed: int, messages: int) -> None:
        self.name = kind.__name__.lower()
        self.sender, self.seed, self.messages = sender, seed, messages
        self._rng = Random(derive_seed(seed, "storm", self.name, sender))
        self.attacker = Attacker(RELEASED, self._rng)
        self.sent: Counter[tuple[str, str]] = Counter()
        """Messages that the node handles, by kind of node and of message."""
        self._encoder = FrameEncoder()
        self._last = "before the first message"
        self.at = 0
        self._kind = kind

    def run(self) -> None:
        with bounded_memory():
            with self._watched("setting up"):
                seed = derive_seed(self.seed, self.name, self.sender)
                system = self.system = self._kind(seed, self.sender, self.messages)
                simulation = system.simulation
                simulation.network.on_send = self._on_send
                system.begin()
            self.attacker.vocabulary.numbers += list(simulation.nodes)
            while self.at < self.messages:
                self.at += 1
                self._say_something()
                if not self.at % LOOK_EVERY:
                    with self._watched("looking"):
                        system.look()
            with self._watched("calming down"):
                system.end()
                system.look()

    def _say_something(self) -> None:
        system, rng = self.system, self._rng
        target = rng.choice(system.targets())
        source = rng.choice(system.sources())
        handled = system.handled(target)
        message = self.attacker.next(handled)
        if source == target.id:
            return
        wrapped = system.wrapped(target, message, rng)
        if wrapped is None:
            return
        self._last = f"to {target.protocol!r} {target.id} from {source}: {wrapped!r}"
        if type(message) in handled:
            self.sent[type(target.protocol).__name__, type(message).__name__] += 1
        with self._watched("taking it"):
            began = thread_time()
            system.simulation.stimulate(target, "on_messages", source, (wrapped,))
            self._hold_time(thread_time() - began, STEP_S)
            began = thread_time()
            system.simulation.run_for(system.pause_ns)
            self._hold_time(thread_time() - began, PAUSE_S)

    def _hold_time(self, taken: float, most: float) -> None:
        if taken > most:
            raise TimeoutError(f"{taken:.2f} s of processor time, at most {most:g} are allowed")

    def _on_send(self, source: NodeId, to: Destination, message: AnyMessage) -> None:
        self._encoder.encode(message)
        self.attacker.record(message)

    @contextmanager
    def _watched(self, doing: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise Found(
                place_of(error),
                f"{type(error).__name__}: {str(error)[:1000]}\n  at {place_of(error)}, {doing}\n"
                f"  message {self.at} of {self.messages}, {self._last[:2000]}\n"
                f"  again: python -m tests.hostile {self.name} {self.sender} --seed {self.seed} "
                f"--messages {self.messages}",
            ) from error


def place_of(error: BaseException) -> str:
    """Return the innermost line of the product, and that of a protocol, in the traceback."""
    trace, places = error.__traceback__, ["nowhere"]
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if "/src/epicast/" in file and not file.endswith("/sim/checkers.py"):
            places.append(f"{file.rpartition('/src/epicast/')[2]}:{line}")
        trace = trace.tb_next
    via = [place for place in places if place.startswith("protocols/")][-1:]
    return f"{type(error).__name__} {places[-1]} {' '.join(via)}"


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit the process to `STEP_BYTES` in addition to the memory it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    gc.collect()
    limit = pages * resource.getpagesize() + STEP_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
