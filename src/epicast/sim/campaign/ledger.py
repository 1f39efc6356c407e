"""What the campaign has done so far, over all its runs: a small file that counts up.

Seeds are noted under the version of the code they ran with, which is a digest of all of it that a
simulation can depend on. A new version does not undo what an older one has shown, but it is counted
by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from epicast.core import ConfigError, IntervalSet
from epicast.sim.campaign.running import Kind, SeedResult

_PARTS = ("core", "wire", "deployment", "protocols", "log", "sim")
_NOT_RUN = "planted"
"""Files called so are about bugs in copies of the sources; no simulation runs them."""
_FAILURES_KEPT = 100
_NO_END = 1 << 62


class KindTally(Struct):
    """What seeds of one kind add up to."""

    clean: int = 0
    failed: int = 0
    simulated_s: float = 0.0
    """Of the clean ones."""

    def add(self, result: SeedResult) -> None:
        if result.failure:
            self.failed += 1
        else:
            self.clean += 1
            self.simulated_s += result.simulated_s

    def include(self, other: KindTally) -> None:
        self.clean += other.clean
        self.failed += other.failed
        self.simulated_s += other.simulated_s

    @property
    def simulated_hours(self) -> float:
        return self.simulated_s / 3600


class Tally(Struct):
    """What seeds add up to."""

    seeds: int = 0
    simulated_s: float = 0.0
    core_s: float = 0.0
    messages: int = 0
    delivered: int = 0
    failed: int = 0
    longest_convergence_s: float = 0.0
    kinds: dict[Kind, KindTally] = field(default_factory=dict)
    """Files that are older than this count have none."""

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.simulated_s += result.simulated_s
        self.core_s += result.core_s
        self.messages += result.messages
        self.delivered += result.delivered
        self.failed += bool(result.failure)
        if not result.failure:
            self.longest_convergence_s = max(self.longest_convergence_s, result.converged_s)
        self.kinds.setdefault(result.kind, KindTally()).add(result)

    def include(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.simulated_s += other.simulated_s
        self.core_s += other.core_s
        self.messages += other.messages
        self.delivered += other.delivered
        self.failed += other.failed
        self.longest_convergence_s = max(self.longest_convergence_s, other.longest_convergence_s)
        for kind, theirs in other.kinds.items():
            self.kinds.setdefault(kind, KindTally()).include(theirs)

    def of_kinds(self, *kinds: Kind) -> KindTally:
        total = KindTally()
        for kind in kinds:
            total.include(self.kinds.get(kind, KindTally()))
        return total

    def told(self) -> str:
        """Simulated hours by what was simulated: a membership system takes minutes, a geoplex
        seconds, and tells much more."""
        streams, chains = self.of_kinds("streams"), self.of_kinds("chains")
        geoplexes, membership = self.of_kinds("streams", "chains"), self.of_kinds("membership")
        clean = self.seeds - self.failed
        unknown = clean - geoplexes.clean - membership.clean
        return (
            f"{clean:,} of {self.seeds:,} seeds clean: "
            f"{geoplexes.clean:,} geoplexes ({streams.clean:,} streams, {chains.clean:,} chains) "
            f"in {geoplexes.simulated_hours:.1f} simulated hours, "
            f"{membership.clean:,} membership systems in {membership.simulated_hours:.1f}"
            + (f", {unknown:,} of kinds that were not noted" if unknown else "")
            + f"; {self.messages:,} messages"
        )


class VersionNotes(Struct):
    done: list[tuple[int, int]] = field(default_factory=list)
    """Seeds, as ranges."""
    tally: Tally = field(default_factory=Tally)
    failures: dict[str, str] = field(default_factory=dict)
    """By seed, the first of them."""


class CampaignNotes(Struct):
    versions: dict[str, VersionNotes] = field(default_factory=dict)


class CampaignLedger:
    def __init__(self, path: Path, version: str | None = None) -> None:
        self._path = path
        self.version = version or code_version()
        self._notes = self._load()
        self._own = self._notes.versions.setdefault(self.version, VersionNotes())
        self._done = IntervalSet(self._own.done)

    def _load(self) -> CampaignNotes:
        if not self._path.exists():
            return CampaignNotes()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=CampaignNotes)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"{self._path}: not the notes of a campaign ({error}); name another file with "
                "--state, or remove this one"
            ) from error

    def seeds_to_run(self) -> Iterator[int]:
        """Those that no version has run, the lowest first. Results come in any order, so a campaign
        that is interrupted has left out seeds below the highest it counted."""
        done = IntervalSet()
        for notes in self._notes.versions.values():
            for first, last in notes.done:
                done.add(first, last)
        for first, last in done.missing(0, _NO_END):
            yield from range(first, last + 1)

    def note(self, result: SeedResult) -> None:
        if result.seed in self._done:
            return  # a seed is one run, however often it is run
        self._own.tally.add(result)
        if result.failure and len(self._own.failures) < _FAILURES_KEPT:
            self._own.failures[str(result.seed)] = result.failure
        # Last: if this is interrupted, the seed is run again rather than never.
        self._done.add(result.seed, result.seed)
        self._own.done = list(self._done)

    def save(self) -> None:
        """At once or not at all: a campaign may be stopped at any moment."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        writing = self._path.with_suffix(self._path.suffix + ".tmp")
        writing.write_bytes(msgspec.json.format(msgspec.json.encode(self._notes)))
        os.replace(writing, self._path)

    @property
    def of_this_version(self) -> Tally:
        return self._own.tally

    def of_all_versions(self) -> Tally:
        total = Tally()
        for notes in self._notes.versions.values():
            total.include(notes.tally)
        return total


def code_version() -> str:
    """A digest of the sources that simulations run."""
    root = Path(__file__).parents[2]
    digest = blake2b(digest_size=8)
    for part in _PARTS:
        for path in sorted((root / part).rglob("*.py")):
            if path.name.startswith(_NOT_RUN):
                continue
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
