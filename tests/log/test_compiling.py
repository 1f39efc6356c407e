"""Kernels are compiled wherever the package lies, and kept wherever that is possible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from epicast.log.kernels import compiling
if len(sys.argv) > 1:
    compiling.keep_compiled_code_in(Path(sys.argv[1]))
compiling._here = Path("/proc/nowhere")  # as if the package lay in a read-only place
import numpy as np

@compiling.compiled
def add(left, right):
    return left + right

print(add(np.int64(1), np.int64(2)), compiling.cache_directory())
"""


def run(home: Path, *arguments: str, **environment: str) -> tuple[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    script = home / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True, text=True, timeout=120, check=False,
        env={**inherited, "XDG_CACHE_HOME": str(home / "cache"), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer, _, directory = done.stdout.strip().partition(" ")
    return answer, directory


def compiled_files(directory: str | Path) -> list[Path]:
    return list(Path(directory).rglob("*.nbi"))


def test_the_users_cache_is_used_when_the_package_is_read_only(tmp_path: Path) -> None:
    answer, directory = run(tmp_path)
    assert answer == "3"
    assert directory.startswith(str(tmp_path / "cache" / "epicast"))
    assert compiled_files(directory)


def test_a_named_directory_is_preferred_and_the_environment_to_that(tmp_path: Path) -> None:
    named, chosen = tmp_path / "data", tmp_path / "chosen"
    assert run(tmp_path, str(named))[1].startswith(str(named))
    assert compiled_files(named)
    assert run(tmp_path, str(named), NUMBA_CACHE_DIR=str(chosen))[1].startswith(str(chosen))
    assert compiled_files(chosen)


def test_without_any_place_to_write_everything_still_works(tmp_path: Path) -> None:
    assert run(tmp_path, "/proc/nowhere", XDG_CACHE_HOME="/proc/nowhere") == ("3", "")


def test_another_source_is_another_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from epicast.log.kernels import compiling

    (tmp_path / "kernel.py").write_text("a = 1")
    monkeypatch.setattr(compiling, "_here", tmp_path)
    before = compiling._digest_of_sources()
    (tmp_path / "kernel.py").write_text("a = 2")
    assert compiling._digest_of_sources() != before
