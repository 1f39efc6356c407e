"""Sprinkler's `filter`, word for word, on plain lists: what `History` is compared with.

An event is collected exactly if some later event collects it, or, under `last_n`, if there are that
many later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from epicast.core import Event, EventKind
from epicast.log import GcPolicy, Predicate, split_gc_payload
from epicast.log.predicate.ast import (
    And,
    KeyIn,
    KeyPrefix,
    Not,
    Or,
    PublishedBefore,
    SeqBelow,
    SizeBelow,
)


def live(events: Sequence[Event], policy: GcPolicy) -> list[Event]:
    """`events` are those of the stream from its beginning on; the ones `filter` leaves."""
    predicates = [(event.seq, predicate_of(event, policy)) for event in events]
    collectors = [(seq, own) for seq, own in predicates if own is not None]
    newest = events[-1].seq if events else 0
    return [
        event
        for event in events
        if (policy.last_n is None or event.seq > newest - policy.last_n)
        and not any(
            seq > event.seq and collects(own, event, policy) for seq, own in reversed(collectors)
        )
    ]


def collects(own: Predicate, event: Event, policy: GcPolicy) -> bool:
    """Whether a later event with the predicate `own` collects the event."""
    return matches(own, event) and is_final(own, event, policy)


def predicate_of(event: Event, policy: GcPolicy) -> Predicate | None:
    """What the event collects, besides what `last_n` says."""
    if event.kind == EventKind.GC:
        return carried_predicate(event.payload)
    if policy.latest_per_key and event.key:
        return KeyIn((event.key,))
    return None


@cache  # each is asked for once per pair of events
def carried_predicate(payload: bytes) -> Predicate:
    return split_gc_payload(payload)[0]


def is_final(own: Predicate, event: Event, policy: GcPolicy) -> bool:
    """Whether all that the matched event collected is matched, too."""
    collected = predicate_of(event, policy)
    if collected is None or collected == own or isinstance(own, SeqBelow):
        return True
    return event.kind == EventKind.DATA and holds_for_older_events_of_the_key(own)


def holds_for_older_events_of_the_key(node: Predicate) -> bool:
    match node:
        case KeyIn() | KeyPrefix() | SeqBelow():
            return True
        case And(children) | Or(children):
            return all(map(holds_for_older_events_of_the_key, children))
        case Not(child):
            return only_about_keys(child)
    return False


def only_about_keys(node: Predicate) -> bool:
    match node:
        case KeyIn() | KeyPrefix():
            return True
        case And(children) | Or(children):
            return all(map(only_about_keys, children))
        case Not(child):
            return only_about_keys(child)
    return False


def matches(node: Predicate, event: Event) -> bool:
    match node:
        case KeyIn(keys):
            return event.key in keys
        case KeyPrefix(prefix):
            return event.key.startswith(prefix)
        case SeqBelow(bound):
            return event.seq < bound
        case PublishedBefore(time):
            return event.time < time
        case SizeBelow(bound):
            return len(event.payload) < bound
        case Not(child):
            return not matches(child, event)
        case And(children):
            return all(matches(child, event) for child in children)
        case Or(children):
            return any(matches(child, event) for child in children)
