"""Tables: named columns of equal length, for every library that reads Arrow, and for a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _fluxgate
from .errors import MissingExtra

if TYPE_CHECKING:  # pragma: no cover
    import numpy.typing as npt

    Column = Union[npt.NDArray[Any], List[str]]

#: Rows that a table shows of itself.
SHOWN = 10
#: Widest text of a table; a wider one of few rows is shown with a line for each column.
WIDEST = 160


class Table:
    """Named columns of equal length: numbers and truth values as numpy arrays, texts as lists.

    ``table["wait"]`` is a column. A table is an Arrow producer (``__arrow_c_stream__``), so pandas, polars, pyarrow and
    duckdb take it as it is; arrays of numbers are not copied on the way.
    """

    def __init__(self, columns: Mapping[str, "Column"]) -> None:
        self._columns: Dict[str, "Column"] = dict(columns)
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self._rows = lengths.pop() if lengths else 0

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """A table of rows that have the same keys; a missing number is NaN, a missing text empty."""
        names: List[str] = []
        for row in rows:
            names.extend(name for name in row if name not in names)
        columns: Dict[str, "Column"] = {}
        for name in names:
            values = [row.get(name) for row in rows]
            if any(isinstance(value, str) for value in values):
                columns[name] = ["" if value is None else str(value) for value in values]
            elif all(isinstance(value, bool) for value in values):
                columns[name] = np.array(values, dtype=bool)
            elif all(isinstance(value, (int, np.integer)) for value in values):
                columns[name] = np.array(values, dtype=np.int64)
            else:
                columns[name] = np.array(
                    [np.nan if value is None else float(value) for value in values], dtype=np.float64
                )
        return cls(columns)

    @property
    def columns(self) -> Tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def rows(self) -> Iterator[Dict[str, Any]]:
        """Row by row, as dictionaries of plain Python values."""
        for row in range(self._rows):
            yield {name: _plain(column[row]) for name, column in self._columns.items()}

    def to_numpy(self) -> Dict[str, "npt.NDArray[Any]"]:
        """Every column as an array; texts as an array of objects."""
        return {
            name: np.array(column, dtype=object) if isinstance(column, list) else column
            for name, column in self._columns.items()
        }

    def to_pandas(self) -> Any:
        """As a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", "all") from None
        return pandas.DataFrame(self.to_numpy(), copy=False)

    def to_polars(self) -> Any:
        """As a ``polars.DataFrame``."""
        try:
            import polars
        except ImportError:
            raise MissingExtra("polars", "all") from None
        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """A capsule of the Arrow C stream interface; it is always of the types of the columns."""
        return _fluxgate.arrow_stream(list(self._columns.items()))

    def _head(self) -> List[List[str]]:
        shown = min(self._rows, SHOWN)
        return [[_text(column[row]) for column in self._columns.values()] for row in range(shown)]

    def __repr__(self) -> str:
        lines = [list(self._columns)] + self._head()
        if self._rows <= SHOWN and sum(max(map(len, column)) + 2 for column in zip(*lines)) > WIDEST:
            lines = [list(column) for column in zip(*lines)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)
        more = self._rows - min(self._rows, SHOWN)
        return text + (f"\n... {more} more rows" if more else "")

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in self._head()
        )
        note = f"<caption>{self._rows} rows</caption>"
        return f"<table>{note}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _text(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.6g}"
    return str(value)
