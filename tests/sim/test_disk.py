"""Simulated disks: what survives a crash, and what waits for a write."""

import pytest

from epicast.core import Peer
from epicast.core.effects import Effects
from epicast.sim.disk import Commit, SimDisk
from tests.sim.probe import MS, SECOND, Lab, Note, batch

SYNC = 10 * MS


def lab_with_disks(nodes: int = 2) -> Lab:
    return Lab(nodes, disk_sync_ns=SYNC)


def append(*numbers: int, stream: int = 5):
    return lambda fx: [fx.append(batch(stream, number)) for number in numbers]


def restart(lab: Lab, number: int = 1) -> None:
    lab.sim.start(lab.node(number))


def test_what_is_synced_survives_a_crash_and_the_rest_does_not():
    lab = lab_with_disks()
    lab.act(1, append(1, 2))
    lab.act(1, lambda fx: fx.save("epoch", b"3"))
    lab.run(SYNC)
    lab.act(1, append(3))
    lab.act(1, lambda fx: fx.save("epoch", b"4"))
    lab.run(SYNC - 1)
    lab.sim.crash(lab.node(1))
    lab.run(SECOND)
    restart(lab)
    assert lab[1].recovered.log_ends == {5: 2}
    assert lab[1].recovered.saved == {"epoch": b"3"}
    assert lab[1].recovered.incarnation == 2
    lab.act(1, append(3))
    lab.run(SECOND)
    assert lab[1].events() == [("appended", 5, 3)]


def test_the_writes_of_a_step_are_durable_together():
    lab = lab_with_disks()
    lab.act(1, lambda fx: (fx.append(batch(5, 1)), fx.append(batch(6, 1, 3)), fx.save("x", b"y")))
    lab.run(SECOND)
    assert lab[1].log[1:] == [(SYNC, "appended", 5, 1), (SYNC, "appended", 6, 3)]
    lab.sim.crash(lab.node(1))
    restart(lab)
    assert lab[1].recovered.log_ends == {5: 1, 6: 3}
    assert lab[1].recovered.saved == {"x": b"y"}


def test_a_lost_disk_remembers_nothing():
    lab = lab_with_disks()
    lab.act(1, append(1))
    lab.act(1, lambda fx: fx.save("epoch", b"3"))
    lab.run(SECOND)
    lab.sim.crash(lab.node(1), lose_disk=True)
    restart(lab)
    assert lab[1].recovered.log_ends == {} and lab[1].recovered.saved == {}
    assert lab[1].recovered.incarnation == 2


def test_leaving_in_good_order_keeps_everything():
    lab = lab_with_disks()
    lab.link(1, 2)
    lab.act(1, append(1))
    lab[1].reactions["stop"] = lambda fx: (
        fx.append(batch(5, 2)),
        fx.send_after_append(2, Note("goodbye")),
    )
    lab.sim.stop(lab.node(1))
    lab.run(SECOND)
    assert lab[2].texts() == ["goodbye", "down"]
    restart(lab)
    assert lab[1].recovered.log_ends == {5: 2}
    lab.act(1, append(3))
    lab.run(SECOND)
    assert lab[1].events() == [("appended", 5, 3)]


# -- afterwards -----------------------------------------------------------------------------------


def test_a_send_after_append_waits_for_the_write():
    lab = lab_with_disks()
    lab.link(1, 2)
    begun = lab.sim.now
    lab.act(
        1,
        lambda fx: (
            fx.send_after_append(2, Note("after")),
            fx.append(batch(5, 1)),
            fx.send(2, Note("at once")),
        ),
    )
    lab.run(SECOND)
    assert lab[2].log == [(begun + MS, "at once", 1), (begun + SYNC + MS, "after", 1)]


