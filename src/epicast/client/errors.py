"""What calls of the client library raise. All of it is `EpicastError`."""

from __future__ import annotations

from epicast.core import EpicastError
from epicast.deployment import UnknownStream
from epicast.runtime.errors import NoRoom

__all__ = [
    "Closed", "ConnectFailed", "NoRoom", "PublishRefused", "UnknownStream", "WatermarkFileError",
]  # fmt: skip


class ConnectFailed(EpicastError):
    """Nobody Epicast can talk to was found at the address; the message says what to check."""


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
        return cls(code, detail or text)


class WatermarkFileError(EpicastError):
    """A file that should hold watermarks does not, or cannot be written."""
