"""A connection for those who are started while everything around them fails."""

from __future__ import annotations

import time
from typing import Any

import epicast
from epicast.client import ConnectFailed
from epicast.runtime.waiting import Bell

_PATIENCE_S = 120.0
_AGAIN_S = 0.2


async def connect_patiently(address: str, **options: Any) -> epicast.Node:
    """`epicast.connect`, again and again: all proxies of a region may be down at the moment."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return await epicast.connect(address, **options)
        except ConnectFailed:
            if time.monotonic() > deadline:
                raise
        await Bell().wait(_AGAIN_S)
