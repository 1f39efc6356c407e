"""Every bound and delay of a driver."""

from __future__ import annotations

from epicast.core import Config, ConfigError
from epicast.core.message import FRAME_HEADER_BYTES
from epicast.wire import DATAGRAM_HEADER_BYTES, DEFAULT_MAX_FRAME_BYTES

_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
UNLIMITED = 1 << 40
"""Of anything counted per connection, address or identity: as good as no limit."""


class Limits(Config, frozen=True, kw_only=True):
    """Bytes, nanoseconds and counts; all of them at least 1."""

    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    """A larger message is neither sent nor received."""
    receive_block_bytes: int = 1 << 20
    """What a connection receives into; batches in messages are views of it."""
    inbound_bytes: int = 256 << 10
    """Received on one connection and not handled yet; more is left in the socket for the next
    turn of the loop."""
    control_queue_bytes: int = 4 << 20
    """Waiting for one peer on CONTROL. A queue that would overflow ends the connection."""
    data_queue_bytes: int = 16 << 20
    """Waiting for one peer on DATA; `fx.room` is what is left of it."""
    transport_buffer_bytes: int = 256 << 10
    """Handed to the operating system's side of a connection at a time: what CONTROL cannot
    overtake any more."""
    max_connections: int = 1024
    """Peers connected, being connected to, or knocking."""
    max_connections_per_address: int = UNLIMITED
    """From one host, knocking or let in."""
    max_connections_per_identity: int = UNLIMITED
    """Of one identity, where connections have one; other proxies are not counted."""
    max_knocking: int = 1024
    """Who has connected and not been let in yet."""
    max_messages_per_second: int = UNLIMITED
    """On one connection that is not another proxy's; more is left in the socket until later."""
    max_receive_bytes_per_second: int = UNLIMITED
    """The same in bytes."""
    max_send_bytes_per_second: int = UNLIMITED
    """Of everything the node sends, in any second whenever it begins: datagrams and frames, with
    the headers of UDP, TCP and IP, without what the system repeats or acknowledges by itself and
    without the greetings of new connections. Datagrams beyond it are dropped, frames wait."""
    max_addresses: int = 65_536
    """Peers whose address is remembered; those not used for longest are forgotten."""
    connect_timeout_ns: int = 3 * _SECOND
    """For one attempt, and for a peer that knocks, until it has introduced itself."""
    connect_attempts: int = 4
    """Before a peer counts as down."""
    backoff_first_ns: int = 50 * _MILLISECOND
    """Before the second attempt; doubled before each further one, with up to half of it added or
    taken away at random."""
    backoff_max_ns: int = 2 * _SECOND
    idle_close_ns: int = 10 * _SECOND
    """After which a connection nobody here asked for is closed if nothing was sent on it."""
    keep_alive_ns: int = 5 * _SECOND
    """Silence after which the system asks whether the peer is still there, in whole seconds; if
    nobody answers for three more, the connection is lost."""
    stop_timeout_ns: int = 2 * _SECOND
    """For peers to take what is queued when the driver stops."""
    datagram_mtu: int = 1400
    """Bytes of a UDP payload; a message that does not fit is dropped."""
    datagram_queue_bytes: int = 1 << 20
    """Datagrams waiting for the socket; more are dropped."""
    inbound_datagrams: int = 4096
    """Datagrams received and not handled yet; more are dropped."""
    max_groups: int = 64
    """Multicast groups joined at a time."""
    append_queue_bytes: int = 64 << 20
    """Appended and not durable yet; more is refused with `on_append_failed`."""
    max_reads: int = 1024
    """Reads of history waiting for their turn; more are answered with nothing."""
    max_waiting_publishers: int = 1024
    """Calls of `publish` waiting for room."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is not at least 1")
        if self.max_frame_bytes < 1024:
            raise ConfigError(f"max_frame_bytes: {self.max_frame_bytes} is not at least 1024")
        smallest = DATAGRAM_HEADER_BYTES + FRAME_HEADER_BYTES + 1
        if not smallest <= self.datagram_mtu <= 65_507:
            raise ConfigError(f"datagram_mtu: {self.datagram_mtu} is not {smallest} to 65507")
        if self.backoff_max_ns < self.backoff_first_ns:
            raise ConfigError(
                f"backoff_max_ns: {self.backoff_max_ns} is less than backoff_first_ns "
                f"({self.backoff_first_ns})"
            )
