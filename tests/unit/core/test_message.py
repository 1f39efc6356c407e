"""Bodies of messages: what goes in comes out, sizes are true, damage is a `WireError`."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epicast.core import BodyCodec, EventBatch, Layered, Message, Peer, WireError
from epicast.core.message import FRAME_HEADER_BYTES, LAYER_BYTES
from tests.unit.core.batches import batches


class Plain(Message):
    number: int
    text: str = ""
    peers: tuple[Peer, ...] = ()


class Carrier(Message):
    name: str
    one: EventBatch
    several: tuple[EventBatch, ...] = ()
    perhaps: EventBatch | None = None


class Odd(Message):
    thing: object


class Later(Message):
    """`Plain` as a newer version might have it."""

    number: int
    text: str = ""
    peers: tuple[Peer, ...] = ()
    added: int = 9


peers = st.builds(Peer, st.integers(0, 2**64 - 1), st.text(max_size=5), st.integers(0, 65535))
plain = st.builds(Plain, st.integers(-(2**63), 2**64 - 1), st.text(), st.lists(peers).map(tuple))
carriers = st.builds(
    Carrier,
    st.text(max_size=5),
    batches(),
    st.lists(batches(), max_size=3).map(tuple),
    st.none() | batches(),
)


def body_of(message: Message) -> tuple[bytes, int]:
    buffers = BodyCodec().encode(message)
    return b"".join(buffers), len(buffers[0])


@given(plain | carriers)
def test_there_and_back(message: Message) -> None:
    body, fields_bytes = body_of(message)
    assert BodyCodec().decode(type(message), memoryview(body), fields_bytes) == message
    assert message.wire_size() == FRAME_HEADER_BYTES + len(body)


@given(carriers)
def test_batches_are_views_of_the_received_buffer(message: Carrier) -> None:
    body, fields_bytes = body_of(message)
    decoded = BodyCodec().decode(Carrier, memoryview(body), fields_bytes)
    assert all(batch.data.obj is body for batch in (decoded.one, *decoded.several))


def test_a_batch_goes_out_as_its_own_buffers() -> None:
    batch = EventBatch.build(1, 1, [b"payload"])
    buffers = BodyCodec().encode(Carrier("x", batch))
    assert buffers[1] is batch.encode()[0]


@given(plain | carriers, st.data())
def test_truncated_bodies(message: Message, data: st.DataObject) -> None:
    body, fields_bytes = body_of(message)
    shorter = memoryview(body)[: data.draw(st.integers(0, len(body) - 1))]
    with pytest.raises(WireError, match="malformed"):
        BodyCodec().decode(type(message), shorter, fields_bytes)


def test_bytes_too_many() -> None:
    body, fields_bytes = body_of(Plain(1))
    with pytest.raises(WireError, match="1 bytes left"):
        BodyCodec().decode(Plain, memoryview(body + b"\0"), fields_bytes)


@given(
    plain | carriers,
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(-2, 2),
)
def test_damaged_bodies(message: Message, damage: list[tuple[int, int]], shift: int) -> None:
    body, fields_bytes = body_of(message)
    damaged = bytearray(body)
    for position, value in damage:
        damaged[position % len(damaged)] = value
    try:
        BodyCodec().decode(type(message), memoryview(damaged), max(0, fields_bytes + shift))
    except WireError as error:
        assert error.reason == "malformed"
        assert type(message).__name__ in error.detail


def test_a_great_deal_of_damage() -> None:
    rng = Random(11)
    batch = EventBatch.build(1, 5, [b"abc", b""], seqs=[5, 8], keys=[b"k", b""])
    body, fields_bytes = body_of(Carrier("name", batch, (batch, batch.slice(6, 8)), batch))
    codec = BodyCodec()
    for _ in range(20_000):
        damaged = bytearray(body)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xCE, 0xDD, 0xFF))
        try:
            codec.decode(Carrier, memoryview(damaged), fields_bytes)
        except WireError:
            continue


def test_deep_nesting_is_an_error_of_the_peer() -> None:
    with pytest.raises(WireError, match="malformed"):
        BodyCodec().decode(Odd, memoryview(b"\x91" * 100_000), 100_000)


def test_a_message_can_grow_at_its_end() -> None:
    old, old_fields = body_of(Plain(3, "x"))
    assert BodyCodec().decode(Later, memoryview(old), old_fields) == Later(3, "x", (), 9)
    new, new_fields = body_of(Later(3, "x", (), 4))
    assert BodyCodec().decode(Plain, memoryview(new), new_fields) == Plain(3, "x")


def test_what_cannot_be_carried_is_named() -> None:
    codec = BodyCodec()
    with pytest.raises(TypeError, match="cannot carry Random"):
        codec.encode(Odd(Random(1)))
    assert codec.body_size(Plain(1)) == len(body_of(Plain(1))[0])  # still usable


def test_an_idle_codec_pins_nothing() -> None:
    """A bytearray refuses to change its length while anything looks at it."""
    codec = BodyCodec()
    source = bytearray(b"".join(EventBatch.build(1, 1, [b"payload"]).encode()))
    message = Carrier("x", EventBatch.decode(source))
    body = bytearray().join(codec.encode(message))
    fields_bytes = len(body) - len(source)
    del message
    source.append(0)
    decoded = codec.decode(Carrier, memoryview(body), fields_bytes)
    with pytest.raises(BufferError):
        body.append(0)
    del decoded
    body.append(0)


def test_layers_add_to_the_size_and_compare_by_content() -> None:
    message = Plain(1, "text")
    layered = Layered(3, Layered(0, message))
    assert layered.wire_size() == 2 * LAYER_BYTES + message.wire_size()
    assert layered == Layered(3, Layered(0, Plain(1, "text")))
    assert layered != Layered(2, Layered(0, message))
    assert layered != message
