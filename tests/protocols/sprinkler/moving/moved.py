"""A run drawn from a seed: streams are moved from region to region while replicas, links and the
coordination service fail. What is true is what was shown, as in `chained`.

    python -m tests.protocols.sprinkler.moving.moved FIRST LAST
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from epicast.core import EventBatch, NodeId, Trace
from epicast.protocols.sprinkler.moving.messages import MoveOutcome, MoveReply
from epicast.sim.node import SimNode
from tests.protocols.sprinkler.chain.chained import (
    MS,
    SECOND,
    TROUBLE,
    ChainedRun,
    proxy_of,
)

REPLAY = "python -m tests.protocols.sprinkler.moving.moved {seed}"


class MovedRun(ChainedRun):
    """Moves in good order: whatever fails meanwhile, no subscriber notices."""

    replay = REPLAY
    pace = (20, 50, 100)

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        super().__init__(seed, trace)
        self.truth.of_chains = set()
        self.replies: list[MoveReply] = []

    def _witness(self, stream: int, end: int, batches: Sequence[EventBatch], news: bool) -> None:
        """A region that is no chain has none, and may have had the stream before."""

    def _draw_regions(self, rng: Random) -> list[str]:
        return ["a", "b", "c"][: rng.choice((2, 3, 3))]

    def _draw_replicas(self, rng: Random, region: str) -> int:
        return rng.choice((1, 1, 1, 2, 3))

    def _plan_trouble(self) -> None:
        rng = self._rng("trouble")
        kinds = (
            self._crash, self._crash, self._crash_silently, self._crash_all, self._pause,
            self._cut, self._cut, self._cut_off_coordination, self._crash_coordination,
        )  # fmt: skip
        for _ in range(rng.choice((0, 1, 2, 4, 8))):
            at = rng.randrange(*TROUBLE)
            until = min(TROUBLE[1], at + rng.randrange(20 * MS, 3 * SECOND))
            self._at(at, rng.choice(kinds), (Random(rng.random()), until))
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(SECOND // 2, TROUBLE[1])
            target = rng.choice(self.regions)
            self._at(at, self._move, (rng.choice(self.streams), target))
            if rng.random() < 0.7:  # something goes wrong in the midst of it
                at += rng.randrange(200 * MS)
                until = at + rng.randrange(20 * MS, 2 * SECOND)
                self._at(at, rng.choice(kinds), (Random(rng.random()), until))

    def _move(self, stream: str, target: str) -> None:
        """Asked of everybody: only who owns it takes notice."""
        self._tell(f"move {stream} from {self.owners(stream)} to {target}", self.simulation.now)
        for region in self.regions:
            for node in self.geo.replicas[region]:
                if node.alive:
                    self.geo.ask_to_move(stream, target, node)

    def _on_notice(self, time: int, node: NodeId, number: int, value: object) -> None:
        super()._on_notice(time, node, number, value)
        if isinstance(value, MoveReply) and value.outcome is not MoveOutcome.ELSEWHERE:
            self.replies.append(value)
            self._tell(f"{value.outcome.name} {value.detail}", time)

    def owners(self, stream: str) -> set[tuple[str, int]]:
        identity = self.geo.streams[stream].id
        return {proxy_of(node).owner_of(identity) for node in self._live()}

    def _live(self) -> list[SimNode]:
        return [node for region in self.regions for node in self.geo.replicas[region] if node.alive]

    def _unfinished(self) -> str:
        problem = super()._unfinished()
        for name, info in self.geo.streams.items():
            owners = self.owners(name)
            owning = {
                region
                for region in self.regions
                for node in self.geo.replicas[region]
                if proxy_of(node).owns(info.id)
            }
            if len(owners) > 1 or owning != {owner for owner, _ in owners}:
                return f"{name} is owned by {owners}, numbered in {owning}"
        return problem

    @property
    def moves(self) -> int:
        return sum(reply.outcome in (MoveOutcome.DONE, MoveOutcome.GIVEN) for reply in self.replies)


if __name__ == "__main__":
    import sys

    first, *rest = map(int, sys.argv[1:])
    for number in range(first, rest[0]) if rest else [first]:
        run = MovedRun(number)
        truth = run.run()
        print(number, run.moves, len(run.replies), len(truth.acknowledged), flush=True)
        if not rest:
            print("  " + "\n  ".join(run.narrative))
