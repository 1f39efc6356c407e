"""Backups are complete, add only what is new, survive interruptions, and can be restored."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

import epicast
from epicast.backup import (
    BackupError,
    backup_data_folder,
    backup_running,
    load_manifest,
    restore_stream,
    verify,
)
from epicast.backup import writing as backup_writing
from epicast.cli import main
from epicast.deployment import Geoplex
from epicast.runtime import run
from tests.backup.support import (
    PUBLISHER,
    back_up,
    connected,
    contents,
    events_of,
    make_geoplex,
    open_history,
    publish,
    running,
)
from tests.geo.support import address_of, eventually_true


def restore(backup: Path, geoplex: Geoplex, data: Path, *, raise_epoch: bool) -> None:
    for name, entry in verify(backup).streams.items():
        restore_stream(backup, name, entry, geoplex, data, raise_epoch=raise_epoch)


def test_a_backup_is_what_the_proxy_has_and_the_next_adds_what_is_new(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path), tmp_path / "backup"
        async with running(geoplex), connected(geoplex, publisher=PUBLISHER) as node:
            await publish(node, "orders", 1, 500)
            await publish(node, "prices", 1, 300, keys=10)
            first = await back_up(geoplex, backup)
            assert [(e.start, e.end, e.publishers) for e in first.values()] == [
                (1, 500, 1),
                (1, 300, 1),
            ]
            assert first["prices"].live_events == 10
            for name in ("orders", "prices"):
                head = await node.stream(name).head()
                assert (first[name].epoch, first[name].end) == head
            await node.stream("orders").collect("seq < 400")
            second = await back_up(geoplex, backup)
            assert second["orders"].end == 501 and second["orders"].live_events == 102
            assert second["prices"] == first["prices"] or second["prices"].end == 300
            assert second["orders"].folder == first["orders"].folder
            added = sum(f.size for f in second["orders"].files) - sum(
                f.size for f in first["orders"].files
            )
            assert 0 < added < 1000, "one small event"
        verify(backup)
        for name, end in (("orders", 501), ("prices", 300)):
            data = tmp_path / "elsewhere"
            entry = load_manifest(backup).streams[name]
            restore_stream(backup, name, entry, geoplex, data, raise_epoch=False)
            copy = open_history(geoplex, data / "streams" / name, name)
            original = open_history(geoplex, tmp_path / f"data/us/streams/{name}", name)
            assert copy.end == original.end == end and copy.epoch == original.epoch
            assert events_of(copy) == events_of(original)
            assert copy.publishers() == original.publishers()
            assert copy.recovery.is_complete
            copy.close()
            original.close()

    run(scenario())


def test_an_owner_that_lost_everything_goes_on_and_subscribers_get_one_reset(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path, ("us", "eu")), tmp_path / "backup"
        async with running(geoplex, "eu"), connected(geoplex, "eu", PUBLISHER) as node:
            async with running(geoplex, "us"):
                await publish(node, "orders", 1, 100)
                await back_up(geoplex, backup)
                await publish_more(node, 101, 20)  # which the backup does not have
                subscription = node.stream("orders").subscribe(after=0)
                for number in range(1, 121):
                    item = await subscription.get(60)
                    assert isinstance(item, epicast.Event) and item.seq == number
                epoch = (await node.stream("orders").head()).epoch
            shutil.rmtree(tmp_path / "data/us")
            restore(backup, geoplex, tmp_path / "data/us", raise_epoch=True)
            async with running(geoplex, "us") as services:
                item = await subscription.get(60)
                assert isinstance(item, epicast.Reset) and item.watermark.seq == 0
                assert item.watermark.epoch > epoch
                assert services["us"].status().streams[0].epoch == item.watermark.epoch
                for number in range(1, 101):
                    item = await subscription.get(60)
                    assert isinstance(item, epicast.Event)
                    assert item.payload == b"value %d" % number
                # What was published behind the backup is gone, its publisher's numbers are not.
                await publish_more(node, 121, 5)
                for number in range(121, 126):
                    item = await subscription.get(60)
                    assert isinstance(item, epicast.Event)
                    assert (item.seq, item.payload) == (number - 20, b"value %d" % number)

    async def publish_more(node: epicast.Node, first: int, count: int) -> None:
        for number in range(first, first + count):
            await node.stream("orders").publish(b"value %d" % number)

    run(scenario())


def test_a_backup_that_has_everything_can_go_on_in_its_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path, ("us", "eu")), tmp_path / "backup"
        async with running(geoplex, "eu"), connected(geoplex, "eu") as node:
            subscription = None
            async with running(geoplex, "us"):
                async with connected(geoplex, "us", PUBLISHER) as publisher:
                    await publish(publisher, "orders", 1, 100)
                await back_up(geoplex, backup)
                subscription = node.stream("orders").subscribe(after=0)
                for _ in range(100):
                    assert isinstance(await subscription.get(60), epicast.Event)
            shutil.rmtree(tmp_path / "data/us")
            restore(backup, geoplex, tmp_path / "data/us", raise_epoch=False)
            async with running(geoplex, "us"), connected(geoplex, "us", PUBLISHER) as publisher:
                await publish(publisher, "orders", 91, 20)  # ten of them are known
                assert (await publisher.stream("orders").head()).seq == 110
                for number in range(101, 111):
                    item = await subscription.get(60)
                    assert isinstance(item, epicast.Event), "no Reset"
                    assert item.payload == b"value %d" % number

    run(scenario())


def test_restored_without_a_new_epoch_although_others_have_more_is_an_alarm(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path, ("us", "eu")), tmp_path / "backup"
        async with running(geoplex, "eu") as services:
            async with running(geoplex, "us"), connected(geoplex) as node:
                await publish(node, "orders", 1, 10)
                await back_up(geoplex, backup)
                await node.stream("orders").publish(b"more", level="regions=1")
            assert services["eu"].status().streams[0].head == 11
            shutil.rmtree(tmp_path / "data/us")
            restore(backup, geoplex, tmp_path / "data/us", raise_epoch=False)
            async with running(geoplex, "us") as restored:

                async def noticed() -> bool:
                    alarms = restored["us"].status().alarms
                    return [(a.kind, a.other, a.behind) for a in alarms] == [("diverged", "eu", 1)]

                await eventually_true(noticed)

    run(scenario())


def test_what_collects_a_tombstone_is_in_the_backup_as_well(tmp_path: Path) -> None:
    """Keys are overwritten all the time: what is left out must have its successor there."""

    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path), tmp_path / "backup"
        async with running(geoplex), connected(geoplex) as node:
            prices = node.stream("prices")
            await prices.publish_many([b"%d" % n for n in range(20_000)], keys=some_keys(0))
            done = asyncio.Event()

            async def overwrite() -> None:
                turn = 1
                while not done.is_set():
                    await prices.publish_many([bytes(20)] * 20_000, keys=some_keys(turn))
                    turn += 1

            writing = asyncio.create_task(overwrite())
            for look in range(3):
                await back_up(geoplex, backup, "prices")
                entry = load_manifest(backup).streams["prices"]
                path = tmp_path / "look" / str(look)
                restore_stream(backup, "prices", entry, geoplex, path, raise_epoch=False)
                history = open_history(geoplex, path / "streams/prices", "prices")
                keys = {key for key, _ in events_of(history).values()}
                history.close()
                assert len(keys) == 5000, "the latest event of every key, at any time"
            done.set()
            await writing

    def some_keys(turn: int) -> list[bytes]:
        return [b"%d" % ((turn * 7 + n) % 5000) for n in range(20_000)]

    run(scenario())


# -- interruptions ---------------------------------------------------------------------------------


class Interrupted(Exception):
    pass


def test_an_interrupted_backup_goes_on_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path), tmp_path / "backup"
        async with running(geoplex), connected(geoplex) as node:
            # A window's worth at a time, so that it comes in many batches.
            for _ in range(20):
                await node.stream("orders").publish_many([bytes(10_000)] * 100)
            await back_up(geoplex, backup, "prices")
            seen: list[int] = []

            def interrupt(_: str, at: int, end: int) -> None:
                seen.append(at)
                if at > 500:
                    raise Interrupted

            with pytest.raises(Interrupted):
                await backup_running(node, ["orders"], backup, "test", interrupt)
            assert "orders" not in load_manifest(backup).streams
            verify(backup)
            resumed: list[int] = []
            found = await backup_running(
                node, ["orders"], backup, "test", lambda _, at, __: resumed.append(at)
            )
            assert resumed[0] == seen[-1] > 500, "it begins where the first ended"
            assert found["orders"].end == found["orders"].live_events == 2000
            verify(backup)

            # An interrupted addition leaves the backup as it was.
            await node.stream("orders").publish_many([bytes(10_000)] * 1000)
            with pytest.raises(Interrupted):
                await backup_running(
                    node, ["orders"], backup, "test",
                    lambda _, at, __: interrupt("", at - 1990, 0),
                )  # fmt: skip
            entry = verify(backup).streams["orders"]
            assert entry.end == 2000
            restore_stream(backup, "orders", entry, geoplex, tmp_path / "new", raise_epoch=False)
            history = open_history(geoplex, tmp_path / "new/streams/orders", "orders")
            assert (history.end, history.recovery.truncation) == (2000, None)
            history.close()
            found = await backup_running(node, ["orders"], backup, "test")
            assert found["orders"].end == 3000

    run(scenario())


def test_a_backup_that_was_killed_while_it_wrote(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup, killed = make_geoplex(tmp_path), tmp_path / "backup", tmp_path / "killed"
        async with running(geoplex), connected(geoplex) as node:
            for _ in range(20):
                await node.stream("orders").publish_many([bytes(10_000)] * 100)

            def photograph(_: str, at: int, end: int) -> None:
                if at > 500 and not killed.exists():
                    shutil.copytree(backup, killed)

            await backup_running(node, ["orders"], backup, "test", photograph)
            (segment,) = killed.glob("streams/orders/0001/*.seg")
            segment.write_bytes(segment.read_bytes() + bytes(range(37)))  # half a record
            begun: list[int] = []
            found = await backup_running(
                node, ["orders"], killed, "test", lambda _, at, __: begun.append(at)
            )
            assert 500 < begun[0] < 2000
            assert found["orders"].end == found["orders"].live_events == 2000
        verify(killed)

    run(scenario())


def test_a_new_epoch_begins_a_new_generation(tmp_path: Path) -> None:
    async def scenario() -> None:
        geoplex, backup = make_geoplex(tmp_path), tmp_path / "backup"
        async with running(geoplex), connected(geoplex) as node:
            await publish(node, "orders", 1, 50)
            before = (await back_up(geoplex, backup, "orders"))["orders"]
        shutil.rmtree(tmp_path / "data/us")
        async with running(geoplex), connected(geoplex) as node:
            await publish(node, "orders", 1, 7)
            after = (await back_up(geoplex, backup, "orders"))["orders"]
        assert after.epoch > before.epoch and (before.end, after.end) == (50, 7)
        assert before.folder != after.folder
        assert not (backup / before.folder).exists()
        verify(backup)

    run(scenario())


def test_a_backup_sheds_what_was_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(backup_writing, "_SLIM_FROM_BYTES", 10_000)
        geoplex, backup = make_geoplex(tmp_path), tmp_path / "backup"
        async with running(geoplex), connected(geoplex, publisher=PUBLISHER) as node:
            await publish(node, "prices", 1, 1000, keys=1000)
            first = (await back_up(geoplex, backup, "prices"))["prices"]
            sizes = [sum(file.size for file in first.files)]
            for turn in range(1, 4):
                await publish(node, "prices", 1 + 1000 * turn, 1000, keys=1000)
                second = (await back_up(geoplex, backup, "prices"))["prices"]
                sizes.append(sum(file.size for file in second.files))
        assert sizes[-1] < sizes[-2] < 4 * sizes[0]
        assert second.folder != first.folder and second.end == 4000
        assert second.live_events == 1000
        restore_stream(backup, "prices", second, geoplex, tmp_path / "new", raise_epoch=False)
        history = open_history(geoplex, tmp_path / "new/streams/prices", "prices")
        assert history.publishers() == {PUBLISHER: 4000}
        assert history.statistics().stored_events < 2000
        history.close()

    run(scenario())


# -- folders of stopped proxies --------------------------------------------------------------------


def test_from_the_folder_of_a_stopped_proxy(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(geoplex), connected(geoplex, publisher=PUBLISHER) as node:
            await publish(node, "orders", 1, 50)
            await back_up(geoplex, backup, "orders")
            await publish(node, "prices", 1, 100, keys=10)
            for number in range(51, 61):
                await node.stream("orders").publish(b"value %d" % number)
            with pytest.raises(BackupError, match="its proxy runs"):
                backup_data_folder(geoplex, ["orders"], data, backup)

    geoplex, backup, data = make_geoplex(tmp_path), tmp_path / "backup", tmp_path / "data/us"
    run(scenario())
    before = contents(data)
    found = backup_data_folder(geoplex, ["orders", "prices"], data, backup)
    assert contents(data) == before, "it is not touched"
    assert [(e.end, e.live_events, e.publishers, e.warning) for e in found.values()] == [
        (60, 60, 1, ""),
        (100, 10, 1, ""),
    ]
    verify(backup)
    assert backup_data_folder(geoplex, ["orders"], data, backup)["orders"].end == 60
    assert not (backup / "copy.tmp").exists()

    (data / "streams/prices/closed").unlink()  # as if it had been killed
    found = backup_data_folder(geoplex, ["prices", "orders"], data, backup)
    assert "not stopped in good order" in found["prices"].warning and not found["orders"].warning
    assert not (data / "streams/prices/closed").exists()
    with pytest.raises(BackupError, match="holds no history"):
        backup_data_folder(geoplex, ["orders"], tmp_path / "nowhere", backup)


# -- commands --------------------------------------------------------------------------------------


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from epicast import sync
    from epicast.geo.local import LocalGeoplex

    geoplex = make_geoplex(tmp_path, ("us", "eu"))
    file, backup = tmp_path / "geoplex.toml", tmp_path / "backup"
    file.write_text(geoplex.text)

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    here = ("--geoplex", file, "--region", "us")
    with LocalGeoplex(geoplex) as local:
        us, eu = local.address("us"), local.address("eu")
        with sync.connect(us, agent=False) as node:
            node.stream("orders").publish_many([b"x"] * 10)
            node.stream("prices").publish(b"1", key=b"a")
            status, out, _ = call("backup", "--all", "--to", backup, "--from", us, "--json")
            assert status == 0
            found = json.loads(out)["streams"]
            assert (found["orders"]["end"], found["orders"]["new"]) == (10, 10)
            node.stream("orders").publish(b"y", level="regions=1")
        status, out, _ = call("backup", "orders", "--to", backup, "--from", us)
        assert status == 0 and "1..11" in out
        assert call("backup", "--to", backup)[0] == 2
        assert call("backup", "orders", "--all", "--to", backup)[0] == 2
        status, _, error = call("backup", "nothing", "--to", backup, "--from", us)
        assert status == 2 and "nothing" in error
        status, _, error = call("restore", backup, *here)
        assert status == 2 and "stop the proxy first" in error
        status, out, _ = call("restore", backup, "--check")
        assert status == 0 and "orders: 1..11 of epoch" in out and "sound" in out
        with sync.connect(us, agent=False) as node:
            node.stream("orders").publish(b"not in the backup", level="regions=1")
        local.stop("us")
        shutil.rmtree(tmp_path / "data/us")
        status, _, error = call("restore", backup, *here, "--keep-epoch", "--ask", eu)
        assert status == 2 and "eu has seen orders up to 12" in error
        assert not (tmp_path / "data/us/streams/orders").exists()
        status, out, error = call("restore", backup, *here, "--json")
        assert status == 0 and "every subscriber gets one Reset" in error
        raised = json.loads(out)["restored"]
        assert [each["epoch_raised"] for each in raised] == [True, True]
        local.start("us")
        with sync.connect(us, agent=False) as node:
            assert node.stream("orders").publish(b"again") == 12
    status, _, error = call("restore", backup, *here)
    assert status == 2 and "holds a history already" in error
    status, out, _ = call(
        "backup", "orders", "--to", tmp_path / "cold", "--data", tmp_path / "data/us",
        "--geoplex", file, "--json",
    )  # fmt: skip
    assert status == 0 and json.loads(out)["streams"]["orders"]["end"] == 12
    elsewhere = tmp_path / "other"
    status, out, _ = call("restore", tmp_path / "cold", *here, "--data", elsewhere, "--keep-epoch")
    assert status == 0 and "restore without --keep-epoch" in out
    status, out, _ = call(
        "restore", tmp_path / "cold", "--geoplex", file, "--region", "eu", "--data", tmp_path / "eu"
    )
    assert status == 0 and "fetched from other regions" in out
    assert address_of(geoplex, "us")
