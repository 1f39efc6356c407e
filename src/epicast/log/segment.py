"""A segment: a file of consecutive batches, named by the first sequence number it covers."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator
from struct import Struct

from crc32c import crc32c
from msgspec import Struct as Record

from epicast.log.directory import Directory, File
from epicast.log.errors import CorruptBatch, TooNew
from epicast.log.layout import FRAME_BYTES
from epicast.log.records import is_sound, record_ends
from epicast.log.rows import Rows

SUFFIX = ".seg"
REWRITTEN = 1
_MAGIC = b"EPICLOG\n"
_VERSION = 1
_HEADER = Struct("<8sHHIQQQ20x")
_CHECKSUM = Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size


class Header(Record, frozen=True):
    stream: int
    epoch: int
    first: int
    last: int = 0
    """Known from the start where a segment was rewritten, else 0."""

    def encode(self) -> bytes:
        flags = REWRITTEN if self.last else 0
        fields = _HEADER.pack(
            _MAGIC, _VERSION, flags, self.epoch, self.stream, self.first, self.last
        )
        return fields + _CHECKSUM.pack(crc32c(fields))

    @classmethod
    def decode(cls, encoded: memoryview) -> Header:
        """`ValueError` if it is not one."""
        if len(encoded) < HEADER_BYTES:
            raise ValueError("the header is cut off")
        magic, version, _, epoch, stream, first, last = _HEADER.unpack_from(encoded)
        if magic != _MAGIC:
            raise ValueError("this is not a segment")
        (checksum,) = _CHECKSUM.unpack_from(encoded, _HEADER.size)
        if crc32c(encoded[: _HEADER.size]) != checksum:
            raise ValueError("the header's checksum is wrong")
        if version != _VERSION:
            raise ValueError(f"segment version {version}; this one reads {_VERSION}")
        return cls(stream, epoch, first, last)


def refuse_newer(name: str, encoded: memoryview) -> None:
    """`TooNew` if the header is sound, and of a version that is not known here."""
    if len(encoded) < HEADER_BYTES:
        return
    magic, version, *_ = _HEADER.unpack_from(encoded)
    (checksum,) = _CHECKSUM.unpack_from(encoded, _HEADER.size)
    sound = magic == _MAGIC and crc32c(encoded[: _HEADER.size]) == checksum
    if sound and version > _VERSION:
        raise TooNew(name, version, _VERSION)


def segment_name(first: int) -> str:
    return f"{first:020d}{SUFFIX}"


class OpenFiles:
    """The files of a directory that are open, a bounded number of them."""

    def __init__(self, directory: Directory, limit: int, unsynced: Collection[str] = ()) -> None:
        """`unsynced`: files that are about to be synced. They stay open as long as others can be
        closed instead, so that syncing need not open any, which may fail."""
        self.directory = directory
        self.limit = limit
        self._unsynced = unsynced
        self.pinned = False
        """Another thread is syncing some of them: none may be closed."""
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, name: str) -> File:
        file = self._open.get(name)
        if file is None:
            file = self.directory.open(name)
            self.put(name, file)
        else:
            self._open.move_to_end(name)
        return file

    def put(self, name: str, file: File) -> None:
        self._open[name] = file
        while len(self._open) > self.limit and not self.pinned:
            synced = (each for each in self._open if each not in self._unsynced and each != name)
            self.close(next(synced, next(iter(self._open))))

    def close(self, name: str) -> None:
        file = self._open.pop(name, None)
        if file is not None:
            file.close()

    def rename(self, old: str, new: str) -> None:
        self.close(new)
        self.directory.rename(old, new)
        self._open[new] = self._open.pop(old)

    def close_all(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


class Segment:
    """What is known about a segment without reading it."""

    __slots__ = ("_files", "_index_at", "_index_seqs", "data_bytes", "epoch", "first", "interval",
                 "last", "name", "newest_time", "rewritten", "rows", "size", "stream")  # fmt: skip

    def __init__(self, files: OpenFiles, name: str, header: Header, interval: int) -> None:
        self._files = files
        self.interval = interval
        self._index_seqs = array("Q")
        self._index_at = array("Q")
        self.name = name
        self.stream = header.stream
        self.epoch = header.epoch
        self.first = header.first
        self.last = header.first - 1
        self.rewritten = header.last > 0
        self.rows = 0
        self.data_bytes = 0
        self.size = HEADER_BYTES
        self.newest_time = -(2**63)

    @property
    def file(self) -> File:
        return self._files.get(self.name)

    def extend(self, rows: Rows, size: int) -> None:
        """Records with these rows were written at the end, `size` bytes."""
        self._note(self.size, rows.first)
        if size > self.interval:
            table = rows.record_table()
            base = self.size - int(table[0, 0])
            for at, _, first, _, _, _ in table[1:].tolist():
                self._note(base + at, first)
        self._grow(rows.last, rows.count, rows.data_bytes, rows.newest_time, size)

    def extend_by_one(self, first: int, last: int, rows: Rows, size: int) -> None:
        """A record that covers first..last with these rows was written at the end."""
        self._note(self.size, first)
        newest_time = int(rows.times.max()) if rows.count else self.newest_time
        self._grow(last, rows.count, int((rows.key_bytes + rows.sizes).sum()), newest_time, size)

    def _grow(self, last: int, rows: int, data_bytes: int, newest_time: int, size: int) -> None:
        self.last = last
        self.rows += rows
        self.data_bytes += data_bytes
        self.size += size
        self.newest_time = max(self.newest_time, newest_time)

    def _note(self, at: int, first: int) -> None:
        if not self._index_at or at - self._index_at[-1] >= self.interval:
            self._index_at.append(at)
            self._index_seqs.append(first)

    def position_before(self, seq: int) -> int:
        """Where a record starts that covers `seq` or comes not long before the one that does."""
        index = bisect_right(self._index_seqs, seq) - 1
        return self._index_at[index] if index >= 0 else HEADER_BYTES

    def windows(self, at: int, window_bytes: int) -> Iterator[tuple[int, memoryview]]:
        """Stretches of whole records from `at` on, and where each starts."""
        while at < self.size:
            view = self.window(at, window_bytes)
            yield at, view
            at += len(view)

    def window(self, at: int, window_bytes: int) -> memoryview:
        """Sound records from `at` on, at least one; `CorruptBatch` if the first is not."""
        file = self.file
        view = file.read(at, min(window_bytes, self.size - at))
        ends = record_ends(view)
        if not ends:  # the first record is larger than a window
            needed = FRAME_BYTES + 8 + int.from_bytes(view[4:8], "little")
            view = file.read(at, min(needed, self.size - at))
            ends = record_ends(view)
            if not ends:
                raise CorruptBatch(self.name, at, "a batch is cut off")
        return view[: ends[-1] if self._files.directory.volatile else self._sound(view, at, ends)]

    def _sound(self, view: memoryview, at: int, ends: list[int]) -> int:
        """Where the records end that are what was written, at least one."""
        start = 0
        for end in ends:
            if not is_sound(view, start, end):
                if start == 0:
                    raise CorruptBatch(self.name, at, "a batch's checksum is wrong")
                break
            start = end
        return start
