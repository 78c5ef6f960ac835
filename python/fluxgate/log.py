"""Logs: read from a file, made by a model or from a frame; parts of them, with another load or other estimates."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _fluxgate
from .errors import LogError, OptionError
from .machine import Machine
from .table import Table

#: Columns of a frame that become a log. ``submit``, ``run`` and ``cores`` have to be there.
FRAME_COLUMNS = ("id", "submit", "wait", "run", "request", "cores", "user", "group", "queue", "partition", "after", "think")


class Log:
    """The jobs of a log, in the order of submission. It does not change: every method that changes it returns another.

    Times are in seconds; 0 is the epoch if the log's header says when it began.
    """

    def __init__(self, jobs: _fluxgate.Jobs) -> None:
        """Use :meth:`read`, :meth:`from_frame`, :meth:`lublin99` or :meth:`downey97`."""
        self._jobs = jobs

    @classmethod
    def read(
        cls,
        path: Union[str, "os.PathLike[str]"],
        *,
        format: Optional[str] = None,
        limit: Optional[int] = None,
        semantics: str = "fluxgate",
        skip_bad: bool = False,
        **map: Union[str, float],
    ) -> "Log":
        """Read a file, plain or gzip: swf, sacct, flux, dump, batsim, jobspecs, csv or jsonl; by its look, or by `format`.

        `limit` reads only so many jobs. `semantics` chooses the rules from lines to jobs of a published simulator, and
        single rules are keywords, named as for ``--map`` of the command line with ``_`` for ``-``: ``width="larger"``,
        ``overrun="run-on"``, ``min_run=0``. `skip_bad` skips lines that cannot be read; :attr:`bad_lines` has them.
        """
        return cls(_fluxgate.Jobs.read(os.fspath(path), format, semantics, _map(map), limit, skip_bad))

    @classmethod
    def lublin99(cls, jobs: int = 10_000, *, cores: int = 128, nodes: Optional[int] = None, seed: int = 1) -> "Log":
        """Made by the model of Lublin and Feitelson, JPDC 63(11), 2003."""
        return cls(_fluxgate.Jobs.made("lublin99", jobs, cores, nodes, seed))

    @classmethod
    def downey97(cls, jobs: int = 10_000, *, cores: int = 128, nodes: Optional[int] = None, seed: int = 1) -> "Log":
        """Made by the model of Downey, HPDC 1997."""
        return cls(_fluxgate.Jobs.made("downey97", jobs, cores, nodes, seed))

    @classmethod
    def from_frame(
        cls, frame: Any, *, cores: Optional[int] = None, semantics: str = "fluxgate", **map: Union[str, float]
    ) -> "Log":
        """Of columns: any Arrow producer, such as a DataFrame of pandas or polars, a table of pyarrow or of this package, or
        a mapping of names to arrays.

        Columns are ``submit``, ``run``, ``cores``, and where known ``id``, ``wait``, ``request``, ``user``, ``group``, ``queue``,
        ``partition``, ``after`` and ``think``, as fields of the Standard Workload Format; others are ignored. NaN and
        null are unknown values. `cores` are those of the machine.
        """
        present, columns = _arrow(frame)
        if not present and (isinstance(frame, Mapping) or hasattr(frame, "columns")):
            present = [str(name) for name in getattr(frame, "columns", frame)]
            columns = {name: _numbers(name, frame[name]) for name in FRAME_COLUMNS if name in present}
        elif not present:
            accepted = "an Arrow producer, or a mapping of names to columns"
            raise LogError(f"a frame: found {type(frame).__name__}, accepted is {accepted}")
        for name in ("submit", "run", "cores"):
            if name not in columns:
                found = ", ".join(str(name) for name in present)
                raise LogError(f"column {name} is missing; found are {found}", column=name)
        return cls(_fluxgate.Jobs.of_columns(columns, cores, semantics, _map(map)))

    def __len__(self) -> int:
        return len(self._jobs)

    def __getitem__(self, part: slice) -> "Log":
        """The jobs from an index on, before another: ``log[1981:1981 + 1024]``."""
        if not isinstance(part, slice):
            raise TypeError("a log is cut by a slice, such as log[0:1000]")
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise OptionError(f"a part of a log: found a step of {step}, accepted is 1")
        return Log(self._jobs.part(start, max(start, stop)))

    def between(self, start: Union[str, float, None], end: Union[str, float, None] = None) -> "Log":
        """Jobs submitted at `start` or later, and before `end`: ``"2002"``, ``"2002-08"``, ``"2002-08-15T01:02"`` (UTC),
        or seconds since the epoch."""
        return Log(self._jobs.changed(_time(start), _time(end), None, "logged", 0))

    def load(self, factor: float) -> "Log":
        """Arrivals that many times as fast."""
        return Log(self._jobs.changed(None, None, float(factor), "logged", 0))

    def estimates(self, which: str, *, seed: int = 1) -> "Log":
        """What jobs ask for: ``"exact"`` (their run times), or ``"perturbed:F"`` (these times a draw from 1 to F)."""
        return Log(self._jobs.changed(None, None, None, which, seed))

    @property
    def machine(self) -> Machine:
        """The machine that the header of the log describes."""
        return Machine._of(self._jobs.machine())

    @property
    def name(self) -> str:
        """The file as it was named, or where the log came from."""
        return self._jobs.name

    @property
    def sha256(self) -> Optional[str]:
        """SHA-256 of the file, as it is now; none for a log that did not come from one."""
        return self._jobs.sha256()

    @property
    def left_out(self) -> Dict[str, int]:
        """Lines that are no job to simulate, by reason."""
        return dict(self._jobs.left_out)

    @property
    def bad_lines(self) -> Tuple[int, Tuple[str, ...]]:
        """Lines that were skipped: their number, and the first of them with what is wrong."""
        count, first = self._jobs.bad_lines
        return count, tuple(first)

    def frame(self) -> Table:
        """The jobs as a table: job, user, submit, cores, nodes (where whole nodes are asked for), limit, run, queue."""
        return Table(self._jobs.columns())

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the jobs in Standard Workload Format."""
        self._jobs.write(os.fspath(path))

    def __deepcopy__(self, memo: object) -> "Log":
        """Itself: it does not change."""
        return self

    def __repr__(self) -> str:
        return f"<Log: {len(self)} jobs of {self.name}>"


