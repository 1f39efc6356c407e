"""Protocols on a real network. The only package that imports asyncio."""

from epicast.runtime.driver import NodeDriver
from epicast.runtime.errors import DriverError, NoRoom
from epicast.runtime.identify import Unreachable, identify
from epicast.runtime.limits import Limits
from epicast.runtime.run import loop_factory, run
from epicast.runtime.storage import MemoryStorage, Storage, StorageError

__all__ = [
    "DriverError", "Limits", "MemoryStorage", "NoRoom", "NodeDriver", "Storage", "StorageError",
    "Unreachable", "identify", "loop_factory", "run",
]  # fmt: skip
