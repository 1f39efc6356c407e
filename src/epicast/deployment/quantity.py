"""Numbers that mean nothing without their unit, and the text they are written as.

Arithmetic is exact until the last step: "0.3us" is 300 ns, not 299, and "1.5ns" is refused.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction as Exact
from math import isfinite

from epicast.core.errors import ConfigError
from epicast.deployment.tokens import without_tokens

_TEXT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?) *(.*)", re.DOTALL)
_LONGEST_TEXT = 64
LARGEST = 2**63 - 1
"""Quantities stay in 64 bits: they end up in columns, messages and deadlines."""


class Quantity(ABC):
    """One kind of quantity: its units, each as a multiple of the unit used in memory."""

    def __init__(
        self,
        noun: str,
        example: str,
        units: Mapping[str, int | Exact],
        *,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.noun = noun
        self.example = example
        self.units = dict(units)
        self.aliases = dict(aliases or {})

    def __str__(self) -> str:
        return f"{self.noun} such as '{self.example}'"

    @abstractmethod
    def parse(self, value: object) -> int | float:
        """The quantity in the unit used in memory; raises `ConfigError`."""

    @abstractmethod
    def format(self, number: float) -> str:
        """A quantity in memory as text that can be parsed."""

    def exact(self, value: object) -> Exact:
        """The quantity in the unit used in memory, before any rounding."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            raise self.error(value, f"a number without a unit ({self._unit_list()})")
        if not isinstance(value, str):
            raise self.error(value)
        match = _TEXT.fullmatch(value.strip()) if len(value) <= _LONGEST_TEXT else None
        if match is None:
            raise self.error(value, f"write a number and a unit ({self._unit_list()})")
        number, unit = match.groups()
        scale = self.units.get(self.aliases.get(unit, unit))
        if scale is None:
            raise self.error(value, self._about_unit(unit))
        exact = Exact(number) * scale
        if exact < 0:
            raise self.error(value, "it cannot be negative")
        if exact > LARGEST:
            raise self.error(value, "it is too large")
        return exact

    def error(self, value: object, reason: str = "") -> ConfigError:
        return ConfigError(f"expected a {self}, found {shown(value)}{reason and f': {reason}'}")

    def _about_unit(self, unit: str) -> str:
        if not unit:
            return f"a number without a unit ({self._unit_list()})"
        lowered = {known.lower(): known for known in self.units}
        if unit.lower() in lowered:
            return f"did you mean the unit {lowered[unit.lower()]!r}?"
        return f"the unit {unit!r} is not one of {self._unit_list()}"

    def _unit_list(self) -> str:
        return ", ".join(self.units)


class WholeQuantity(Quantity):
    """Counted in whole units of memory. What lies between two is refused, or `rounded`."""

    def __init__(
        self,
        noun: str,
        example: str,
        units: Mapping[str, int | Exact],
        *,
        aliases: Mapping[str, str],
        rounded: bool = False,
    ) -> None:
        super().__init__(noun, example, units, aliases=aliases)
        self.rounded = rounded

    def parse(self, value: object) -> int:
        exact = self.exact(value)
        number = round(exact)
        if number != exact and not (self.rounded and number):
            raise self.error(value, f"it is not a whole multiple of {self.format(1)}")
        return number

    def format(self, number: float) -> str:
        """In the largest unit that needs no fraction."""
        whole = int(number)
        fitting = [
            (scale, unit)
            for unit, scale in self.units.items()
            if scale <= 1 or (whole and whole % scale == 0)
        ]
        scale, unit = max(fitting)
        return f"{Exact(whole) / scale}{unit}"


class RealQuantity(Quantity):
    """A float; shown in its first unit. With `limit`, a bare number up to it is accepted too."""

    def __init__(
        self, noun: str, example: str, units: Mapping[str, Exact], *, limit: float | None = None
    ) -> None:
        super().__init__(noun, example, units)
        self.limit = limit

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.limit is None else f"{text} or a number from 0 to {self.limit:g}"

    def parse(self, value: object) -> float:
        if self.limit is None:
            return float(self.exact(value))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if isfinite(value) and 0 <= value <= self.limit:
                return float(value)
            hint = f"did you mean '{value}%'?" if "%" in self.units and 1 < value <= 100 else ""
            raise self.error(value, hint)
        exact = self.exact(value)
        if exact > self.limit:
            raise self.error(value, f"the most is {self.format(self.limit)}")
        return float(exact)

    def format(self, number: float) -> str:
        unit, scale = next(iter(self.units.items()))
        return f"{float(number / scale):g}{unit}"


def shown(value: object) -> str:
    """A value as its author would recognise it in a TOML file."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            value = without_tokens(value)
            return repr(value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT] + "…")
        case int() | float():
            return repr(value) if abs(value) < 1 << 70 or value != value else f"{value:.3g}"
        case dict():
            return "a table"
        case list():
            return "an array"
    return f"the {type(value).__name__} {value}"
