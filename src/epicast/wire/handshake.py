"""The first bytes of a connection: who is there, and which version to speak.

Both sides send, at once and without waiting for each other:

    4 bytes magic "EPIC", u16 oldest and u16 newest wire version
    u16 length of the greeting, u16 zero, u32 crc32c of everything before and behind these 4 bytes
    the greeting: a MessagePack array [[id, host, port], incarnation, cluster,
        revision, token, ...]

This much never changes, whatever the version: it is what makes versions negotiable. Later versions
may add entries to the greeting, older ones ignore them. Frames of the newest common version follow.
"""

from __future__ import annotations

from struct import Struct as Layout

from crc32c import crc32c
from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from epicast.core import (
    COORDINATION_ID,
    MAX_HOST_CHARACTERS,
    MAX_NODE_ID,
    Buffer,
    ConfigError,
    NodeId,
    Peer,
    WireError,
)
from epicast.wire.versions import SPOKEN_VERSIONS, VersionRange

MAGIC = b"EPIC"
MAX_GREETING_BYTES = 1024
MAX_NAME_CHARACTERS = MAX_HOST_CHARACTERS
"""Of a host or a cluster name."""
MAX_TOKEN_CHARACTERS = 256

_PREAMBLE = Layout("<4sHH")
_FIXED = Layout("<4sHHHHI")
_CHECKSUM = Layout("<I")
MAX_HANDSHAKE_BYTES = _FIXED.size + MAX_GREETING_BYTES


class Hello(Struct, frozen=True, array_like=True):
    """What a node says about itself."""

    node: Peer
    incarnation: int
    """Grows with every start of the node."""
    cluster: str
    """Nodes of different clusters do not talk, whatever their ids."""
    revision: int = 0
    """Which messages it knows: its `WIRE_REVISION`; 0 if it is too old to say."""
    token: str = ""
    """The secret of who dials, on an encrypted connection only."""

    def __repr__(self) -> str:
        """Without the token: what is printed ends up in logs."""
        return f"Hello({self.node}, incarnation={self.incarnation}, cluster={self.cluster!r})"


class Handshake:
    """One side of a handshake: send `outgoing`, give `received` what comes until `remote` is set.

    With `expected`, any other node at the other end is an error; with `any_cluster`, a node of
    another cluster is none.
    """

    __slots__ = (
        "_any_cluster",
        "_expected",
        "_local",
        "_versions",
        "outgoing",
        "remote",
        "version",
    )

    def __init__(
        self,
        local: Hello,
        expected: NodeId | None = None,
        versions: VersionRange = SPOKEN_VERSIONS,
        *,
        any_cluster: bool = False,
    ) -> None:
        self._any_cluster = any_cluster
        self._local = local
        self._expected = expected
        self._versions = versions
        self.outgoing = _encode(local, versions)
        self.remote: Hello | None = None
        self.version = 0
        """The version to speak, once `remote` is set."""

    def received(self, data: Buffer) -> int:
        """Look at all that came so far; how many bytes the handshake took, 0 if it needs more."""
        view = memoryview(data)
        if bytes(view[:4]) != MAGIC[: len(view)]:
            raise WireError("handshake", "the peer does not speak this protocol: no magic number")
        if len(view) < _PREAMBLE.size:
            return 0
        _, oldest, newest = _PREAMBLE.unpack_from(view)
        version = self._versions.common_with(VersionRange(oldest, newest))
        if len(view) < _FIXED.size:
            return 0
        _, _, _, length, zero, checksum = _FIXED.unpack_from(view)
        if length > MAX_GREETING_BYTES or zero:
            raise WireError("handshake", f"a greeting of {length} bytes, flags {zero:#x}")
        end: int = _FIXED.size + length
        if len(view) < end:
            return 0
        covered = crc32c(view[: _FIXED.size - _CHECKSUM.size])
        if crc32c(view[_FIXED.size : end], covered) != checksum:
            raise WireError("corrupt", "the checksum of the greeting does not match")
        self.remote = self._checked(view[_FIXED.size : end])
        self.version = version
        return end

    def _checked(self, greeting: memoryview) -> Hello:
        try:
            hello = _decoder.decode(greeting)
        except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise WireError("handshake", f"a greeting that cannot be read: {error}") from error
        problem = _problem(hello)
        if problem:
            raise WireError("handshake", f"a greeting with {problem}")
        if hello.cluster != self._local.cluster and not self._any_cluster:
            raise WireError(
                "handshake",
                f"node {hello.node} belongs to cluster {hello.cluster!r}, "
                f"this node to {self._local.cluster!r}",
            )
        if self._expected is not None and hello.node.id != self._expected:
            raise WireError(
                "handshake", f"node {self._expected} was expected, {hello.node} answered"
            )
        if hello.node.id == self._local.node.id:
            raise WireError(
                "handshake",
                f"{hello.node} has this node's own id {self._local.node.id}: "
                "a connection to itself, or an id that is used twice",
            )
        return hello


def _encode(local: Hello, versions: VersionRange) -> bytes:
    problem = _problem(local)
    if problem:
        raise ConfigError(f"this node cannot introduce itself with {problem}")
    # Who has no token says what nodes have said since before there were any.
    introduction = (local.node, local.incarnation, local.cluster, local.revision)
    greeting = _encoder.encode(local if local.token else introduction)
    if len(greeting) > MAX_GREETING_BYTES:
        raise ConfigError(f"a greeting of {len(greeting)} bytes; shorten the names")
    head = _FIXED.pack(MAGIC, *versions, len(greeting), 0, 0)[: -_CHECKSUM.size]
    return head + _CHECKSUM.pack(crc32c(greeting, crc32c(head))) + greeting


def _problem(hello: Hello) -> str | None:
    """What is wrong with a greeting, in words."""
    node = hello.node
    if not 1 <= node.id <= MAX_NODE_ID:  # 0 stands for nobody, or for the node itself
        return f"the node id {node.id}, which is not a number from 1 to 2**64 - 1"
    if node.id == COORDINATION_ID:
        return f"the node id {node.id}, which is the coordination service's"
    if not 0 <= node.port <= 65535:
        return f"the port {node.port}"
    if not 0 <= hello.incarnation < 2**64:
        return f"the incarnation {hello.incarnation}"
    if not 0 <= hello.revision < 2**32:
        return f"the revision {hello.revision}"
    if max(len(node.host), len(hello.cluster)) > MAX_NAME_CHARACTERS:
        return f"a name of more than {MAX_NAME_CHARACTERS} characters"
    if not (node.host.isprintable() and hello.cluster.isprintable()):
        return "a name that cannot be printed"  # it would be, in logs
    if len(hello.token) > MAX_TOKEN_CHARACTERS:
        return f"a token of more than {MAX_TOKEN_CHARACTERS} characters"
    return None


_encoder = Encoder()
_decoder = Decoder(Hello)
