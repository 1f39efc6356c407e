"""What can go wrong with backups. None of it changes the stream that is, or was, backed up."""

from __future__ import annotations

from epicast.core import EpicastError


class BackupError(EpicastError):
    """A backup cannot be made, or read."""


class BackupDamaged(BackupError):
    """What is in the folder is not what was written there."""


class NameRefused(BackupError):
    """Raised when a server, a manifest or a folder has a name that leads out of a backup."""


class RestoreRefused(BackupError):
    """It would overwrite something, or mislead subscribers."""
