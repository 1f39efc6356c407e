"""What calls of a driver may raise."""

from epicast.core import EpicastError


class DriverError(EpicastError):
    """The driver cannot do that in its present state."""


class NoRoom(DriverError):
    """The protocol takes no publications at the moment."""
