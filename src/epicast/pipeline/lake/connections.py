"""Connections of tasks and planners to a proxy: kept per process, made again when they are gone.

A node finds its proxy again by itself. What is added here: several addresses, of which the first
that answers is used; a limit to waiting, after which the supervisor takes over; and no new
connection for every little task.
"""

from __future__ import annotations

import time
from contextlib import suppress

from epicast import ConnectFailed, EpicastError, StreamInfo, UnknownStream, Watermark, sync
from epicast.client.addresses import each_url
from epicast.pipeline.lake.errors import LakeOptionError, SourceAway
from epicast.pipeline.lake.ingestion_options import DEFAULT_PATIENCE_S

_CONNECT_S = 3.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0

_kept: dict[tuple[str, ...], sync.Node] = {}


def parse_proxies(text: str) -> tuple[str, ...]:
    """Return the addresses in HOST:PORT[,HOST:PORT], each with the scheme that holds for all."""
    named = ",".join(part for part in text.split(",") if part.strip())
    if not named:
        raise LakeOptionError("proxy: name one, as HOST:PORT, or several, separated by commas")
    return each_url(named)


def node_at(proxies: tuple[str, ...], patience_s: float = DEFAULT_PATIENCE_S) -> sync.Node:
    """One that is attached; raises `SourceAway` if there is none for as long as patience lasts."""
    node = _kept.get(proxies)
    if node is not None and node.attached:
        return node
    forget(proxies)
    node = _kept[proxies] = _connect(proxies, patience_s)
    return node


def forget(proxies: tuple[str, ...]) -> None:
    """Whatever it was good for, it is not now."""
    node = _kept.pop(proxies, None)
    if node is not None:
        with suppress(EpicastError):
            node.close()


def _connect(proxies: tuple[str, ...], patience_s: float) -> sync.Node:
    deadline = time.monotonic() + patience_s
    pause = _FIRST_PAUSE_S
    while True:
        problems = []
        for address in proxies:
            try:
                return sync.connect(address, agent=False, timeout=_CONNECT_S)
            except ConnectFailed as error:
                problems.append(str(error))
        if time.monotonic() + pause > deadline:
            raise SourceAway("; ".join(problems))
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def heads_of(
    proxies: tuple[str, ...], streams: tuple[str, ...], patience_s: float
) -> dict[str, Watermark]:
    """How far each stream is at the proxy, asked now."""
    deadline = time.monotonic() + patience_s
    while True:
        node = node_at(proxies, max(0.0, deadline - time.monotonic()))
        try:
            return {name: node.stream(name).head(_CONNECT_S) for name in streams}
        except UnknownStream:
            raise
        except EpicastError as error:
            forget(proxies)
            if time.monotonic() > deadline:
                raise SourceAway(str(error)) from error


def described(
    proxies: tuple[str, ...], names: tuple[str, ...] | None, patience_s: float
) -> tuple[str, list[StreamInfo]]:
    """The name of the geoplex, and its streams, or those of these names."""
    node = node_at(proxies, patience_s)
    if names is None:
        return node.geoplex, node.streams()
    return node.geoplex, [node.stream(name).info for name in names]
