"""A run drawn from a seed: a region is lost, its stream is taken by force, the region comes back.

python -m tests.protocols.sprinkler.moving.forced FIRST LAST
"""

from __future__ import annotations

from random import Random

from epicast.core import EventBatch, NodeId, Publication, Trace
from epicast.protocols.sprinkler.alarms import AlarmKind
from epicast.protocols.sprinkler.moving.messages import MoveOutcome, MoveReply
from epicast.protocols.sprinkler.notices import Restarted
from tests.protocols.sprinkler.chain.chained import MS, SECOND, Broken, Truth, proxy_of
from tests.protocols.sprinkler.moving.moved import MovedRun

LOST_REGION, TARGET = "a", "b"
STREAM = "s"


class ForcedTruth(Truth):
    """Subscribers may be restarted, and what was acknowledged behind the cut may be gone."""

    def __init__(self) -> None:
        super().__init__()
        self.restarts: dict[tuple[NodeId, int], list[int]] = {}
        self.epochs: dict[tuple[NodeId, int], set[int]] = {}
        """That a subscriber has seen something of."""
        self.seqs: dict[bytes, int] = {}
        """Of what was acknowledged: how far the stream was at most."""

    def delivered(self, node: NodeId, number: int, batch: EventBatch) -> None:
        super().delivered(node, number, batch)
        self.epochs.setdefault((node, number), set()).add(batch.epoch)

    def restarted(self, node: NodeId, number: int, notice: Restarted) -> None:
        self.restarts.setdefault((node, number), []).append(notice.epoch)
        if notice.seq:
            raise Broken(f"{node}#{number} goes on behind {notice.seq}")
        self.places[node, number] = (notice.epoch, 0)


class ForcedRun(MovedRun):
    replay = "python -m tests.protocols.sprinkler.moving.forced {seed}"

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        super().__init__(seed, trace)
        self.truth: ForcedTruth = ForcedTruth()
        self.done: MoveReply | None = None
        self.simulation.on_acknowledge = self._on_acknowledge

    def _draw_regions(self, rng: Random) -> list[str]:
        return ["a", "b", "c"]

    def _on_acknowledge(self, _: NodeId, publication: Publication, seq: int) -> None:
        self.truth.was_acknowledged(publication)
        self.truth.seqs.update(dict.fromkeys(publication.batch.payloads(), seq))

    def _plan_trouble(self) -> None:
        rng = self._rng("trouble")
        lost_at = rng.randrange(SECOND, 4 * SECOND)
        back_at = rng.randrange(5 * SECOND, 9 * SECOND)
        forced_at = lost_at + rng.randrange(50 * MS, back_at - lost_at)
        lose = rng.choice((self._crash_region, self._cut_off_region))
        self._at(lost_at, lose, (back_at,))
        self._at(forced_at, self._force, ())
        kinds = (self._crash, self._crash_silently, self._pause, self._cut)
        for _ in range(rng.choice((0, 0, 1, 3))):
            at = rng.randrange(SECOND, 8 * SECOND)
            until = min(9 * SECOND, at + rng.randrange(20 * MS, 2 * SECOND))
            self._at(at, rng.choice(kinds), (Random(rng.random()), until))

    def _crash_region(self, until: int) -> None:
        for node in self.geo.replicas[LOST_REGION]:
            self._take_down(node, until)

    def _cut_off_region(self, until: int) -> None:
        """It goes on by itself, and does not know."""
        self._tell("cut off a", until)
        inside = {node.id for node in self.geo.replicas[LOST_REGION]}
        outside = {n.id for r in ("b", "c") for n in self.geo.replicas[r]}

        def is_cut(source: int, target: int) -> bool:
            one, other = source in inside, target in inside
            return (one and target in outside) or (other and source in outside)

        self.simulation.network.cut(is_cut)
        self._at(until, self.simulation.network.mend, (is_cut,))

    def _force(self) -> None:
        """As long as it takes: a replica may be down, and a head not know yet that it is one."""
        if self.done is None:
            for node in self.geo.replicas[TARGET]:
                if node.alive:
                    self.geo.ask_to_move(STREAM, TARGET, node, force=True)
            self._at(self.simulation.now + SECOND // 2, self._force, ())

    def _on_notice(self, time: int, node: NodeId, number: int, value: object) -> None:
        super()._on_notice(time, node, number, value)
        if isinstance(value, MoveReply) and value.outcome is MoveOutcome.DONE:
            self.done = self.done or value

    def _unfinished(self) -> str:
        return super()._unfinished() if self.done is not None else "it was not taken"

    def _check_acknowledged(self, name: str, stream: int, there: set[bytes]) -> None:
        assert self.done is not None
        for payload, of in self.truth.acknowledged.items():
            if of == stream and payload not in there:
                cut = self.done.seq if name == STREAM else 1 << 62
                if self.truth.seqs[payload] <= cut:
                    raise Broken(f"{name}: {payload!r} was lost, and lies before {cut}")

    def check_restarts(self) -> None:
        """Who subscribes to the stream has got one, and nobody else any."""
        assert self.done is not None
        restarts, number = dict(self.truth.restarts), self.streams.index(STREAM) + 1
        for node in self.subscribers:
            got = restarts.pop((node.id, number), [])
            if got != [self.done.epoch] and len(self.truth.epochs[node.id, number]) > 1:
                raise Broken(f"{node.id} was restarted at {got}, not at {self.done.epoch}")
        if restarts:
            raise Broken(f"restarted for nothing, or more than once: {restarts}")

    def lost(self) -> int:
        """How many events the region that came back says to have lost."""
        return max(
            (
                alarm.behind
                for node in self.geo.replicas[LOST_REGION]
                for alarm in proxy_of(node).alarms(self.simulation.now)
                if alarm.kind is AlarmKind.LOST
            ),
            default=0,
        )

    def shown_behind_the_cut(self) -> int:
        """How many the old owner's epoch has that the stream has not."""
        assert self.done is not None
        info = self.geo.streams[STREAM]
        epochs = [e for stream, e in self.truth.shown if stream == info.id and e < self.done.epoch]
        shown = self.truth.shown.get((info.id, max(epochs, default=0)), {})
        return max(0, max(shown, default=0) - self.done.seq)


if __name__ == "__main__":
    import sys

    first, *rest = map(int, sys.argv[1:])
    for number in range(first, rest[0]) if rest else [first]:
        run = ForcedRun(number)
        run.run()
        run.check_restarts()
        print(number, run.done, run.lost(), run.shown_behind_the_cut(), flush=True)
        if not rest:
            print("  " + "\n  ".join(run.narrative))
