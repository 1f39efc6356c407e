"""What the campaign has done so far, over all its runs: a small file that counts up.

Seeds are noted under the version of the code they ran with, which is a digest of all of it that a
simulation can depend on. A new version does not undo what an older one has shown, but it is counted
by itself.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct, field

from epicast.core import ConfigError, IntervalSet
from epicast.sim.campaign.running import SeedResult

_PARTS = ("core", "wire", "deployment", "protocols", "log", "sim")
_NOT_RUN = "planted"
"""Files called so are about bugs in copies of the sources; no simulation runs them."""
_FAILURES_KEPT = 100


class Tally(Struct):
    """What seeds add up to."""

    seeds: int = 0
    simulated_s: float = 0.0
    core_s: float = 0.0
    messages: int = 0
    delivered: int = 0
    failed: int = 0
    longest_convergence_s: float = 0.0

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.simulated_s += result.simulated_s
        self.core_s += result.core_s
        self.messages += result.messages
        self.delivered += result.delivered
        self.failed += bool(result.failure)
        if not result.failure:
            self.longest_convergence_s = max(self.longest_convergence_s, result.converged_s)

    def told(self) -> str:
        return (
            f"{self.seeds - self.failed:,} of {self.seeds:,} seeds clean, "
            f"{self.simulated_s / 3600:.1f} simulated hours, {self.messages:,} messages"
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

    @property
    def next_seed(self) -> int:
        """Behind all seeds that any version has run."""
        lasts = [last for notes in self._notes.versions.values() for _, last in notes.done]
        return max(lasts, default=-1) + 1

    def note(self, result: SeedResult) -> None:
        if not self._done.add(result.seed, result.seed):
            return  # a seed is one run, however often it is run
        self._own.done = list(self._done)
        self._own.tally.add(result)
        if result.failure and len(self._own.failures) < _FAILURES_KEPT:
            self._own.failures[str(result.seed)] = result.failure

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
            for name in Tally.__struct_fields__:
                value = getattr(notes.tally, name)
                joined = max if name.startswith("longest") else _sum
                setattr(total, name, joined(getattr(total, name), value))
        return total


def _sum(one: float, other: float) -> float:
    return one + other


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
