"""Single lines gone wrong, as lines do: each must be noticed by the campaign.

A bug belongs here only if nothing else makes up for it. Some that one would think of are made good
elsewhere, and so can be planted without any harm but delay: an agent that forgets a hole asks for
it at the next heartbeat, a proxy that skips a gap is stopped by its log.
"""

from __future__ import annotations

from collections.abc import Sequence

from epicast.core import ConfigError
from epicast.sim.campaign.planted import PlantedBug
from epicast.sim.campaign.planted_chain_bugs import CHAIN_BUGS

_SPRINKLER = "protocols/sprinkler"

PLANTED_BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="ack-early",
        file=f"{_SPRINKLER}/publications.py",
        old="self._numbered[message.stream] = state",
        new="self._numbered[message.stream] = state; self._acknowledge(message.stream, "
        "[owned._unstable[-1]], fx)",
        description="a publication is acknowledged when it is numbered, before it is stored",
        within=10,
    ),
    PlantedBug(
        name="skip-gap",
        file=f"{_SPRINKLER}/subscriptions.py",
        old="if batch.first > self.next:",
        new="if batch.first > self.next + 1_000_000:",
        description="a subscription delivers what comes behind a gap",
        within=150,
    ),
    PlantedBug(
        name="accept-again",
        file=f"{_SPRINKLER}/ownership.py",
        old="self._accepted[publisher] = last",
        new="self._accepted[publisher] = first - 1",
        description="the owner numbers a publication that was sent again",
        within=20,
    ),
    PlantedBug(
        name="accept-gap",
        file=f"{_SPRINKLER}/ownership.py",
        old="if first > expected:",
        new="if first > expected + 1000:",
        description="the owner takes a publication although one before it is missing",
        within=50,
    ),
    PlantedBug(
        name="stale-counter",
        file=f"{_SPRINKLER}/proxy.py",
        old="if state is not None and counter.epoch == state.epoch:",
        new="if state is not None:",
        description="how far another region was in an epoch that is over acknowledges for the next",
        within=150,
    ),
    PlantedBug(
        name="tail-to-all",
        file=f"{_SPRINKLER}/cursors.py",
        old="cursor.next == first",
        new="cursor.next <= first",
        description="new events count as sent to a subscriber that lacks those before",
        within=50,
    ),
    PlantedBug(
        name="bury-what-did-not-fit",
        file="log/reading.py",
        old="last = rows.seqs.item(fitting) - 1",
        new="last = rows.seqs.item(fitting)",
        description="reading history buries the first event that an answer has no room for",
        within=20,
    ),
    PlantedBug(
        name="show-unstable",
        file=f"{_SPRINKLER}/states.py",
        old="while unstored and unstored[0].last <= seq:",
        new="while unstored:",
        description="a proxy shows what was handed to the store and is not stored yet",
        within=30,
    ),
    PlantedBug(
        name="collect-one-too-far",
        file="log/collector.py",
        old="self.live.remove_below(bound)",
        new="self.live.remove_below(bound + 1)",
        description="`seq < n` collects n as well",
        within=30,
    ),
    PlantedBug(
        name="last-n-minus-one",
        file="log/collector.py",
        old="self.live.remove_below(end - self.policy.last_n + 1)",
        new="self.live.remove_below(end - self.policy.last_n + 2)",
        description="`last_n` keeps one event less",
        within=30,
    ),
    PlantedBug(
        name="not-final",
        file="log/deferred.py",
        old="matched &= rows.kinds == EventKind.DATA",
        new="matched &= rows.kinds <= EventKind.GC",
        description="GC events are collected although what they collected is not matched",
        within=150,
    ),
    PlantedBug(
        name="compact-unsynced",
        file="log/compaction.py",
        old="self._files.get(TEMPORARY).sync()",
        new="pass",
        description="a rewritten segment takes the place of its sources before it is synced",
        within=50,
    ),
    PlantedBug(
        name="resurrect",
        file="log/history.py",
        old="self._collector.take(rows, rows.last, gc_events_in(rows))",
        new="self._collector.take(rows, rows.last, [])",
        description="what GC events have collected is back after a restart",
        within=300,
    ),
    PlantedBug(
        name="expire-early",
        file="log/history.py",
        old="oldest_kept = now - self.policy.max_age_ns",
        new="oldest_kept = now - self.policy.max_age_ns // 2",
        description="events expire at half the age they may reach",
        within=30,
    ),
    PlantedBug(
        name="forget-sync",
        file="log/segments.py",
        old="files = [self.files.get(name) for name in self._unsynced]",
        new="files: list[File] = []",
        description="a sync does not reach the files: what was acknowledged may be lost",
        within=30,
    ),
    PlantedBug(
        name="half-a-write",
        file="log/segments.py",
        old="file.truncate(active.size)",
        new="pass",
        description="what a full disk took of a write is not undone",
        within=50,
    ),
    PlantedBug(
        name="reuse-epoch",
        file="log/restarts.py",
        old='if config.sync != "disk":',
        new='if config.sync == "interval":',
        description="an owner that may have lost unsynced events goes on in the same epoch",
        within=150,
    ),
    PlantedBug(
        name="trust-damage",
        file="log/recovery.py",
        old="in_the_midst = bool(later) or has_sound_record("
        "file.read(problem.position, file.size))",
        new="in_the_midst = bool(later)",
        description="a history cut short by damage is taken for a write that was cut short",
        within=300,
    ),
    PlantedBug(
        name="lost-restart",
        file=f"{_SPRINKLER}/cursors.py",
        old="if cursor.epoch < state.epoch:",
        new="if cursor.epoch < state.epoch - 1_000_000:",
        description="a subscription is not told that its epoch is over",
        within=20,
    ),
    PlantedBug(
        name="count-own-region",
        file=f"{_SPRINKLER}/regions.py",
        old="return sum(seq >= pending.seq for seq in counters.values()) >= pending.regions",
        new="return 1 + sum(seq >= pending.seq for seq in counters.values()) >= pending.regions",
        description="an acknowledgement for other regions counts the owner's own",
        within=20,
    ),
    PlantedBug(
        name="forget-publishers",
        file=f"{_SPRINKLER}/proxy.py",
        old="publishers = dict(recovered.publishers.get(info.id, {}))",
        new="publishers: dict[int, int] = {}",
        description="after a restart the owner does not know what publishers had sent before",
        within=150,
    ),
    PlantedBug(
        name="resume-one-late",
        file=f"{_SPRINKLER}/subscriptions.py",
        old="return Subscribe(self.number, self.stream, self.epoch, self.next - 1, self.window)",
        new="return Subscribe(self.number, self.stream, self.epoch, self.next, self.window)",
        description="a subscription resumes one event too far",
        within=20,
    ),
    PlantedBug(
        name="endless-outbox",
        file=f"{_SPRINKLER}/outbox.py",
        old="return max(0, self._config.max_unacknowledged_events - self._events)",
        new="return self._config.max_unacknowledged_events",
        description="a publisher is never told to wait",
        within=50,
    ),
    PlantedBug(
        name="endless-early",
        file=f"{_SPRINKLER}/following.py",
        old="if self._early_bytes + size > self._max_early_bytes:",
        new="if size > 1000 * self._max_early_bytes:",
        description="what comes early is kept without a bound",
        within=50,
    ),
    PlantedBug(
        name="deaf",
        file=f"{_SPRINKLER}/agent.py",
        old="if earlier.epoch == following.epoch and earlier.seq > following.end:",
        new="if earlier.epoch != following.epoch and earlier.seq > following.end:",
        description="an agent that nobody notifies does not ask its proxy",
        within=20,
    ),
    PlantedBug(
        name="forget-refused-epoch",
        file=f"{_SPRINKLER}/moving/tenant.py",
        old="state.not_begun(order)",
        new="pass",
        description="an epoch that a disk could not begin is not ordered again",
        within=300,
    ),
    *CHAIN_BUGS,
)
"""In the order they are run."""


def named(names: Sequence[str]) -> Sequence[PlantedBug]:
    """Those asked for; all, if none is."""
    known = {bug.name: bug for bug in PLANTED_BUGS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"no planted bug {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] or PLANTED_BUGS
