"""Watermarks that outlive the process, in a small file."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from msgspec import MsgspecError
from msgspec.json import Decoder, encode, format

from epicast.client.errors import WatermarkFileError
from epicast.client.items import Watermark

_decoder = Decoder(dict[str, Watermark])


class WatermarkFile:
    """One file for any number of streams: JSON, `{"stream": [epoch, seq], ...}`.

    A write replaces the file as a whole, once the new one is on disk: whatever happens, the file
    holds what some `save` left. For one process at a time.

        seen = WatermarkFile("seen.json")
        async for event in prices.subscribe(after=0, resume=seen): ...   # saved now and then
        seen.save("prices", subscription.watermark)                      # or by hand
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._watermarks = self._load()

    def get(self, stream: str) -> Watermark | None:
        """What was saved for the stream of that name, if anything was."""
        with self._lock:
            return self._watermarks.get(stream)

    def save(self, stream: str, watermark: Watermark) -> None:
        """Blocks until it is on disk."""
        with self._lock:
            if self._watermarks.get(stream) == watermark:
                return
            watermarks = {**self._watermarks, stream: watermark}
            self._write(format(encode(watermarks)))
            self._watermarks = watermarks

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


class AutoSave:
    """Saves the watermark of one subscription now and then."""

    def __init__(self, file: WatermarkFile, stream: str, every: float) -> None:
        self._file = file
        self._stream = stream
        self._every = every
        self._saved_at = time.monotonic()

    @property
    def due(self) -> bool:
        return time.monotonic() - self._saved_at >= self._every

    def save(self, watermark: Watermark) -> None:
        self._saved_at = time.monotonic()
        self._file.save(self._stream, watermark)
