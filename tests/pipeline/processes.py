"""Which processes a process has started, and whether they are still there."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    started: int
    """Tells it from a later one with the same number."""
    parent: int
    state: str
    name: str

    def lives(self) -> bool:
        found = _read(Path("/proc") / str(self.pid))
        return found is not None and found.started == self.started and found.state != "Z"


def descendants(pid: int) -> list[Process]:
    """Children, their children, and so on, as of now."""
    everyone = [process for path in Path("/proc").glob("[0-9]*") if (process := _read(path))]
    family, found = {pid}, []
    grown = True
    while grown:
        more = [each for each in everyone if each.parent in family and each.pid not in family]
        found += more
        family |= {each.pid for each in more}
        grown = bool(more)
    return found


def _read(folder: Path) -> Process | None:
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return Process(int(folder.name), int(fields[19]), int(fields[1]), fields[0], name)
