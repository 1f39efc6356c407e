"""Hostile messages for a simulated system, one after the other, and what must hold meanwhile.

* No handler raises, and everything that anybody sends can be encoded.
* A message takes less than `STEP_S` of processor time, and no step asks for more memory than
  `STEP_BYTES`: the process has no more.
* Invariants and bounds hold, and what the system itself says of honest nodes (`System`).

A storm is one system, one kind of sender and one seed, and runs the same way each time: what failed
is repeated by the line that the failure ends with.
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
"""The same for everything that happens between two messages."""
STEP_BYTES = 1 << 30
PER_STORM = 2000
"""Messages to one system, before the next one begins anew."""
LOOK_EVERY = 50
"""Messages after which invariants are looked at."""
SENDERS = ("stranger", "client", "member", "peer")
"""Who was never attached; who is attached as a client; who takes part in a region or topic; who is
trusted with more: the proxy of another region, a replica of the same chain."""


class Silent(Protocol[None]):
    """At the other end of what a stranger says: whatever is answered goes nowhere."""

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None: ...


def silent(node: Any, rng: Random) -> Silent:
    return Silent(node, None, rng)


class System(ABC):
    """Something to attack."""

    senders: tuple[str, ...] = SENDERS
    """Those that it tells apart."""
    pause_ns = 1_000_000
    """Simulated between two messages."""
    weight = 1
    """How many messages it gets, in proportion to others."""
    simulation: Simulation

    @abstractmethod
    def __init__(self, seed: int, sender: str, messages: int) -> None: ...

    @abstractmethod
    def targets(self) -> Sequence[SimNode]: ...

    @abstractmethod
    def sources(self) -> Sequence[NodeId]:
        """Of the kind of sender that attacks."""

    @abstractmethod
    def begin(self) -> None:
        """Simulate until all is well and honest nodes are at work."""

    def handled(self, target: SimNode) -> Sequence[type[Message]]:
        """The types that a node does something with."""
        return list(target.protocol._handlers)  # type: ignore[arg-type]

    def wrapped(self, target: SimNode, message: Message, rng: Random) -> AnyMessage | None:
        """As it is sent to a node; None if it is left out, see the system."""
        return message

    def look(self) -> None:
        """What must hold at any time."""
        check_nodes(self.simulation)

    @abstractmethod
    def end(self) -> None:
        """Simulate until all has calmed down; what must hold then."""


class Found(AssertionError):
    """What a storm found."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place
        """Which fault it is, roughly: where it was raised."""


class Storm:
    def __init__(self, kind: type[System], sender: str, seed: int, messages: int) -> None:
        self.name = kind.__name__.lower()
        self.sender, self.seed, self.messages = sender, seed, messages
        self._rng = Random(derive_seed(seed, "storm", self.name, sender))
        self.attacker = Attacker(RELEASED, self._rng)
        self.sent: Counter[tuple[str, str]] = Counter()
        """By kind of node and of message, those that the node handles."""
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
    """The last line of the product that it passed, and the last one of a protocol."""
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
    """The process gets no more than `STEP_BYTES` on top of what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    gc.collect()
    limit = pages * resource.getpagesize() + STEP_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
