"""The package as workers get it: within an archive, with kernels that are compiled there.
On a cluster: test_cluster.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epicast.pipeline.shipping import write_package
from tests.pipeline.conftest import ROOT

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tests.pipeline.shipped import use_a_kernel
print(json.dumps(use_a_kernel()))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_package(tmp_path / "first" / "epicast.zip")
    return tmp_path / "first" / "epicast.zip"


def run(script: str, *arguments: object, cache: Path) -> dict[str, Any]:
    inherited = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        env={**inherited, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_kernels_work_from_an_archive_and_are_compiled_once(tmp_path: Path, archive: Path) -> None:
    cache = tmp_path / "cache"
    first = run(SCRIPT, archive, cache=cache)
    assert first["package"].startswith(str(archive)), "not the one that is installed"
    assert first["answers"] == "10110"
    assert first["directory"].startswith(str(cache)) and first["compiled"]

    # Each job ships the archive to another place.
    elsewhere = shutil.copytree(archive.parent, tmp_path / "second") / archive.name
    second = run(SCRIPT, elsewhere, cache=cache)
    assert second["package"].startswith(str(elsewhere))
    assert (second["directory"], second["compiled"]) == (first["directory"], False)
    assert second["answers"] == first["answers"]
    assert not (cache / "numba").exists(), "there is one place for compiled code"


def test_installed_and_shipped_share_what_is_compiled(tmp_path: Path, archive: Path) -> None:
    shipped = run(SCRIPT, archive, cache=tmp_path / "cache")
    installed = run(SCRIPT, tmp_path, cache=tmp_path / "cache")
    assert not installed["package"].startswith(str(tmp_path))
    assert Path(installed["directory"]).name == Path(shipped["directory"]).name


def test_a_worker_that_can_write_nowhere_compiles_for_itself(archive: Path) -> None:
    found = run(SCRIPT, archive, cache=Path("/proc/nowhere"))
    assert found["answers"] == "10110"
    assert found["directory"] == "" and found["compiled"]


def test_another_archive_is_compiled_anew(tmp_path: Path, archive: Path) -> None:
    """Even if what changed is in another file than the kernel."""
    source = ROOT / "src" / "epicast"
    copy = shutil.copytree(source, tmp_path / "package" / "epicast")
    with (copy / "log" / "kernels" / "access.py").open("a") as file:
        file.write("\n# changed\n")
    shutil.make_archive(str(tmp_path / "changed"), "zip", tmp_path / "package")
    first = run(SCRIPT, archive, cache=tmp_path / "cache")
    second = run(SCRIPT, tmp_path / "changed.zip", cache=tmp_path / "cache")
    assert second["package"].startswith(str(tmp_path / "changed.zip"))
    assert second["directory"] != first["directory"] and second["compiled"]
