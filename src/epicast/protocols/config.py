"""The base of protocol configurations, as code and as tables of a file."""

from collections.abc import Mapping

from epicast.core import Config, ConfigError
from epicast.deployment import without_unit


class ProtocolConfig(Config, frozen=True, kw_only=True, rename=without_unit):
    """In code a field is called `shuffle_period_ns`; in a file `shuffle_period = "5s"`."""


def check_bounds(config: Config, bounds: Mapping[str, tuple[float, float]]) -> None:
    """`ConfigError` if a field is not between its least and its greatest value."""
    for name, (low, high) in bounds.items():
        value = getattr(config, name)
        if not low <= value <= high:
            raise ConfigError(f"{name}: {value} is not between {low} and {high}")
