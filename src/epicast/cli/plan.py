"""`epicast plan`: which settings a deployment needs, from the papers' analyses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from epicast.cli.output import print_json, print_line, print_table, say
from epicast.cli.serving import JsonOption

if TYPE_CHECKING:
    from epicast.protocols.lpbcast.planning import Plan


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.callback()(_group)
    group.command("gossip")(gossip)
    app.add_typer(group, name="plan", help="Say which settings are needed, and what they buy.")


def _group() -> None:
    """Say which settings are needed, and what they buy."""


def gossip(
    nodes: Annotated[int, typer.Option(help="Peers of the topic.")],
    loss: Annotated[float, typer.Option(help="Share of the messages that are lost.")] = 0.05,
    crash: Annotated[float, typer.Option(help="Share of the peers down unnoticed.")] = 0.01,
    reliability: Annotated[
        float, typer.Option(help="Probability that a given peer gets a given event by gossip.")
    ] = 0.99,
    rate: Annotated[float, typer.Option(help="Events per second, of all peers together.")] = 10.0,
    size: Annotated[int, typer.Option(help="Bytes of an event.")] = 100,
    batch: Annotated[int, typer.Option(help="Events published together.")] = 1,
    period: Annotated[str, typer.Option(help="Between two gossips of a peer.")] = "200ms",
    within: Annotated[int, typer.Option(help="Rounds in which the event must be there.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Recommend fanout, view and buffer sizes of a gossip topic, and say what they buy.

    epicast plan gossip --nodes 1000 --loss 0.1 --reliability 0.999

    From the analysis of lpbcast: synchronous rounds, uniform views, independent losses. What gossip
    misses, retrieval gets: the reliability is that before any retrieval.
    """
    import msgspec

    from epicast.deployment.units import DURATION
    from epicast.protocols.lpbcast.planning import plan_gossip

    found = plan_gossip(
        nodes,
        loss=loss,
        crash=crash,
        reliability=reliability,
        events_per_s=rate,
        event_bytes=size,
        batch_events=batch,
        period_ns=DURATION.parse(period),
        within_rounds=within,
    )
    if as_json:
        years = found.years_to_partition if found.years_to_partition < 1e300 else None
        print_json({**msgspec.to_builtins(found), "years_to_partition": years})
        return
    _print(found, period)


def _print(plan: Plan, period: str) -> None:
    years = plan.years_to_partition
    never = years > 1e9
    sent = "about" if plan.announced else "up to"
    rows = [
        ("fanout", plan.fanout, f"a peer has an event after {plan.rounds} rounds "
         f"({plan.latency_ms:g} ms) with probability {plan.reached:.4%}"),
        ("view_size", plan.view_size, "the views fall apart in a thousandth of the cases after "
         + ("more than a billion years" if never else f"{years:,.0f} years")),
        ("max_subs", plan.max_subs, "three times the view in a round's gossip: views stay random"),
        ("max_events", plan.max_events, f"at this rate an event lives for {plan.rounds} rounds"),
        ("max_buffer_bytes", f"{plan.max_buffer_bytes:,}", "so many of this size"),
        ("max_stored_events", plan.max_stored_events, "for those who missed some of them"),
        ("max_stored_bytes", f"{plan.max_stored_bytes:,}", "the same in bytes"),
        ("max_age_rounds", plan.max_age_rounds, "then it is passed on no more"),
        ("critical_age_rounds", plan.critical_age_rounds, "publishers slow down before events are "
         "purged younger"),
        ("max_datagrams", plan.max_datagrams, f"a peer sends {sent} {plan.bytes_per_s:,} bytes/s"),
        ("memory", f"{plan.memory_bytes:,} B", "of a peer, however many there are"),
    ]  # fmt: skip
    print_table(["setting", "value", "what it buys"], [(n, str(v), w) for n, v, w in rows])
    if plan.announced:
        print_line(
            "Such events are too large for gossip: it tells of them, and they are fetched, which "
            "takes two rounds from one peer to the next."
        )
    print_line(f"{plan.rounds_to_99:g} rounds until 99 % of {plan.nodes:,} peers have an event.")
    say(f'In a scenario file: [lpbcast] with gossip_period = "{period}" and the values above.')
