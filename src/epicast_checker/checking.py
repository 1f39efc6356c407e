"""The check as a whole: a pass over the logs, then over the files they were split into."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epicast_checker.findings import Report, StreamFindings, SubscriberFindings
from epicast_checker.format import Collects, FormatError, Got, Role, Sent
from epicast_checker.matching import Reader, count_tombstones, match
from epicast_checker.numbers import Numbering
from epicast_checker.order import Order, files_of_numbers
from epicast_checker.reading import LogFile, Rows, find_logs, read
from epicast_checker.spilling import (
    DELIVERED,
    NUMBERED,
    PUBLISHED,
    Records,
    Spill,
    files_needed,
    files_of,
)
from epicast_checker.stalls import Moments, Pauses, longest_wait

Say = Callable[[str], object]
EVENTS_PER_FILE = 2_000_000
_SEQ_BITS = np.uint64(44)
_MOST_EPOCHS = 1 << 19


def check(
    folder: Path,
    *,
    temporary: Path | None = None,
    events_per_file: int = EVENTS_PER_FILE,
    say: Say = lambda _: None,
) -> Report:
    """Everything the logs below a folder tell. `temporary` has room for about 40 bytes an event."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=temporary, prefix="epicast-checker-") as spilled:
        checking = _Checking(find_logs(folder), Path(spilled), events_per_file, say)
        report = checking.run()
    report.seconds = round(time.monotonic() - began, 3)
    return report


class _Stream:
    def __init__(self, number: int, name: str, collects: Collects) -> None:
        self.number = number
        self.collects = collects
        self.findings = StreamFindings(name)
        self.sent = Moments()
        self.acked = Moments()
        self.readers: list[Reader] = []


class _Checking:
    def __init__(self, logs: list[LogFile], folder: Path, events_per_file: int, say: Say) -> None:
        self._logs = logs
        self._say = say
        self._streams: dict[int, _Stream] = {}
        for log in logs:
            for number, (name, collects) in log.streams.items():
                known = self._streams.setdefault(
                    number, _Stream(len(self._streams), name, collects)
                )
                if known.collects is not collects:
                    raise FormatError(f"{log.path}: {name} collects something else elsewhere")
        self._publishers: dict[int, int] = {}
        self._events = 0
        self._end = 0
        """When the last thing happened at a publisher."""
        self._most_number = 0
        self._epochs = self._survey()
        files = files_needed(self._events, events_per_file)
        self._files = files
        self._published = Spill(folder, "published", PUBLISHED, files)
        self._delivered = Spill(folder, "delivered", DELIVERED, files)
        self._numbered = Spill(folder, "numbered", NUMBERED, files)

    def run(self) -> Report:
        for log in self._of(Role.PUBLISHER):
            self._say(f"reading {log.path.name}")
            for rows in read(log):
                self._take_publications(log, rows)
        by_name: dict[str, list[LogFile]] = {}
        for log in self._of(Role.SUBSCRIBER):
            by_name.setdefault(log.name, []).append(log)
        for number, (name, logs) in enumerate(by_name.items()):
            self._say(f"reading what {name} got")
            self._take_subscriber(number, name, logs)
        self._match_all()
        return self._report()

    def _of(self, role: Role) -> list[LogFile]:
        return [log for log in self._logs if log.role is role]

    def _survey(self) -> NDArray[np.uint64]:
        """All epochs there are; on the way, how much there is of everything."""
        epochs: set[int] = {0}
        for log in self._logs:
            for rows in read(log):
                epochs.update(np.unique(rows.column("epoch")).tolist())
                self._events += len(rows.contents)
                if log.role is Role.PUBLISHER and len(rows.counts):
                    most = rows.column("first") + rows.counts.astype(np.uint64)
                    self._most_number = max(self._most_number, int(most.max()))
                    self._end = max(self._end, int(rows.times.max()))
        if len(epochs) > _MOST_EPOCHS:
            raise FormatError(f"{len(epochs)} epochs; at most {_MOST_EPOCHS} can be told apart")
        return np.array(sorted(epochs), dtype=np.uint64)

    def _places(self, epochs: NDArray[np.uint64], seqs: NDArray[np.uint64]) -> Any:
        """Epoch and number as one number that orders them."""
        ranks = np.searchsorted(self._epochs, epochs).astype(np.uint64)
        return (ranks << _SEQ_BITS) | seqs

    def _stream(self, log: LogFile, number: int) -> _Stream:
        try:
            return self._streams[number]
        except KeyError:
            raise FormatError(f"{log.path}: nobody says what stream {number} is") from None

    # -- publishers ------------------------------------------------------------------------------

    def _take_publications(self, log: LogFile, rows: Rows) -> None:
        kinds, streams, times = rows.kinds, rows.column("stream"), rows.times
        if not np.isin(kinds, [Sent.SENT, Sent.ACKED]).all():
            raise FormatError(f"{log.path}: a kind of row that publishers do not have")
        indices = np.zeros(len(kinds), dtype=np.uint16)
        for number in np.unique(streams).tolist():
            stream = self._stream(log, number)
            mine = streams == number
            indices[mine] = stream.number
            sent, acked = mine & (kinds == Sent.SENT), mine & (kinds == Sent.ACKED)
            stream.sent.add(times[sent])
            places = self._places(rows.column("epoch")[acked], rows.column("seq")[acked])
            stream.acked.add(times[acked], places)
        records = np.empty(len(rows.contents), dtype=PUBLISHED)
        records["content"], records["key"] = rows.contents, rows.keys
        records["number"] = rows.numbers()
        records["seq"] = rows.spread(rows.column("seq"))
        records["epoch"] = rows.spread(rows.column("epoch"))
        records["publisher"] = rows.spread(self._publisher_numbers(rows.column("publisher")))
        records["stream"] = rows.spread(indices)
        records["acked"] = rows.spread(kinds == Sent.ACKED)
        self._published.add(files_of(rows.contents, rows.keys, self._files), records)

    def _publisher_numbers(self, publishers: NDArray[np.uint64]) -> NDArray[np.uint32]:
        there, inverse = np.unique(publishers, return_inverse=True)
        known = self._publishers
        numbers = [known.setdefault(publisher, len(known)) for publisher in there.tolist()]
        return np.array(numbers, dtype=np.uint32)[inverse]

    # -- subscribers -----------------------------------------------------------------------------

    def _take_subscriber(self, number: int, name: str, logs: list[LogFile]) -> None:
        sides: dict[int, _Side] = {}
        for log in logs:
            for rows in read(log):
                streams = rows.column("stream")
                indices = np.zeros(len(streams), dtype=np.uint16)
                for id_ in np.unique(streams).tolist():
                    stream = self._stream(log, id_)
                    if id_ not in sides:
                        sides[id_] = _Side(name, stream)
                    mine = streams == id_
                    indices[mine] = stream.number
                    place = self._places(rows.column("epoch")[mine], rows.column("last")[mine])
                    sides[id_].take(log, rows, mine, place)
                self._spill_deliveries(number, rows, indices)
        for side in sides.values():
            side.finish(number)

    def _spill_deliveries(self, number: int, rows: Rows, streams: NDArray[np.uint16]) -> None:
        records = np.empty(len(rows.contents), dtype=DELIVERED)
        records["content"], records["key"] = rows.contents, rows.keys
        records["seq"] = rows.numbers()
        records["epoch"] = rows.spread(rows.column("epoch"))
        records["subscriber"] = number
        records["stream"] = rows.spread(streams)
        self._delivered.add(files_of(rows.contents, rows.keys, self._files), records)

    # -- together --------------------------------------------------------------------------------

    def _match_all(self) -> None:
        for number in range(self._files):
            self._say(f"comparing, part {number + 1} of {self._files}")
            published, delivered = self._published.load(number), self._delivered.load(number)
            for stream in self._streams.values():
                numbered = match(
                    _of_stream(published, stream.number), _of_stream(delivered, stream.number),
                    stream.readers, stream.collects, stream.findings, stream.number,
                )  # fmt: skip
                where = files_of_numbers(numbered, self._files, self._most_number)
                self._numbered.add(where, numbered)
        order = Order()
        for number in range(self._files):
            order.take(self._numbered.load(number))
        for stream in self._streams.values():
            stream.findings.misordered = order.misordered.get(stream.number, 0)
            hidden = [count_tombstones(reader) for reader in stream.readers]
            stream.findings.lost += min(hidden, default=0)

    def _report(self) -> Report:
        report = Report(logs=len(self._logs), events=self._events)
        for stream in self._streams.values():
            stream.findings.ack_stalled_s = longest_wait(
                stream.sent.times, stream.acked.times, self._end // 1_000_000
            )
            report.streams.append(stream.findings)
            report.subscribers += [reader.findings for reader in stream.readers]
        return report


