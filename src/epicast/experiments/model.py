"""What an experiment is. Light on purpose: `epicast --help` imports this module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from epicast.experiments.results import Results

Scalar = bool | int | float | str | None
Parameters = Mapping[str, Scalar]
Row = Mapping[str, Scalar]


class Scale(StrEnum):
    SMOKE = "smoke"
    """Seconds; runs in the tests."""
    PAPER = "paper"
    """The paper's own size."""
    BEYOND = "beyond"
    """Larger than the paper went."""


class Claim(Struct, frozen=True):
    """Something the paper reports, beside what we found."""

    id: str
    paper: str
    ours: str
    holds: bool
    detail: str = ""
    """How it was judged; if it does not hold, the reason if known."""


class Plot(Struct, frozen=True):
    name: str
    """Of the file, without extension."""
    caption: str
    figure: Figure


class Experiment(ABC):
    """Stateless: what it does depends on its class alone, so it travels to workers by name."""

    name: ClassVar[str]
    """As typed on the command line."""
    title: ClassVar[str]
    claim_ids: ClassVar[tuple[str, ...]]

    @abstractmethod
    def points(self, scale: Scale) -> Sequence[Parameters]:
        """The parameters of every run. A repetition is a parameter like any other."""

    @abstractmethod
    def run(self, parameters: Parameters, seed: int) -> Row | Sequence[Row]:
        """One run: a function of its arguments alone. Metrics are scalars; returns one row or many.

        `seed` is derived from the sweep's seed and the parameters, so adding a point to an
        experiment changes none of the others.
        """

    @abstractmethod
    def claims(self, results: Results) -> Sequence[Claim]:
        """Judge the results, all of them at hand; one `Claim` per id in `claim_ids`."""

    def plots(self, results: Results) -> Sequence[Plot]:
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()
