"""Damaged input, and what decoders may do with it: decode it or raise `WireError`, nothing else.

Half of the damaged frames get a correct length and checksum again, so that the damage reaches the
code behind the checksum.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from struct import pack_into

from crc32c import crc32c

from epicast.core import AnyMessage, EventBatch, Layered, Peer, WireError
from epicast.wire import FrameDecoder, FrameEncoder, Handshake, Hello, decode_datagram
from epicast.wire.datagrams import DATAGRAM_HEADER_BYTES
from epicast.wire.registry import UnknownType

INTERESTING = (0, 1, 7, 8, 15, 16, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_LOCAL = Hello(Peer(99, "127.0.0.1", 1), 1, "epicast")
_MAX_FRAME_BYTES = 1 << 16


def load_corpus(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def mutate(rng: Random, original: bytes, others: Sequence[bytes]) -> bytearray:
    """One to four pieces of damage."""
    data = bytearray(original)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(8)
        if kind == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = data[at : at + rng.randrange(1, 40)]
        elif kind == 4:
            other = rng.choice(others)
            data[at:] = other[rng.randrange(len(other)) :]
        elif kind == 5:
            del data[at : at + rng.randrange(1, 8)]
        elif kind == 6 and len(data) >= 4:
            pack_into("<I", data, min(at, len(data) - 4), rng.choice(INTERESTING))
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 16))
    return data


def repair_frame(data: bytearray) -> None:
    """Make length and checksum right, whatever the rest is."""
    if len(data) >= 16:
        pack_into("<II", data, 0, len(data) - 8, crc32c(memoryview(data)[8:]))


def repair_datagram(data: bytearray) -> None:
    if len(data) >= DATAGRAM_HEADER_BYTES:
        view = memoryview(data)
        checksum = crc32c(view[DATAGRAM_HEADER_BYTES:], crc32c(view[:24]))
        pack_into("<I", data, 24, checksum)


def repair_handshake(data: bytearray) -> None:
    if len(data) >= 16:
        pack_into("<HH", data, 8, min(len(data) - 16, 1024), 0)
        view = memoryview(data)
        pack_into("<I", data, 12, crc32c(view[16:], crc32c(view[:12])))


REPAIRS = {"frame": repair_frame, "datagram": repair_datagram, "handshake": repair_handshake}


def decode(rng: Random, kind: str, data: bytearray) -> list[AnyMessage]:
    """Decode as a node would; raises what the node would see."""
    if kind == "datagram":
        datagram = decode_datagram(data)
        _note_unknown(datagram.unknown)
        return datagram.messages
    if kind == "handshake":
        Handshake(_LOCAL).received(data)
        return []
    decoder = FrameDecoder(_MAX_FRAME_BYTES, block_bytes=4096)
    if rng.random() < 0.2:
        cut = rng.randrange(len(data) + 1)
        messages = decoder.feed(data[:cut])
        if decoder.error is None:
            messages += decoder.feed(data[cut:])
    else:
        messages = decoder.feed(data)
    if decoder.error is not None:
        raise decoder.error
    _note_unknown(decoder.unknown)
    return messages


def _note_unknown(type_ids: Sequence[int]) -> None:
    """A node passes over what it does not know; here it is an outcome like the others."""
    if type_ids:
        raise UnknownType(type_ids[0])


def use(messages: Iterable[AnyMessage], encoder: FrameEncoder) -> None:
    """What was decoded must be usable: looked at, sliced, encoded again."""
    for message in messages:
        encoder.encode(message)
        while isinstance(message, Layered):
            message = message.message
        for value in (getattr(message, name) for name in message.__struct_fields__):
            for batch in value if isinstance(value, list) else [value]:
                if isinstance(batch, EventBatch):
                    batch.events()
                    if batch.first < batch.last:
                        batch.slice(batch.first + 1, batch.last).encode()


def run_mutations(
    corpus: dict[str, bytes], count: int, seed: int
) -> tuple[Counter[str], list[tuple[str, str, str]]]:
    """Outcomes by name, and (file, input in hex, error) for each exception that must not be."""
    rng = Random(seed)
    names, everything = sorted(corpus), [corpus[name] for name in sorted(corpus)]
    encoder = FrameEncoder()
    outcomes: Counter[str] = Counter()
    unexpected: list[tuple[str, str, str]] = []
    for _ in range(count):
        name = rng.choice(names)
        kind = name.rpartition(".")[2]
        data = mutate(rng, corpus[name], everything)
        if rng.random() < 0.5:
            REPAIRS[kind](data)
        try:
            messages = decode(rng, kind, data)
            use(messages, encoder)
            outcomes["decoded" if messages else "incomplete"] += 1
        except WireError as error:
            outcomes[error.reason] += 1
        except Exception as error:  # the finding itself
            outcomes["unexpected"] += 1
            unexpected.append((name, data.hex(), repr(error)))
    return outcomes, unexpected
