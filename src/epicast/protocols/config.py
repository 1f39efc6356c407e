"""The base of protocol configurations, as code and as tables of a file."""

from epicast.core import Config
from epicast.deployment import without_unit


class ProtocolConfig(Config, frozen=True, kw_only=True, rename=without_unit):
    """In code a field is called `shuffle_period_ns`; in a file `shuffle_period = "5s"`."""
