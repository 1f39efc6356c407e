"""How fast events go from one application to another.

    python examples/client_rate.py epicast://127.0.0.1:7400

One node publishes event by event, another one reads event by event, in the same process.

Ends with: nothing was lost
"""

import sys
import time

import epicast

EVENTS = 100_000


async def publish(stream: epicast.Stream, first: int) -> None:
    for number in range(first, EVENTS):
        try:
            stream.publish_nowait(b"%010d" % number)
        except epicast.NoRoom:
            await stream.drain()
            stream.publish_nowait(b"%010d" % number)
    await stream.flush()


async def main(address: str) -> None:
    async with (
        epicast.connect(address, agent=False) as publisher,
        epicast.connect(address, agent=False) as subscriber,
    ):
        subscription = subscriber.stream("prices").subscribe()
        start = time.perf_counter()
        await publish(publisher.stream("prices"), 0)
        expected = 0
        async for item in subscription:
            assert isinstance(item, epicast.Event) and int(item.payload) == expected
            expected += 1
            if expected == EVENTS:
                break
        seconds = time.perf_counter() - start
    print(f"{EVENTS / seconds:,.0f} events per second")
    print("nothing was lost")


if __name__ == "__main__":
    epicast.run(main(sys.argv[1] if len(sys.argv) > 1 else "epicast://127.0.0.1:7400"))
