"""Running a service until it is told to stop."""

import os
import signal
from collections.abc import Iterator

import pytest

from epicast.runtime import run
from epicast.runtime.services import serve
from epicast.runtime.waiting import Bell, Outcome


class FakeService:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.startable = Outcome[bool]()
        self.startable.resolve(True)
        self.failure = Outcome[bool]()

    async def start(self) -> None:
        self.said.append("starting")
        await self.startable.wait()
        self.said.append("started")

    async def wait(self) -> None:
        await self.failure.wait()

    async def stop(self) -> None:
        self.said.append("stopped")


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_in_good_order(number: signal.Signals, handlers: None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    service = FakeService()
    run(serve(service, ready=lambda: os.kill(os.getpid(), number)))
    assert service.said == ["starting", "started", "stopped"]


def test_a_signal_during_the_start_does_so_too(handlers: None) -> None:
    service = FakeService()
    service.startable = Outcome()  # never

    async def scenario() -> None:
        async def start() -> None:
            service.said.append("starting")
            os.kill(os.getpid(), signal.SIGTERM)
            await Bell().wait()

        service.start = start  # type: ignore[method-assign]
        await serve(service, ready=lambda: service.said.append("ready"))

    run(scenario())
    assert service.said == ["starting", "stopped"]


def test_it_does_not_outlive_who_holds_its_lifeline(handlers: None) -> None:
    service = FakeService()
    lifeline, held = os.pipe()
    run(serve(service, ready=lambda: os.close(held), lifeline=lifeline))
    os.close(lifeline)
    assert service.said == ["starting", "started", "stopped"]


def test_a_signal_that_is_ignored_stays_ignored(handlers: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    service = FakeService()

    def interrupted_then_told() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        service.said.append("still there")
        service.failure.fail(RuntimeError("over"))

    with pytest.raises(RuntimeError, match="over"):
        run(serve(service, ready=interrupted_then_told))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("when", ["start", "wait"])
def test_what_makes_it_fail_is_raised_after_it_was_stopped(when: str, handlers: None) -> None:
    service = FakeService()
    if when == "start":
        service.startable = Outcome()
        service.startable.fail(RuntimeError("no room"))
    else:
        service.failure.fail(RuntimeError("no room"))
    with pytest.raises(RuntimeError, match="no room"):
        run(serve(service, ready=lambda: None))
    assert service.said[-1] == "stopped"
