"""The blocking face, against a proxy in a thread of its own."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import epicast
from epicast import sync
from epicast.runtime.waiting import BackgroundLoop
from tests.client.proxies import EmbeddedProxy


@contextmanager
def proxy_in_a_thread() -> Iterator[EmbeddedProxy]:
    loop = BackgroundLoop("proxy")
    proxy = EmbeddedProxy()
    loop.run(proxy.start())
    try:
        yield proxy
    finally:
        loop.run(proxy.stop())
        loop.close()


def test_publish_and_read_in_every_way() -> None:
    with proxy_in_a_thread() as proxy, sync.connect(proxy.address) as node:
        assert (node.region, node.attached) == ("us", True)
        assert [info.name for info in node.streams()] == ["invalidations", "prices"]
        prices = node.stream("prices")
        assert prices.publish(b"1", key=b"ACME") == 1
        assert prices.publish_many([b"2", b"3", b"4", b"5", b"6"]) == 6
        assert prices.collect("seq < 2") == 7
        assert prices.head().seq == 7
        assert (prices.name, prices.info.name, prices.next_sequence) == ("prices", "prices", 8)
        subscription = prices.subscribe(after=0)
        seen = []
        for item in subscription:
            seen.append(item)
            if isinstance(item, epicast.Event) and item.seq == 3:
                break
        assert seen[0] == epicast.Tombstone(prices.info.id, 1, 1)
        assert subscription.watermark.seq == 2
        item = subscription.get()
        assert isinstance(item, epicast.Event) and item.seq == 4
        nowait = subscription.get_nowait()
        assert isinstance(nowait, epicast.Event) and nowait.seq == 5
        rest = subscription.pull() + subscription.pull(timeout=0.01)
        assert [event.seq for event in rest if isinstance(event, epicast.Event)] == [6, 7]
        assert subscription.get(timeout=0.01) is None
        assert subscription.watermark.seq == 7
        assert subscription.staleness() > 0
        subscription.close()
        assert subscription.closed
        with pytest.raises(epicast.Closed):
            subscription.get()
        with prices.subscribe(after=1) as by_batch:
            rows = 0
            for batch in by_batch.batches():
                assert isinstance(batch, epicast.EventBatch)
                rows += batch.rows
                if batch.last == 7:
                    break
        assert rows == 6
        assert node.statistics()["attached"] == 1


def test_errors_come_through() -> None:
    with proxy_in_a_thread() as proxy:
        with sync.connect(proxy.address, agent=False, publisher=7) as node:
            assert node.publisher == 7
            with pytest.raises(epicast.UnknownStream, match="prices"):
                node.stream("nothing")
            with pytest.raises(epicast.PredicateError):
                node.stream("prices").collect("nonsense")
            with pytest.raises(epicast.PublishRefused, match="key"):
                node.stream("prices").publish(b"", key=b"x" * 5000)
            prices = node.stream("prices")
        node.close()
        with pytest.raises(epicast.Closed):
            prices.publish(b"late")
        with pytest.raises(epicast.Closed):
            node.stream("prices")
    threads = threading.active_count()
    with pytest.raises(epicast.ConnectFailed):
        sync.connect("epicast://127.0.0.1:1")
    assert threading.active_count() == threads


SCRIPT = """
import signal
import sys
from epicast import sync

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us may ignore it

node = sync.connect(sys.argv[1], agent=False)
subscription = node.stream("prices").subscribe(after=0)
print("ready", flush=True)
try:
    for item in subscription:
        print(item.seq, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
node.stream("prices").publish(b"still usable")
print("watermark", subscription.watermark.seq, next(iter(subscription)).payload, flush=True)
"""


def test_ctrl_c_interrupts_a_loop_and_a_script_may_end_without_closing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with proxy_in_a_thread() as proxy, sync.connect(proxy.address, agent=False) as node:
        process = subprocess.Popen(
            [sys.executable, str(script), proxy.address],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            node.stream("prices").publish(b"hello")
            assert process.stdout.readline() == "1\n"
            process.send_signal(signal.SIGINT)
            try:
                out, error = process.communicate(timeout=60)
            finally:
                process.kill()
        # The loop may have been interrupted before it asked for what comes behind event 1.
        assert out.splitlines() in (
            ["interrupted", "watermark 1 b'still usable'"],
            ["interrupted", "watermark 0 b'still usable'"],
        ), error
        assert process.returncode == 0
        assert error == ""


def test_a_blocking_call_inside_the_loop_is_refused() -> None:
    loop = BackgroundLoop("test")

    async def nothing() -> None:
        return None

    async def block() -> None:
        loop.run(nothing())

    with pytest.raises(RuntimeError, match="inside the loop"):
        loop.run(block())
    loop.close()
