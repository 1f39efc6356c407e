"""What a stream collects by itself."""

from __future__ import annotations

from typing import Protocol as Interface

from epicast.core import Config, ConfigError
from epicast.log.errors import PredicateError
from epicast.log.predicate import Predicate, describe, plan


class GcPolicy(Config, frozen=True, kw_only=True):
    """Policies may be combined; explicit GC events work beside all of them.

    `latest_per_key`: an event with a key collects all older events with the same key.

    `last_n`: an event collects everything but the `last_n` newest numbers. The paper's event at
    index i collects "all with indices less than i - N", which keeps N + 1 of them: for its
    benchmark (everything below i - 10^8) say 100_000_001.

    `max_age_ns`: the owner of the stream appends GC events, see `History.expiry`. Others only obey
    them.
    """

    latest_per_key: bool = False
    last_n: int | None = None
    max_age_ns: int | None = None

    def __post_init__(self) -> None:
        if self.last_n is not None and self.last_n < 1:
            raise ConfigError(f"last_n: {self.last_n} is not at least 1")
        if self.max_age_ns is not None and self.max_age_ns < 1:
            raise ConfigError(f"max_age_ns: {self.max_age_ns} is not at least 1")

    @property
    def collects(self) -> bool:
        """Whether any event may collect others, not only GC events."""
        return self.latest_per_key or self.last_n is not None

    def check(self, predicate: Predicate) -> None:
        """Refuse a predicate that this policy would keep from collecting anything but trifles.

        Under `latest_per_key` an event with a key is itself a GC event: what it collected stays
        collected only as long as it, or another event that matches as much, is there. So it may be
        collected only by a predicate that surely matches all older events with its key.
        """
        if self.latest_per_key and not plan(predicate).is_closed:
            raise PredicateError(
                0,
                "only tests of the key and `seq <` joined by `and` and `or`, since the stream "
                "keeps the latest event per key",
                describe(predicate),
            )


class Collected(Interface):
    """Whatever says how a stream is collected: an entry of a file, or what a proxy tells."""

    @property
    def latest_per_key(self) -> bool: ...
    @property
    def last_n(self) -> int | None: ...
    @property
    def max_age_ns(self) -> int | None: ...


def policy_of(stream: Collected) -> GcPolicy:
    return GcPolicy(
        latest_per_key=stream.latest_per_key, last_n=stream.last_n, max_age_ns=stream.max_age_ns
    )
