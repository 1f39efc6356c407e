"""A node sends no more than it may, whatever its protocol wants."""

from epicast.core import DATA, DATAGRAM
from epicast.runtime import Limits
from epicast.runtime.limits import UNLIMITED
from epicast.runtime.send_budget import SendBudget
from tests.integration.runtime.conftest import Run
from tests.integration.runtime.support import eventually, node
from tests.unit.wire.samples import Fields

SECOND = 1_000_000_000


def number(value: int, size: int = 0) -> Fields:
    return Fields(value, "", bytes(size))


def test_datagrams_beyond_the_budget_are_dropped_and_counted(run: Run) -> None:
    async def main() -> None:
        tight = Limits(max_send_bytes_per_second=4000)
        async with node(1) as one, node(2, limits=tight) as two:
            two.do(
                lambda fx: fx.know(one.peer),
                *(lambda fx, v=v: fx.send(1, number(v, 1000), DATAGRAM) for v in range(9)),
            )
            await eventually(lambda: two.count("datagrams_sent") == 3)
            assert two.count("drop.over the byte budget") == 6
            await eventually(lambda: one.messages() == [number(v, 1000) for v in range(3)])

    run(main())


def test_frames_beyond_the_budget_wait_and_all_arrive(run: Run) -> None:
    async def main() -> None:
        tight = Limits(max_send_bytes_per_second=20_000)
        sent = [number(value, 8000) for value in range(3)]
        async with node(1) as one, node(2, limits=tight) as two:
            two.do(
                lambda fx: fx.know(one.peer),
                *(lambda fx, m=m: fx.send(1, m, DATA) for m in sent),
            )
            await eventually(lambda: one.messages() == sent, "all frames")
            assert two.count("drop.over the byte budget") == 0

    run(main())


def test_a_frame_larger_than_the_budget_goes_alone() -> None:
    now = 0
    budget = SendBudget(Limits(max_send_bytes_per_second=10_000), lambda: now)
    assert budget.take_frame(1_000_000)
    assert not budget.take_frame(1)
    assert not budget.take_datagram(1)
    now = SECOND + SECOND // 20
    assert budget.take_datagram(1000)
    assert not budget.take_frame(1_000_000)


def test_no_second_exceeds_the_budget_with_headers() -> None:
    now = 0
    budget = SendBudget(Limits(max_send_bytes_per_second=10_000), lambda: now)
    sent: list[tuple[int, int]] = []
    for step in range(4000):
        now = step * 1_234_567
        if budget.take_datagram(300):
            sent.append((now, 328))  # with the headers of UDP and IPv4
    for began, _ in sent:
        assert sum(size for at, size in sent if began <= at < began + SECOND) <= 10_000
    assert sum(size for _, size in sent) > 0.85 * 10_000 * now / SECOND


def test_no_limit_is_the_default() -> None:
    budget = SendBudget(Limits(), lambda: 0)
    assert Limits().max_send_bytes_per_second == UNLIMITED
    assert not budget.limited
    assert all(budget.take_datagram(10**9) for _ in range(3))
