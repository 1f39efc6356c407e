"""What can be wrong with Spark, said to who runs a command."""

from __future__ import annotations

from epicast import EpicastError


class SparkError(EpicastError):
    """Base of all below."""


class SparkMissing(SparkError):
    """pyspark, or a Java to run it, is not installed."""


class SparkFailed(SparkError):
    """A session did not start, or a job of it did not end well."""


def missing(what: str) -> SparkMissing:
    return SparkMissing(f"this needs {what}; install it with: pip install 'epicast[spark]'")
