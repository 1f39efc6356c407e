"""Protocols on top of each other, run as one.

Layer 0 is the bottom: it owns the connections and hears of them from the driver. What it calls
neighbours are the peers the next layer hears of, and so on up; publications enter at the top and
deliveries leave there. Messages carry the index of the layer they belong to. A stack is a protocol,
so a layer may be a stack in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from random import Random

from msgspec.structs import replace

from epicast.core.batch import EventBatch
from epicast.core.effects import BeginEpoch, Effects, Publication, ViewChange
from epicast.core.errors import InvariantViolation
from epicast.core.ids import NodeId, Peer
from epicast.core.message import AnyMessage, Layered
from epicast.core.protocol import Protocol, Recovered
from epicast.core.tagged import TaggedEffects, saved_by_tag, untag_token

MAX_BETWEEN = 1 << 17
"""What may pass between the layers in one step; more means two of them go round in circles."""

_DELIVERY, _PEER_UP, _PEER_DOWN, _PUBLICATION = range(4)
_KINDS = ("delivery", "peer up", "peer down", "publication")
_Receiver = tuple[
    Mapping[type, Callable[..., None]], Callable[..., None], Protocol[object], "LayerEffects"
]
"""Handlers of a layer, if they may be called one by one; what takes everything else; the layer and
its effects."""


class LayerEffects(TaggedEffects):
    """Effects of one layer: what concerns a neighbouring layer goes there."""

    __slots__ = ("_is_top", "_stack")

    def __init__(self, stack: Stack, index: int, outer: Effects) -> None:
        super().__init__(index, outer)
        self._stack = stack
        self._is_top = index == len(stack.layers) - 1

    def deliver(self, batch: EventBatch) -> None:
        if self._is_top:
            self._outer.deliver(batch)
        else:
            self._stack.between.append((_DELIVERY, self.tag + 1, batch))

    def deliver_after_append(self, batch: EventBatch) -> None:
        if not self._is_top:
            raise RuntimeError("deliver_after_append: only the top layer of a stack may use it")
        self._outer.deliver_after_append(batch)

    def publish_below(self, publication: Publication) -> None:
        if self.tag:
            self._stack.between.append((_PUBLICATION, self.tag - 1, publication))
        else:
            self._outer.publish_below(publication)

    def neighbor_up(self, peer: NodeId) -> None:
        if self._is_top:
            self._outer.neighbor_up(peer)
        else:
            self.operations.append(ViewChange(peer, True))
            self._stack.between.append((_PEER_UP, self.tag + 1, peer))

    def neighbor_down(self, peer: NodeId) -> None:
        if self._is_top:
            self._outer.neighbor_down(peer)
        else:
            self.operations.append(ViewChange(peer, False))
            self._stack.between.append((_PEER_DOWN, self.tag + 1, peer))

    def connect(self, peer: Peer) -> None:
        self._require_bottom("connect")
        self._outer.connect(peer)

    def disconnect(self, peer: NodeId) -> None:
        self._require_bottom("disconnect")
        self._outer.disconnect(peer)

    def _require_bottom(self, operation: str) -> None:
        if self.tag:
            raise RuntimeError(f"{operation}: only the bottom layer of a stack owns connections")


class Stack(Protocol[None]):
    """`layers` from the bottom up. Handlers go to the layer concerned, then what passes between
    layers is worked off, in the order it was said, before the driver sees the effects."""

    __slots__ = ("_effects", "_outer", "_receivers", "between", "layers")

    def __init__(self, node: Peer, rng: Random, layers: Sequence[Protocol[object]]) -> None:
        super().__init__(node, None, rng)
        if not layers:
            raise ValueError("a stack needs at least one layer")
        self.layers = list(layers)
        self.between: list[tuple[int, int, object]] = []
        self._outer: Effects | None = None
        self._effects: list[LayerEffects] = []
        self._receivers: list[_Receiver] = []
        for lower, upper in zip(self.layers, self.layers[1:], strict=False):
            upper.below = lower
        for layer in self.layers:
            self.timers.adopt(layer.timers)

    def on_start(
        self, now: int, contacts: Sequence[Peer], recovered: Recovered, fx: Effects
    ) -> None:
        self._bind(fx)
        if self.below is not None:  # we are a layer ourselves
            self.layers[0].below = self.below
        saved = saved_by_tag(recovered.saved)
        for index, (layer, layer_fx) in enumerate(zip(self.layers, self._effects, strict=True)):
            part = replace(recovered, saved=saved.get(index, {}))
            layer.on_start(now, contacts, part, layer_fx)
        self._settle(now)

    def on_stop(self, now: int, fx: Effects) -> None:
        self._bind(fx)
        for layer, layer_fx in zip(reversed(self.layers), reversed(self._effects), strict=True):
            layer.on_stop(now, layer_fx)
        self._settle(now)

    def on_publish(self, now: int, publications: Sequence[Publication], fx: Effects) -> None:
        self._bind(fx)
        self.layers[-1].on_publish(now, publications, self._effects[-1])
        self._settle(now)

    def publish_room(self) -> int:
        return min(layer.publish_room() for layer in self.layers)

    def on_messages(
        self, now: int, source: NodeId, messages: Sequence[AnyMessage], fx: Effects
    ) -> None:
        for message in messages:
            if type(message) is Layered:
                self._handle_layered(now, source, message, fx)
            else:
                fx.drop("no such layer", source)

    def _handle_layered(self, now: int, source: NodeId, message: Layered, fx: Effects) -> None:
        if fx is not self._outer:
            self._bind(fx)
        receivers = self._receivers
        if message.layer >= len(receivers):
            fx.drop("no such layer", source)
            return
        handlers, receive, layer, layer_fx = receivers[message.layer]
        inner = message.message
        handler = handlers.get(type(inner))
        if handler is not None:
            handler(layer, now, source, inner, layer_fx)
        else:
            receive(now, source, (inner,), layer_fx)
        if self.between:
            self._settle(now)

    def direct_handlers(self) -> Mapping[type, Callable[..., None]]:
        if type(self).on_messages is not Stack.on_messages:
            return {}
        return {Layered: Stack._handle_layered}

    def on_delivery(self, now: int, batch: EventBatch, fx: Effects) -> None:
        self._bind(fx)
        self.layers[0].on_delivery(now, batch, self._effects[0])
        self._settle(now)

    def on_appended(self, now: int, stream: int, seq: int, fx: Effects) -> None:
        self._bind(fx)
        for layer, layer_fx in zip(self.layers, self._effects, strict=True):
            layer.on_appended(now, stream, seq, layer_fx)
        self._settle(now)

    def on_append_failed(self, now: int, stream: int, first: int, reason: str, fx: Effects) -> None:
        self._bind(fx)
        for layer, layer_fx in zip(self.layers, self._effects, strict=True):
            layer.on_append_failed(now, stream, first, reason, layer_fx)
        self._settle(now)

    def on_epoch_failed(self, now: int, order: BeginEpoch, reason: str, fx: Effects) -> None:
        self._bind(fx)
        for layer, layer_fx in zip(self.layers, self._effects, strict=True):
            layer.on_epoch_failed(now, order, reason, layer_fx)
        self._settle(now)

    def on_read(self, now: int, token: int, batches: Sequence[EventBatch], fx: Effects) -> None:
        self._bind(fx)
        layer_token, index = untag_token(token)
        self.layers[index].on_read(now, layer_token, batches, self._effects[index])
        self._settle(now)

    def on_ready(self, now: int, peer: NodeId, room: int, fx: Effects) -> None:
        self._bind(fx)
        for layer, layer_fx in zip(self.layers, self._effects, strict=True):
            layer.on_ready(now, peer, room, layer_fx)
        self._settle(now)

    def on_peer_up(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._bind(fx)
        self.layers[0].on_peer_up(now, peer, self._effects[0])
        self._settle(now)

    def on_peer_down(self, now: int, peer: NodeId, fx: Effects) -> None:
        self._bind(fx)
        self.layers[0].on_peer_down(now, peer, self._effects[0])
        self._settle(now)

    def on_timer(self, now: int, fx: Effects) -> None:
        self._bind(fx)
        for layer, layer_fx in zip(self.layers, self._effects, strict=True):
            if layer.timers.earliest <= now:
                layer.on_timer(now, layer_fx)
        self._settle(now)

    def sample(self, k: int) -> list[NodeId]:
        return self.layers[-1].sample(k)

    def neighbors(self) -> list[NodeId]:
        return self.layers[0].neighbors()

    def check_invariants(self) -> None:
        for layer in self.layers:
            layer.check_invariants()

    def statistics(self) -> Mapping[str, int | float]:
        types = [type(layer).__name__.lower() for layer in self.layers]
        figures: dict[str, int | float] = {}
        for index, (prefix, layer) in enumerate(zip(types, self.layers, strict=True)):
            if types.count(prefix) > 1:
                prefix += str(index)
            figures |= {f"{prefix}.{name}": value for name, value in layer.statistics().items()}
        return figures

    def _bind(self, fx: Effects) -> None:
        if fx is self._outer:
            return
        self._outer = fx
        self._effects = [LayerEffects(self, index, fx) for index in range(len(self.layers))]
        self._receivers = [
            (layer.direct_handlers(), layer.on_messages, layer, layer_fx)
            for layer, layer_fx in zip(self.layers, self._effects, strict=True)
        ]

    def _settle(self, now: int) -> None:
        between = self.between
        try:
            for kind, index, subject in islice(between, MAX_BETWEEN):  # grows as it is worked off
                layer, fx = self.layers[index], self._effects[index]
                if kind == _DELIVERY:
                    layer.on_delivery(now, subject, fx)  # type: ignore[arg-type]
                elif kind == _PEER_UP:
                    layer.on_peer_up(now, subject, fx)  # type: ignore[arg-type]
                elif kind == _PEER_DOWN:
                    layer.on_peer_down(now, subject, fx)  # type: ignore[arg-type]
                else:
                    layer.on_publish(now, (subject,), fx)  # type: ignore[arg-type]
            if len(between) > MAX_BETWEEN:
                kind, index, _ = between[-1]
                raise InvariantViolation(
                    f"more than {MAX_BETWEEN} events between the layers in one step; the last is "
                    f"a {_KINDS[kind]} for layer {index}, {type(self.layers[index]).__name__}"
                )
        finally:
            between.clear()