class _Side:
    """One subscriber's side of one stream."""

    def __init__(self, name: str, stream: _Stream) -> None:
        self._stream = stream
        self._findings = SubscriberFindings(name, stream.findings.stream)
        self._numbering = Numbering()
        self._pauses = Pauses(stream.acked)
        self._closed_at: int | None = None

    def take(
        self, log: LogFile, rows: Rows, mine: NDArray[np.bool_], places: NDArray[np.uint64]
    ) -> None:
        kinds, times = rows.kinds[mine], rows.times[mine]
        if (kinds > max(Got)).any():
            raise FormatError(f"{log.path}: a kind of row that subscribers do not have")
        firsts, lasts = rows.column("first")[mine], rows.column("last")[mine]
        data = kinds == Got.DATA
        if (rows.counts[mine] != np.where(data, (lasts - firsts).astype(np.int64) + 1, 0)).any():
            raise FormatError(f"{log.path}: rows with more or fewer events than numbers")
        self._numbering.take(kinds, rows.column("epoch")[mine], firsts, lasts)
        begins = (kinds == Got.OPENED) | (kinds == Got.RESET)
        places = np.where(begins, places - np.uint64(1), places)  # they say what comes next
        self._pauses.take(times, places, kinds == Got.OPENED)
        buried = kinds == Got.TOMBSTONES
        self._findings.events += int(rows.counts[mine].sum())
        self._findings.tombstones += int((lasts[buried] - firsts[buried] + np.uint64(1)).sum())
        if len(kinds):
            self._closed_at = int(times[-1]) if kinds[-1] == Got.CLOSED else None

    def finish(self, number: int) -> None:
        numbering, findings = self._numbering, self._findings
        numbering.finish()
        findings.sessions, findings.resets = numbering.sessions, numbering.resets
        findings.closed = numbering.closed
        findings.holes, findings.duplicated = numbering.holes, numbering.duplicated
        findings.reordered, findings.unannounced = numbering.reordered, numbering.unannounced
        if self._stream.collects is Collects.NOTHING:
            findings.buried = findings.tombstones
        findings.stalled_s = self._pauses.finish(self._closed_at)
        self._stream.readers.append(
            Reader(number, findings, numbering.epoch, numbering.first_of_epoch, numbering.high)
        )


def _of_stream(records: Records, stream: int) -> Records:
    mine = records["stream"] == stream
    return records if mine.all() else records[mine]
