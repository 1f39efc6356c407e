"""Is this tree as fast as an earlier commit? `python -m bench.compare COMMIT NAME [NAME...]`

Every named benchmark lists, in `speeds()`, the figures that stand for it, more being better. Each
is measured round after round with the sources of the earlier commit, with those of this tree, and
with those of the earlier commit again; which comes first changes from round to round. The
benchmarks' own code is this tree's in all of them, only `src` differs.

A figure passes if the median ratio of this tree to the earlier commit is at least 0.95, or lies
within the ratios of the earlier commit to itself, which is what the machine's noise alone does.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
GOAL = 0.95
_PATIENCE_S = 900.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rates of one figure, in the order of the rounds."""

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    again: tuple[float, ...]
    """Rates of the earlier commit, measured a second time in the same round."""

    @property
    def ratios(self) -> list[float]:
        return [now / then for now, then in zip(self.after, self.before, strict=True)]

    @property
    def noise(self) -> list[float]:
        return [now / then for now, then in zip(self.again, self.before, strict=True)]

    @property
    def holds(self) -> bool:
        ratio = statistics.median(self.ratios)
        return ratio >= GOAL or ratio >= min(self.noise)


def speeds(benchmark: str) -> Mapping[str, Callable[[], float]]:
    """The figures of a benchmark by their names."""
    module = importlib.import_module(f"bench.bench_{benchmark.replace('-', '_')}")
    if not hasattr(module, "speeds"):
        raise SystemExit(f"the benchmark {benchmark!r} has no speeds() to compare")
    found: Mapping[str, Callable[[], float]] = module.speeds()
    return found


@contextmanager
def sources_of(commit: str) -> Iterator[Path]:
    """The `src` folder of a commit, checked out beside this tree for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="epicast-compare-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measure(benchmark: str, figure: str, sources: Path) -> float:
    """One figure, in a process of its own that imports `sources`."""
    finished = subprocess.run(
        [sys.executable, "-m", "bench.compare", "--measure", benchmark, figure],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=_PATIENCE_S,
        check=True,
    )
    measured = json.loads(finished.stdout.splitlines()[-1])
    if Path(measured["sources"]) != sources:
        raise RuntimeError(f"measured {measured['sources']} instead of {sources}")
    return float(measured["rate"])


def measure_here(benchmark: str, figure: str) -> None:
    import epicast

    rate = speeds(benchmark)[figure]()
    print(json.dumps({"rate": rate, "sources": str(Path(epicast.__file__).parents[1])}))


def compare(benchmark: str, figure: str, before: Path, rounds: int, console: Console) -> Comparison:
    trees = {"before": before, "after": ROOT / "src", "again": before}
    rates: dict[str, list[float]] = {name: [] for name in trees}
    names = list(trees)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            rates[name].append(measure(benchmark, figure, trees[name]))
        latest = ", ".join(f"{name} {rates[name][-1]:,.4g}" for name in names)
        console.print(f"{benchmark} {figure}, round {number + 1} of {rounds}: {latest}")
    return Comparison(f"{benchmark} {figure}", *(tuple(rates[name]) for name in names))


def show(console: Console, found: Sequence[Comparison], commit: str) -> None:
    table = Table("figure", title=f"this tree over {commit}", title_justify="left")
    for column in ("median", "ratios", "the same commit twice", "verdict"):
        table.add_column(column)
    for each in found:
        table.add_row(
            each.name,
            f"{statistics.median(each.ratios):.3f}",
            " ".join(f"{ratio:.2f}" for ratio in each.ratios),
            " ".join(f"{ratio:.2f}" for ratio in each.noise),
            "[green]holds[/]" if each.holds else "[red]slower[/]",
        )
    console.print(table)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.compare", description=__doc__)
    parser.add_argument("commit", help="the earlier commit")
    parser.add_argument("names", nargs="+", metavar="NAME", help="benchmarks with speeds()")
    parser.add_argument("--pairs", type=int, default=5, help="rounds per figure (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rates there, too")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    if argv[:1] == ["--measure"]:
        measure_here(*argv[1:])
        return 0
    options = parse(argv)
    console = Console()
    figures = [(name, figure) for name in options.names for figure in speeds(name)]
    found: list[Comparison] = []
    with sources_of(options.commit) as before:
        for name, figure in figures:
            found.append(compare(name, figure, before, options.pairs, console))
            if options.json:
                options.json.write_text(
                    json.dumps([asdict(each) for each in found], indent=2) + "\n", "utf-8"
                )
    show(console, found, options.commit)
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
