"""In the memory of one process: for tests, and as what the other backends are compared with."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from epicast.coordination.model import Entry, NoSuchLease, View, check_key, check_value

_LOOK_S = 0.01


class MemoryStore:
    """What coordinators of one process share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.revision = 0
        self.entries: dict[str, Entry] = {}
        self.changed: dict[str, int] = {}
        """The revision of the last change of every key there ever was."""
        self.leases: dict[int, tuple[float, float]] = {}
        """How long each is granted for, and when it ends."""
        self.granted = 0

    def change(self, key: str, value: bytes | None, lease: int = 0) -> int:
        self.revision += 1
        self.changed[key] = self.revision
        if value is None:
            del self.entries[key]
        else:
            self.entries[key] = Entry(value, self.revision, lease)
        return self.revision

    def end(self, lease: int) -> None:
        del self.leases[lease]
        for key in [key for key, entry in self.entries.items() if entry.lease == lease]:
            self.change(key, None)

    def expire(self) -> None:
        now = self.clock()
        for lease in [lease for lease, (_, end) in self.leases.items() if end <= now]:
            self.end(lease)


class MemoryCoordinator:
    def __init__(self, store: MemoryStore | None = None) -> None:
        self._store = store or MemoryStore()

    def read(self, prefix: str) -> View:
        store = self._store
        with store.lock:
            store.expire()
            found = {key: store.entries[key] for key in sorted(store.entries)
                     if key.startswith(prefix)}  # fmt: skip
            return View(store.revision, found)

    def put(self, key: str, value: bytes, revision: int, lease: int = 0) -> int | None:
        check_key(key)
        check_value(value)
        store = self._store
        with store.lock:
            store.expire()
            if lease and lease not in store.leases:
                raise NoSuchLease(f"there is no lease {lease}")
            if self._revision_of(key) != revision:
                return None
            return store.change(key, value, lease)

    def remove(self, key: str, revision: int) -> bool:
        check_key(key)
        with self._store.lock:
            self._store.expire()
            if key not in self._store.entries or self._revision_of(key) != revision:
                return False
            self._store.change(key, None)
            return True

    def wait(self, prefix: str, after: int, patience_s: float) -> View | None:
        deadline = time.monotonic() + patience_s
        while True:
            view = self.read(prefix)
            with self._store.lock:
                changed = self._store.changed.items()
                if any(at > after for key, at in changed if key.startswith(prefix)):
                    return view
            if time.monotonic() >= deadline:
                return None
            time.sleep(_LOOK_S)

    def grant(self, ttl_s: float) -> int:
        store = self._store
        with store.lock:
            store.granted += 1
            store.leases[store.granted] = ttl_s, store.clock() + ttl_s
            return store.granted

    def keep(self, lease: int) -> bool:
        store = self._store
        with store.lock:
            store.expire()
            if lease not in store.leases:
                return False
            ttl_s, _ = store.leases[lease]
            store.leases[lease] = ttl_s, store.clock() + ttl_s
            return True

    def revoke(self, lease: int) -> None:
        with self._store.lock:
            self._store.expire()
            if lease in self._store.leases:
                self._store.end(lease)

    def close(self) -> None:
        pass

    def _revision_of(self, key: str) -> int:
        entry = self._store.entries.get(key)
        return entry.revision if entry is not None else 0
