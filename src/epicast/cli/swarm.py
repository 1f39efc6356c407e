"""`epicast swarm`: many seeds, everything drawn from each."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from epicast.cli.output import print_json, say
from epicast.cli.progress import Progress

_FAILURES_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command("swarm")(swarm)


def swarm(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 200,
    first: Annotated[int, typer.Option(help="The first of them.")] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Run this one only: how a failure is repeated.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes.", show_default="one per core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Simulate random systems under random faults; exit status 1 if a seed breaks a rule."""
    from epicast.sim.swarm import run_seeds

    chosen = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    workers = min(len(chosen), jobs or os.cpu_count() or 1)
    started = time.monotonic()
    failures = []
    simulated = 0.0
    messages = 0
    with Progress("seeds") as progress:
        progress.begin(len(chosen))
        for result in run_seeds(chosen, workers):
            progress.advance(failed=bool(result.failure))
            simulated += result.simulated_s
            messages += result.messages
            if result.failure:
                failures.append(result)
    elapsed = time.monotonic() - started
    failures.sort(key=lambda result: result.seed)
    if as_json:
        print_json(
            {
                "seeds": len(chosen),
                "failed": [{"seed": each.seed, "failure": each.failure} for each in failures],
                "simulated_hours": simulated / 3600,
                "messages": messages,
                "seconds": elapsed,
            }
        )
    for failed in failures[:_FAILURES_SHOWN]:
        say(f"seed {failed.seed}: {failed.failure}")
    say(
        f"{len(chosen) - len(failures)} of {len(chosen)} seeds clean, "
        f"{simulated / 3600:.1f} simulated hours, {messages} messages, {elapsed:.1f} s"
    )
    if failures:
        raise typer.Exit(1)
