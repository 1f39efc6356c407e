"""A cache that stays in step with its source, whatever it missed.

    python examples/client_invalidations.py epicast://127.0.0.1:7400

The writer changes entries and publishes their keys; the cache drops what it is told to drop. It
saves how far it is, so that after a restart it catches up on what it missed: entries that changed a
hundred times meanwhile are invalidated once, because the stream keeps the latest event per key.

Ends with: stale entries: 0
"""

import sys
import tempfile

import epicast


async def main(address: str) -> None:
    database = {b"user/%d" % number: 0 for number in range(10)}
    cache = dict(database)
    with tempfile.TemporaryDirectory() as folder:
        seen = epicast.WatermarkFile(f"{folder}/seen.json")
        async with epicast.connect(address) as node:
            invalidations = node.stream("invalidations")
            for round_number in range(1, 101):
                for key in list(database)[:5]:
                    database[key] = round_number
                    invalidations.publish_nowait(b"", key=key)
            await invalidations.flush()
            head = await invalidations.head()
            async with invalidations.subscribe(after=0, resume=seen) as subscription:
                while subscription.watermark < head:
                    for item in await subscription.pull(timeout=0.1):
                        if isinstance(item, epicast.Event):
                            cache.pop(item.key, None)
                print("caught up with", head.seq, "events")
    stale = sum(database[key] != value for key, value in cache.items())
    print("stale entries:", stale)


if __name__ == "__main__":
    epicast.run(main(sys.argv[1] if len(sys.argv) > 1 else "epicast://127.0.0.1:7400"))
