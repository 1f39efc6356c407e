"""`epicast audit`: whether what was promised was kept, from the logs alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epicast.cli.output import print_json, print_line, print_table, say
from epicast.cli.progress import Progress
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.pipeline.audit import AuditResult, Line

_FINDINGS_SHOWN = 10


def register(app: typer.Typer) -> None:
    app.command("audit")(audit)


def audit(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Holds the folders of the logs.")
    ],
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark runs it on: local[N], local-cluster[2,1,1024] or spark://HOST:PORT.",
            show_default="local[*], all cores of this machine",
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="Of Spark's driver.")] = "4g",
    accept_truncated: Annotated[
        bool,
        typer.Option(
            "--accept-truncated",
            help="Do not fail because logs are cut, or lack something to judge by.",
        ),
    ] = False,
    grace: Annotated[
        str,
        typer.Option(
            help="What was stored this long before a subscription was closed is owed to it."
        ),
    ] = "5s",
    clock_tolerance: Annotated[
        str, typer.Option(help="How far clocks of two machines may be apart.")
    ] = "100ms",
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Also write a page with plots.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say from the logs of owners, publishers and subscribers whether everything came, in order,
    once.

    The exit status is 1 if something that was promised was not kept, or the logs do not suffice to
    tell; 2 if they cannot be read.
    """
    from epicast.deployment.units import DURATION
    from epicast.pipeline.audit import Rules, audit_logs
    from epicast.pipeline.session import DEFAULT_MASTER

    rules = Rules(
        grace_ns=DURATION.parse(grace), clock_tolerance_ns=DURATION.parse(clock_tolerance)
    )
    with _Steps() as steps:
        try:
            result = audit_logs(
                directory, master=master or DEFAULT_MASTER, memory=memory, rules=rules,
                accept_truncated=accept_truncated, watcher=steps,
            )  # fmt: skip
        except KeyboardInterrupt:
            say("Interrupted; nothing was decided.")
            raise typer.Exit(130) from None
    if report is not None:
        from epicast.pipeline.audit.report import audit_page

        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(audit_page(result), "utf-8")
    if as_json:
        print_json(_plain(result))
    else:
        _show(result)
        if report is not None:
            print_line(f"Report: {report}")
    raise typer.Exit(0 if result.holds else 1)


class _Steps(Progress):
    """A watcher of the job: each of its steps has its own count of tasks."""

    def __init__(self) -> None:
        super().__init__("audit")
        self._step = ""

    def __call__(self, step: str, done: int, total: int) -> None:
        if total and (step, total) != (self._step, self.total):
            self.__exit__(None, None, None)
            self.title, self.done, self._step = f"audit: {step}", 0, step
            self.begin(total)
        while self.done < min(done, total):
            self.advance()


def _plain(result: AuditResult) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(result)
    return {
        "holds": result.holds,
        "complete": result.is_complete,
        "violations": result.violations,
        **plain,
    }


def _show(result: AuditResult) -> None:
    print_table(
        ["subscriber", "stream", "owed", "delivered", "tombstones", "lost", "p50", "p99"],
        ([line.name, line.stream, *_numbers(line), *_ages(line)] for line in result.subscribers),
    )
    counts = result.totals.counts
    print_line(
        f"{result.logs} logs, {result.events} events stored, {counts.acked} acknowledged, "
        f"{counts.owed} owed, {counts.delivered} delivered, {counts.tombstoned} tombstones, "
        f"{result.seconds:.1f} s"
    )
    for name, count in result.violations.items():
        print_line(f"WRONG: {name.replace('_', ' ')}: {count}")
    for finding in result.findings[:_FINDINGS_SHOWN]:
        epoch = f", epoch {finding.epoch}" if finding.epoch else ""
        print_line(
            f"  {finding.what}: {finding.first}..{finding.last} of {finding.stream}{epoch}, "
            f"{finding.who}"
        )
    for log in result.truncated:
        excuse = "; other logs of the owner have what it lacks" if log.covered else ""
        print_line(f"TRUNCATED: {log.log}: {log.reason}{excuse}")
    for stream in result.ownerless:
        print_line(f"NO OWNER'S LOG of {stream}: what was delivered of it cannot be judged")
    if counts.unjudged:
        print_line(f"{counts.unjudged} events cannot be judged: the owner's log does not have them")
    if counts.pending:
        print_line(
            f"{counts.pending} tombstones are pending: the subscription ended before their reason"
        )
    print_line("All promises were kept." if result.holds else "Not everything is as it should be.")


def _numbers(line: Line) -> list[str]:
    counts = line.counts
    return [str(n) for n in (counts.owed, counts.delivered, counts.tombstoned, counts.lost)]


def _ages(line: Line) -> list[str]:
    age = line.staleness
    return [f"{ns / 1e6:.3g} ms" for ns in (age.p50_ns, age.p99_ns)]
