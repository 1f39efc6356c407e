"""The fast way to make events gives what the plain way gives."""

from hypothesis import given
from hypothesis import strategies as st

from epicast.client.events import events_of
from epicast.core import EventBatch


@given(
    rows=st.sampled_from([1, 15, 16, 17, 249, 250, 251, 500, 777]),
    key_bytes=st.integers(0, 3),
    payload_bytes=st.integers(0, 3),
    odd_one=st.one_of(st.none(), st.integers(0, 10_000)),
    one_time=st.booleans(),
    with_kinds=st.booleans(),
    buried=st.sets(st.integers(0, 776), max_size=5),
    part=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_like_the_batch_itself(
    rows: int,
    key_bytes: int,
    payload_bytes: int,
    odd_one: int | None,
    one_time: bool,
    with_kinds: bool,
    buried: set[int],
    part: tuple[int, int],
) -> None:
    seqs = [100 + row for row in range(rows) if row not in buried]
    sizes = [payload_bytes] * len(seqs)
    if odd_one is not None and seqs:
        sizes[odd_one % len(seqs)] += 1
    batch = EventBatch.build(
        7,
        100,
        [(b"%06d" % seq)[-size:] if size else b"" for seq, size in zip(seqs, sizes, strict=True)],
        keys=[(b"%06d" % seq)[:key_bytes] for seq in seqs],
        time=5 if one_time else [seq * 10 for seq in seqs],
        kinds=[seq % 2 for seq in seqs] if with_kinds else None,
        seqs=seqs if buried else None,
        last=100 + rows - 1,
    )
    if rows > 40:
        batch = batch.slice(batch.first + part[0], batch.last - part[1])
    assert events_of(batch) == batch.events()


def test_trailing_zeros_are_part_of_the_payload() -> None:
    batch = EventBatch.build(7, 1, [b"a\0\0"] * 20, keys=[b"\0"] * 20)
    assert {(event.key, event.payload) for event in events_of(batch)} == {(b"\0", b"a\0\0")}
