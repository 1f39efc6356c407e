"""The rows of a finished sweep, in the order of its points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from epicast.experiments.model import Row, Scalar, Scale


class Results:
    """Each row holds the parameters of its run, the run's `seed`, and the metrics."""

    def __init__(self, scale: Scale, rows: Sequence[Row]) -> None:
        self.scale = scale
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **conditions: Scalar) -> Results:
        """Only the rows with these values."""
        items = conditions.items()
        return Results(
            self.scale,
            [row for row in self.rows if all(row.get(name) == value for name, value in items)],
        )

    def column(self, name: str) -> list[Scalar]:
        """One value per row, None where a row has none."""
        return [row.get(name) for row in self.rows]

    def numbers(self, name: str) -> list[float]:
        """The column as floats, rows without a number left out."""
        return [
            float(value)
            for value in self.column(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]

    def distinct(self, name: str) -> list[Scalar]:
        """The values of a column, each once, in order of appearance."""
        return list(dict.fromkeys(self.column(name)))

    def column_names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row))
