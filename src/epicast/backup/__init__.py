"""Copies of streams that outlive their proxies: `epicast backup` and `epicast restore`.

A backup is a folder with a history per stream, in the format of the log, and a manifest that says
what belongs to it, with checksums. A history that is garbage-collected anywhere is so everywhere,
and carries its epoch and the numbers of its publishers; so a backup is made by subscribing, and
added to by subscribing again behind its end. `docs/backup.md` has the promises.
"""

from epicast.backup.errors import BackupDamaged, BackupError, NameRefused, RestoreRefused
from epicast.backup.manifest import FileEntry, Manifest, StreamEntry, load_manifest
from epicast.backup.offline import backup_data_folder
from epicast.backup.online import backup_running
from epicast.backup.restoring import Restored, restore_stream
from epicast.backup.verifying import verify

__all__ = [
    "BackupDamaged", "BackupError", "FileEntry", "Manifest", "NameRefused", "RestoreRefused",
    "Restored", "StreamEntry", "backup_data_folder", "backup_running", "load_manifest",
    "restore_stream", "verify",
]  # fmt: skip
