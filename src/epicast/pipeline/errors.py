"""What can be wrong with Spark, said to who runs a command."""

from __future__ import annotations

import re

from epicast import EpicastError

_JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:: |$)")
_WORKER_DIED = "Python worker exited unexpectedly"


class SparkError(EpicastError):
    """Base of all below."""


class SparkMissing(SparkError):
    """pyspark, or a Java to run it, is not installed."""


class SparkFailed(SparkError):
    """A session did not start, or a job of it did not end well."""


class SweepFailed(SparkFailed):
    """The sweep as a whole: not one of its runs, but what they run on."""


def missing(what: str) -> SparkMissing:
    return SparkMissing(f"this needs {what}; install it with: pip install 'epicast[spark]'")


def is_about_lost_java(error: BaseException) -> bool:
    """What every call raises once the JVM has died."""
    return isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"


def is_of_spark(error: BaseException) -> bool:
    """What Spark raises, with a page of Java's or of a worker's."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def reason_of(error: BaseException) -> str:
    """One line of what Spark has to say: what went wrong, and what that came from."""
    if is_about_lost_java(error):
        return "Spark's Java process has ended"
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if any(_WORKER_DIED in line for line in lines):
        return "a worker process died, was killed perhaps, or found too little memory"
    python = _raised_in_python(lines)
    if python:
        return python
    if lines and lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        lines = lines[1:]  # which method Python called is nobody's concern
    said = [_plain(lines[0].lstrip(": "))] if lines else []
    causes = [line for line in lines if line.startswith("Caused by: ")]
    if causes:
        said.append(_plain(causes[-1].removeprefix("Caused by: ")))
    parts = [part for part in dict.fromkeys(said) if part]
    return ": ".join(parts) or type(error).__name__


def _raised_in_python(lines: list[str]) -> str:
    """The line of a worker's traceback that names the error; empty if there is no traceback."""
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    behind = lines[starts[-1] + 1 :] if starts else []
    named = [line for line in behind if ": " in line and line.split(":")[0].isidentifier()]
    return named[0] if named else ""


def _plain(text: str) -> str:
    """Without the name of a Java class before it."""
    return _JAVA_CLASS.sub("", text).strip().rstrip(".")
