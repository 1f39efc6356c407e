"""Every kind of fault, injected into logs that were perfect, and counted exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from epicast_checker import Report, StreamFindings, SubscriberFindings, check
from epicast_checker.format import Got
from tests.checker.runs import Event, Row, Run, perfect

ORDERS, PRICES = 1, 2


def checked(run: Run, folder: Path, events_per_file: int = 50) -> Report:
    run.write(folder, Random(1))
    return check(folder, events_per_file=events_per_file)


def stream(report: Report, name: str) -> StreamFindings:
    (found,) = [each for each in report.streams if each.stream == name]
    return found


def subscriber(report: Report, name: str, of: str) -> SubscriberFindings:
    (found,) = [each for each in report.subscribers if (each.subscriber, each.stream) == (name, of)]
    return found


def data(run: Run, name: str, of: int) -> list[Row]:
    return [row for row in run.rows[name] if row.stream == of and row.kind == Got.DATA]


def faults(report: Report) -> dict[str, int]:
    """Everything that is not as it should be."""
    found: dict[str, int] = {}
    for each in report.streams:
        for name in ("lost", "numbered_twice", "misordered", "ambiguous", "acked_unsent"):
            if getattr(each, name):
                found[f"{each.stream}: {name}"] = getattr(each, name)
    for side in report.subscribers:
        for name in (
            "holes", "duplicated", "reordered", "unannounced", "forged", "buried",
            "never_delivered", "undecided",
        ):  # fmt: skip
            if getattr(side, name):
                found[f"{side.subscriber} {side.stream}: {name}"] = getattr(side, name)
    return found


@pytest.mark.parametrize("events_per_file", [1_000_000, 20])
def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path, events_per_file: int) -> None:
    run = perfect(Random(5))
    report = checked(run, tmp_path, events_per_file)
    assert faults(report) == {} and report.faults == 0
    for name, number in (("orders", ORDERS), ("prices", PRICES)):
        found = stream(report, name)
        assert found.sent == found.acked == len(run.of(number)) > 50
        assert found.ack_stalled_s == 0.005
    late = subscriber(report, "s2", "prices")
    assert late.tombstones == late.collected == len(run.of(PRICES)) - late.events > 0
    assert subscriber(report, "s0", "orders").events == len(run.of(ORDERS))
    assert report.events == 2 * len(run.events) + sum(s.events for s in report.subscribers)


Damage = Callable[[Run], dict[str, int]]


def leave_out(run: Run) -> dict[str, int]:
    for row in data(run, "s0", ORDERS)[10:14]:
        run.rows["s0"].remove(row)
    return {"s0 orders: holes": 4, "s0 orders: never_delivered": 4}


def leave_out_at_the_end(run: Run) -> dict[str, int]:
    for row in data(run, "s0", ORDERS)[-3:]:
        run.rows["s0"].remove(row)
    return {"s0 orders: never_delivered": 3}


def lose_for_everybody(run: Run) -> dict[str, int]:
    """The numbers are used again, as after a crash that was not noticed."""
    gone = run.of(ORDERS)[-5:]
    for name in run.rows:
        for row in data(run, name, ORDERS):
            if row.event in gone:
                run.rows[name].remove(row)
    return {"orders: lost": 5, **{f"{n} orders: never_delivered": 5 for n in run.rows}}


def deliver_again(run: Run) -> dict[str, int]:
    rows = run.rows["s1"]
    for row in data(run, "s1", ORDERS)[20:26]:
        rows.insert(rows.index(row) + 1, row)
    return {"s1 orders: duplicated": 6}


def deliver_much_later_again(run: Run) -> dict[str, int]:
    again = data(run, "s1", ORDERS)[3:5]
    last = data(run, "s1", ORDERS)[-1]
    at = run.rows["s1"].index(last) + 1
    run.rows["s1"][at:at] = again
    return {"s1 orders: duplicated": 2}


def swap(run: Run) -> dict[str, int]:
    rows, (one, two) = run.rows["s0"], data(run, "s0", ORDERS)[7:9]
    at, then = rows.index(one), rows.index(two)
    rows[at], rows[then] = two, one
    return {"s0 orders: reordered": 1}


def forge(run: Run) -> dict[str, int]:
    row = data(run, "s0", ORDERS)[9]
    assert row.event is not None
    row.event = replace(row.event, payload=b"never sent")
    return {"s0 orders: forged": 1, "s0 orders: never_delivered": 1}


def forge_out_of_nothing(run: Run) -> dict[str, int]:
    """An event more, at the end, for everybody."""
    made = Event(ORDERS, 0, 0, b"", b"out of nothing", 0, None, len(run.of(ORDERS)) + 1)
    for rows in run.rows.values():
        (close,) = [r for r in rows if r.stream == ORDERS and r.kind == Got.CLOSED]
        rows.insert(rows.index(close), Row(Got.DATA, ORDERS, 1, made.seq, made.seq, close.ms, made))
    return {f"{name} orders: forged": 1 for name in run.rows}


def bury(run: Run) -> dict[str, int]:
    row = data(run, "s0", ORDERS)[9]
    row.kind, row.event = Got.TOMBSTONES, None
    return {"s0 orders: buried": 1, "s0 orders: never_delivered": 1}


def bury_what_is_the_latest_of_its_key(run: Run) -> dict[str, int]:
    """Somebody else got it, so its number is known, and nothing behind it has the key. What it has
    collected itself is not missing."""
    latest = {event.key: event for event in run.of(PRICES)}
    chosen = sorted(latest.values(), key=lambda event: event.seq)[-2:]
    for row in data(run, "s2", PRICES):
        if row.event in chosen:
            row.kind, row.event = Got.TOMBSTONES, None
    return {"s2 prices: never_delivered": 2}


def number_twice(run: Run) -> dict[str, int]:
    """A publication sent again was taken for a new one."""
    again = run.of(ORDERS)[4]
    seq = len(run.of(ORDERS)) + 1
    for rows in run.rows.values():
        (close,) = [r for r in rows if r.stream == ORDERS and r.kind == Got.CLOSED]
        rows.insert(rows.index(close), Row(Got.DATA, ORDERS, 1, seq, seq, close.ms, again))
    return {"orders: numbered_twice": 1}


def exchange_two_of_a_publisher(run: Run) -> dict[str, int]:
    """Everybody agrees, but not with the publisher."""
    one, two = [event for event in run.of(ORDERS) if event.publisher == 101][6:8]
    one.seq, two.seq = two.seq, one.seq
    for name in run.rows:
        for row in data(run, name, ORDERS):
            if row.event is one:
                row.event = two
            elif row.event is two:
                row.event = one
    return {"orders: misordered": 1}


def change_epoch_without_a_word(run: Run) -> dict[str, int]:
    """All of them go on under another epoch; what was had before it does not count twice."""
    for rows in run.rows.values():
        for row in rows:
            if row.stream == ORDERS and row.first > 40:
                row.epoch = 2
    return {f"{name} orders: unannounced": 1 for name in run.rows}


def acknowledge_what_was_not_sent(run: Run) -> dict[str, int]:
    run.of(ORDERS)[3].sent_ms = -1
    return {"orders: acked_unsent": 1}


def send_two_that_are_alike(run: Run) -> dict[str, int]:
    one, other = [event for event in run.of(ORDERS) if event.publisher == 102][2:4]
    other.payload = one.payload
    return {"orders: ambiguous": 1, "orders: numbered_twice": 1}


DAMAGES: list[Damage] = [
    leave_out, leave_out_at_the_end, lose_for_everybody, deliver_again, deliver_much_later_again,
    swap, forge, forge_out_of_nothing, bury, bury_what_is_the_latest_of_its_key, number_twice,
    exchange_two_of_a_publisher, change_epoch_without_a_word, acknowledge_what_was_not_sent,
    send_two_that_are_alike,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_each_fault_is_counted_exactly(tmp_path: Path, damage: Damage, seed: int) -> None:
    run = perfect(Random(seed), events=300)
    expected = damage(run)
    report = checked(run, tmp_path)
    assert faults(report) == expected
    undecided = sum(side.undecided for side in report.subscribers)
    assert report.faults == sum(expected.values()) - undecided


def test_all_faults_at_once(tmp_path: Path) -> None:
    run = perfect(Random(9), events=500)
    expected: dict[str, int] = {}
    for damage in (leave_out, deliver_again, number_twice, bury_what_is_the_latest_of_its_key):
        for name, count in damage(run).items():
            expected[name] = expected.get(name, 0) + count
    assert faults(checked(run, tmp_path)) == expected


# -- what is no fault ------------------------------------------------------------------------------


def test_what_was_not_acknowledged_is_not_owed(tmp_path: Path) -> None:
    run = perfect(Random(2))
    gone = run.of(ORDERS)[-2:]
    for event in gone:
        event.acked_ms = None
    for name in run.rows:
        for row in data(run, name, ORDERS):
            if row.event in gone:
                run.rows[name].remove(row)
    report = checked(run, tmp_path)
    assert faults(report) == {}
    assert stream(report, "orders").sent - stream(report, "orders").acked == 2


def test_a_subscriber_that_crashed_is_owed_what_it_had_got_to(tmp_path: Path) -> None:
    run = perfect(Random(2))
    got = data(run, "s0", ORDERS)
    kept = [row for row in run.rows["s0"] if row.stream != ORDERS]
    run.rows["s0"] = [*kept, Row(Got.OPENED, ORDERS, 1, 1, 1, 0), *got[:20], *got[21:30]]
    report = checked(run, tmp_path)
    assert faults(report) == {"s0 orders: holes": 1, "s0 orders: never_delivered": 1}


def test_a_subscriber_that_left_is_owed_no_more(tmp_path: Path) -> None:
    run = perfect(Random(2))
    got = data(run, "s0", ORDERS)
    kept = [row for row in run.rows["s0"] if row.stream != ORDERS]
    left = Row(Got.LEFT, ORDERS, 1, 30, 30, 3000)
    run.rows["s0"] = [*kept, Row(Got.OPENED, ORDERS, 1, 1, 1, 0), *got[:30], left]
    assert faults(checked(run, tmp_path)) == {}


def test_a_subscriber_that_resumed_gets_some_of_it_again(tmp_path: Path) -> None:
    run = perfect(Random(2))
    rows = run.rows["s0"]
    at = rows.index(data(run, "s0", ORDERS)[30])
    again = data(run, "s0", ORDERS)[25:30]
    rows[at:at] = [Row(Got.OPENED, ORDERS, 1, 26, 26, rows[at].ms), *again]
    assert faults(checked(run, tmp_path)) == {}


def test_a_late_subscriber_is_owed_what_comes_after_it(tmp_path: Path) -> None:
    run = perfect(Random(2))
    got = data(run, "s0", ORDERS)
    (close,) = [r for r in run.rows["s0"] if r.stream == ORDERS and r.kind == Got.CLOSED]
    kept = [row for row in run.rows["s0"] if row.stream != ORDERS]
    run.rows["s0"] = [*kept, Row(Got.OPENED, ORDERS, 1, 41, 41, 0), *got[40:], close]
    report = checked(run, tmp_path)
    assert faults(report) == {} and subscriber(report, "s0", "orders").events == len(got) - 40


def new_epoch(run: Run, survivors: list[Event]) -> None:
    """The stream begins anew with what is left of it: everybody gets it again."""
    for seq, event in enumerate(survivors, 1):
        event.seq, event.epoch, event.bound = seq, 2, seq
    for rows in run.rows.values():
        (close,) = [r for r in rows if r.stream == ORDERS and r.kind == Got.CLOSED]
        at = rows.index(close)
        rows[at:at] = [
            Row(Got.RESET, ORDERS, 2, 1, 1, close.ms),
            *(Row(Got.DATA, ORDERS, 2, e.seq, e.seq, close.ms, e) for e in survivors),
        ]
        close.epoch, close.first, close.last = 2, len(survivors), len(survivors)


def test_a_reset_and_everything_again_is_no_fault(tmp_path: Path) -> None:
    run = perfect(Random(2))
    new_epoch(run, run.of(ORDERS))
    report = checked(run, tmp_path)
    assert faults(report) == {}
    assert subscriber(report, "s0", "orders").resets == 1


def test_what_a_new_epoch_has_lost_is_lost_even_if_it_was_delivered_before(tmp_path: Path) -> None:
    run = perfect(Random(2))
    new_epoch(run, run.of(ORDERS)[:-6])
    found = faults(checked(run, tmp_path))
    assert found == {"orders: lost": 6, **{f"{n} orders: never_delivered": 6 for n in run.rows}}


def test_collected_before_anybody_got_it(tmp_path: Path) -> None:
    """Its number is only known not to be above that of a later event: nobody can tell."""
    run = perfect(Random(2), keys=3)
    chosen = run.of(PRICES)[5]
    for name in run.rows:
        for row in data(run, name, PRICES):
            if row.event is chosen:
                row.kind, row.event = Got.TOMBSTONES, None
    report = checked(run, tmp_path / "exact")
    assert faults(report) == {}, "its acknowledgement named its number"
    assert subscriber(report, "s0", "prices").collected == 1
    chosen.bound = len(run.of(PRICES))
    report = checked(run, tmp_path / "again")
    assert faults(report) == {f"{name} prices: undecided": 1 for name in run.rows}
    assert report.faults == 0


# -- stalls ----------------------------------------------------------------------------------------


def test_acknowledgements_that_did_not_come(tmp_path: Path) -> None:
    run = perfect(Random(2))
    for event in run.of(ORDERS):
        if 500 <= event.sent_ms < 1300:
            event.acked_ms = 1305
    first = min(event.sent_ms for event in run.of(ORDERS) if event.sent_ms >= 500)
    report = checked(run, tmp_path)
    assert stream(report, "orders").ack_stalled_s == (1305 - first) / 1000
    assert stream(report, "prices").ack_stalled_s == 0.005
    assert report.faults == 0


def test_a_subscriber_that_got_nothing_for_a_while(tmp_path: Path) -> None:
    run = perfect(Random(2))
    held = [row for row in data(run, "s0", ORDERS) if 500 <= row.ms < 1250]
    for row in held:
        row.ms = 1250
    run.rows["s0"].sort(key=lambda row: row.ms)
    assert held[0].event is not None and held[0].event.acked_ms is not None
    report = checked(run, tmp_path)
    stalled = subscriber(report, "s0", "orders").stalled_s
    assert stalled == (1250 - held[0].event.acked_ms) / 1000
    assert subscriber(report, "s1", "orders").stalled_s < 0.1
    assert report.faults == 0


def test_silence_when_there_is_nothing_to_say_is_no_stall(tmp_path: Path) -> None:
    run = perfect(Random(2))
    for event in run.events:
        if event.sent_ms >= 1000:
            event.sent_ms += 60_000
            assert event.acked_ms is not None
            event.acked_ms += 60_000
    for rows in run.rows.values():
        for row in rows:
            if row.ms >= 1000:
                row.ms += 60_000
    report = checked(run, tmp_path)
    assert all(each.ack_stalled_s < 1 for each in report.streams)
    on_time = [each for each in report.subscribers if each.subscriber != "s2"]
    assert all(each.stalled_s < 1 for each in on_time)