def test_it_waits_for_the_writes_of_earlier_steps_too():
    lab = lab_with_disks()
    lab.link(1, 2)
    begun = lab.sim.now
    lab.act(1, append(1))
    lab.run(4 * MS)
    lab.act(1, lambda fx: fx.send_after_append(2, Note("after")))
    lab.run(SECOND)
    assert lab[2].times("after") == [begun + SYNC + MS]
    lab.act(1, lambda fx: fx.send_after_append(2, Note("nothing to wait for")))
    later = lab.sim.now
    lab.run(SECOND)
    assert lab[2].times("nothing to wait for") == [later + MS]


def test_it_is_not_sent_if_the_node_crashes_before():
    lab = lab_with_disks()
    lab.act(1, lambda fx: (fx.append(batch(5, 1)), fx.send_after_append(2, Note("after"))))
    lab.run(SYNC - 1)
    lab.sim.crash(lab.node(1))
    restart(lab)
    lab.run(SECOND)
    assert lab[2].texts() == []


def test_deliveries_can_wait_too():
    delivered = []
    lab = Lab(
        1, disk_sync_ns=SYNC, on_delivery=lambda now, node, b: delivered.append((now, b.first))
    )
    lab.act(1, lambda fx: (fx.append(batch(5, 1)), fx.deliver_after_append(batch(5, 1))))
    lab.act(1, lambda fx: fx.deliver(batch(5, 2)))
    lab.run(SECOND)
    assert delivered == [(0, 2), (SYNC, 1)]


def test_a_paused_node_neither_sends_nor_delivers_though_its_disk_goes_on():
    delivered = []
    lab = Lab(2, disk_sync_ns=SYNC, on_delivery=lambda now, node, b: delivered.append(now))
    lab.link(1, 2)

    def write(fx: Effects) -> None:
        fx.append(batch(5, 1))
        fx.send_after_append(2, Note("after"))
        fx.deliver_after_append(batch(5, 1))

    lab.act(1, write)
    lab.sim.pause(lab.node(1))
    lab.run(SECOND)
    assert lab[2].texts() == [] and delivered == [] and lab[1].texts() == []
    lab.sim.resume(lab.node(1))
    resumed = lab.sim.now
    lab.run(SECOND)
    assert lab[2].times("after") == [resumed + MS]
    assert delivered == [resumed]
    assert lab[1].events() == [("appended", 5, 1)]


def test_what_was_synced_during_a_pause_survives_a_crash():
    lab = lab_with_disks()
    lab.act(1, append(1))
    lab.sim.pause(lab.node(1))
    lab.run(SECOND)
    lab.sim.crash(lab.node(1))
    restart(lab)
    assert lab[1].recovered.log_ends == {5: 1}


# -- reading --------------------------------------------------------------------------------------


def test_reading_gives_durable_batches_from_a_number_on():
    lab = lab_with_disks()
    lab.act(1, lambda fx: [fx.append(batch(5, first, 10)) for first in (1, 11, 21)])
    lab.run(SECOND)
    size = batch(5, 1, 10).wire_size()
    lab[1].log.clear()
    lab.act(1, append(31))
    for token, (first, max_bytes) in enumerate([(1, 3 * size), (15, 10**9), (12, 0), (31, 10**9)]):
        lab.act(1, lambda fx, f=first, m=max_bytes, t=token: fx.read(5, f, m, t))
    lab.run(SECOND)
    assert lab[1].events("read") == [
        ("read", 0, [(1, 10), (11, 20), (21, 30)]),
        ("read", 1, [(15, 20), (21, 30)]),
        ("read", 2, [(12, 20)]),
        ("read", 3, []),
    ]


def test_the_answer_to_a_dead_reader_is_for_nobody():
    lab = lab_with_disks()
    lab.act(1, lambda fx: fx.read(5, 1, 100, 1))
    lab.sim.crash(lab.node(1))
    restart(lab)
    lab.run(SECOND)
    assert lab[1].events() == []


# -- failing --------------------------------------------------------------------------------------


