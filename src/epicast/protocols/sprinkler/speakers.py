"""Who speaks for other regions: where these are chains, one replica at a time."""

from __future__ import annotations

from collections.abc import Mapping

from epicast.core import NodeId


class Speakers:
    def __init__(self, region_ids: Mapping[NodeId, int]) -> None:
        """`region_ids`: of proxies whose region is not called as they are themselves."""
        self._region_ids = region_ids
        self._speakers: dict[int, tuple[int, NodeId]] = {}
        """By region: the configuration of its chain, and the replica that speaks for it."""

    def region_of(self, proxy: NodeId) -> int:
        return self._region_ids.get(proxy, proxy)

    def speaker_of(self, region: int) -> NodeId:
        """0: nobody has spoken."""
        return self._speakers.get(region, (0, 0))[1]

    def heard(self, proxy: NodeId, chain: int) -> tuple[bool, NodeId]:
        """Somebody speaks for a configuration of its chain: whether that is new, and who spoke
        before and does not any more, if anybody."""
        region = self.region_of(proxy)
        known, speaker = self._speakers.get(region, (0, proxy))
        if chain < known:
            return False, 0
        self._speakers[region] = (chain, proxy)
        return chain > known, speaker if speaker != proxy else 0
