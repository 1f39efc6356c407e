"""What can be wrong with a lake, said to who runs a command."""

from __future__ import annotations

from epicast import EpicastError


class LakeError(EpicastError):
    """Base of all below."""


class NoLake(LakeError):
    """The folder is no lake, or one that this version cannot read."""


class WrongLake(LakeError):
    """The lake, or its checkpoint, belongs to another geoplex or to other streams."""


class LakeOptionError(LakeError):
    """An option of the source or of a command is not what it should be."""


class SourceAway(LakeError):
    """No proxy answered for as long as a task waits; the supervisor tries again."""


class TooLittleDisk(LakeError):
    """There is not enough room to begin a batch; nothing was written."""


class LakeBusy(LakeError):
    """Somebody else fills this lake already."""
