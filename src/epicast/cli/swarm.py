"""`epicast swarm`: many seeds, everything drawn from each."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from epicast.cli.output import print_json, say
from epicast.cli.progress import Progress

if TYPE_CHECKING:
    from epicast.sim.campaign.ledger import CampaignLedger, Tally
    from epicast.sim.campaign.running import SeedResult

_FAILURES_SHOWN = 10
_SEEDS = 200
_ENDLESS = 1 << 40
_SAVE_EVERY_S = 5.0


def register(app: typer.Typer) -> None:
    app.command("swarm")(swarm)


def swarm(
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds.", show_default=f"{_SEEDS}, or no limit"),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Start no more seeds after so long.")
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(min=0, help="The first of them.", show_default="the next one, or 0"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Run this one only: how a failure is repeated.")
    ] = None,
    kind: Annotated[
        Literal["streams", "chains", "membership"] | None,
        typer.Option(help="With --seed: what is drawn from it.", show_default="as in a campaign"),
    ] = None,
    without: Annotated[
        str, typer.Option(help="With --seed: faults to leave out, such as 2,5.")
    ] = "",
    explain: Annotated[
        bool, typer.Option(help="With --seed: say what is drawn, and look for faults it can fail "
                                "without.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(help="Note what was done here, and go on where it ended.")
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Stop at the first failure.")] = False,
    planted: Annotated[
        bool, typer.Option("--planted", help="Plant bugs in a copy of the sources, one at a time; "
                                             "each must be caught.")
    ] = False,
    only: Annotated[
        str, typer.Option(help="With --planted: names of bugs, such as ack-early,skip-gap.")
    ] = "",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes.", show_default="one per core")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:  # fmt: skip
    """Simulate random systems under random faults; exit status 1 if a seed breaks a rule."""
    if planted:
        _run_planted(only, as_json)
        return
    if seed is not None:
        _run_one(seed, kind, without, explain, as_json)
        return
    from epicast.sim.campaign.ledger import CampaignLedger

    ledger = CampaignLedger(state) if state is not None else None
    begin = first if first is not None else ledger.next_seed if ledger is not None else 0
    count = seeds or (_SEEDS if minutes is None else _ENDLESS)
    _run_many(range(begin, begin + count), minutes, jobs, stop, ledger, as_json)


def _run_many(
    chosen: range,
    minutes: float | None,
    jobs: int | None,
    stop: bool,
    ledger: CampaignLedger | None,
    as_json: bool,
) -> None:
    from epicast.sim.campaign.ledger import Tally
    from epicast.sim.campaign.running import run_seeds

    workers = min(len(chosen), jobs or os.cpu_count() or 1)
    started = saved = time.monotonic()
    failures: list[SeedResult] = []
    tally, costs = Tally(), []
    with Progress("seeds") as progress:
        progress.begin(0 if len(chosen) >= _ENDLESS else len(chosen))
        results = run_seeds(chosen, workers)
        for result in results:
            progress.advance(failed=bool(result.failure))
            tally.add(result)
            costs.append(result.core_s)
            if result.failure:
                failures.append(result)
            now = time.monotonic()
            if ledger is not None:
                ledger.note(result)
                if now - saved > _SAVE_EVERY_S:
                    ledger.save()
                    saved = now
            if (stop and failures) or (minutes is not None and now - started > 60 * minutes):
                break
        results.close()
    if ledger is not None:
        ledger.save()
    _report(chosen.start, tally, costs, failures, time.monotonic() - started, ledger, as_json)
    if failures:
        raise typer.Exit(1)


def _report(
    first: int,
    tally: Tally,
    costs: list[float],
    failures: list[SeedResult],
    elapsed_s: float,
    ledger: CampaignLedger | None,
    as_json: bool,
) -> None:
    median_s = sorted(costs)[len(costs) // 2] if costs else 0.0
    failures.sort(key=lambda result: result.seed)
    if as_json:
        print_json(
            {
                "first": first,
                "seeds": tally.seeds,
                "failed": [{"seed": each.seed, "failure": each.failure} for each in failures],
                "simulated_hours": tally.simulated_s / 3600,
                "messages": tally.messages,
                "delivered": tally.delivered,
                "longest_convergence_s": tally.longest_convergence_s,
                "median_core_seconds": median_s,
                "seconds": elapsed_s,
            }
        )
    for failed in failures[:_FAILURES_SHOWN]:
        say(f"seed {failed.seed}: {failed.failure}")
    say(f"{tally.told()}, {elapsed_s:.1f} s; the median seed took {median_s:.2f} core seconds")
    if ledger is not None:
        say(f"this version of the code ({ledger.version}): {ledger.of_this_version.told()}")
        say(f"all versions: {ledger.of_all_versions().told()}")


def _run_one(
    seed: int,
    kind: Literal["streams", "chains", "membership"] | None,
    without: str,
    explain: bool,
    as_json: bool,
) -> None:
    from epicast.sim.campaign.ledger import Tally
    from epicast.sim.campaign.running import kind_of, plan_of, replay_line, run_seed, shrink

    try:
        left_out = {int(number) for number in without.split(",") if number}
    except ValueError:
        raise typer.BadParameter(f"{without!r}: expected numbers of faults, such as 2,5") from None
    kind = kind or kind_of(seed)
    about_streams = kind != "membership"
    if explain and about_streams:
        for line in plan_of(seed, kind).describe():
            say(line)
    result = run_seed(seed, kind, left_out)
    tally = Tally()
    tally.add(result)
    failures = [result] if result.failure else []
    _report(seed, tally, [result.core_s], failures, result.core_s, None, as_json)
    if result.failure:
        if explain and about_streams and not left_out:
            needless = shrink(seed, kind)
            if needless:
                say(f"fails with fewer faults, too: {replay_line(seed, kind, needless)}")
        raise typer.Exit(1)


def _run_planted(only: str, as_json: bool) -> None:
    from epicast.sim.campaign.planted import catch
    from epicast.sim.campaign.planted_bugs import named

    bugs = named([name for name in only.split(",") if name])
    caught = []
    for bug in bugs:
        found = catch(bug)
        caught.append(found)
        if not as_json:
            say(found.told())
    if as_json:
        print_json([found.as_row() for found in caught])
    missed = [found.bug.name for found in caught if not found.was_caught]
    say(f"{len(caught) - len(missed)} of {len(caught)} planted bugs were caught in time")
    if missed:
        raise typer.Exit(1)
