"""What lpbcast does, computed: the analysis of section 4 of the paper.

Processes gossip in synchronous rounds, views are uniform, an infected process gossips the event in
every round to `fanout` others. A message is lost with probability `loss`, its target has crashed
with probability `crash`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, log1p

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from epicast.core import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_NODES = 10_000_000
EXACT_NODES = 1000
"""Up to so many nodes the chain is computed; beyond, it is drawn from `_DRAWS` times."""
_DRAWS = 4000
_MAX_ROUNDS = 10_000


class Spread(Struct, frozen=True, kw_only=True):
    """How an event spreads in a system of `nodes` processes."""

    nodes: int
    fanout: int
    loss: float = 0.05
    crash: float = 0.01

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= MAX_NODES:
            raise ConfigError(f"nodes: {self.nodes} is not between 2 and {MAX_NODES:,}")
        if not 1 <= self.fanout < self.nodes:
            raise ConfigError(f"fanout: {self.fanout} is not between 1 and {self.nodes - 1}")
        for name in ("loss", "crash"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not in [0, 1)")

    @property
    def infection(self) -> float:
        """The probability p that one gossip infects a given process (equation 1)."""
        return self.fanout / (self.nodes - 1) * (1 - self.loss) * (1 - self.crash)

    def infected(self, rounds: int) -> list[float]:
        """Expected number of infected processes after 0, 1, … rounds."""
        ways = self._distributions()
        return [next(ways)[0] for _ in range(rounds + 1)]

    def rounds_to(self, share: float = 0.99) -> float:
        """Expected number of rounds until this share of the processes is infected: the sum over
        the rounds of the probability that it is not yet."""
        if not 0 < share <= 1:
            raise ConfigError(f"share: {share} is not above 0 and at most 1")
        rounds = 0.0
        for number, (_, below) in enumerate(self._distributions(ceil(share * self.nodes))):
            if below < 1e-9:
                return rounds
            if number == _MAX_ROUNDS:
                break
            rounds += below
        return inf

    def rounds_until_delivered(self, reliability: float) -> int:
        """After how many rounds a given process has a given event with this probability."""
        for number, (expected, _) in enumerate(self._distributions()):
            if expected >= reliability * self.nodes:
                return number
            if number == _MAX_ROUNDS:
                break
        raise ConfigError(
            f"reliability: {reliability} is out of reach of a fanout of {self.fanout} with a loss "
            f"of {self.loss}"
        )

    def _distributions(self, wanted: int = 0) -> Iterator[tuple[float, float]]:
        """Per round: expected number infected, probability of fewer than `wanted`."""
        return self._computed(wanted) if self.nodes <= EXACT_NODES else self._drawn(wanted)

    def _computed(self, wanted: int) -> Iterator[tuple[float, float]]:
        steps = transitions(self.nodes, self.infection)
        counts = np.arange(1, self.nodes + 1)
        state = np.zeros(self.nodes)
        state[0] = 1.0
        while True:
            yield float(state @ counts), float(state[: max(0, wanted - 1)].sum())
            state = state @ steps

    def _drawn(self, wanted: int) -> Iterator[tuple[float, float]]:
        """Runs of the same chain, from a generator of its own: the same for the same system."""
        rng = np.random.default_rng([self.nodes, self.fanout, round(1e9 * self.infection)])
        infected = np.ones(_DRAWS, dtype=np.int64)
        escape = log1p(-self.infection)
        while True:
            yield float(infected.mean()), float((infected < wanted).mean())
            chance = -np.expm1(infected * escape)
            infected = infected + rng.binomial(self.nodes - infected, chance)


def transitions(nodes: int, infection: float) -> Floats:
    """The Markov chain (equation 2): row i-1, column j-1 is the probability to go from i infected
    processes to j."""
    factorials = _log_factorials(nodes)
    infected = np.arange(1, nodes + 1)
    i, j = infected[:, None], infected[None, :]
    escape = log1p(-infection)  # of a process, from one gossip
    caught = np.log(-np.expm1(i * escape))
    logs = (
        factorials[nodes - i]
        - factorials[np.maximum(j - i, 0)]
        - factorials[nodes - j]
        + (j - i) * caught
        + i * escape * (nodes - j)
    )
    return np.where(j >= i, np.exp(np.where(j >= i, logs, -inf)), 0.0)


def partition_chances(nodes: int, view: int) -> Floats:
    """Psi for the sizes view + 1 to nodes / 2: how likely so many processes know only each other,
    and all others only each other (equation 4)."""
    if not 1 <= view < nodes <= MAX_NODES:
        raise ConfigError(f"view: {view} of {nodes} nodes; it is 1 to {nodes - 1}")
    factorials = _log_factorials(nodes)

    def choose(n: Ints, k: int | Ints) -> Floats:
        chosen: Floats = factorials[n] - factorials[k] - factorials[n - k]
        return chosen

    sizes = np.arange(view + 1, nodes // 2 + 1)
    if not len(sizes):
        return np.zeros(0)
    anyhow = choose(np.array([nodes - 1]), view)
    inside = choose(sizes - 1, view) - anyhow
    outside = choose(nodes - sizes - 1, view) - anyhow
    ways = choose(np.full(len(sizes), nodes), sizes)
    return np.exp(ways + sizes * inside + (nodes - sizes) * outside)


def partition_chance_per_round(nodes: int, view: int) -> float:
    """That the views of a round fall apart, whatever the sizes (the sum of equation 5)."""
    return min(1.0, float(partition_chances(nodes, view).sum()))


def rounds_to_partition(nodes: int, view: int, probability: float = 0.9) -> float:
    """After how many rounds the system has fallen apart with this probability (equation 5)."""
    chance = partition_chance_per_round(nodes, view)
    if chance <= 0:
        return inf
    if chance >= 1:
        return 1.0
    return log1p(-probability) / log1p(-chance)


def _log_factorials(n: int) -> Floats:
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
