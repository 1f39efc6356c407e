"""A stream as an application sees it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from epicast.client.evidence import NodeEvidence
from epicast.client.items import BEGINNING, Watermark
from epicast.client.outbox import Outbox
from epicast.client.publishing import PublishingStream, PublishLimits
from epicast.client.subscription import Subscription
from epicast.client.watermarks import WatermarkFile
from epicast.core import ConfigError
from epicast.protocols.sprinkler.messages import StreamInfo

if TYPE_CHECKING:
    from epicast.client.node import Node

DEFAULT_WINDOW_BYTES = 4 << 20


class Stream(PublishingStream):
    """Made by `Node.stream`, once per stream."""

    def __init__(
        self,
        node: Node,
        info: StreamInfo,
        outbox: Outbox,
        first_sequence: int,
        limits: PublishLimits,
        evidence: NodeEvidence | None = None,
    ) -> None:
        super().__init__(info, outbox, first_sequence, limits, evidence)
        self._node = node

    @property
    def name(self) -> str:
        return self._info.name

    @property
    def info(self) -> StreamInfo:
        """Its owner, its promise and its policies, as the proxy described them."""
        return self._info

    def subscribe(
        self,
        after: Watermark | int | None = None,
        *,
        tombstones: bool = True,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        resume: WatermarkFile | None = None,
        save_every: float = 1.0,
    ) -> Subscription:
        """Every event behind `after`, in order, or the tombstone that stands for it.

        `after`: a watermark, a sequence number of the present epoch, 0 for the beginning, None
        for the newest event the proxy has told of, which may have been a heartbeat ago.
        `window_bytes` bounds what is held here that the application has not asked for. With
        `resume` the watermark saved in that file, if there is one, is used instead of `after`; if
        there is none, the place where the subscription begins is on disk when this returns. The
        subscription's own watermark is saved there every `save_every` seconds and when it is
        closed. `tombstones=False` leaves tombstones out.
        """
        if window_bytes < 1:
            raise ConfigError(f"window_bytes: {window_bytes} is not at least 1")
        if not 0 <= save_every < inf:
            raise ConfigError(f"save_every: {save_every} is not a number of seconds")
        return self._node.open_subscription(
            self._info,
            self._place(after),
            tombstones=tombstones,
            window_bytes=window_bytes,
            resume=resume,
            save_every=save_every,
        )

    async def head(self, timeout: float | None = None) -> Watermark:
        """How far the stream is at the proxy: at least as far as when this was called.

        Takes a question and its answer. What is behind it is not necessarily here yet. Raises
        `ConnectFailed` if there is no answer within `timeout` seconds.
        """
        return await self._node.fresh_head(self._info.id, timeout)

    def _place(self, after: Watermark | int | None) -> Watermark:
        head = self._node.known_head(self._info.id)
        if after is None:
            return head
        if isinstance(after, tuple):
            epoch, seq = after
        elif isinstance(after, int):
            epoch, seq = head.epoch, after
        else:
            raise ConfigError(f"after: {after!r} is neither a watermark, a number nor None")
        if seq < 0 or epoch < 0:
            raise ConfigError(f"after: {after} is before the beginning, which is 0")
        return Watermark(epoch, seq) if seq else BEGINNING
