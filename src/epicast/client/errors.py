"""What calls of the client library raise. All of it is `EpicastError`."""

from __future__ import annotations

from epicast.core import EpicastError
from epicast.deployment import UnknownStream
from epicast.runtime.errors import NoRoom

__all__ = [
    "AccessDenied", "Closed", "ConnectFailed", "JoinFailed", "NoRoom", "PublishForbidden",
    "PublishRefused", "UnknownStream", "WatermarkFileError",
]  # fmt: skip


class ConnectFailed(EpicastError):
    """Nobody Epicast can talk to was found at the address; the message says what to check."""


class AccessDenied(ConnectFailed):
    """The proxy knows who this is, or that it does not, and refuses: to connect, or to subscribe to
    a stream. Trying again as it is would not help; the message says what would."""


class JoinFailed(ConnectFailed):
    """Raised when a topic was not joined in the time given, or cannot be; the message says why.
    After the `timeout` of `joined` the node goes on trying. After `join_within` of `node.topic` the
    topic has ended: call `node.topic` again to try again."""


class Closed(EpicastError):
    """The node, or the subscription, was closed, or has failed."""


class PublishRefused(EpicastError):
    """A publication was not taken, and trying again as it is would not help.

    `code` is the name of a `RefusalCode`, such as "STORAGE"; `detail` says what happened. What
    was published behind it is not affected.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail

    @classmethod
    def from_text(cls, text: str) -> PublishRefused:
        """What the protocol says: "CODE: detail"."""
        code, _, detail = text.partition(": ")
        kind = PublishForbidden if code == "FORBIDDEN" else PublishRefused
        return kind(code, detail or text)


class PublishForbidden(PublishRefused):
    """Raised when the identity of this node has no right to publish to the stream. Nothing was
    stored, unless it lost the right while a copy of the publication was on its way."""


class WatermarkFileError(EpicastError):
    """A file that should hold watermarks does not, or cannot be written."""
