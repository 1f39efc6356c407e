"""Watermarks that outlive the process, in a small file."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import MsgspecError
from msgspec.json import Decoder, encode, format

from epicast.client.errors import WatermarkFileError
from epicast.client.items import Watermark

_SHORTEST_S = 0.01
"""Between two looks at the place of a subscription."""
_storing = threading.Lock()
"""Held from reading a file until it is replaced: several objects may stand for the same one."""
_decoder = Decoder(dict[str, Watermark])


class WatermarkFile:
    """One file for any number of streams: JSON, `{"stream": [epoch, seq], ...}`.

    A write replaces the file as a whole, once the new one is on disk: whatever happens, the file
    holds what some `save` left. For one process at a time.

        seen = WatermarkFile("seen.json")
        async for event in prices.subscribe(after=0, resume=seen): ...   # saved by itself
        seen.save("prices", subscription.watermark)                      # or by hand

    Subscriptions that resume here are followed: a thread, which runs while there are any, saves
    their watermarks, so that neither a busy event loop nor the way of reading can delay it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Condition()
        self._load()  # whoever names a file that holds something else is told at once
        self._followed: dict[str, Following] = {}
        self._thread: threading.Thread | None = None

    def get(self, stream: str) -> Watermark | None:
        """What was saved for the stream of that name, if anything was."""
        return self._load().get(stream)

    def save(self, stream: str, watermark: Watermark) -> None:
        """Blocks until it is on disk. A subscription that resumes here replaces it when its own
        watermark moves."""
        with self._lock:
            self._store({stream: watermark})
            following = self._followed.get(stream)
            if following is not None:
                following.saved = following.place()

    # -- for subscriptions -----------------------------------------------------------------------

    def begin(self, stream: str, start: Watermark) -> Watermark:
        """Return the place to resume at, which is on disk; `start` if none was saved.

        A subscription to the same stream that was left and is not closed yet, or is still read,
        is followed no longer: what counts from now on is the new one.
        """
        with self._lock:
            before = self._followed.get(stream)
            if before is not None:
                self._save_places([before])
                del self._followed[stream]
            saved = self.get(stream)
            if saved is None:
                self._store({stream: start})
            return start if saved is None else saved

    def follow(self, stream: str, place: Callable[[], Watermark], every: float) -> Following:
        """Save `place()` every `every` seconds if it has moved; it is called in another thread."""
        with self._lock:
            following = self._followed[stream] = Following(self, stream, place, every)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._save_in_time, name="epicast watermarks", daemon=True
                )
                self._thread.start()
                atexit.register(self._unfollow_all)
            self._lock.notify_all()
            return following

    def unfollow(self, following: Following) -> None:
        """Save the place of a subscription for the last time."""
        with self._lock:
            if self._followed.get(following.stream) is following:
                del self._followed[following.stream]
                self._lock.notify_all()
                self._save_places([following])

    def _unfollow_all(self) -> None:
        with self._lock:
            followed = list(self._followed.values())
            self._followed.clear()
            self._lock.notify_all()
            self._save_places(followed)

    def _save_in_time(self) -> None:
        with self._lock:
            while self._followed:
                now = time.monotonic()
                due = [each for each in self._followed.values() if each.due_at <= now]
                if due:
                    try:
                        self._save_places(due)
                    except WatermarkFileError as error:
                        for each in due:
                            each.error = error
                else:
                    self._lock.wait(min(each.due_at for each in self._followed.values()) - now)
            self._thread = None
            atexit.unregister(self._unfollow_all)

    def _save_places(self, followed: Iterable[Following]) -> None:
        moved: dict[Following, Watermark] = {}
        for each in followed:
            each.due_at = time.monotonic() + each.every
            each.error = None
            place = each.place()
            if place != each.saved:
                moved[each] = place
        if moved:
            self._store({each.stream: place for each, place in moved.items()})
        for each, place in moved.items():
            each.saved = place

    # -- the file --------------------------------------------------------------------------------

    def _store(self, watermarks: dict[str, Watermark]) -> None:
        with _storing:
            before = self._load()
            after = {**before, **watermarks}
            if after != before:
                self._write(format(encode(after)))

    def _load(self) -> dict[str, Watermark]:
        try:
            return _decoder.decode(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise WatermarkFileError(f"{self.path} cannot be read: {error}") from error
        except (MsgspecError, UnicodeDecodeError) as error:
            raise WatermarkFileError(
                f"{self.path} holds no watermarks ({error}): name another file, or remove this "
                "one to start anew"
            ) from error

    def _write(self, content: bytes) -> None:
        temporary = self.path.with_name(f".{self.path.name}.new")
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise WatermarkFileError(f"{self.path} cannot be written: {error}") from error


class Following:
    """A subscription whose place is saved now and then."""

    def __init__(
        self, file: WatermarkFile, stream: str, place: Callable[[], Watermark], every: float
    ) -> None:
        self.stream = stream
        self.place = place
        self.every = max(every, _SHORTEST_S)
        self.due_at = time.monotonic() + self.every
        self.saved = place()
        """Where the subscription was when its stream's watermark was last saved."""
        self.error: WatermarkFileError | None = None
        """Why its place could not be saved when it was last due."""
        self._file = file

    def raise_error(self) -> None:
        """Tell the application, once, that its place is not saved; saving is tried again."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def close(self) -> None:
        """Save the place for the last time; blocks until it is on disk."""
        self._file.unfollow(self)
