"""What happens to a replica's disk."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from random import Random

_FULL_BYTES = 192 << 10
"""No file of a full disk grows beyond this. Less would also stop the agreement of replicas, which
on one machine is a small file beside theirs."""
_LEAST_BYTES = 4096
"""A smaller segment is not worth damaging."""
_SEGMENTS = "streams/*/*.seg"


def wipe(data: Path) -> None:
    """As if there were another disk; but not those of other replicas, which may lie inside."""
    for each in data.glob("*"):
        if each.name.startswith("replica-"):
            continue
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def corrupt(data: Path, seed: int) -> str:
    """Flip bits of a segment, or cut off its end; says what was done."""
    rng = Random(seed)
    segments = [file for file in sorted(data.glob(_SEGMENTS)) if file.stat().st_size > _LEAST_BYTES]
    if not segments:
        return "no segment is large enough to be damaged"
    file = rng.choice(segments)
    size = file.stat().st_size
    where = file.relative_to(data)
    if rng.random() < 0.3:
        left = rng.randrange(size)
        os.truncate(file, left)
        return f"{where} cut off at {left} of {size}"
    bits = rng.choice((1, 3, 200))
    begin = rng.randrange(size)
    with file.open("r+b") as segment:
        for _ in range(bits):
            at = min(size - 1, begin + rng.randrange(2000))
            segment.seek(at)
            [byte] = segment.read(1)
            segment.seek(at)
            segment.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return f"{where}: {bits} bits from {begin} of {size} on"


def fill(pid: int) -> None:
    """Files of a process grow no more, as on a disk that is full."""
    _limit(pid, _FULL_BYTES)


def free(pid: int) -> None:
    _limit(pid, resource.RLIM_INFINITY)


def _limit(pid: int, most: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    if hard != resource.RLIM_INFINITY:
        most = hard if most == resource.RLIM_INFINITY else min(most, hard)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))
