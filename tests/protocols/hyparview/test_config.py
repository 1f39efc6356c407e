import msgspec
import pytest

from epicast.core import ConfigError
from epicast.protocols.hyparview import HyParViewConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("active_view", 1),
        ("expansion_factor", 0.5),
        ("passive_view", 0),
        ("active_walk_length", 0),
        ("passive_walk_length", 7),
        ("shuffle_period_ns", 0),
        ("shuffle_active", -1),
        ("keep_alive_period_ns", -1),
        ("keep_alive_silent_periods", 0),
        ("attempt_timeout_ns", 0),
        ("promotion_attempts", 0),
        ("rejoin_backoff_max_ns", 999_999_999),
        ("max_contacts", 0),
        ("lost_memory", 101),
    ],
)
def test_value_out_of_bounds_names_the_field(field, value):
    with pytest.raises(ConfigError, match=f"^{field}: {value} "):
        HyParViewConfig(**{field: value})


def test_bounds_hold_when_read_from_a_file():
    with pytest.raises(ConfigError, match=r"^active_view: 0 "):
        msgspec.convert({"active_view": 0}, HyParViewConfig)


def test_every_field_has_bounds():
    for field in msgspec.structs.fields(HyParViewConfig):
        with pytest.raises(ConfigError, match=f"^{field.name}: "):
            HyParViewConfig(**{field.name: -1})
        with pytest.raises(ConfigError, match=f"^{field.name}: "):
            HyParViewConfig(**{field.name: 10**15})


@pytest.mark.parametrize(
    ("view", "factor", "largest", "links", "urgent"),
    [(5, 2, 10, 3, 2), (4, 2, 8, 2, 2), (10, 2, 20, 5, 5), (5, 1, 5, 5, 1), (10, 1.1, 11, 10, 1)],
)
def test_derived_sizes(view, factor, largest, links, urgent):
    config = HyParViewConfig(active_view=view, expansion_factor=factor)
    assert config.max_active_view == largest
    assert config.join_links == links
    assert config.urgent_below == urgent