def test_a_full_disk_refuses_and_nothing_that_waited_is_sent():
    lab = lab_with_disks()
    lab.node(1).disk.fill()
    lab.act(
        1,
        lambda fx: (
            fx.append(batch(5, 1)),
            fx.append(batch(5, 2)),
            fx.save("x", b"y"),
            fx.send_after_append(2, Note("never")),
        ),
    )
    lab.run(SECOND)
    assert lab[1].events() == [("append failed", 5, 1, "disk full")]
    assert lab[2].texts() == []
    assert lab.sim.drops == {"append failed": 1}
    lab.node(1).disk.free()
    lab.act(1, append(1))
    lab.run(SECOND)
    assert lab[1].events("appended") == [("appended", 5, 1)]
    lab.sim.crash(lab.node(1))
    restart(lab)
    assert lab[1].recovered.saved == {}  # failed together with the appends of its step


def test_nothing_is_stored_behind_an_append_that_failed():
    """`on_append_failed` says so of everything from there on, written meanwhile or not."""
    lab = lab_with_disks()
    lab.act(1, append(1))
    lab.node(1).disk.fill()
    lab.act(1, append(2))
    lab.node(1).disk.free()
    lab.act(1, append(3))
    lab.act(1, append(1, stream=6))
    lab.run(SECOND)
    assert lab[1].events() == [
        ("appended", 5, 1),
        ("append failed", 5, 2, "disk full"),
        ("append failed", 5, 3, "an append before it failed"),
        ("appended", 6, 1),
    ]
    lab.act(1, append(2, 3))
    lab.run(SECOND)
    assert lab[1].events()[-1] == ("appended", 5, 3)


def test_saving_goes_on_when_the_disk_is_full_for_events():
    lab = lab_with_disks()
    lab.node(1).disk.fill()
    lab.act(1, lambda fx: fx.save("epoch", b"9"))
    lab.run(SECOND)
    lab.sim.crash(lab.node(1))
    restart(lab)
    assert lab[1].recovered.saved == {"epoch": b"9"}


def test_without_a_disk_appending_fails_and_nothing_is_remembered():
    lab = Lab(2)
    lab.act(1, append(1))
    lab.act(1, lambda fx: (fx.save("x", b"y"), fx.send_after_append(2, Note("sent"))))
    lab.act(1, lambda fx: fx.read(5, 1, 100, 7))
    lab.run(SECOND)
    assert lab[1].events() == [("append failed", 5, 1, "no disk"), ("read", 7, [])]
    assert lab[2].texts() == ["sent"]
    lab.sim.crash(lab.node(1))
    lab.sim.start(lab.node(1), [Peer(2)])
    assert lab[1].recovered.saved == {} and lab[1].recovered.log_ends == {}


def test_capacity_counts_what_is_about_to_be_written():
    size = batch(5, 1).wire_size()
    disk = SimDisk(SYNC, capacity_bytes=2 * size)
    commits = [Commit([batch(5, number)]) for number in (1, 2, 3)]
    assert [disk.accept(commit) for commit in commits] == ["", "", "disk full"]
    disk.sync(commits[0])
    assert disk.accept(Commit([batch(5, 3)])) == "disk full"
    disk.crash(lose_everything=False)  # the second was not synced: its room is free again
    assert disk.accept(Commit([batch(5, 2)])) == ""
    disk.crash(lose_everything=True)
    assert disk.accept(Commit([batch(5, 1), batch(5, 2)])) == ""


@pytest.mark.parametrize("lose_disk", [False, True])
def test_a_disk_that_was_full_stays_so_across_a_crash(lose_disk):
    lab = lab_with_disks()
    lab.node(1).disk.fill()
    lab.sim.crash(lab.node(1), lose_disk=lose_disk)
    restart(lab)
    lab.act(1, append(1))
    lab.run(SECOND)
    assert lab[1].events() == [("append failed", 5, 1, "disk full")]
