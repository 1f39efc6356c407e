"""`python -m bench NAME [--json FILE] [--quick]`; NAME may be `all`.

Exit status: 0 if every bar holds, 1 if one does not or a benchmark fails, 2 for a wrong call. With
`--quick` the sizes are too small to judge, so bars are shown but do not decide.
"""

import argparse
import importlib
import json
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import bench
from bench.harness import Bar, Figure, Result

PREFIX = "bench_"


def available() -> list[str]:
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(
        name.removeprefix(PREFIX).replace("_", "-") for name in modules if name.startswith(PREFIX)
    )


def run(name: str, quick: bool) -> Result:
    module = importlib.import_module(f"bench.{PREFIX}{name.replace('-', '_')}")
    result: Result = module.run(quick)
    return result


def readable(value: Figure) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def judgement(bar: Bar, quick: bool) -> str:
    if bar.holds:
        return "[green]holds[/]"
    return "[yellow]not judged (quick)[/]" if quick else "[red]does not hold[/]"


def show(console: Console, result: Result, quick: bool) -> None:
    if result.figures:
        table = Table("figure", title=escape(result.name), title_justify="left")
        table.add_column("value", justify="right")
        for name, value in result.figures.items():
            table.add_row(escape(name), escape(readable(value)))
        console.print(table)
    if result.bars:
        table = Table("bar", title=escape(f"{result.name}: bars"), title_justify="left")
        table.add_column("goal", justify="right")
        table.add_column("measured", justify="right")
        table.add_column("verdict")
        for bar in result.bars:
            table.add_row(
                escape(bar.name),
                escape(f"{bar.direction} {readable(bar.goal)} {bar.unit}".rstrip()),
                escape(f"{readable(bar.measured)} {bar.unit}".rstrip()),
                judgement(bar, quick),
            )
        console.print(table)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    names = available()
    listing = "available: " + (", ".join([*names, "all"]) if names else "none yet")
    parser = argparse.ArgumentParser("python -m bench", description=__doc__, epilog=listing)
    parser.add_argument("name", help="a benchmark, or all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    parser.add_argument("--quick", action="store_true", help="small sizes; bars do not decide")
    options = parser.parse_args(argv)
    options.name = options.name.replace("_", "-")
    if options.name != "all" and options.name not in names:
        parser.exit(2, f"there is no benchmark {options.name!r}; {listing}\n")
    if options.json and not options.json.absolute().parent.is_dir():
        parser.exit(2, f"cannot write {options.json}: its directory does not exist\n")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    console = Console()
    names = available() if options.name == "all" else [options.name]
    if not names:
        console.print("There are no benchmarks yet.")
    results: list[Result] = []
    failed: list[str] = []
    for name in names:
        console.print(f"[bold]{name}[/] …")
        try:
            result = run(name, options.quick)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        show(console, result, options.quick)
        results.append(result)
    if options.json:
        found = [result.to_json() for result in results]
        if options.name == "all":
            options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
        elif found:
            options.json.write_text(json.dumps(found[0], indent=2) + "\n", "utf-8")
    if failed:
        console.print(f"[red]failed:[/] {', '.join(failed)}")
    missed = [] if options.quick else [result.name for result in results if not result.holds]
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
