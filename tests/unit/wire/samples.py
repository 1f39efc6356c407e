"""Message types with every kind of field a protocol may use, and hypothesis strategies for them."""

from hypothesis import strategies as st
from msgspec import field

from epicast.core import AnyMessage, EventBatch, Layered, Message, Peer, Run
from epicast.wire import register

# Type ids from 65280 on are for private use, see docs/wire.md.


@register(65280)
class Ping(Message):
    """The smallest message there is."""


@register(65281)
class Fields(Message):
    """Plain values only."""

    number: int
    text: str
    data: bytes
    peers: tuple[Peer, ...] = ()
    table: dict[str, list[int]] = field(default_factory=dict)
    maybe: float | None = None


@register(65282)
class Events(Message):
    """One batch, as most protocols carry it."""

    batch: EventBatch


@register(65283)
class Reply(Message):
    """Several batches, some of them optional, between other fields."""

    token: int
    batches: list[EventBatch]
    note: str = ""
    extra: EventBatch | None = None


SAMPLE_TYPES = (Ping, Fields, Events, Reply)

u64 = st.integers(0, 2**64 - 1)


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    """Any batch: dense, with tombstones or of nothing else, whole or sliced."""
    payloads = draw(st.lists(st.binary(max_size=20), max_size=12))
    rows = len(payloads)
    first = draw(st.integers(1, 2**61))
    seqs, last = None, first + rows - 1
    if not rows or draw(st.booleans()):
        steps = draw(st.lists(st.integers(1, 4), min_size=rows, max_size=rows))
        seqs = [first + sum(steps[: i + 1]) - 1 for i in range(rows)]
        last = (seqs[-1] if seqs else first) + draw(st.integers(0, 3))
    runs = []
    if draw(st.booleans()):
        runs = [Run(draw(u64), draw(st.integers(0, 2**40)), last - first + 1)]
    per_row = {"min_size": rows, "max_size": rows}
    times = st.integers(0, 2**62)
    batch = EventBatch.build(
        draw(u64),
        first,
        payloads,
        keys=draw(st.none() | st.lists(st.binary(max_size=8), **per_row)),
        time=draw(times | st.lists(times, **per_row)) if rows else draw(times),
        kinds=draw(st.none() | st.lists(st.integers(0, 1), **per_row)),
        seqs=seqs,
        last=last,
        epoch=draw(st.integers(0, 2**32 - 1)),
        runs=runs,
    )
    if first < last and draw(st.booleans()):
        low = draw(st.integers(first, last))
        return batch.slice(low, draw(st.integers(low, last)))
    return batch


peers = st.builds(Peer, u64, st.text(max_size=10), st.integers(0, 65535))
plain_messages = st.one_of(
    st.just(Ping()),
    st.builds(
        Fields,
        st.integers(-(2**63), 2**64 - 1),
        st.text(max_size=20),
        st.binary(max_size=50),
        st.lists(peers, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=4), st.lists(st.integers(0, 9), max_size=3), max_size=3),
        st.none() | st.floats(allow_nan=False),
    ),
    st.builds(Events, batches()),
    st.builds(
        Reply, u64, st.lists(batches(), max_size=3), st.text(max_size=5), st.none() | batches()
    ),
)


@st.composite
def messages(draw: st.DrawFn) -> AnyMessage:
    message: AnyMessage = draw(plain_messages)
    for layer in draw(st.lists(st.integers(0, 2**32 - 1), max_size=8)):
        message = Layered(layer, message)
    return message
