"""The rules of connections hold where these are encrypted, too: the same tests, other drivers."""

import asyncio
from typing import Any

import pytest

from epicast.runtime import NodeDriver
from epicast.runtime.gate import Security
from tests.integration.runtime import test_chaos, test_connections, test_life, test_queues
from tests.integration.runtime.conftest import Run, run
from tests.security.test_limits import security

__all__ = ["run", "security"]  # fixtures

TESTS = [
    test_connections.test_connect_is_answered_by_up_on_the_side_that_asked,
    test_connections.test_unreachable_peer_is_down_once,
    test_connections.test_stopped_peer_is_down_after_its_last_words,
    test_connections.test_simultaneous_connects_end_as_one_connection,
    test_connections.test_many_nodes_connect_to_each_other_at_once,
    test_connections.test_late_listener_is_found_by_retries,
    test_connections.test_send_to_a_known_peer_connects_on_demand,
    test_connections.test_idle_connection_is_closed_and_made_again_without_loss,
    test_connections.test_connection_the_other_side_found_idle_is_down,
    test_life.test_order_of_calls_is_checked,
    test_life.test_failing_start_closes_everything_and_raises,
    test_life.test_stop_in_the_middle_of_everything,
    test_life.test_everything_queued_is_written_before_the_end,
    test_queues.test_pulling_by_room_and_readiness_sends_everything,
    test_queues.test_empty_queue_takes_a_message_larger_than_itself,
]


@pytest.fixture(autouse=True)
def encrypted(security: Security, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = NodeDriver.__init__

    def init(self: NodeDriver, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, security=security, **options)

    connect = asyncio.open_connection

    async def connect_encrypted(host: str, port: int, **options: Any) -> Any:
        return await connect(host, port, ssl=security.tls.dialing, **options)

    monkeypatch.setattr(NodeDriver, "__init__", init)
    monkeypatch.setattr(asyncio, "open_connection", connect_encrypted)  # of peers made by hand


@pytest.mark.parametrize("rule", TESTS, ids=lambda rule: rule.__name__.removeprefix("test_"))
def test_rule(run: Run, rule: Any) -> None:
    rule(run)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens(run: Run, seed: int) -> None:
    test_chaos.test_rules_hold_whatever_happens(run, seed)


@pytest.mark.parametrize("address", [("no such host", 1), ("with\0zero", 1), ("127.0.0.1", 99999)])
def test_impossible_address_is_down(run: Run, address: tuple[str, int]) -> None:
    test_connections.test_impossible_address_is_down(run, address)


@pytest.mark.parametrize(("listener", "dialer"), [(1, 2), (2, 1)])
def test_messages_in_order_both_ways(run: Run, listener: int, dialer: int) -> None:
    test_connections.test_messages_in_order_both_ways(run, listener, dialer)
