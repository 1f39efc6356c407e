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


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("first") / "epicast.zip"
    write_package(file)
    return file


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For compiled code, which is a matter of seconds."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def first(archive: Path, cache: Path) -> dict[str, Any]:
    """What the first worker found, who had to compile."""
    return run(SCRIPT, archive, cache=cache)


def run(script: str, *arguments: object, cache: Path) -> dict[str, Any]:
    inherited = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        env={**inherited, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_kernels_work_from_an_archive_and_are_compiled_once(
    tmp_path: Path, archive: Path, cache: Path, first: dict[str, Any]
) -> None:
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


def test_installed_and_shipped_share_what_is_compiled(
    tmp_path: Path, archive: Path, cache: Path, first: dict[str, Any]
) -> None:
    installed = run(SCRIPT, tmp_path, cache=cache)
    assert not installed["package"].startswith(str(archive))
    assert Path(installed["directory"]).name == Path(first["directory"]).name


def test_a_worker_that_can_write_nowhere_compiles_for_itself(archive: Path) -> None:
    found = run(SCRIPT, archive, cache=Path("/proc/nowhere"))
    assert found["answers"] == "10110"
    assert found["directory"] == "" and found["compiled"]


def test_another_archive_is_compiled_anew(
    tmp_path: Path, cache: Path, first: dict[str, Any]
) -> None:
    """Even if what changed is in another file than the kernel."""
    source = ROOT / "src" / "epicast"
    copy = shutil.copytree(source, tmp_path / "package" / "epicast")
    with (copy / "log" / "kernels" / "access.py").open("a") as file:
        file.write("\n# changed\n")
    shutil.make_archive(str(tmp_path / "changed"), "zip", tmp_path / "package")
    second = run(SCRIPT, tmp_path / "changed.zip", cache=cache)
    assert second["package"].startswith(str(tmp_path / "changed.zip"))
    assert second["directory"] != first["directory"] and second["compiled"]
