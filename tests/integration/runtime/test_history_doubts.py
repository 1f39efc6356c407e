"""What a storage has found to be missing: said until whoever was told has saved something."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from epicast.core import EventBatch, Recovered
from epicast.core.effects import BeginEpoch
from epicast.log import LogConfig
from epicast.runtime.history_storage import HistoryStorage, StreamStore
from epicast.runtime.storage import StorageError
from tests.integration.runtime.conftest import Run

STREAM, OTHER = 4, 5


class Node:
    """Follows one stream, or numbers it, and has another one besides."""

    def __init__(self, folder: Path, sync: str = "disk") -> None:
        self._folder = folder
        self._config = LogConfig(sync=sync)  # type: ignore[arg-type]
        self.storage = self._new()

    def _new(self, *, owned: bool = False) -> HistoryStorage:
        stores = {
            STREAM: StreamStore(folder=self._folder / "one", config=self._config, owned=owned),
            OTHER: StreamStore(folder=self._folder / "other"),
        }
        return HistoryStorage(stores, self._folder)

    async def start(self, *, owned: bool = False) -> Recovered:
        self.storage = self._new(owned=owned)
        return await self.storage.recover()

    def die(self) -> None:
        """What was written is there, what closing does is not."""
        for stream in (STREAM, OTHER):
            self.storage.history(stream)._segments.close()

    async def lose_the_end(self) -> None:
        """Of a history that was closed."""
        await self.start()
        batches = [EventBatch.build(STREAM, seq, [b"x"], epoch=7) for seq in (1, 2)]
        assert await self.storage.commit([BeginEpoch(STREAM, 7, False), *batches], {}) == {}
        await self.storage.close()
        segment = next((self._folder / "one").glob("*.seg"))
        os.truncate(segment, segment.stat().st_size - 3)


@pytest.mark.parametrize("sync", ["disk", "memory"])
def test_a_loss_is_said_again_after_a_start_that_came_to_nothing(
    run: Run, tmp_path: Path, sync: str
) -> None:
    async def main() -> None:
        node = Node(tmp_path, sync)
        await node.lose_the_end()
        holder = HistoryStorage({OTHER: StreamStore(folder=tmp_path / "other")})
        await holder.recover()
        with pytest.raises(StorageError, match="in use by another process"):
            await node.start()  # the stream was opened, cut, and closed in good order
        await holder.close()
        assert (await node.start()).doubtful == {STREAM}
        node.die()  # before anything was saved
        assert (await node.start()).doubtful == {STREAM}
        await node.storage.close()
        assert (await node.start()).doubtful == {STREAM}
        await node.storage.commit([], {"noted": b""})
        await node.storage.close()
        assert (await node.start()).doubtful == set()

    run(main())


def test_who_has_come_to_own_the_stream_goes_on_in_another_epoch_once(
    run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        node = Node(tmp_path)
        await node.lose_the_end()
        assert (await node.start()).epochs[STREAM] == 7
        await node.storage.close()
        found = await node.start(owned=True)
        assert found.epochs[STREAM] > 7 and not found.doubtful
        await node.storage.close()
        assert (await node.start(owned=True)).epochs == found.epochs

    run(main())
