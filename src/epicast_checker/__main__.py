"""`python -m epicast_checker DIR`: status 1 if a promise was broken, 2 if logs make no sense."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from epicast_checker.checking import EVENTS_PER_FILE, check
from epicast_checker.format import FormatError
from epicast_checker.table import tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m epicast_checker",
        description="Whether what was acknowledged was delivered to everybody, once, in order.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="logs, see docs/checker.md")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the JSON there as well")
    parser.add_argument(
        "--temporary", type=Path, metavar="DIR", help="room for about 40 bytes per event"
    )
    parser.add_argument(
        "--events-per-part", type=int, default=EVENTS_PER_FILE, metavar="N",
        help="compared at a time: what bounds the memory (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    chosen = parser.parse_args(arguments)

    def say(text: str) -> None:
        if not chosen.quiet:
            print(text, file=sys.stderr, flush=True)

    try:
        report = check(
            chosen.folder, temporary=chosen.temporary, say=say,
            events_per_file=max(1, chosen.events_per_part),
        )  # fmt: skip
    except FormatError as error:
        print(f"epicast_checker: {error}", file=sys.stderr)
        return 2
    text = json.dumps(report.document(), indent=2)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")
    print(text if chosen.json else tables(report))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
