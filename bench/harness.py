"""What a benchmark returns, and fair ways to measure.

A benchmark is a module `bench_<name>.py` with `def run(quick: bool) -> Result`. Figures inform;
bars decide. A bar is best a ratio between two things measured side by side on the same machine: it
means the same on a laptop and on a server, where an absolute rate does not.
"""

import gc
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Figure = int | float | str


@dataclass(frozen=True, slots=True)
class Bar:
    """A goal and what was measured."""

    name: str
    goal: float
    direction: Literal["at least", "at most"]
    measured: float
    unit: str = ""

    def __post_init__(self) -> None:
        if self.direction not in ("at least", "at most"):
            raise ValueError(
                f"bar {self.name!r}: direction {self.direction!r} is neither "
                "'at least' nor 'at most'"
            )

    @property
    def holds(self) -> bool:
        """Whether the goal is met; a NaN never meets one."""
        if self.direction == "at least":
            return self.measured >= self.goal
        return self.measured <= self.goal


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark found."""

    name: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    bars: Sequence[Bar] = ()

    @property
    def holds(self) -> bool:
        return all(bar.holds for bar in self.bars)

    def to_json(self) -> dict[str, Any]:
        """Plain values only; what JSON cannot say (NaN, infinity) becomes null."""
        return {
            "name": self.name,
            "figures": {name: _plain(value) for name, value in self.figures.items()},
            "bars": [
                {
                    "name": bar.name,
                    "goal": _plain(bar.goal),
                    "measured": _plain(bar.measured),
                    "unit": bar.unit,
                    "holds": bool(bar.holds),
                }
                for bar in self.bars
            ],
        }


def _plain(value: Any) -> Figure | None:
    if isinstance(value, str):
        return value
    value = value.item() if hasattr(value, "item") else value  # numpy scalars
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one candidate, in the order of the rounds."""

    samples: tuple[float, ...]

    @property
    def best(self) -> float:
        return max(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def over(self, other: "Rates") -> float:
        """The median, over the rounds, of this rate divided by the other's of the same round.

        What slows the machine for a while slows both sides of a round, and cancels out.
        """
        pairs = zip(self.samples, other.samples, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def interleave(
    candidates: Mapping[str, Callable[[], float]], rounds: int, warmup: int = 0
) -> dict[str, Rates]:
    """Run the candidates in turn, round after round, and collect the rate each returns.

    The starting candidate moves on by one each round, so none always runs on a warm or a throttled
    machine. Garbage of one candidate is collected before the next starts.
    """
    if not candidates or rounds < 1:
        raise ValueError("interleave needs at least one candidate and one round")
    names = list(candidates)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warmup, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            rate = candidates[name]()
            if number >= 0:
                samples[name].append(rate)
    return {name: Rates(tuple(values)) for name, values in samples.items()}


@dataclass(frozen=True, slots=True)
class Child:
    """A finished child process."""

    stdout: str
    seconds: float
    peak_rss_bytes: int


# A child's ru_maxrss starts at the size of the process that spawned it, because the counter
# survives exec. So a small process stands between: it spawns, waits and reports.
_LAUNCHER = """
import os, sys
pid = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
os.write(int(sys.argv[1]), b"%d" % usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
"""


def run_child(
    command: Sequence[str], timeout_s: float = 600.0, env: Mapping[str, str] | None = None
) -> Child:
    """Run a command to its end and measure its peak resident memory and its wall time.

    The memory is the largest of the command and the processes it waited for; under about 10 MB it
    is the launcher's own. Raises RuntimeError, with stderr, if the command fails or takes too long.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as report:
        try:
            start = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(writing), *command],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(writing,),
                start_new_session=True,
                env=None if env is None else dict(env),
            )
        finally:
            os.close(writing)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # the session we started, nothing else
            _, stderr = process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(
                    f"{command[0]} was still running after {timeout_s} s\n{stderr}"
                ) from error
            raise
        seconds = time.perf_counter() - start
        if process.returncode:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}\n{stderr}")
        unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux KiB
        return Child(stdout, seconds, int(report.read()) * unit)
