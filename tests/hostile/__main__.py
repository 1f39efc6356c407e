"""One storm again, or many of them: see `--help`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from time import process_time

from tests.hostile.storm import PER_STORM, Found, Storm
from tests.hostile.systems import SYSTEMS
from tests.hostile.warming import warm_up


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("system", choices=[*SYSTEMS, "all"])
    parser.add_argument("sender", nargs="?", default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, default=PER_STORM)
    parser.add_argument("--storms", type=int, default=1, help="of each kind")
    parser.add_argument("--debug", action="store_true", help="raise what was found")
    options = parser.parse_args()
    warm_up()
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    sent: Counter[tuple[str, str]] = Counter()
    for seed in range(options.seed, options.seed + options.storms):
        for name, kind in SYSTEMS.items():
            for sender in kind.senders:
                if options.system not in (name, "all") or options.sender not in (sender, "all"):
                    continue
                began = process_time()
                storm = Storm(kind, sender, seed, options.messages)
                try:
                    storm.run()
                except Found as error:
                    if options.debug:
                        raise
                    counts[error.place] += 1
                    if error.place not in found:
                        found[error.place] = str(error)
                        print(f"\nFOUND {error}", flush=True)
                counts["messages"] += storm.at
                counts["messages " + name] += storm.at
                sent += storm.sent
                taken = process_time() - began
                print(f"{name} {sender} {seed}: {storm.at} messages, {taken:.1f} s", flush=True)
    print(f"{len(found)} found; {dict(counts)}")
    return bool(found)


sys.exit(main())
