"""What a run came to: what it did, and what the checker says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from epicast.core import EpicastError

CHECKER = "epicast_checker"
_OF_STREAMS = ("lost", "numbered_twice", "misordered", "ambiguous", "acked_unsent")
_OF_SUBSCRIBERS = (
    "never_delivered", "holes", "duplicated", "reordered", "forged", "buried", "unannounced",
    "resets",
)  # fmt: skip
"""A reset says that a stream began a new epoch, as after a loss; nothing here excuses one."""


class JudgeError(EpicastError):
    """The checker could not read the logs."""


class Load(Struct, frozen=True):
    seconds: float
    """From when everybody was ready until the last fault was mended."""
    acked: int
    """Events, within that time."""


class Verdict(Struct, frozen=True, kw_only=True):
    seed: int
    seconds: float
    """Of load."""
    events_per_s: float
    """Acknowledged."""
    sent: int
    acked: int
    refused: int
    delivered: int
    """Events, to all subscribers together."""
    tombstones: int
    counts: Mapping[str, int]
    """What must not be, by name."""
    undecided: int
    ack_stalled_s: Mapping[str, float]
    """By stream: the longest time without an acknowledgement."""
    stalled_s: Mapping[str, float]
    """By subscriber: the longest time without anything, of all streams."""
    faults: Mapping[str, int]
    """How often what was done."""
    troubles: Sequence[str]
    """What did not become well again."""

    @property
    def clean(self) -> bool:
        return not any(self.counts.values()) and not self.troubles


def judge(logs: Path, out: Path, temporary: Path, *, quiet: bool) -> dict[str, Any]:
    """What the checker finds, in a process of its own; the report is written to `out`, too."""
    command = [sys.executable, "-m", CHECKER, str(logs), "--json", "--out", str(out)]
    command += ["--temporary", str(temporary), *(["--quiet"] if quiet else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise JudgeError(
            f"the checker could not judge {logs}; what it wrote to stderr says why"
        ) from None
    return report


def verdict_of(
    report: Mapping[str, Any], *, seed: int, load: Load, refused: int, faults: Sequence[str],
    troubles: Sequence[str],
) -> Verdict:  # fmt: skip
    streams, subscribers = report["streams"], report["subscribers"]
    counts = {name: sum(each[name] for each in streams) for name in _OF_STREAMS}
    counts |= {name: sum(each[name] for each in subscribers) for name in _OF_SUBSCRIBERS}
    stalled: dict[str, float] = {}
    for each in subscribers:
        name = each["subscriber"]
        stalled[name] = max(stalled.get(name, 0.0), each["stalled_s"])
    acked = sum(each["acked"] for each in streams)
    return Verdict(
        seed=seed,
        seconds=round(load.seconds, 1),
        events_per_s=round(load.acked / load.seconds),
        sent=sum(each["sent"] for each in streams),
        acked=acked,
        refused=refused,
        delivered=sum(each["events"] for each in subscribers),
        tombstones=sum(each["tombstones"] for each in subscribers),
        counts=counts,
        undecided=sum(each["undecided"] for each in subscribers),
        ack_stalled_s={each["stream"]: each["ack_stalled_s"] for each in streams},
        stalled_s={name: s for name, s in stalled.items() if not name.startswith("late-")},
        faults=dict(sorted(Counter(faults).items())),
        troubles=list(troubles),
    )
