"""Streams that change hands: whose they are, and what is true of them.

Who owns a stream is read from disks: what proxies that are alone have saved, and what chains have
agreed on in the coordination service. The highest tenure counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from epicast.log import GcPolicy, History
from epicast.protocols.sprinkler.moving.ledger import Ledger
from epicast.protocols.sprinkler.moving.tenure import Tenure
from epicast.sim.campaign.chained import ChainedTruth, Members, ReplicaLog
from epicast.sim.campaign.chains import Chains
from epicast.sim.campaign.faults import Fault, Move

_SAVED = "tenures"


def may_own(faults: Iterable[Fault], owners: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """By stream that is moved: the regions that own it at some time, or may."""
    found: dict[str, frozenset[str]] = {}
    for fault in faults:
        if isinstance(fault, Move):
            before = found.get(fault.stream, frozenset({owners[fault.stream]}))
            found[fault.stream] = before | {fault.to}
    return found


class Tenures:
    def __init__(self, chains: Chains, regions: Mapping[int, str]) -> None:
        """`regions`: the name of each."""
        self._chains = chains
        self._regions = regions
        self._known: dict[str, tuple[bytes, Mapping[int, Tenure]]] = {}
        """By region: what it had saved, and what that says."""

    def owner_of(self, stream: int, declared: str) -> str:
        """The region that numbers a stream, or, while nobody does, the one that did."""
        tenures = [t for region in self._regions.values() if (t := self._of(region, stream))]
        if not tenures:
            return declared
        last = max(tenures, key=lambda tenure: tenure.rank)
        return self._regions[last.owner if last.taken else last.giver]

    def _of(self, region: str, stream: int) -> Tenure | None:
        if self._chains.is_chain(region):
            agreed = self._chains.config(region).tenures
            return next((tenure for tenure in agreed if tenure.stream == stream), None)
        disk = self._chains.replicas[region].disk
        value = disk.saved(_SAVED) if disk is not None else None
        if value is None:
            return None
        known = self._known.get(region)
        if known is None or known[0] is not value:
            known = self._known[region] = (value, Ledger(0, {_SAVED: value}).tenures)
        return known[1].get(stream)


class MovedTruth(ChainedTruth):
    """What was shown, whoever owns the stream. All replicas of all regions may be those of the
    owner one day, so it is known of all of them what they have stored. Nothing of such a stream is
    ever lost: it is synced, and no region that may own it loses its last disk."""

    def __init__(
        self, name: str, policy: GcPolicy, owner: Callable[[], str], members: Members,
        listed: Members,
    ) -> None:  # fmt: skip
        self._owner = owner
        super().__init__(
            name, "", policy, synced=True, on_files=True, members=members, listed=listed
        )

    @property
    def region(self) -> str:
        return self._owner()

    @region.setter
    def region(self, _: str) -> None:
        """It is what disks say."""

    def replica_opened(self, replica: str, history: History, *, damaged: bool) -> None:
        log = self.logs.get(replica)
        if log is not None and not log.end and not history.end and self.has_begun(history.epoch):
            self.logs[replica] = ReplicaLog(history.epoch)  # the disk had no room for the events
        super().replica_opened(replica, history, damaged=damaged)
        if history.epoch and not self._begun:
            self._begun[history.epoch] = ReplicaLog(history.epoch)  # of an owner that is alone

    def settle(self) -> bool:
        return not any(log.end for log in self.logs.values()) or super().settle()
