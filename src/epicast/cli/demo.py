"""`epicast demo`: the same protocols on a real network and in the simulator, in half a minute."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from epicast.cli.peer_processes import PeerProcess
    from epicast.runtime.peers import PeerReport

_PROCESSES = 4
_PEERS_EACH = 5
_STACK = ["hyparview", "flood"]
_BATCH = 100
_SIZE = 100
_DEADLINE_S = 20.0


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    events: Annotated[int, typer.Option(min=1, help="Events each publisher publishes.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Real peers on loopback, one process killed, every survivor checked; then the same simulated.

    The exit status is 1 if a single event was lost or delivered twice.
    """
    network = _on_the_network(events)
    simulated = _in_the_simulator()
    ok = network["lost"] == 0 and network["duplicates"] == 0 and bool(simulated["passed"])
    if as_json:
        print_json({"network": network, "simulator": simulated, "ok": ok})
    else:
        heads = ["", "real network", "simulator"]
        keys = dict.fromkeys([*network, *simulated])
        rows = [
            [key.replace("_", " "), _cell(network.get(key)), _cell(simulated.get(key))]
            for key in keys
        ]
        print_table(heads, rows)
    say("Nothing was lost." if ok else "epicast: events were lost or duplicated.")
    if not ok:
        raise typer.Exit(1)


def _on_the_network(events: int) -> dict[str, Any]:
    from epicast.cli.peer_processes import PeerProcess

    total = _PROCESSES * _PEERS_EACH
    say(f"Starting {total} peers in {_PROCESSES} processes on loopback (HyParView + flooding) …")
    with ExitStack() as cleanup:
        processes: list[PeerProcess] = []
        contacts: list[Any] = []
        for number in range(_PROCESSES):
            first = number * _PEERS_EACH + 1
            nodes = list(range(first, first + _PEERS_EACH))
            process = cleanup.enter_context(PeerProcess(nodes, contacts[:3], _STACK))
            contacts += process.peers
            processes.append(process)
        time.sleep(2)
        say(f"Publishing {2 * events} events from two peers, in batches of {_BATCH} …")
        started = time.monotonic()
        processes[0].publish(1, events, _BATCH, _SIZE)
        last = processes[1].nodes[0]
        processes[1].publish(last, events, _BATCH, _SIZE)
        _wait_for(processes, 2 * events)
        elapsed = time.monotonic() - started
        say(f"Killing one process with {_PEERS_EACH} peers, and publishing {events} more …")
        processes.pop().kill()
        processes[0].publish(1, events, _BATCH, _SIZE)
        reports = _wait_for(processes, 3 * events)
        for process in processes:
            process.stop()
    published = {1: 2 * events, last: events}
    return _account(reports, published, 2 * events * total / elapsed)


def _wait_for(processes: list[PeerProcess], owed: int) -> list[PeerReport]:
    """Until every peer has that many events, or the deadline has come."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        reports = [report for process in processes for report in process.report()]
        done = sum(report.delivered >= owed for report in reports)
        if done == len(reports) or time.monotonic() > deadline:
            return reports
        time.sleep(0.2)


def _account(reports: list[PeerReport], published: dict[int, int], rate: float) -> dict[str, Any]:
    from statistics import quantiles

    delivered = sum(
        b - a + 1 for report in reports for spans in report.had.values() for a, b in spans
    )
    owed = sum(published.values()) * len(reports)
    delays = [delay for report in reports for delay in report.delays_us] or [0, 0]
    cuts = quantiles(delays, n=100)
    return {
        "peers_at_the_end": len(reports),
        "published": sum(published.values()),
        "owed": owed,
        "delivered": delivered,
        "lost": owed - delivered,
        "duplicates": sum(report.duplicates for report in reports),
        "deliveries_per_s": round(rate),
        "delay_p50_ms": cuts[49] / 1000,
        "delay_p99_ms": cuts[98] / 1000,
    }


def _in_the_simulator() -> dict[str, Any]:
    """The same number of peers, a quarter of them killed, more events: 40 simulated seconds."""
    from epicast.cli.progress import Progress
    from epicast.sim.faults import Crash
    from epicast.sim.runner import ScenarioRun
    from epicast.sim.scenario import LoadedScenario, Scenario, Workload

    second = 1_000_000_000
    work: dict[str, Any] = {
        "every_ns": second // 20,
        "batch": _BATCH,
        "size_bytes": _SIZE,
        "expect_delivery": 1.0,
    }
    scenario = Scenario(
        name="demo",
        nodes=_PROCESSES * _PEERS_EACH,
        duration_ns=40 * second,
        stack=["hyparview", "flood"],
        workload=[
            Workload(from_ns=5 * second, count=200, publishers=[1, 6], **work),
            Workload(from_ns=30 * second, count=100, publishers=[1], **work),
        ],
        faults=[Crash(at_ns=20 * second, nodes=[16, 17, 18, 19, 20])],
    )
    say("The same in the simulator …")
    with Progress("simulating") as progress:
        progress.begin(100)
        run = ScenarioRun(LoadedScenario(scenario, "demo"))
        outcome = run.run(lambda _share, _word: progress.advance())
    owed, made = run.ledger.account()
    return {
        "peers_at_the_end": outcome.nodes_alive,
        "published": outcome.published_events,
        "owed": owed,
        "delivered": made,
        "lost": owed - made,
        "duplicates": 0,
        "delay_p50_ms": outcome.delay_ms["p50"],
        "delay_p99_ms": outcome.delay_ms["p99"],
        "digest": outcome.digest,
        "passed": outcome.passed,
    }


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
