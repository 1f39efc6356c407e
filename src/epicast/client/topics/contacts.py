"""From the addresses of contacts to peers that are there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random

from epicast.core import EpicastError, NodeId, Peer
from epicast.deployment.addresses import Address
from epicast.runtime.identify import find_node
from epicast.runtime.tls import Tls
from epicast.runtime.waiting import Bell, spawn

log = logging.getLogger("epicast.client")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_ATTEMPT_S = 3.0
_SAID_AGAIN_S = 60.0
"""How often the log repeats that nobody is found."""


class ContactSeeker:
    """Asks all addresses who is there until somebody answers. Pauses double up to 5 s, with up to
    half of each added at random."""

    def __init__(
        self,
        who: str,
        addresses: Sequence[Address],
        node: NodeId,
        cluster: str,
        tls: Tls | None,
        rng: Random,
        report: Callable[[str], object],
    ) -> None:
        """`who` is what the log calls the one who seeks; `report` is told what goes wrong."""
        self.attempts = 0
        self._who = who
        self._addresses = addresses
        self._node = node
        self._cluster = cluster
        self._tls = tls
        self._rng = rng
        self._report = report
        self._said_after = 0.0

    async def find(self) -> list[Peer]:
        """Those who answer, this node itself not counted; nobody if it is the only contact."""
        pause, waited = _FIRST_PAUSE_S, 0.0
        while True:
            self.attempts += 1
            asking = [spawn(self._ask(address)) for address in self._addresses]
            try:
                answers = [await each for each in asking]
            finally:
                for each in asking:
                    each.cancel()
            found = [answer for answer in answers if isinstance(answer, Peer)]
            if found or not answers:
                return [peer for peer in found if peer.id != self._node]
            problems = "; ".join(answer for answer in answers if isinstance(answer, str))
            self._report(f"no contact answers, attempt {self.attempts}: {problems}")
            if waited >= self._said_after:
                log.warning("%s: no contact answers, trying again: %s", self._who, problems)
                self._said_after = waited + _SAID_AGAIN_S
            length = pause * (1 + self._rng.random() / 2)
            await Bell().wait(length)
            waited += length
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _ask(self, address: Address) -> Peer | str:
        try:
            hello, _ = await find_node(address.host, address.port, _ATTEMPT_S, self._tls)
        except EpicastError as error:
            return str(error)
        if hello.cluster != self._cluster:
            return (
                f"{address} belongs to {hello.cluster!r}, this node to {self._cluster!r}: join "
                "with cluster= the same, or through somebody else"
            )
        return Peer(hello.node.id, address.host, address.port)
