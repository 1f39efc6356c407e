"""Bugs that are planted: all fit today's source, and the quickest are caught here and now.

`epicast swarm --planted` runs all of them.
"""

from pathlib import Path

import pytest

from epicast.core import ConfigError
from epicast.sim.campaign import planted
from epicast.sim.campaign.planted import PlantedBug, catch
from epicast.sim.campaign.planted_bugs import PLANTED_BUGS, named

PACKAGE = Path(planted.__file__).parents[2]
DOCS = PACKAGE.parents[1] / "docs" / "campaign.md"


def test_there_are_enough_and_each_has_a_name():
    assert len(PLANTED_BUGS) >= 15
    assert len({bug.name for bug in PLANTED_BUGS}) == len(PLANTED_BUGS)
    assert all(bug.description and bug.within > 0 for bug in PLANTED_BUGS)


@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=lambda bug: bug.name)
def test_it_fits_the_source(bug: PlantedBug):
    source = (PACKAGE / bug.file).read_text("utf-8")
    changed = bug.applied_to(source)
    different = [
        (before, after)
        for before, after in zip(source.splitlines(), changed.splitlines(), strict=True)
        if before != after
    ]
    assert len(different) == 1, "one line, and no other"
    compile(changed, bug.file, "exec")


def test_a_bug_that_fits_no_longer_says_so():
    bug = PlantedBug(
        name="x", file="core/batch.py", old="no such line", new="", description="x", within=1
    )
    with pytest.raises(ConfigError, match="'no such line' 0 times"):
        bug.applied_to("a\nb\n")


def test_the_source_itself_is_never_changed():
    with pytest.raises(ConfigError, match="plant bugs in a copy"):
        PLANTED_BUGS[0].plant(PACKAGE)


def test_names_are_looked_up():
    assert named([]) == PLANTED_BUGS
    assert [bug.name for bug in named(["skip-gap"])] == ["skip-gap"]
    with pytest.raises(ConfigError, match="no planted bug nonsense"):
        named(["nonsense"])


@pytest.mark.parametrize("name", ["ack-early", "show-unstable", "forget-sync", "reuse-refused"])
def test_it_is_caught(name: str):
    (bug,) = named([name])
    before = (PACKAGE / bug.file).read_bytes()
    found = catch(bug)
    assert found.was_caught, found.told()
    assert found.seeds <= bug.within
    assert "repeat with: epicast swarm" in found.failure
    assert (PACKAGE / bug.file).read_bytes() == before


def test_without_a_bug_nothing_is_caught():
    harmless = PlantedBug(
        name="harmless", file="protocols/sprinkler/client.py", old="pass", new="...",
        description="nothing is different", within=2,
    )  # fmt: skip
    found = catch(harmless)
    assert not found.was_caught
    assert found.seeds == 2
    assert "NOT caught in 2 seeds" in found.told()


def test_the_docs_name_them_all():
    text = DOCS.read_text("utf-8")
    for bug in PLANTED_BUGS:
        assert f"| `{bug.name}` | {bug.description} |" in text
