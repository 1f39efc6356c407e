"""`epicast demo`: the whole story in half a minute."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from epicast.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from epicast.cli.story.plot import Ending, Scene
    from epicast.pipeline.audit import AuditResult

_LINE_EVERY_S = 2.0


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    rate: Annotated[
        int, typer.Option(min=100, max=50_000, help="Events per second in each region.")
    ] = 2000,
    audit: Annotated[
        bool, typer.Option(" /--no-audit", help="End without the audit, which needs Spark.")
    ] = True,
    evidence: Annotated[
        Path | None,
        typer.Option(help="Keep in this folder what was written down.", show_default="nothing"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Three regions on this machine keep caches in step with their database, whatever happens.

    A proxy per region and caches in each follow three streams of invalidations. One cache is slow,
    one starts late, and a link between two regions is cut for a while. In the end every cache must
    have got every event, or a tombstone for it, in order, and hold what the database holds. That is
    what the caches themselves say; then an audit looks at what proxies, publishers and caches have
    written down. The exit status is 1 if anything was lost.
    """
    from epicast.cli.story.plot import Plot, play

    with ExitStack() as stack:
        folder = evidence
        if folder is None:
            temporary = stack.enter_context(TemporaryDirectory(prefix="epicast-demo-"))
            folder = Path(temporary)
        ending = play(Plot(rate=rate, evidence=str(folder.absolute())), say, _Ticker())
        if not as_json:
            print_table(["", "all regions together"], _rows(ending))
        found = _audit(folder) if audit else None
    good = ending.good and (found is None or found.holds)
    if as_json:
        audited = None if found is None else _audit_summary(found)
        print_json({**msgspec.to_builtins(ending), "audit": audited, "good": good})
    elif found is not None:
        print_table(["audit", ""], _audit_rows(found))
    if not good:
        say("epicast: events were lost, or came out of order.")
        raise typer.Exit(1)
    say("Nothing was lost, everything came in order, and all caches hold what the database holds.")


def _audit(folder: Path) -> AuditResult:
    from epicast.pipeline.audit import Rules, audit_logs

    say("Auditing what everybody has written down …")
    # Everybody waited until everything was there: nothing may be missing at the end.
    return audit_logs(folder, master="local[2]", rules=Rules(grace_ns=0))


def _audit_summary(found: AuditResult) -> dict[str, object]:
    return {
        "logs": found.logs,
        "holds": found.holds,
        "truncated": len(found.truncated),
        **msgspec.to_builtins(found.totals.counts),
    }


def _audit_rows(found: AuditResult) -> list[list[str]]:
    counts, staleness = found.totals.counts, found.totals.staleness
    return [
        ["logs, of owners, publishers and subscribers", f"{found.logs}"],
        ["events stored by their owners", f"{found.events:,}"],
        ["deliveries owed", f"{counts.owed:,}"],
        ["delivered, with the right contents", f"{counts.delivered:,}"],
        ["tombstoned, for a reason that was found", f"{counts.tombstoned:,}"],
        ["broken promises", _said(found.violations)],
        ["age when handed out, 99 %", f"{staleness.p99_ns / 1e6:.1f} ms"],
    ]


def _said(violations: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in violations.items()) or "none"


class _Ticker:
    """A line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = 0.0

    def __call__(self, scene: Scene) -> None:
        if scene.seconds < self._next:
            return
        self._next = scene.seconds + (0.2 if self._terminal else _LINE_EVERY_S)
        behind = ", ".join(f"{name} {events:,} behind" for name, events in scene.behind.items())
        line = (
            f"{scene.seconds:5.1f} s  published {scene.published:,}  delivered "
            f"{scene.delivered:,} + {scene.tombstoned:,} tombstones  {scene.link}  {behind}"
        )
        if self._terminal:
            sys.stderr.write(f"\r\x1b[2K{line}\r")
            sys.stderr.flush()
        else:
            say(line)


def _rows(ending: Ending) -> list[list[str]]:
    return [
        ["published", f"{ending.published:,}"],
        ["caches", f"{ending.caches}"],
        ["deliveries owed", f"{ending.owed:,}"],
        ["delivered", f"{ending.delivered:,}"],
        ["tombstoned (collected before they were needed)", f"{ending.tombstoned:,}"],
        ["lost", f"{ending.lost:,}"],
        ["out of order", f"{ending.out_of_order:,}"],
        ["caches that equal the database", f"{ending.caches_in_step} of {ending.caches}"],
        ["times a region took another path", f"{ending.detours}"],
        ["saved by garbage collection", f"{ending.gc_saving:.1%}"],
        ["deliveries per second", f"{ending.deliveries_per_s:,.0f}"],
        ["delay, median", f"{ending.delay_p50_ms:.1f} ms"],
        ["delay, 99 %", f"{ending.delay_p99_ms:.1f} ms"],
    ]
