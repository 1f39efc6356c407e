"""Recorded versions of the wire format and of a proxy's files, and how they are recorded.

    python -m tests.compatibility.recording wire      # after raising WIRE_REVISION or WIRE_VERSION
    python -m tests.compatibility.recording data      # after raising the version of the log

A recording of a version that is out is never made again: it is what other nodes speak, and what is
on other people's disks. `--again` is for one that nobody has seen yet.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from epicast.core import EventBatch, EventKind, Message, Peer, Run
from epicast.log import gc_payload, parse
from epicast.log.segment import Header
from epicast.wire import (
    WIRE_REVISION,
    WIRE_VERSION,
    FrameEncoder,
    Handshake,
    encode_datagram,
    registered,
)
from epicast.wire.handshake import Hello
from tests.compatibility.schemas import PRIVATE_IDS, current_schema

FIXTURES = Path(__file__).parent / "fixtures"
HELLO = Hello(
    Peer(2**63 + 5, "proxy.example", 7400), 1_700_000_000_123_456_789, "test", WIRE_REVISION
)
GEOPLEX = """
name = "recorded"

[regions.us]
proxy = "127.0.0.1:{port}"
data = "{data}"

[streams.orders]
owner = "us"
ack = "disk"

[streams.prices]
owner = "us"
ack = "memory"
latest_per_key = true
"""
PUBLISHER = 77
ORDERS, PRICES, KEYS = 30, 100, 10
COLLECTED_BELOW = 10


class Recording(msgspec.Struct):
    """A version of the wire format."""

    version: int
    revision: int
    schema: dict[str, Any]
    handshake: str
    """Of a node `HELLO`, in hexadecimal digits, like all that follows."""
    datagram: str
    """With all messages that hold no events."""
    frames: dict[str, str]
    """By type id, a message with something in every field."""

    @property
    def name(self) -> str:
        return f"wire-{self.version}.{self.revision}.json"


def recordings() -> list[Recording]:
    """All there are, oldest first."""
    found = [
        msgspec.json.decode(path.read_bytes(), type=Recording)
        for path in FIXTURES.glob("wire-*.json")
    ]
    return sorted(found, key=lambda recording: (recording.version, recording.revision))


def record_now() -> Recording:
    """What this version would record."""
    encoder = FrameEncoder()
    samples = {number: sample(kind) for number, kind in released().items()}
    plain = [message for message in samples.values() if not holds_events(message)]
    return Recording(
        WIRE_VERSION,
        WIRE_REVISION,
        current_schema(),
        bytes(Handshake(HELLO).outgoing).hex(),
        encode_datagram(HELLO.node.id, 3, plain, mtu=1 << 16).hex(),
        {str(n): b"".join(encoder.encode(message)).hex() for n, message in samples.items()},
    )


def released() -> dict[int, type[Message]]:
    return {n: kind for n, kind in sorted(registered().items()) if n < PRIVATE_IDS}


def sample_batch() -> EventBatch:
    """With everything a batch can have: runs, tombstones, kinds, keys and times of their own."""
    return EventBatch.build(
        7,
        11,
        [b"value", b"", gc_payload(parse('key == "a"'))],
        keys=[b"a", b"key", b""],
        seqs=[11, 13, 14],
        last=16,
        kinds=[EventKind.DATA, EventKind.DATA, EventKind.GC],
        time=[1000, 2000, 3000],
        epoch=3,
        runs=[Run(77, 5, 4), Run(78, 1, 2)],
    )


def holds_events(message: Message) -> bool:
    return any(kind[1].find("batch") >= 0 for kind in _fields_of(message))


def _fields_of(message: Message) -> list[list[str]]:
    fields: list[list[str]] = current_schema()["messages"][str(message.type_id)]["fields"]
    return fields


def sample(kind: type[msgspec.Struct]) -> Any:
    """One with something in every field, and no two numbers alike."""
    return _Sampler().value(kind)


class _Sampler:
    def __init__(self) -> None:
        self._number = 0

    def value(self, kind: Any) -> Any:
        return self._value(msgspec.inspect.type_info(kind))

    def _value(self, info: Any) -> Any:
        inspect = msgspec.inspect
        match info:
            case inspect.IntType():
                self._number += 1
                return self._number * 1_000_003
            case inspect.StrType():
                self._number += 1
                return f"text {self._number}"
            case inspect.BytesType():
                return b"bytes"
            case inspect.BoolType():
                return True
            case inspect.FloatType():
                return 2.5
            case inspect.EnumType():
                return sorted(info.cls)[1]  # not the newest, which older nodes may not know
            case inspect.VarTupleType():
                return (self._value(info.item_type), self._value(info.item_type))
            case inspect.TupleType():
                return tuple(map(self._value, info.item_types))
            case inspect.UnionType():
                return self._value(next(t for t in info.types if t != inspect.NoneType()))
            case inspect.StructType():
                return info.cls(*(self._value(field.type) for field in info.fields))
            case inspect.CustomType() if info.cls is EventBatch:
                return sample_batch()
        raise TypeError(f"no sample of {info}")


# -- files of a proxy ------------------------------------------------------------------------------


def log_version() -> int:
    return int.from_bytes(Header(1, 1, 1).encode()[8:10], "little")


def write_data(folder: Path) -> None:
    """What a proxy of `GEOPLEX` leaves in its folder when it was used and stopped."""
    from epicast import sync
    from epicast.deployment import parse_geoplex
    from epicast.geo.local import LocalGeoplex

    geoplex = parse_geoplex(GEOPLEX.format(port=7400, data=folder), "recorded.toml")
    with (
        LocalGeoplex(geoplex, any_ports=True) as local,
        sync.connect(local.address("us"), agent=False, publisher=PUBLISHER) as node,
    ):
        for number in range(1, ORDERS + 1):
            node.stream("orders").publish(b"order %d" % number)
        node.stream("orders").collect(f"seq < {COLLECTED_BELOW}")
        for number in range(1, PRICES + 1):
            node.stream("prices").publish(b"price %d" % number, key=b"key %d" % (number % KEYS))


def main(arguments: list[str]) -> None:
    again = "--again" in arguments
    if "wire" in arguments:
        recording = record_now()
        path = FIXTURES / recording.name
        if path.exists() and not again:
            sys.exit(f"{path.name} is there: raise WIRE_REVISION or WIRE_VERSION first")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(msgspec.to_builtins(recording), indent=1) + "\n")
        print(path)
    if "data" in arguments:
        target = FIXTURES / f"data-{log_version()}"
        if target.exists() and not again:
            sys.exit(f"{target.name} is there: raise the version of the log first")
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory() as temporary:
            write_data(Path(temporary) / "data")
            ignored = shutil.ignore_patterns("lock", "*.tmp")
            shutil.copytree(Path(temporary) / "data", target, ignore=ignored)
        print(*sorted(path for path in target.rglob("*") if path.is_file()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
