"""The incremental decoder: same messages whatever the chunks, and no memory held for nothing."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epicast.core import AnyMessage, EventBatch, WireError
from epicast.wire import FrameDecoder, FrameEncoder
from tests.unit.wire.samples import Events, Fields, Ping, messages

ENCODER = FrameEncoder()


def stream_of(sent: list[AnyMessage]) -> bytes:
    return b"".join(b"".join(ENCODER.encode(message)) for message in sent)


@given(
    st.lists(messages(), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=30),
    st.sampled_from([64, 256, 1 << 20]),
    st.booleans(),
)
def test_any_chunks_give_the_same_messages(
    sent: list[AnyMessage], chunks: list[int], block_bytes: int, keep: bool
) -> None:
    stream = stream_of(sent)
    decoder = FrameDecoder(block_bytes=block_bytes)
    kept: list[AnyMessage] = []
    count = position = turn = 0
    while position < len(stream):
        buffer = decoder.get_buffer()
        size = min(chunks[turn % len(chunks)], len(buffer), len(stream) - position)
        buffer[:size] = stream[position : position + size]
        del buffer
        for message in decoder.received(size):
            # Dropping messages lets blocks be used again while later ones are compared.
            assert message == sent[count]
            count += 1
            if keep:
                kept.append(message)
        position += size
        turn += 1
    assert count == len(sent)
    assert decoder.buffered_bytes == 0
    if keep:
        assert kept == sent


@given(st.lists(messages(), min_size=1, max_size=4), st.integers(1, 300))
@settings(max_examples=50)
def test_messages_before_an_error_are_returned(sent: list[AnyMessage], chunk: int) -> None:
    stream = stream_of(sent) + pack("<II", 3, 0)
    decoder = FrameDecoder(block_bytes=128)
    found: list[AnyMessage] = []
    for start in range(0, len(stream), chunk):
        found += decoder.feed(stream[start : start + chunk])
        if decoder.error is not None:
            break
    assert found == sent
    assert decoder.error is not None
    assert decoder.error.reason == "malformed"


def test_dead_after_an_error() -> None:
    decoder = FrameDecoder()
    good = stream_of([Ping()])
    bad = bytearray(good)
    bad[-1] ^= 1
    assert decoder.feed(bad + good) == []
    for call in (decoder.get_buffer, lambda: decoder.received(1), lambda: decoder.feed(good)):
        with pytest.raises(WireError) as caught:
            call()
        assert caught.value.reason == "corrupt"


def test_large_frame_is_refused_before_it_is_received() -> None:
    decoder = FrameDecoder(max_frame_bytes=1000)
    decoder.feed(pack("<I", 993))
    assert decoder.error is None
    decoder.feed(pack("<I", 0))
    assert decoder.error is not None
    assert decoder.error.reason == "too_large"


def test_frame_of_exactly_the_maximum() -> None:
    message = Fields(0, "", bytes(900))
    size = message.wire_size()
    assert FrameDecoder(max_frame_bytes=size, block_bytes=64).feed(stream_of([message])) == [
        message
    ]
    decoder = FrameDecoder(max_frame_bytes=size - 1, block_bytes=64)
    assert decoder.feed(stream_of([message])) == []
    assert decoder.error is not None


def block_sizes(decoder: FrameDecoder) -> list[int]:
    return [len(block) for block in [decoder._block, *decoder._retired]]


def batch_stream(count: int) -> tuple[list[AnyMessage], bytes]:
    sent: list[AnyMessage] = [
        Events(EventBatch.build(1, 1 + 10 * i, [b"%d" % (i % 10) * 20] * 10)) for i in range(count)
    ]
    return sent, stream_of(sent)


def test_one_block_is_enough_if_nobody_keeps_messages() -> None:
    decoder = FrameDecoder(block_bytes=4096)
    _, stream = batch_stream(500)
    blocks = set()
    position = 0
    while position < len(stream):
        buffer = decoder.get_buffer()
        size = min(700, len(buffer), len(stream) - position)
        buffer[:size] = stream[position : position + size]
        del buffer
        decoder.received(size)
        position += size
        blocks.add(id(decoder._block))
    assert len(blocks) == 1
    assert block_sizes(decoder) == [4096]


def test_kept_messages_are_never_overwritten() -> None:
    decoder = FrameDecoder(block_bytes=4096)
    sent, stream = batch_stream(500)
    kept: list[tuple[int, AnyMessage]] = []
    count = 0
    for start in range(0, len(stream), 700):
        for message in decoder.feed(stream[start : start + 700]):
            if count % 7 == 0:
                kept.append((count, message))
            count += 1
        if len(kept) > 20:
            del kept[:10]
        assert all(message == sent[index] for index, message in kept)
    assert len(block_sizes(decoder)) <= 17


def test_a_slice_of_a_batch_protects_its_block() -> None:
    decoder = FrameDecoder(block_bytes=4096)
    sent, stream = batch_stream(1)
    (message,) = decoder.feed(stream)
    assert isinstance(message, Events)
    part = message.batch.slice(3, 4)
    del message
    decoder.feed(batch_stream(200)[1])
    expected = sent[0]
    assert isinstance(expected, Events)
    assert part.payloads() == expected.batch.slice(3, 4).payloads()


def test_large_block_is_given_up_after_the_large_frame() -> None:
    decoder = FrameDecoder(block_bytes=4096)
    large = Events(EventBatch.build(1, 1, [bytes(50_000)]))
    for _ in range(3):
        assert decoder.feed(stream_of([large])) == [large]
        assert len(decoder._block) >= 50_000
        messages = decoder.feed(batch_stream(100)[1])
        assert len(messages) == 100
        assert max(block_sizes(decoder)) <= 4096 * 13
