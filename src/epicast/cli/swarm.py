"""`epicast swarm`: many seeds, everything drawn from each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
        float | None, typer.Option(min=0, help="Begin no more seeds after so long.")
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
    count = seeds or (_SEEDS if minutes is None else _ENDLESS)
    chosen: Iterable[int] = range(first or 0, (first or 0) + count)
    if first is None and ledger is not None:
        chosen = islice(ledger.seeds_to_run(), count)
    _run_many(chosen, count, minutes, jobs, stop, ledger, as_json)


def _run_many(
    chosen: Iterable[int],
    count: int,
    minutes: float | None,
    jobs: int | None,
    stop: bool,
    ledger: CampaignLedger | None,
    as_json: bool,
) -> None:
    from epicast.sim.campaign.running import run_seeds

    counted = _Counted(ledger)
    started = time.monotonic()

    def goes_on() -> bool:
        in_time = minutes is None or time.monotonic() - started <= 60 * minutes
        return in_time and not (stop and counted.failures)

    workers = min(count, jobs or os.cpu_count() or 1)
    interrupted = False
    with Progress("seeds") as progress:
        progress.begin(0 if count >= _ENDLESS else count)
        try:
            with closing(run_seeds(chosen, workers, goes_on=goes_on)) as results:
                for result in results:
                    counted.note(result)
                    progress.advance(failed=bool(result.failure))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            counted.save()
    _report(counted, time.monotonic() - started, as_json)
    if interrupted:
        say("Interrupted: what was running is not counted; with --state it is run the next time.")
        raise typer.Exit(130)
    if counted.failures:
        raise typer.Exit(1)


class _Counted:
    """Results of this run; the ledger has those of all runs."""

    def __init__(self, ledger: CampaignLedger | None = None) -> None:
        from epicast.sim.campaign.ledger import Tally

        self.ledger = ledger
        self.tally = Tally()
        self.first: int | None = None
        self.failures: list[SeedResult] = []
        self._costs: list[float] = []
        self._saved = time.monotonic()

    def note(self, result: SeedResult) -> None:
        self.tally.add(result)
        self.first = result.seed if self.first is None else min(self.first, result.seed)
        self._costs.append(result.core_s)
        if result.failure:
            self.failures.append(result)
        if self.ledger is not None:
            self.ledger.note(result)
            if time.monotonic() - self._saved > _SAVE_EVERY_S:
                self.save()

    def save(self) -> None:
        if self.ledger is not None:
            self.ledger.save()
            self._saved = time.monotonic()

    @property
    def median_core_s(self) -> float:
        return sorted(self._costs)[len(self._costs) // 2] if self._costs else 0.0


def _report(counted: _Counted, elapsed_s: float, as_json: bool) -> None:
    tally, ledger = counted.tally, counted.ledger
    failures = sorted(counted.failures, key=lambda result: result.seed)
    if as_json:
        print_json(
            {
                "first": counted.first,
                "seeds": tally.seeds,
                "failed": [{"seed": each.seed, "failure": each.failure} for each in failures],
                **_kinds(tally),
                "simulated_hours": tally.simulated_s / 3600,
                "messages": tally.messages,
                "delivered": tally.delivered,
                "longest_convergence_s": tally.longest_convergence_s,
                "median_core_seconds": counted.median_core_s,
                "seconds": elapsed_s,
            }
        )
    for failed in failures[:_FAILURES_SHOWN]:
        say(f"seed {failed.seed}: {failed.failure}")
    say(
        f"{tally.told()}, {elapsed_s:.1f} s; "
        f"the median seed took {counted.median_core_s:.2f} core seconds"
    )
    if ledger is not None:
        say(f"this version of the code ({ledger.version}): {ledger.of_this_version.told()}")
        say(f"all versions: {ledger.of_all_versions().told()}")


def _kinds(tally: Tally) -> dict[str, Any]:
    geoplexes, membership = tally.of_kinds("streams", "chains"), tally.of_kinds("membership")
    return {
        "geoplexes": {
            "clean": geoplexes.clean,
            "simulated_hours": geoplexes.simulated_hours,
            "streams": tally.of_kinds("streams").clean,
            "chains": tally.of_kinds("chains").clean,
        },
        "membership": {
            "clean": membership.clean,
            "simulated_hours": membership.simulated_hours,
        },
    }


def _run_one(
    seed: int,
    kind: Literal["streams", "chains", "membership"] | None,
    without: str,
    explain: bool,
    as_json: bool,
) -> None:
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
    counted = _Counted()
    counted.note(result)
    _report(counted, result.core_s, as_json)
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
