"""An audit on one page, with plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from epicast.pipeline.audit.results import VIOLATIONS, AuditResult, Line
from epicast.reporting import Cell, figure, new_figure, page, paragraph, section, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CURVES = 12
_COUNTED = ("owed", "delivered", "tombstoned", "pending", *VIOLATIONS[:5], "unjudged", "clock")


def audit_page(result: AuditResult) -> str:
    return page(
        f"Audit of {result.directory}",
        [
            *_verdict(result),
            section("Subscribers", _table("subscriber", result.subscribers, _COUNTED)),
            section("How old events were when they were handed out", _staleness_figure(result)),
            section("Deliveries over time", _deliveries_figure(result)),
            section("Streams", _table("stream", result.streams, _COUNTED)),
            section("Regions", _table("region", result.regions, _COUNTED)),
            section("Publishers", _table("publisher", result.publishers, _ACKED)),
            section("Where something is wrong", _findings(result)),
            section("Truncated logs", _truncated(result)),
        ],
    )


_ACKED = ("acked", "acked_but_lost", "unjudged", "clock")


def _verdict(result: AuditResult) -> list[str]:
    counts = result.totals.counts
    found = ", ".join(
        f"{name.replace('_', ' ')}: {count}" for name, count in result.violations.items()
    )
    news = "All promises were kept." if result.holds else "Not everything is as it should be."
    counted = (
        f"{result.logs} logs with {result.rows} rows; {result.events} events stored, "
        f"{counts.acked} acknowledged, {counts.owed} owed, {counts.delivered} delivered, "
        f"{counts.tombstoned} tombstones, {counts.unjudged} not judged."
    )
    return [paragraph(f"{news} {found}", holds=result.holds), paragraph(counted)]


def _table(what: str, lines: Iterable[Line], names: Sequence[str]) -> str:
    heads = [what, "stream", "region", *(name.replace("_", " ") for name in names)]
    rows: list[list[Cell]] = []
    for line in lines:
        age = line.staleness
        ages: list[Cell] = [ns / 1e6 for ns in (age.p50_ns, age.p99_ns, age.p999_ns, age.max_ns)]
        counted: list[Cell] = [getattr(line.counts, name) for name in names]
        rows.append([line.name, line.stream, line.region, *counted, *ages])
    return table([*heads, "p50 ms", "p99 ms", "p99.9 ms", "max ms"], rows, folds=True)


def _staleness_figure(result: AuditResult) -> str:
    lines = [line for line in result.subscribers if line.buckets][:_MOST_CURVES]
    if not lines:
        return ""
    drawing, axes = new_figure("milliseconds since the owner stored it", "share of events")
    for line in lines:
        ages = [age / 1e6 for age, _ in line.buckets]
        shares, total = [], 0
        for _, count in line.buckets:
            total += count
            shares.append(total / line.staleness.events)
        axes.step(ages, shares, where="post", label=f"{line.name}, {line.stream}")
    axes.set_xscale("log")
    return _with_legend(drawing, "Share of events handed out within a time, by subscription")


def _deliveries_figure(result: AuditResult) -> str:
    lines = [line for line in result.streams if any(line.slots)][:_MOST_CURVES]
    if not lines:
        return ""
    drawing, axes = new_figure("seconds", "events per second", wide=True)
    width = result.slot_ns / 1e9
    for line in lines:
        times = [width * slot for slot in range(len(line.slots))]
        axes.step(times, [count / width for count in line.slots], where="post", label=line.name)
    return _with_legend(drawing, "Events handed out over time, by stream, to all subscribers")


def _with_legend(drawing: Figure, caption: str) -> str:
    drawing.axes[0].legend(fontsize="small")
    return figure(drawing, caption)


def _findings(result: AuditResult) -> str:
    return table(
        ["what", "who", "stream", "epoch", "first", "last"],
        [[each.what, each.who, each.stream, each.epoch, each.first, each.last]
         for each in result.findings],
        folds=True,
    )  # fmt: skip


def _truncated(result: AuditResult) -> str:
    return table(
        ["log", "why", "in other logs"],
        [[each.log, each.reason, "yes" if each.covered else "no"] for each in result.truncated],
    )
