"""How a lake is: what is in it, how far behind the streams it is, and who fills it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from epicast import EpicastError, Watermark
from epicast.pipeline.lake.connections import heads_of, parse_proxies
from epicast.pipeline.lake.layout import Lake
from epicast.pipeline.lake.supervisor import read_state


def status_of(lake: Lake, proxy: str | None = None, patience_s: float = 2.0) -> dict[str, Any]:
    """As plain values. Without a proxy, or if it does not answer, how far behind is not known."""
    table = lake.bronze_table()
    watermarks = table.watermarks()
    heads: dict[str, Watermark] = {}
    problem = ""
    if proxy:
        try:
            heads = heads_of(parse_proxies(proxy), tuple(lake.streams), patience_s)
        except EpicastError as error:
            problem = str(error)
    state = read_state(lake.folder)
    run: dict[str, Any] = {} if state is None else msgspec.to_builtins(state)
    if state is not None:
        run["alive"] = _is_alive(state.pid)
    return {
        "lake": str(lake.folder),
        "geoplex": lake.geoplex,
        "table": lake.table,
        "created": lake.document.created,
        "streams": {
            name: {
                "watermark": [*watermarks.get(name, Watermark(0, 0))],
                "behind": _behind(watermarks.get(name), heads.get(name)),
            }
            for name in lake.streams
        },
        "bronze": table.statistics(),
        "run": run,
        "proxy_problem": problem,
    }


def _behind(at: Watermark | None, head: Watermark | None) -> int | None:
    if head is None:
        return None
    if at is None or at.epoch != head.epoch:
        return head.seq
    return max(0, head.seq - at.seq)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
