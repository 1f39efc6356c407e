"""This package on the workers of a cluster, which need not have it installed.

What it depends on (numpy, msgspec, ...) they must have: Spark cannot ship compiled packages to
machines it knows nothing of.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import epicast
from epicast.pipeline.masters import is_this_process

if TYPE_CHECKING:
    from pyspark import SparkContext


@contextmanager
def shipped_package(context: SparkContext, master: str) -> Iterator[None]:
    """Local workers import what is imported here; others get a copy of it, for as long as this
    lasts: workers that join later fetch it, too."""
    if is_this_process(master):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="epicast-") as folder:
        file = Path(folder) / "epicast.zip"
        write_package(file)
        context.addPyFile(str(file))
        yield


def write_package(file: Path) -> None:
    source = Path(epicast.__file__).parent
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*.py")):
            archive.write(path, Path("epicast") / path.relative_to(source))
