"""Every error a caller of Epicast may want to catch."""


class EpicastError(Exception):
    """Base of all errors raised on purpose; the message says what to do about it."""


class ConfigError(EpicastError):
    """A configuration or scenario is wrong; names where and what was expected."""


class InvariantViolation(EpicastError):
    """A protocol found its own state impossible; the message carries the evidence."""


class BatchError(EpicastError):
    """Bytes that should hold an event batch do not, or a batch was built from impossible parts."""


class WireError(EpicastError):
    """The peer sent something the wire protocol does not allow.

    `reason` is one of a fixed set of short words, so that it can be counted.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
