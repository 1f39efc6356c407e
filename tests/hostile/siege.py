"""Real processes with files, hostile messages over real connections, and honest work meanwhile.

A chain of replicas, two other proxies, a sidecar, and honest nodes in a process of their own
(`honest`). An intruder speaks under an id of its own or, as a `peer`, under that of a proxy or
replica whose process was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import IO, Any

import msgspec

from epicast.core import AnyMessage, Layered, Message, Peer, WireError
from epicast.core.sampling import derive_seed
from epicast.deployment import Geoplex, parse_geoplex
from epicast.geo.local import LocalGeoplex
from epicast.geo.ports import free_ports
from epicast.geo.status import ask_any_status
from epicast.protocols.cyclon import Cyclon
from epicast.protocols.epto import Epto
from epicast.protocols.lpbcast import Lpbcast
from epicast.protocols.sprinkler import Agent, MovableProxy, ReplicaProxy, Sidecar
from epicast.protocols.sprinkler.messages import Publish
from epicast.protocols.sprinkler.moving.messages import AcceptLoss, MoveRequest
from tests.hostile.honest import CLUSTER, PUBLISHER, Listening, Outcome
from tests.hostile.intruder import Closed, Intruder, wants
from tests.hostile.kinds import RELEASED
from tests.hostile.messages import Attacker

BURST = 25
"""Messages to one node before the next one gets some."""
DATAGRAMS = 0.1
"""The share of bursts that goes by UDP, as far as messages fit."""
RENEWED = 0.02
"""How often a connection is given up for a new one."""
LATEST_ANSWER_S = 10.0
COMPLAINTS = ("Traceback", "Error:", "Exception", "never retrieved", "CRITICAL")
RESIDENT_BYTES = 1 << 30

HANDLED: Mapping[str, Sequence[type[Message]]] = {
    name: list(protocol._handlers)  # type: ignore[arg-type]
    for name, protocol in {
        "us/1": ReplicaProxy, "us/2": ReplicaProxy, "eu": MovableProxy, "sidecar": Sidecar,
        "agent": Agent,
    }.items()
}  # fmt: skip

TEXT = """
name = "{name}"
[regions.us]
replicas = {replicas}
data = "us"
[regions.eu]
proxy = "127.0.0.1:{eu}"
data = "eu"
[regions.ap]
proxy = "127.0.0.1:{ap}"
data = "ap"
[coordination]
service = "sqlite:coordination.db"
[streams.orders]
owner = "us"
ack = "disk"
[streams.prices]
owner = "eu"
ack = "memory"
latest_per_key = true
[proxies]
advertise_every = "50ms"
reconnect_every = "50ms"
"""


def geoplex_in(folder: Path) -> Geoplex:
    ports = free_ports(5)
    replicas = [f"127.0.0.1:{port}" for port in ports[:3]]
    text = TEXT.format(name=CLUSTER, replicas=replicas, eu=ports[3], ap=ports[4])
    (folder / "geoplex.toml").write_text(text)
    return parse_geoplex(text, "geoplex.toml", str(folder))


class Siege:
    def __init__(self, folder: Path, senders: Sequence[str], seed: int) -> None:
        self._folder, self._senders = folder, senders
        self._rng = Random(derive_seed(seed, "siege"))
        self.attacker = Attacker(RELEASED, self._rng)
        self.attacker.vocabulary.numbers += [PUBLISHER]
        self._geoplex = geoplex_in(folder)
        self._stack = ExitStack()
        self._intruders: dict[tuple[str, str], Intruder] = {}
        self._incarnation = time.time_ns()
        self._targets: dict[str, tuple[str, int]] = {}
        self.sent: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        """Connections that targets have closed, by reason."""
        self._last: dict[str, str] = {}
        """The last messages to each target."""

    # -- life ------------------------------------------------------------------------------------

    def __enter__(self) -> Siege:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for intruder in self._intruders.values():
            intruder.close()
        self._stack.close()

    def _start(self) -> None:
        self._errors: IO[bytes] = self._stack.enter_context((self._folder / "stderr").open("wb"))
        self._local = LocalGeoplex(self._geoplex, any_ports=False, errors=self._errors)
        self._stack.enter_context(self._local)
        file = self._folder / "geoplex.toml"
        command = ["-m", "epicast", "agent", str(file), "eu", "--json", "--log-level", "warning"]
        self._sidecar = self._child(command)
        sidecar = json.loads(self._line(self._sidecar))["address"]
        addresses = [self._local.address("us").rpartition(",")[0], self._local.address("eu")]
        self._honest = self._child(["-m", "tests.hostile.honest", *addresses, sidecar])
        listening = msgspec.json.decode(self._line(self._honest), type=Listening)
        self._topics = listening.topics
        replicas = {each.name: tuple(each.address) for each in self._geoplex.replicas}
        self._ids = {each.name: each.id for each in self._geoplex.replicas}
        host, port = sidecar.rpartition("/")[2].split(":")
        self._targets = {
            "us/1": replicas["us/1"], "us/2": replicas["us/2"], "eu": replicas["eu"],
            "sidecar": (host, int(port)), "agent": listening.agent,
            **{f"topic {at}": each for at, each in enumerate(listening.peers)},
        }  # fmt: skip
        if "peer" in self._senders:
            for name in ("us/3", "ap"):
                self._local.kill(name)

    def _child(self, arguments: list[str]) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        self._stack.callback(_end, child)
        return child

    def _line(self, child: subprocess.Popen[str]) -> str:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, f"ended with {child.wait()}: {self.complaints()}"
        return line

    # -- what is said ----------------------------------------------------------------------------

    def attack(self, messages: int) -> None:
        rng = self._rng
        while (sent := self.sent.total()) < messages:
            target, sender = rng.choice(list(self._targets)), rng.choice(self._senders)
            count = min(BURST, messages - sent)
            burst = [each for _ in range(count) if (each := self._message(target)) is not None]
            self._last[target] = f"{sender} to {target}: {burst!r}"
            try:
                intruder = self._intruder(target, sender)
                if rng.random() < DATAGRAMS:
                    intruder.send_datagrams(burst)
                else:
                    intruder.send(burst)
            except (Closed, ConnectionError, WireError) as error:
                self.closed[str(error)[:60]] += 1
                self._give_up(target, sender)
                assert self._alive(), self.report()
            if rng.random() < RENEWED:
                self._give_up(target, sender)
            self.sent[target] += len(burst)

    def _message(self, target: str) -> AnyMessage | None:
        if target.startswith("topic"):
            return self._in_topic()
        message = self.attacker.next(HANDLED[target])
        if "peer" not in self._senders:
            if isinstance(message, (MoveRequest, AcceptLoss)):
                return None
            if isinstance(message, Publish) and message.publisher == PUBLISHER:
                return None
        return message

    def _in_topic(self) -> AnyMessage:
        rng, (gossip, ordered) = self._rng, self._topics
        if rng.random() < 0.5:
            return Layered(gossip, self.attacker.next(list(Lpbcast._handlers)))
        layer = rng.choice((0, 1))
        message = self.attacker.next(list((Cyclon, Epto)[layer]._handlers))
        return Layered(rng.choice((ordered, ordered, ordered, 1)), Layered(layer, message))

    def _intruder(self, target: str, sender: str) -> Intruder:
        found = self._intruders.get((target, sender))
        if found is None:
            self._incarnation += 1
            found = Intruder(
                self._targets[target], CLUSTER, self._node_of(sender), self._incarnation,
                self.attacker.record,
            )  # fmt: skip
            self._intruders[target, sender] = found
            found.send(wants(sender, found.node))
        return found

    def _node_of(self, sender: str) -> Peer:
        """Return who the sender says it is. Without security a node with a port may be an agent."""
        if sender == "peer":
            return Peer(self._ids[self._rng.choice(("us/3", "ap"))], "127.0.0.1", 9)
        port = 9 if sender == "member" else 0
        return Peer(10 + self._senders.index(sender), "127.0.0.1", port)

    def _give_up(self, target: str, sender: str) -> None:
        intruder = self._intruders.pop((target, sender), None)
        if intruder is not None:
            intruder.close()

    # -- what must hold --------------------------------------------------------------------------

    def _alive(self) -> bool:
        ended = [each for each in self._local.ended() if each.region not in ("us/3", "ap")]
        return not ended and self._sidecar.poll() is None and self._honest.poll() is None

    def statuses(self) -> dict[str, Any]:
        """Ask every service how it is; fail if one has ended or does not answer."""
        assert self._alive(), self.report()
        found = {}
        for name in ("us/1", "us/2", "eu", "sidecar"):
            found[name] = asyncio.run(ask_any_status(*self._targets[name], LATEST_ANSWER_S))
            assert found[name].resident_bytes < RESIDENT_BYTES, f"{name}: {found[name]}"
        return found

    def outcome(self) -> Outcome:
        """Stop the attack and return what the honest nodes got."""
        for intruder in self._intruders.values():
            intruder.close()
        self._intruders.clear()
        assert self._honest.stdin is not None
        self._honest.stdin.close()
        return msgspec.json.decode(self._line(self._honest), type=Outcome)

    def report(self) -> str:
        """Return the complaints, and the last messages to each target."""
        told = "\n".join(each[:3000] for each in self._last.values())
        return "\n".join(self.complaints()) + f"\nthe last messages of {self.sent.total()}:\n{told}"

    def complaints(self) -> list[str]:
        """Return the tracebacks and the like that the processes have logged."""
        lines = (self._folder / "stderr").read_text(errors="replace").splitlines()
        found = [at for at, line in enumerate(lines) if any(each in line for each in COMPLAINTS)]
        return [line for at in found[:3] for line in lines[max(0, at - 1) : at + 40]]


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
