"""In a SQLite file, for the processes of one machine.

Leases end by the clock that all processes of a machine share since it was started, which is not the
one that people set. After a restart of the machine it begins anew: what was leased is gone then,
like its owners.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epicast.coordination.model import (
    CoordinationError,
    Entry,
    NoSuchLease,
    View,
    check_key,
    check_value,
)

_LOOK_S = 0.02
_BUSY_S = 10.0
_KEPT_REMOVALS = 1000
"""So many removed keys are remembered, for those who wait for changes."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, value BLOB, revision INTEGER NOT NULL, lease INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_revision ON entries (revision);
CREATE TABLE IF NOT EXISTS leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ttl REAL NOT NULL, ends REAL NOT NULL
);
INSERT OR IGNORE INTO facts VALUES ('revision', 0), ('forgotten', 0), ('boot', '');
"""


class SqliteCoordinator:
    """An entry without a value was removed."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_TABLES)
        except (sqlite3.Error, OSError) as error:
            raise CoordinationError(f"{file}: {error}") from error
        boot = _BOOT_ID.read_text("ascii").strip() if _BOOT_ID.exists() else ""
        with self._changing():
            if self._fact("boot") != boot:
                for (lease,) in self._database.execute("SELECT id FROM leases").fetchall():
                    self._end(lease)
                self._set_fact("boot", boot)

    def read(self, prefix: str) -> View:
        self._expire()
        with self._errors(), self._transaction("BEGIN"):
            rows = self._database.execute(
                "SELECT key, value, revision, lease FROM entries"
                " WHERE substr(key, 1, ?) = ? AND value IS NOT NULL ORDER BY key",
                (len(prefix), prefix),
            )
            found = {key: Entry(value, revision, lease) for key, value, revision, lease in rows}
            return View(self._fact("revision"), found)

    def put(self, key: str, value: bytes, revision: int, lease: int = 0) -> int | None:
        check_key(key)
        check_value(value)
        with self._changing():
            if lease and not self._leases("id = ?", lease):
                raise NoSuchLease(f"there is no lease {lease}")
            if self._revision_of(key) != revision:
                return None
            return self._change(key, value, lease)

    def remove(self, key: str, revision: int) -> bool:
        check_key(key)
        with self._changing():
            if not revision or self._revision_of(key) != revision:
                return False
            self._change(key, None)
            return True

    def wait(self, prefix: str, after: int, patience_s: float) -> View | None:
        deadline = time.monotonic() + patience_s
        while True:
            self._expire()
            with self._errors():
                (found,) = self._database.execute(
                    "SELECT EXISTS (SELECT 1 FROM entries WHERE revision > ?"
                    " AND substr(key, 1, ?) = ?)"
                    " OR (SELECT value FROM facts WHERE name = 'forgotten') > ?",
                    (after, len(prefix), prefix, after),
                ).fetchone()
            if found:
                return self.read(prefix)
            if time.monotonic() >= deadline:
                return None
            time.sleep(_LOOK_S)

    def grant(self, ttl_s: float) -> int:
        with self._changing():
            cursor = self._database.execute(
                "INSERT INTO leases (ttl, ends) VALUES (?, ?)", (ttl_s, self._clock() + ttl_s)
            )
            assert cursor.lastrowid is not None
            return cursor.lastrowid

    def keep(self, lease: int) -> bool:
        with self._changing():
            cursor = self._database.execute(
                "UPDATE leases SET ends = ? + ttl WHERE id = ?", (self._clock(), lease)
            )
            return cursor.rowcount > 0

    def revoke(self, lease: int) -> None:
        with self._changing():
            if self._leases("id = ?", lease):
                self._end(lease)

    def close(self) -> None:
        self._database.close()

    # -- within a transaction --------------------------------------------------------------------

    def _change(self, key: str, value: bytes | None, lease: int = 0) -> int:
        revision: int = self._fact("revision") + 1
        self._set_fact("revision", revision)
        self._database.execute(
            "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, value, revision, lease)
        )
        if value is None:
            self._forget_removals()
        return revision

    def _forget_removals(self) -> None:
        (number, oldest) = self._database.execute(
            "SELECT count(*), min(revision) FROM entries WHERE value IS NULL"
        ).fetchone()
        if number > _KEPT_REMOVALS:
            self._database.execute(
                "DELETE FROM entries WHERE value IS NULL AND revision = ?", (oldest,)
            )
            self._set_fact("forgotten", oldest)

    def _end(self, lease: int) -> None:
        self._database.execute("DELETE FROM leases WHERE id = ?", (lease,))
        bound = self._database.execute(
            "SELECT key FROM entries WHERE lease = ? AND value IS NOT NULL ORDER BY key", (lease,)
        )
        for (key,) in bound.fetchall():
            self._change(key, None)

    def _leases(self, condition: str, value: float) -> list[int]:
        rows = self._database.execute(f"SELECT id FROM leases WHERE {condition}", (value,))
        return [lease for (lease,) in rows]

    def _revision_of(self, key: str) -> int:
        row = self._database.execute(
            "SELECT revision FROM entries WHERE key = ? AND value IS NOT NULL", (key,)
        ).fetchone()
        return row[0] if row else 0

    def _fact(self, name: str) -> Any:
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0]

    def _set_fact(self, name: str, value: int | str) -> None:
        self._database.execute("UPDATE facts SET value = ? WHERE name = ?", (value, name))

    # -- transactions ----------------------------------------------------------------------------

    def _expire(self) -> None:
        """Looks first: nobody waits for a lock unless something has run out."""
        with self._errors():
            over = self._leases("ends <= ?", self._clock())
        if over:
            with self._changing():
                pass

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone, and with what has run out gone."""
        with self._errors(), self._transaction("BEGIN IMMEDIATE"):
            for lease in self._leases("ends <= ?", self._clock()):
                self._end(lease)
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._database.execute(begin)
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise CoordinationError(f"{self._file}: {error}") from error
