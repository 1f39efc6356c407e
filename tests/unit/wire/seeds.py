"""The fuzz corpus: known inputs, kept as files so that they also pin the wire format.

`python -m tests.unit.wire.seeds` writes them anew; a difference is a change of the wire format and
needs a new wire version or, where older nodes can read it, a new revision.
"""

from pathlib import Path

from epicast.core import AnyMessage, EventBatch, Layered, Peer, Run
from epicast.wire import FrameEncoder, Handshake, Hello, encode_datagram
from tests.unit.wire.samples import Events, Fields, Ping, Reply

CORPUS = Path(__file__).with_name("corpus")


def seed_messages() -> dict[str, AnyMessage]:
    dense = EventBatch.build(
        7, 1, [b"alpha", b"", b"gamma"], keys=[b"a", b"b", b"a"], time=1_700_000_000_000_000_000
    )
    sparse = EventBatch.build(
        7, 10, [b"x" * 40, b"y"], seqs=[11, 15], last=20, epoch=3, time=[5, 6], kinds=[0, 1],
        runs=[Run(1, 1, 4), Run(2, 9, 7)],
    )  # fmt: skip
    deep: AnyMessage = Events(sparse)
    for layer in (0, 1, 4_000_000_000):
        deep = Layered(layer, deep)
    peers = (Peer(1, "127.0.0.1", 7400), Peer(2**64 - 1, "host.example", 1))
    return {
        "ping": Ping(),
        "fields": Fields(-5, "grüße", b"\x00\xff", peers, {"a": [1, 2], "b": []}, 0.5),
        "events": Events(dense),
        "reply": Reply(9, [dense, sparse.slice(12, 18)], "note", sparse),
        "layered": deep,
        "empty-batch": Events(EventBatch.build(1, 5, [], last=9, seqs=[])),
    }


def seeds() -> dict[str, bytes]:
    """File name to contents; the suffix says which decoder the bytes are for."""
    messages = seed_messages()
    encoder = FrameEncoder()
    files = {
        f"{name}.frame": b"".join(encoder.encode(message)) for name, message in messages.items()
    }
    small = [messages["ping"], messages["fields"], messages["layered"]]
    files["several.datagram"] = encode_datagram(3, 1, small)
    files["events.datagram"] = encode_datagram(2**64 - 1, 2**40, [messages["events"]])
    hello = Hello(Peer(12, "127.0.0.1", 7400), 3, "epicast")
    files["hello.handshake"] = Handshake(hello).outgoing
    return files


def main() -> None:
    CORPUS.mkdir(exist_ok=True)
    for old in CORPUS.iterdir():
        old.unlink()
    for name, contents in sorted(seeds().items()):
        (CORPUS / name).write_bytes(contents)
        print(f"{name}: {len(contents)} bytes")


if __name__ == "__main__":
    main()
