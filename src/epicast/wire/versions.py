"""Versions of the wire format, and the reasons for which input is rejected."""

from __future__ import annotations

from typing import NamedTuple

from epicast.core import WireError

WIRE_VERSION = 1
"""What this code speaks. Grows with every change that an older node could not read."""
WIRE_REVISION = 8
"""Grows with every other change of messages: new types, new fields at the end. A recording of each
is in `tests/compatibility`; docs/wire.md has the policy."""

REASONS = ("too_large", "corrupt", "unknown_version", "unknown_type", "malformed", "handshake")
"""Every `WireError.reason` there is: metrics are counted by them."""


class VersionRange(NamedTuple):
    """The oldest and the newest version a node speaks."""

    oldest: int = WIRE_VERSION
    newest: int = WIRE_VERSION

    def common_with(self, other: VersionRange) -> int:
        """The newest version both speak."""
        version = min(self.newest, other.newest)
        if version < max(self.oldest, other.oldest):
            raise WireError(
                "unknown_version",
                f"the peer speaks wire versions {other.oldest}..{other.newest}, this node "
                f"{self.oldest}..{self.newest}; upgrade the older of the two",
            )
        return version


SPOKEN_VERSIONS = VersionRange()