def _map(rules: Mapping[str, Union[str, float]]) -> str:
    return ",".join(f"{name.replace('_', '-')}={value}" for name, value in rules.items())


def _time(time: Union[str, float, None]) -> Optional[float]:
    return _fluxgate.epoch(time) if isinstance(time, str) else None if time is None else float(time)


def _arrow(frame: Any) -> Tuple[List[str], Dict[str, "np.ndarray[Any, np.dtype[np.float64]]"]]:
    """All names and the wanted columns of an Arrow producer; none of anything else, or of pandas without pyarrow."""
    if not hasattr(frame, "__arrow_c_stream__"):
        return [], {}
    try:
        return _fluxgate.arrow_columns(frame, FRAME_COLUMNS)
    except ImportError:
        return [], {}


def _numbers(name: str, column: Any) -> "np.ndarray[Any, np.dtype[np.float64]]":
    values = np.asarray(column)
    if values.ndim != 1:
        raise LogError(f"column {name}: found {values.ndim} dimensions, accepted is 1", column=name)
    if values.dtype == object:
        # Nulls of other libraries.
        numbers = np.empty(len(values), dtype=np.float64)
        for row, value in enumerate(values):
            if value is None or type(value).__name__ == "NAType":
                numbers[row] = np.nan
                continue
            try:
                numbers[row] = float(value)
            except (TypeError, ValueError):
                raise LogError(
                    f"column {name}, row {row}: found {value!r}, accepted is a number", column=name, row=row
                ) from None
        return numbers
    if values.dtype.kind not in "iufb":
        raise LogError(f"column {name}: found values of type {values.dtype}, accepted are numbers", column=name)
    return np.ascontiguousarray(values, dtype=np.float64)
