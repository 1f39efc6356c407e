"""Whatever an application does with a subscription, it gets each thing once and in order."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from epicast.client.items import Item, Reset, Tombstone, Watermark
from epicast.protocols.sprinkler.notices import Restarted
from tests.client.fakes import EPOCH, World, batch, run

Step = tuple[str, int]
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 6)),
        st.tuples(st.just("bury"), st.integers(1, 6)),
        st.tuples(st.just("restart"), st.integers(0, 3)),
        st.tuples(st.just("get"), st.just(1)),
        st.tuples(st.just("nowait"), st.just(1)),
        st.tuples(st.just("pull"), st.integers(1, 7)),
        st.tuples(st.just("loop"), st.integers(1, 7)),
    ),
    max_size=40,
)


class Model:
    """The numbers and resets the proxy has sent, one by one."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int] | Reset] = []
        self.epoch, self.next = EPOCH, 1

    def deliver(self, world: World, count: int, *, buried: bool) -> None:
        last = self.next + count - 1
        gone = range(self.next, last + 1) if buried else ()
        world.deliver(1, batch(self.next, last, gone=gone, epoch=self.epoch))
        self.sent += [(self.epoch, seq) for seq in range(self.next, last + 1)]
        self.next = last + 1

    def restart(self, world: World, after: int) -> None:
        self.epoch, self.next = self.epoch + 1, after + 1
        world.node.on_notice(1, Restarted(7, self.epoch, after))
        self.sent.append(Reset(7, Watermark(self.epoch, after)))


def numbers(items: Sequence[Item], epoch: int) -> list[tuple[int, int] | Reset]:
    found: list[tuple[int, int] | Reset] = []
    for item in items:
        if isinstance(item, Reset):
            found.append(item)
            epoch = item.watermark.epoch
        elif isinstance(item, Tombstone):
            found += [(epoch, seq) for seq in range(item.first, item.last + 1)]
        else:
            found.append((epoch, item.seq))
    return found


def place_before(items: Sequence[Item], index: int) -> Watermark:
    """Where a subscription is that holds the item at `index`, and nothing behind it."""
    place = Watermark(0, 0)
    for item in items[: index + 1]:
        if isinstance(item, Reset):
            before, place = place, item.watermark
        else:
            first, last = (
                (item.first, item.last) if isinstance(item, Tombstone) else (item.seq, item.seq)
            )
            epoch = place.epoch or EPOCH
            before, place = Watermark(epoch, first - 1), Watermark(epoch, last)
    return before if index < len(items) else place


@given(steps)
def test_each_thing_once_and_in_order(script: list[Step]) -> None:
    async def main() -> None:
        world, model = World(), Model()
        got: list[Item] = []
        async with world.node.stream("prices").subscribe(after=0) as subscription:
            for what, count in script:
                had = len(got)
                if what in ("deliver", "bury"):
                    model.deliver(world, count, buried=what == "bury")
                    continue
                if what == "restart":
                    model.restart(world, count)
                    continue
                if what == "get":
                    item = await subscription.get(timeout=0)
                    got += [item] if item is not None else []
                elif what == "nowait":
                    item = subscription.get_nowait()
                    got += [item] if item is not None else []
                elif what == "pull":
                    got += await subscription.pull(count, timeout=0)
                    assert len(got) <= had + count
                elif subscription._reading.has_begun or subscription._feed.more:
                    async for item in subscription:
                        got.append(item)
                        had = len(got) - 1
                        if len(got) >= count or not subscription._feed.more:
                            break
                else:
                    continue
                assert subscription.watermark == place_before(got, had)
            while (item := await subscription.get(timeout=0.001)) is not None:
                got.append(item)
            assert numbers(got, EPOCH) == model.sent
            assert subscription.watermark == place_before(got, len(got))
        await world.node.close()

    run(main)
