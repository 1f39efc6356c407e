"""Publications to the streams of this proxy: from the check at the door to the acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol as Interface

from epicast.core import Effects, EventBatch, NodeId
from epicast.protocols.sprinkler.config import ProxyConfig
from epicast.protocols.sprinkler.messages import (
    Publish,
    Published,
    RefusalCode,
    Refused,
    StreamInfo,
)
from epicast.protocols.sprinkler.ownership import Ownership, Pending, Refusal
from epicast.protocols.sprinkler.regions import RegionalAcks, regions_of
from epicast.protocols.sprinkler.relays import refusal
from epicast.protocols.sprinkler.states import StreamState

_SHOWN = 40
"""Characters of a level that is not known."""


class Admission(Interface):
    """Which events a stream takes. Without one, all are taken."""

    def __call__(self, info: StreamInfo, batch: EventBatch) -> str:
        """Why a publication cannot be numbered; empty if it can."""

    def storable(self, info: StreamInfo, batch: EventBatch) -> str:
        """Why no history can store events that were numbered elsewhere; empty if they can be."""


class AdmitAll:
    def __call__(self, info: StreamInfo, batch: EventBatch) -> str:
        return ""

    def storable(self, info: StreamInfo, batch: EventBatch) -> str:
        return ""


class Publications:
    def __init__(
        self, node: NodeId, config: ProxyConfig, other_regions: int, admit: Admission
    ) -> None:
        self._node = node
        self._config = config
        self._other_regions = other_regions
        self._admit = admit
        self._owned: dict[int, tuple[StreamState, Ownership]] = {}
        self._numbered: dict[int, StreamState] = {}
        """Streams with publications that are numbered and not handed to the store yet."""
        self._regional = RegionalAcks(config.max_publishers)
        self.is_alone = True
        """What cannot be stored here can be stored by nobody. Otherwise it is worth another try."""

    def own(self, state: StreamState, publishers: dict[int, int]) -> None:
        self._regional.forget(state.id)
        ownership = Ownership(state, publishers, self._config.max_publishers)
        self._owned[state.id] = (state, ownership)

    def owns(self, stream: int) -> bool:
        return stream in self._owned

    def take(self, now: int, source: NodeId, message: Publish, fx: Effects) -> None:
        """Number a publication, or say what is wrong with it."""
        state, owned = self._owned[message.stream]
        regions = regions_of(message.level)
        refused = self._objection(state, message, regions)
        if refused is None and regions is not None:
            taken = owned.take(now + fx.wall_offset, source, message, regions)
            if isinstance(taken, EventBatch):
                state.number(taken)
                self._numbered[message.stream] = state
            elif isinstance(taken, Refusal):
                refused = taken
            elif taken is not None:
                self._acknowledge_in_turn(message.stream, [taken], fx)
        if refused is not None:
            self._refuse(source, refusal(message, refused.code, refused.detail), fx)

    def _objection(
        self, state: StreamState, message: Publish, regions: int | None
    ) -> Refusal | None:
        if regions is None or regions > self._other_regions:
            shown, others = message.level[:_SHOWN], self._other_regions
            detail = f"level {shown!r}: there are {others} other regions"
            return Refusal(RefusalCode.LEVEL, detail)
        if not self._regional.has_room(message.stream, message.publisher, regions):
            return Refusal(RefusalCode.BUSY, "too many acknowledgements wait")
        if state.hidden_bytes > self._config.max_unstable_bytes:
            return Refusal(RefusalCode.BUSY, "the store is behind")
        batch = message.batch
        if message.first < 1:
            return Refusal(RefusalCode.INVALID, "a publisher's numbers start at 1")
        problem = "a hole" if batch.tombstones else self._admit(state.info, batch)
        return Refusal(RefusalCode.INVALID, problem) if problem else None

    def store(self, fx: Effects) -> None:
        """Publications that came together are stored and travel together."""
        if self._numbered:
            numbered, self._numbered = self._numbered, {}
            for state in numbered.values():
                for batch in state.take_numbered():
                    fx.append(batch)

    def stabilise(self, stream: int, seq: int, fx: Effects) -> None:
        """Everything up to `seq` is stored."""
        self._acknowledge_in_turn(stream, self._owned[stream][1].stabilise(seq), fx)

    def fail(self, stream: int, first: int, reason: str, fx: Effects) -> None:
        """Nothing from `first` on was stored."""
        code = RefusalCode.STORAGE if self.is_alone else RefusalCode.BUSY
        for pending in self._owned[stream][1].fail(first):
            refused = Refused(
                stream, pending.publisher, pending.path, pending.first, pending.last, code, reason
            )
            self._refuse(pending.peer, refused, fx)

    def observe(self, batch: EventBatch) -> None:
        """The head of the chain has numbered these, of a stream of this region."""
        self._owned[batch.stream][1].observe(batch)

    def begin_epoch(self, stream: int) -> None:
        """How far other regions were in the epoch before says nothing about this one."""
        self._regional.begin_epoch(stream)

    def start_over(self, stream: int) -> None:
        self._owned[stream][1].start_over()
        self._regional.begin_epoch(stream)

    def retire(self, fx: Effects) -> None:
        """Another replica is the head now: whoever waits is to ask there."""
        for stream in self._owned:
            self._send_elsewhere(stream, "another replica takes publications now", fx)

    def disown(self, stream: int, fx: Effects) -> dict[int, int]:
        """Another region owns a stream now: whoever waits is to ask there. The last number of each
        publisher."""
        self._send_elsewhere(stream, "another region takes publications now", fx)
        return self._owned.pop(stream)[1].accepted()

    def _send_elsewhere(self, stream: int, reason: str, fx: Effects) -> None:
        owned = self._owned[stream][1]
        for pending in (*owned.retire(), *self._regional.retire(stream)):
            refused = Refused(
                stream, pending.publisher, pending.path, pending.first, pending.last,
                RefusalCode.BUSY, reason,
            )  # fmt: skip
            self._refuse(pending.peer, refused, fx)

    def heard_of_region(self, proxy: NodeId, stream: int, seq: int, fx: Effects) -> None:
        """Another proxy has stored everything up to `seq`."""
        if stream in self._owned:
            done = self._regional.heard(stream, proxy, seq)
            if done:
                self._acknowledge(stream, done, fx)

    def _acknowledge_in_turn(self, stream: int, done: Sequence[Pending], fx: Effects) -> None:
        """What is stored here may still have to wait for other regions."""
        self._acknowledge(stream, [p for p in done if not self._regional.wait(stream, p)], fx)

    def _acknowledge(self, stream: int, done: Sequence[Pending], fx: Effects) -> None:
        """Tell publishers, with one message for all that one has published in this step."""
        acks: dict[tuple[NodeId, tuple[NodeId, ...], int], list[tuple[int, int]]] = {}
        for pending in done:
            who = (pending.peer, pending.path, pending.publisher)
            acks.setdefault(who, []).append((pending.last, pending.seq))
        for (peer, path, publisher), numbers in acks.items():
            if peer not in (0, self._node):
                fx.send(peer, Published(stream, publisher, path, tuple(numbers)))

    def _refuse(self, peer: NodeId, refused: Refused, fx: Effects) -> None:
        if peer not in (0, self._node):
            fx.send(peer, refused)
