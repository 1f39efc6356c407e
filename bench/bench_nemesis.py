"""The same faults for Epicast, NATS JetStream and Redis Streams: what is lost, twice, or late?

Three servers each, a publisher that repeats what is not acknowledged, a subscriber, and one that
comes late. Servers are killed, stopped and restarted, one, two or all at a time; in a second run
they also lose their disks. All is judged by `epicast_checker`. See `docs/nemesis.md`.
"""

from bench.harness import Bar, Figure, Result
from bench.nemesis import compare, jetstream, redis_ha
from bench.nemesis.compare import DISKS, PROCESSES, Row, rows

SEED = 3


def run(quick: bool) -> Result:
    seconds = 20.0 if quick else 60.0
    figures: dict[str, Figure] = {}
    bars: list[Bar] = []
    for name, kinds in (("processes", PROCESSES), ("disks", DISKS)):
        for row in rows(seconds, SEED, kinds):
            figures[f"{name}: {row.system}"] = _told(row)
            if row.system == compare.EPICAST:
                bars += [
                    Bar(f"{name}_lost", 0, "at most", row.lost, "events"),
                    Bar(f"{name}_never_delivered", 0, "at most", row.never_delivered, "events"),
                    Bar(f"{name}_duplicated", 0, "at most", row.duplicated, "events"),
                ]
    for module in (jetstream, redis_ha):
        if reason := module.missing():
            figures[f"{module.NAME} skipped"] = reason
    return Result("nemesis", figures, bars)


def _told(row: Row) -> str:
    trouble = f", {row.troubles} times not well again" if row.troubles else ""
    return (
        f"{row.acked:,} acknowledged: {row.lost:,} lost, {row.duplicated:,} duplicated, "
        f"{row.never_delivered:,} never delivered, stalled {row.ack_stalled_s:.1f} s (publisher) "
        f"and {row.stalled_s:.1f} s (subscriber), {row.faults} faults{trouble}"
    )
