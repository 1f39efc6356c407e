"""Hostile messages: made from their types, or real ones with a field or two changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from epicast.core import AnyMessage, EpicastError, Layered, Message
from epicast.core.message import BodyCodec
from epicast.protocols.sprinkler.messages import Events, Notify, Tail
from epicast.wire import FrameEncoder
from epicast.wire.frames import decode_frame
from tests.hostile.values import ValueMaker, Vocabulary, leaves, type_of

RECORDED = 40
"""Real messages of one type that are remembered."""


@cache
def _weights(kinds: tuple[type[Message], ...]) -> list[int]:
    """Cumulative weights: the more there is to change in a type, the more often it is made."""
    return list(accumulate(1 + leaves(type_of(kind)) for kind in kinds))


class Attacker:
    """Knows what real messages look like, and makes others."""

    def __init__(self, kinds: Sequence[type[Message]], rng: Random) -> None:
        self.kinds = kinds
        self.rng = rng
        self.vocabulary = Vocabulary()
        self.counts: Counter[str] = Counter()
        self._maker = ValueMaker(self.vocabulary, rng)
        self._recorded: dict[type[Message], list[Message]] = {}
        self._seen = 0
        self._encoder, self._codec = FrameEncoder(), BodyCodec()

    def record(self, message: AnyMessage) -> None:
        """Remember a message that a real node has sent."""
        while isinstance(message, Layered):
            message = message.message
        if isinstance(message, (Events, Tail, Notify)):
            self.vocabulary.note_newest(message.batches)
        known = self._recorded.setdefault(type(message), [])
        self._seen += 1
        if len(known) < RECORDED:
            known.append(message)
        elif self._seen % 7:
            return
        else:
            known[self._seen // 7 % RECORDED] = message
        self.vocabulary.learn(message)

    def next(self, likely: Sequence[type[Message]]) -> Message:
        """Make a message that passes encoding and decoding, mostly of the types `likely`."""
        while True:
            made = self._next(likely)
            sent = None if made is None else self.through_wire(made)
            if sent is not None:
                self.counts["sent"] += 1
                return sent

    def _next(self, likely: Sequence[type[Message]]) -> Message | None:
        rng = self.rng
        kinds = tuple(likely if likely and rng.random() < 0.9 else self.kinds)
        (kind,) = rng.choices(kinds, cum_weights=_weights(kinds))
        recorded = self._recorded.get(kind)
        if recorded and rng.random() < 0.5:
            message, changes = rng.choice(recorded), rng.choice((1, 1, 1, 2, 2))
        else:
            message, changes = self._maker.message(kind), rng.choice((0, 1, 1, 2, 2))
        for _ in range(changes):
            message = self._change(message, type_of(kind), "")
        return message

    def through_wire(self, message: Message) -> Message | None:
        """Return what a receiver would decode; None if encoding or decoding fails."""
        try:
            frame = b"".join(self._encoder.encode(message))
            decoded = decode_frame(memoryview(frame), self._codec)
        except (EpicastError, OverflowError, msgspec.MsgspecError, UnicodeError):
            self.counts["not encoded"] += 1
            return None
        assert not isinstance(decoded, Layered)
        return decoded

    def _change(self, value: Any, info: inspect.Type, field: str) -> Any:
        """Return the value with one leaf changed, at any depth."""
        rng = self.rng
        match info:
            case inspect.StructType() if info.fields:
                chosen = rng.choice(info.fields)
                inner = self._change(getattr(value, chosen.name), chosen.type, chosen.name)
                return msgspec.structs.replace(value, **{chosen.name: inner})
            case inspect.StructType():
                return value
            case inspect.VarTupleType():
                if not value or rng.random() < 0.3:
                    return self._maker.changed_tuple(info, field, value)
                at = rng.randrange(len(value))
                inner = self._change(value[at], info.item_type, field)
                return (*value[:at], inner, *value[at + 1 :])
            case inspect.TupleType():
                at = rng.randrange(len(value))
                inner = self._change(value[at], info.item_types[at], field)
                return (*value[:at], inner, *value[at + 1 :])
        return self._maker.extreme(info, field, value)
